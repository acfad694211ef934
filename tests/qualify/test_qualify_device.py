"""Every variant runs on the device, twice, or is told as not run; nothing that did not run passes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay import qualify
from assay.bundle import Bundle, write_bundle
from assay.qualify import bundling
from assay.qualify.device import opening
from assay.qualify.device.command import Options, qualify_device
from assay.qualify.device.evidence import read_evidence
from assay.runtime.drivers import DriverError
from tests.qualify import standin_device
from tests.qualify.standin_device import Recorded
from tests.test_layering import ROOT, imports_of

MERGES = {"family": ("merge_splits",)}
NO_DEVICE = "cuda:99"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    standin_device.shorten(monkeypatch)


@pytest.fixture
def ids(shipped):
    """Ids of the bundle's variants by family."""
    with Bundle.open(shipped) as bundle:
        return {family: [row.id for row in bundle.rows(family)] for family in bundle.families()}


def with_foreign_code(path, out, ids):
    """The bundle with the first decode row launching the second one's code, whose arguments are other ones."""
    contents = bundling._read(path).contents
    first, second = ids["decode_attention"]
    other = next(row.object for row in contents.rows if row.id == second)
    rows = tuple(row._replace(object=other) if row.id == first else row for row in contents.rows)
    variants = tuple(item._replace(code_sha256=other) if item.id == first else item for item in contents.variants)
    used = {row.object: contents.objects[row.object] for row in rows}
    write_bundle(out, contents._replace(rows=rows, variants=variants, objects=used))
    return out


def test_every_variant_and_the_whole_call_run_directly_and_from_a_graph(shipped, ids, tmp_path, capsys):
    assert standin_device.run(shipped, tmp_path / "e.json") == 0
    captured = capsys.readouterr()
    assert "PASS: 4 of 4 variants passed on a stand-in" in captured.out
    assert len([line for line in captured.err.splitlines() if " pass " in line]) == 5
    evidence = read_evidence(tmp_path / "e.json")
    assert set(evidence.variants) == {id for family in ids.values() for id in family}
    for id, judged in evidence.variants.items():
        assert [check.how for check in judged.checks] == ["direct", "graph"] * 2
        assert {check.rows for check in judged.checks} == {(id,)}
        assert judged.verdict == "pass"
    (call,) = evidence.calls
    assert len(call.rows) == 2
    assert {check.how for check in call.checks} == {"direct", "graph"}


def test_the_evidence_names_bundle_device_and_software(shipped, tmp_path):
    standin_device.run(shipped, tmp_path / "e.json", only=MERGES)
    document = json.loads((tmp_path / "e.json").read_text())
    with Bundle.open(shipped) as bundle:
        assert document["bundle"]["identity"] == bundle.identity
    assert (document["schema"], document["level"]) == ("assay.evidence/1", "device")
    assert document["targets"] == ["gfx1201"]
    assert document["only"] == {"family": ["merge_splits"]}
    device = document["device"]
    assert (device["backend"], device["arch"], device["pci_address"]) == ("hip", "gfx1201", "0000:01:00.0")
    assert {"python", "numpy", "torch", "judged_by_sha256"} <= document["software"].keys()
    assert document["tolerances"]["merge_splits"] == {"absolute": "0.002", "relative": "0.02"}
    for item in document["variants"].values():
        assert 0 < item["largest_error"] < 0.02
        assert (item["cases"], item["replays"]) == (2, 2)
        assert item["seconds"] > 0


def test_json_stands_alone_on_standard_output(shipped, tmp_path, capsys):
    assert standin_device.run(shipped, tmp_path / "e.json", only=MERGES, as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["verdict"]) == ("assay.qualify-device/1", "pass")


def test_a_variant_that_does_not_load_fails_and_hides_no_other(shipped, ids, tmp_path, capsys):
    bad = with_foreign_code(shipped, tmp_path / "bad.assay", ids)
    assert standin_device.run(bad, tmp_path / "e.json") == 1
    evidence = read_evidence(tmp_path / "e.json")
    first, second = ids["decode_attention"]
    assert evidence.document["verdict"] == "fail"
    assert evidence.variants[first].verdict == "fail"
    assert "its row says" in evidence.variants[first].checks[0].fault
    assert {evidence.variants[id].verdict for id in (second, *ids["merge_splits"])} == {"pass"}
    out = capsys.readouterr().out
    assert "FAIL: 3 of 4 variants passed" in out
    assert f"FAIL     decode_attention {first[:8]}" in out


