"""Runs that are killed, interrupted or meet each other leave whole files or none, and the next run is clean."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.specs import TEMPLATE, TOY, copy_toy, edit

COMMAND = [sys.executable, "-c", "from assay.qualify.entry import main; main()", "qualify", "--target", "gfx1201"]
# The wide problems wait until they are killed.
WAITING = """import os, time
{% if width == 96 %}
open(os.path.join({{ "FOLDER" | tojson }}, str(os.getpid())), "w").close()
time.sleep(600)
{% endif %}
import triton
"""


@pytest.fixture
def waiting(tmp_path):
    """Specs whose wide problems wait in their workers, and the folder in which those leave their process ids."""
    specs, ids = copy_toy(tmp_path / "toy"), tmp_path / "ids"
    ids.mkdir()
    edit(specs, TEMPLATE, "import triton\n", WAITING.replace("FOLDER", str(ids)))
    return specs, ids


def start(specs, out, cache, *options):
    environment = os.environ | {"ASSAY_CACHE_DIR": str(cache), "TMPDIR": str(out.parent)}
    command = [*COMMAND, "--specs", str(specs), "--out", str(out), *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def waiting_workers(ids, seen=()):
    return wait_for(lambda: [int(path.name) for path in ids.iterdir() if int(path.name) not in seen])


def test_a_worker_killed_from_outside_is_a_crashed_candidate_and_the_others_go_on(out, snapshot, waiting, tmp_path):
    specs, ids = waiting
    before = snapshot(out.out)
    process = start(specs, out.out, tmp_path / "cache", "--jobs", "1", "--only", "alignment=16")
    killed = []
    # Two candidates of one wide problem; each is killed while it compiles.
    for _ in range(2):
        found = waiting_workers(ids, killed)
        for worker in found:
            os.kill(worker, signal.SIGKILL)
        killed += found
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 1
    text = " ".join((printed + said).split())
    assert "Traceback" not in text
    assert "crashed: the compiler process was killed by SIGKILL 2 candidates of 1 problems" in text
    assert "2 of 3 problems have a qualified variant" in text
    after = snapshot(out.out)
    assert after.pop("gfx1201/report.only.json")
    assert after == before
    assert not list((tmp_path / "cache").rglob(".new-*"))
    assert not list(tmp_path.glob("assay-*")), "what a killed worker left is removed by its builder"


def test_an_interrupted_run_writes_nothing_and_says_no_more_than_that(waiting, tmp_path):
    specs, ids = waiting
    process = start(specs, tmp_path / "out", tmp_path / "cache", "--jobs", "1", "--only", "width=96")
    waiting_workers(ids)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_a_run_killed_outright_leaves_a_cache_that_the_next_run_uses(waiting, built, tmp_path):
    specs, ids = waiting
    process = start(specs, tmp_path / "out", tmp_path / "cache", "--jobs", "2", "--only", "alignment=16")
    (worker,) = waiting_workers(ids)
    # The other worker goes on meanwhile, and what it finishes is kept.
    wait_for(lambda: any((tmp_path / "cache").rglob("*.outcome")))
    process.kill()
    process.wait(timeout=60)
    os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (tmp_path / "out").exists()
    done = start(TOY, tmp_path / "out", tmp_path / "cache", "--update-lock")
    _, said = done.communicate(timeout=120)
    assert (done.returncode, "damaged" in said) == (0, False)
    assert (tmp_path / "out/gfx1201/gfx1201.assay").read_bytes() == built("gfx1201").bundle.read_bytes()


def test_runs_that_write_one_folder_at_once_all_succeed_and_agree(built, compile_cache, tmp_path):
    expected = built("gfx1201").bundle.read_bytes()
    processes = [start(TOY, tmp_path / "out", compile_cache, "--update-lock") for _ in range(6)]
    for process in processes:
        printed, said = process.communicate(timeout=120)
        assert process.returncode == 0, printed + said
    folder = tmp_path / "out/gfx1201"
    assert (folder / "gfx1201.assay").read_bytes() == expected
    assert sorted(path.name for path in folder.iterdir()) == ["gfx1201.assay", "qualified.core.lock", "report.json"]
