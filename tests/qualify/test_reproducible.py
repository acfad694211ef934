"""The same specs give the same bytes: from any folder, with any number of workers, under any hash seed or shell."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.specs import SHIPPED, TOY

COMMAND = [sys.executable, "-c", "from assay.qualify.entry import main; main()", "qualify"]


@pytest.fixture
def build(tmp_path):
    """The bundle and lock of one build, as different from the next as a build can be."""

    def run(name, specs, target, *options, seed, jobs, **environment):
        folder = tmp_path / name
        copied = shutil.copytree(specs, folder / "specs")
        for number, path in enumerate(sorted(copied.rglob("*"))):
            os.utime(path, (seed * 1000, seed * 1000 + number))
        command = [*COMMAND, "--target", target, "--specs", str(copied), "--out", str(folder / "out"), "--update-lock"]
        given = {"PYTHONHASHSEED": str(seed), "ASSAY_CACHE_DIR": str(folder / "cache"), **environment}
        done = subprocess.run(
            [*command, "--jobs", str(jobs), *options],
            env=os.environ | given,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return {path.name: path.read_bytes() for path in (folder / "out" / target).iterdir() if path.suffix != ".json"}

    return run


@pytest.mark.parametrize("target", ["gfx1201", "sm90"])
def test_two_builds_of_the_toy_are_equal_to_the_byte(build, target):
    one = build("one", TOY, target, seed=1, jobs=1)
    other = build("another-folder", TOY, target, seed=2, jobs=2, TZ="Asia/Tokyo", LC_ALL="C")
    assert one == other
    assert f"{target}.assay" in one
    assert b"another-folder" not in one[f"{target}.assay"]


@pytest.mark.parametrize("target", ["gfx1201", "sm90"])
def test_two_builds_of_a_shipped_kernel_are_equal_to_the_byte(build, assay, target):
    plan = assay("plan", "--target", target, "--json").document["targets"][target]
    problem = next(entry["problem"] for entry in plan["problems"] if entry["family"] == "decode_attention")
    only = ",".join(f"{name}={json.dumps(value).strip(chr(34))}" for name, value in problem.items())
    options = ("--evidence", "static", "--only", f"family=decode_attention,{only}")
    one = build("one", SHIPPED, target, *options, seed=1, jobs=1)
    other = build("another-folder", SHIPPED, target, *options, seed=2, jobs=2)
    assert one == other
    assert f"{target}.only.assay" in one


def test_a_build_needs_neither_torch_nor_a_gpu_nor_a_home(build, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not installed')\n")
    plain = build("one", TOY, "gfx1201", seed=1, jobs=1)
    bare = {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "HOME": "/nowhere"}
    assert build("bare", TOY, "gfx1201", seed=1, jobs=1, **bare) == plain