def test_a_graph_that_writes_nothing_is_noticed(shipped, tmp_path):
    class Idle(Recorded):
        def capture(self, _):
            return lambda: None

    assert standin_device.run(shipped, tmp_path / "e.json", Idle, only=MERGES) == 1
    for judged in read_evidence(tmp_path / "e.json").variants.values():
        assert [check.verdict for check in judged.checks] == ["pass", "fail"] * 2
        assert "elements wrong" in judged.checks[1].fault


def test_a_launch_that_cannot_be_captured_fails_its_replay_alone(shipped, tmp_path):
    class Uncapturable(Recorded):
        def capture(self, _):
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand advice below it")

    assert standin_device.run(shipped, tmp_path / "e.json", Uncapturable, only=MERGES) == 1
    for judged in read_evidence(tmp_path / "e.json").variants.values():
        assert [check.verdict for check in judged.checks] == ["pass", "fail"] * 2
        assert judged.checks[1].fault == "CUDA error: operation not permitted when stream is capturing"


def test_after_a_lost_device_everything_is_not_run_and_says_why(shipped, ids, tmp_path, capsys):
    class Lost(Recorded):
        uploads = 0

        def upload(self, storage):
            type(self).uploads += 1
            return super().upload(storage)

        def synchronize(self):
            # The third case: each has five tensors, or six.
            if self.uploads > 12:
                raise DriverError("cuCtxSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "", "waiting for cuda:0")

    assert standin_device.run(shipped, tmp_path / "e.json", Lost, only=MERGES) == 1
    first, second = (read_evidence(tmp_path / "e.json").variants[id] for id in ids["merge_splits"])
    assert first.verdict == "pass"
    assert second.checks[0].verdict == "fail"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in second.checks[0].fault
    assert {check.verdict for check in second.checks[2:]} == {"not_run"}
    assert "the device was lost at case" in second.checks[-1].fault
    assert "the device was lost" in capsys.readouterr().out


def test_a_variant_without_reference_is_not_run_and_the_status_is_4(shipped, tmp_path, monkeypatch):
    from assay.reference import NoReference

    def none(family, axes):  # noqa: ARG001
        raise NoReference("no reference for family 'merge_splits'")

    monkeypatch.setattr("assay.qualify.device.calls.reference.cases", none)
    assert standin_device.run(shipped, tmp_path / "e.json", only=MERGES) == 4
    assert read_evidence(tmp_path / "e.json").document["verdict"] == "not_run"


def test_without_the_device_every_check_is_not_run_and_the_status_is_4(assay, shipped, tmp_path):
    ran = assay("qualify-device", shipped, "--device", NO_DEVICE, "--evidence", tmp_path / "e.json")
    assert ran.status == 4
    lines = [line for line in ran.out.splitlines() if line.startswith("not run  ")]
    assert [line.split(":")[0].removeprefix("not run  ") for line in lines] == [
        "decode_attention", "merge_splits", "decode_attention and merge_splits",
    ]  # fmt: skip
    assert [line.split(": ")[1].split(",")[0] for line in lines] == ["2 variants", "2 variants", "1 whole call"]
    assert "NOT RUN: 10 checks; no evidence was written" in ran.out
    assert NO_DEVICE in ran.said
    assert not (tmp_path / "e.json").exists()


def test_without_the_device_json_says_not_run_too(assay, shipped):
    document = assay("qualify-device", shipped, "--device", NO_DEVICE, "--json").document
    assert (document["verdict"], document["evidence"]) == ("not_run", None)
    assert {item["device"] for item in document["variants"].values()} == {"not_run"}


def test_a_device_whose_driver_does_not_tell_what_it_is_is_not_run(shipped, tmp_path, capsys):
    def open_mute(path, device):
        opened = standin_device.opener()(path, device)
        opened.kernels.driver.describe = mute
        return opened

    def mute():
        raise DriverError("cuDeviceGetName", 999, "CUDA_ERROR_UNKNOWN", "", "asking for the name of cuda:0")

    options = Options(bundle=shipped, evidence=tmp_path / "e.json")
    assert qualify_device(options, open_mute) == 4
    assert "CUDA_ERROR_UNKNOWN" in capsys.readouterr().err
    assert not (tmp_path / "e.json").exists()


def test_without_torch_it_is_not_run(assay, shipped, monkeypatch):
    find = opening.importlib.util.find_spec
    monkeypatch.setattr(opening.importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    ran = assay("qualify-device", shipped, "--device", NO_DEVICE)
    assert ran.status == 4
    assert "torch is not installed" in ran.said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--device", "emulator"), "device evidence is of devices"),
        (("--device", "tpu:0"), "allowed: cuda:N, hip:N"),
        (("--only", "head_dim=96"), "head_dim=96; allowed: head_dim: 64"),
        (("--only", "hed_dim=64"), "did you mean head_dim?"),
        (("--evidence", "absent/e.json"), "a file in a folder to write to"),
        (("--evidence", f"{__file__}/e.json"), "a file in a folder to write to"),
    ],
)
def test_bad_input_is_2_before_anything_runs(assay, shipped, options, said):
    ran = assay("qualify-device", shipped, *options)
    assert ran.status == 2
    assert said in ran.said


