"""`assay doctor` cannot fail: whatever is missing or broken is a line of its own, and the status is 0."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.qualify import doctoring, entry, findings, probes_devices, probes_project, probes_software
from assay.qualify.findings import Answer, Finding
from tests.specs import run

DOCTOR = "from assay.qualify.entry import main; main()"
BUILD_EXTRA = ["triton", "jinja2", "yaml", "pydantic", "click", "rich", "elftools", "msgpack", "pebble", "packaging"]


@pytest.fixture
def quick(monkeypatch):
    """Without the probes that start other programs."""
    slow = (probes_software.triton, probes_software.assemblers, probes_software.optional_packages)
    monkeypatch.setattr(doctoring, "PROBES", tuple(entry for entry in doctoring.PROBES if entry[2] not in slow))


def states(found):
    return {item.name: item.state for item in found}


def test_every_part_of_this_machine_is_judged(capsys):
    ran = run(capsys, "doctor")
    assert ran.status == 0
    for section in ("environment", "tools", "optional packages", "devices", "cache", "specs"):
        assert f"\n{section}\n" in f"\n{ran.out}"
    for name in ("python", "platform", "assay", "triton files", "ptxas", "disassembler", "numpy", "torch", "targets"):
        assert f" {name} " in ran.out
    assert "0 problem" in ran.out.splitlines()[-1]


@pytest.mark.usefixtures("quick")
def test_json_holds_the_same_and_is_alone_on_standard_output(capsys):
    document = run(capsys, "doctor", "--json").document
    assert document["schema"] == "assay.doctor/1"
    assert sum(document["counts"].values()) == len(document["findings"])
    for item in document["findings"]:
        assert set(item) == {"section", "name", "state", "text", "hint"}
        assert item["state"] in ("ok", "absent") or item["hint"], item


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


RAISED = [ValueError("a\nb"), SystemExit(3), GeneratorExit(), ImportError("half"), MemoryError(), Unprintable()]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("number", range(len(doctoring.PROBES)))
def test_no_probe_can_end_the_doctor(capsys, monkeypatch, error, number):
    def broken():
        yield Finding("before", "ok", "was found")
        raise error

    section, name, _ = doctoring.PROBES[number]
    monkeypatch.setattr(doctoring, "PROBES", ((section, name, broken), ("other", "other", lambda: ())))
    ran = run(capsys, "doctor", "--json")
    assert ran.status == 0
    first, second = ran.document["findings"]
    assert first["text"] == "was found"
    assert (second["name"], second["state"]) == (name, "problem")
    assert type(error).__name__ in second["text"]


def test_a_persons_interrupt_does_end_it(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(doctoring, "PROBES", (("a", "a", interrupted),))
    assert entry.run(["doctor"]) == 130


@pytest.mark.usefixtures("quick")
def test_threads_that_cannot_start_are_done_without(capsys, monkeypatch):
    def no_threads(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(doctoring, "ThreadPoolExecutor", no_threads)
    assert run(capsys, "doctor").status == 0


def child(folder: Path, *arguments, prelude="", **environment):
    """The command in a process of its own, with `folder` searched for packages first."""
    (folder / "sitecustomize.py").touch()
    return subprocess.run(
        [sys.executable, "-c", f"{prelude}\n{DOCTOR}", *arguments],
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("body", ["raise SystemExit(5)", "import os; os.abort()", "raise ImportError('half')", "1/0"])
def test_a_broken_compiler_or_torch_is_a_finding(tmp_path, body):
    for name in ("triton", "torch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(body)
    done = child(tmp_path, "doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = {item["name"]: item for item in json.loads(done.stdout)["findings"]}
    assert found["triton import"]["state"] == "problem"
    assert found["torch"]["state"] == "problem"
    assert found["numpy"]["state"] == "ok"


@pytest.mark.parametrize("body", ["raise SystemExit(5)", "raise ImportError('half')", "1/0"])
@pytest.mark.parametrize("package", ["click", "pydantic"])
def test_a_broken_package_of_the_command_line_itself_is_no_end(tmp_path, package, body):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(body)
    done = child(tmp_path, "doctor", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "assay.doctor/1"


def test_a_plain_installation_is_told_what_is_missing(tmp_path):
    absent = f"import sys; sys.modules.update(dict.fromkeys({BUILD_EXTRA!r}))"
    done = child(tmp_path, "doctor", prelude=absent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "problem " not in done.stdout.replace("0 problem", "")
    assert "cannot be judged without pydantic" in done.stdout
    assert "pip install '.[build]'" in done.stdout
    others = child(tmp_path, "plan", prelude=absent)
    assert others.returncode == 3
    assert "install the build extra" in others.stderr


def test_packages_that_are_not_installed_are_named(monkeypatch):
    def none(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    (extra,) = probes_software.build_extra()
    assert extra.state == "warning"
    assert "triton" in extra.text
    assert "pebble" in extra.text
    (compiler,) = probes_software.triton()
    assert compiler.state == "warning"
    assert states(probes_software.optional_packages()) == {"numpy": "absent", "torch": "absent"}


class Record:
    """A distribution of one file, `there.py`, of 3 bytes."""

    version = "3.8.0"

    def __init__(self, folder, record):
        (folder / "there.py").write_text("abc")
        self._folder, self._record = folder, record

    def read_text(self, _):
        return self._record

    def locate_file(self, name):
        return self._folder / name


def test_files_that_are_no_longer_as_installed_are_named(tmp_path):
    whole = probes_software._files_as_recorded(Record(tmp_path, "there.py,sha256=x,3\nmade.pyc,,\n"))
    assert whole.state == "ok"
    changed = probes_software._files_as_recorded(Record(tmp_path, "there.py,sha256=x,4\ngone.py,sha256=x,1\n"))
    assert changed.state == "problem"
    assert "there.py (3 bytes, not 4), gone.py (missing)" in changed.text
    assert "pip install --force-reinstall --no-deps triton==3.8.0" in changed.hint


def test_overrides_are_named(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    (found,) = probes_software.overrides()
    assert found.state == "warning"
    assert "TRITON_ALWAYS_COMPILE" in found.text


def nvidia_files(root, *models):
    driver = root / "proc/driver/nvidia"
    for number, model in enumerate(models):
        (driver / f"gpus/{number}").mkdir(parents=True)
        (driver / f"gpus/{number}/information").write_text(f"Model: \t\t {model}\nIRQ: 3\n")
    driver.mkdir(parents=True, exist_ok=True)
    (driver / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27\nGCC 12\n")


@pytest.mark.parametrize(
    ("answer", "state"),
    [(Answer(True, "CUDA 13.0"), "ok"), (Answer(True, "absent"), "warning"), (Answer(False, "signal 11"), "warning")],
)
def test_nvidia_gpus_are_read_from_the_kernel_driver(tmp_path, monkeypatch, answer, state):
    nvidia_files(tmp_path, "NVIDIA H200", "NVIDIA GeForce RTX 5090")
    monkeypatch.setattr(probes_devices, "ask_python", lambda _: answer)
    found = {item.name: item for item in probes_devices.nvidia(tmp_path)}
    assert found["nvidia driver"].text == "580.82.07"
    assert found["nvidia GPUs"].text == "NVIDIA H200, NVIDIA GeForce RTX 5090"
    assert found["libcuda"].state == state


def test_a_driver_without_a_gpu_is_a_warning(tmp_path, monkeypatch):
    nvidia_files(tmp_path)
    monkeypatch.setattr(probes_devices, "ask_python", lambda _: Answer(True, "absent"))
    assert states(probes_devices.nvidia(tmp_path))["nvidia GPUs"] == "warning"


def test_asking_for_libcuda_never_raises():
    assert probes_devices._libcuda().state in ("ok", "warning")


def amd_files(root, *versions, device=True):
    for number, version in enumerate(versions):
        node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\nvendor_id 4098\n")
    if device:
        (root / "dev").mkdir()
        (root / "dev/kfd").touch()


def test_amd_gpus_are_read_from_the_topology_and_processors_left_out(tmp_path):
    amd_files(tmp_path, 0, 120001, 90010, 110000)
    found = {item.name: item for item in probes_devices.amd(tmp_path)}
    assert found["amd GPUs"].text == "gfx1201, gfx90a, gfx1100"
    assert found["amd /dev/kfd"].state == "ok"


def test_an_amd_gpu_without_its_device_is_a_warning(tmp_path):
    amd_files(tmp_path, 120001, device=False)
    assert states(probes_devices.amd(tmp_path)) == {"amd /dev/kfd": "warning", "amd GPUs": "ok"}


def test_a_machine_without_gpus_is_in_order(tmp_path):
    assert states(probes_devices.nvidia(tmp_path)) == {"nvidia": "absent"}
    assert states(probes_devices.amd(tmp_path)) == {"amd": "absent"}


def test_the_cache_is_counted_and_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "to/be/made"))
    found = {item.name: item for item in probes_project.cache()}
    assert "to be made: 0 entries, 0 bytes" in found["cache"].text
    assert not (tmp_path / "to").exists()
    folder = tmp_path / "to/be/made/outcomes/ab"
    folder.mkdir(parents=True)
    (folder / "abc.outcome").write_bytes(b"12345")
    assert "1 entries, 5 bytes" in next(iter(probes_project.cache())).text


def test_a_file_where_the_cache_should_be_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "file/cache"))
    found = {item.name: item for item in probes_project.cache()}
    assert found["cache"].state == "problem"
    assert found["cache"].hint == "name another with ASSAY_CACHE_DIR"


def test_a_lock_of_another_compiler_build_is_a_warning(built, tmp_path, monkeypatch):
    folder = tmp_path / "artifacts/gfx1201"
    folder.mkdir(parents=True)
    lock = built("gfx1201").lock.read_text()
    monkeypatch.chdir(tmp_path)
    (folder / "qualified.mine.lock").write_text(lock.replace("profile core", "profile mine"))
    assert states(probes_project.locks())["lock gfx1201 mine"] == "ok"
    other = lock.replace("profile core", "profile mine").replace("triton 3.", "triton 2.")
    (folder / "qualified.mine.lock").write_text(other)
    found = {item.name: item for item in probes_project.locks()}["lock gfx1201 mine"]
    assert found.state == "warning"
    assert "made by triton 2." in found.text


@pytest.mark.usefixtures("quick")
def test_a_lock_that_is_none_is_a_problem_and_the_rest_is_still_judged(capsys, monkeypatch, tmp_path):
    for name in ("t", "u"):
        (tmp_path / "artifacts" / name).mkdir(parents=True)
        (tmp_path / "artifacts" / name / "qualified.core.lock").write_text("nonsense")
    monkeypatch.chdir(tmp_path)
    document = run(capsys, "doctor", "--json").document
    for name in ("t", "u"):
        (found,) = [item for item in document["findings"] if item["name"] == f"lock {name}"]
        assert found["state"] == "problem"
        assert "schema missing" in found["text"]
    assert document["counts"]["ok"] > 5


def test_a_reader_that_goes_away_is_no_failure():
    done = subprocess.run(
        f"{sys.executable} -c '{DOCTOR}' doctor | head -c 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("0\n")
    assert done.stderr == ""


def test_letters_that_the_terminal_lacks_are_escaped(tmp_path):
    done = child(tmp_path, "doctor", PYTHONIOENCODING="ascii", ASSAY_CACHE_DIR=str(tmp_path / "\u00fc"))
    assert done.returncode == 0
    assert "\\xfc: " in done.stdout.replace(", to be made", "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1/0", "status 1: ZeroDivisionError"),
        ("import os; os.abort()", "signal 6"),
        ("raise SystemExit(3)", "status 3"),
    ],
)
def test_a_child_that_fails_gives_an_answer(code, said):
    answer = findings.ask_python(code)
    assert not answer.works
    assert said in answer.text


def test_a_program_that_hangs_or_is_missing_gives_an_answer(monkeypatch):
    monkeypatch.setattr(findings, "_CHILD_SECONDS", 0.2)
    assert findings.ask_python("import time; time.sleep(60)") == Answer(False, "no answer within 0.2 s")
    assert not findings.ask(["/no/such/program"]).works