def test_a_bundle_that_is_none_is_2(assay, shipped, tmp_path):
    (tmp_path / "cut").write_bytes(shipped.read_bytes()[:-1000])
    for path in (tmp_path / "absent", tmp_path, tmp_path / "cut"):
        assert assay("qualify-device", path).status == 2


@pytest.mark.parametrize("path", [".", "", "/"])
def test_a_folder_without_a_name_is_2(assay, path):
    ran = assay("qualify-device", path)
    assert ran.status == 2
    assert ran.said == f"{path or '.'}: no such file, or no regular one; allowed: a bundle"


@pytest.mark.parametrize("kind", ["variants", "sources", "objects"])
def test_damage_is_2_before_anything_runs_and_is_no_failed_variant(shipped, damaged, tmp_path, capsys, kind):
    path, parts = damaged(shipped, kind)
    assert standin_device.run(path, tmp_path / "e.json") == 2
    said = capsys.readouterr().err
    assert [part for part in parts if f"{path}: {part}: " not in said] == []
    assert not (tmp_path / "e.json").exists()


def test_switched_off_rows_are_refused(assay, shipped, monkeypatch):
    monkeypatch.setenv("ASSAY_FORBID_ROWS", "reader=generic")
    ran = assay("qualify-device", shipped)
    assert ran.status == 2
    assert "every row is to run" in ran.said


def test_it_imports_runtime_bundle_reference_numpy_and_torch_alone():
    allowed = ("assay.bundle", "assay.runtime", "assay.reference", "assay.qualify.device")
    modules = [*Path(qualify.__path__[0], "device").glob("*.py"), *(ROOT / "reference").glob("*.py")]
    assert len(modules) > 10
    for path in [*modules, ROOT / "qualify" / "__init__.py"]:
        for name in imports_of(path):
            root = name.split(".")[0]
            if root == "assay":
                assert name == "assay.runtime" or name.startswith(allowed), f"{path}: {name}"
            else:
                assert root in {*sys.stdlib_module_names, "__future__", "numpy", "torch"}, f"{path}: {name}"


def test_it_runs_from_a_checkout_that_is_not_installed_with_all_other_packages_forbidden(shipped, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "assay").symlink_to(ROOT, target_is_directory=True)
    forbid = (
        "import sys, runpy\n"
        "class Forbid:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in set('click rich pydantic yaml triton jinja2 msgpack elftools'.split()):\n"
        "            raise ImportError('forbidden: ' + name)\n"
        "sys.meta_path.insert(0, Forbid())\n"
        "import assay.qualify.device as device\n"
        "print(device.__path__[0])\n"
        "runpy.run_module('assay.qualify.device', run_name='__main__', alter_sys=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", forbid, str(shipped), "--device", NO_DEVICE, "--only", "family=merge_splits"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    where, *lines = done.stdout.splitlines()
    assert where.startswith(str(tmp_path / "site"))
    assert [line.split("  ")[0] for line in lines[:-1]] == ["not run"]
    assert "2 variants" in lines[0]


def test_the_module_says_what_is_wrong_with_its_command_line(shipped, tmp_path):
    command = [sys.executable, "-m", "assay.qualify.device", str(shipped), "--only", "head_dim"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "'head_dim'; allowed: NAME=VALUE" in done.stderr


@pytest.mark.slow
def test_all_cases_and_sizes_pass_on_the_stand_in(shipped, tmp_path, monkeypatch):
    monkeypatch.undo()
    assert standin_device.run(shipped, tmp_path / "e.json") == 0
    evidence = read_evidence(tmp_path / "e.json")
    assert len(evidence.calls) == 4
    assert all(judged.verdict == "pass" for judged in (*evidence.variants.values(), *evidence.calls))
