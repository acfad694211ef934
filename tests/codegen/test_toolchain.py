"""The compiler build is named without importing it, and another build has another name."""

import hashlib
import importlib.metadata
import subprocess
import sys

import pytest

from assay.codegen import toolchain
from assay.codegen.toolchain import ToolchainError, find_toolchain, installed_toolchain


def test_the_installed_triton_is_found_without_importing_it():
    script = "import sys; from assay.codegen.toolchain import find_toolchain as find; print(find().triton_version)"
    script += "; print('triton' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert said == [importlib.metadata.version("triton"), "False"]


class Distribution:
    version = "3.8.0"

    def __init__(self, record):
        self._record = record

    def read_text(self, name):
        return self._record if name == "RECORD" else None


WHEEL = "triton/a.py,sha256=aa,10\ntriton/_C/libtriton.so,sha256=bb,20\ntriton-3.8.0.dist-info/METADATA,sha256=cc,5\n"


def wheel_hash(monkeypatch, record):
    monkeypatch.setattr(toolchain.importlib.metadata, "distribution", lambda _: Distribution(record))
    return installed_toolchain().wheel_sha256


def test_the_hash_is_over_what_the_wheel_carries_and_nothing_that_an_installer_adds(monkeypatch):
    plain = wheel_hash(monkeypatch, WHEEL)
    added = "triton/__pycache__/a.cpython-311.pyc,,\ntriton-3.8.0.dist-info/RECORD,,\n"
    added += "triton-3.8.0.dist-info/INSTALLER,sha256=dd,4\n../../../bin/proton,sha256=ee,200\n"
    assert wheel_hash(monkeypatch, added + "".join(reversed(WHEEL.splitlines(True)))) == plain
    assert plain == hashlib.sha256("\n".join(sorted(WHEEL.splitlines())).encode()).hexdigest()
    assert wheel_hash(monkeypatch, WHEEL.replace("sha256=bb", "sha256=b0")) != plain


@pytest.mark.parametrize("record", ["", None])
def test_a_triton_that_cannot_be_named_is_refused(monkeypatch, record):
    with pytest.raises(ToolchainError, match="without a RECORD"):
        wheel_hash(monkeypatch, record)


def test_no_triton_is_refused_with_the_command_that_installs_it(monkeypatch):
    def missing(_):
        raise importlib.metadata.PackageNotFoundError("triton")

    monkeypatch.setattr(toolchain.importlib.metadata, "distribution", missing)
    with pytest.raises(ToolchainError, match=r"pip install '\.\[build\]'"):
        find_toolchain()


def test_a_triton_in_front_of_the_wheels_own_is_refused(monkeypatch, tmp_path):
    shadow = tmp_path / "triton"
    shadow.mkdir()
    (shadow / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)  # as in the process that builds, which never imports it
    with pytest.raises(ToolchainError, match="would be imported from"):
        find_toolchain()


def test_a_wheel_whose_files_were_edited_is_refused(monkeypatch):
    original = toolchain.importlib.metadata.distribution

    class Edited:
        def __init__(self, name):
            self._real = original(name)
            self.version = self._real.version

        def locate_file(self, name):
            return self._real.locate_file(name)

        def read_text(self, name):
            text = self._real.read_text(name)
            lines = [line for line in text.splitlines() if line.startswith("triton/__init__.py,")]
            return text.replace(lines[0], lines[0].rsplit(",", 1)[0] + ",1")

    monkeypatch.setattr(toolchain.importlib.metadata, "distribution", Edited)
    with pytest.raises(ToolchainError, match=r"1 files are not as the wheel's RECORD says, such as triton/__init__.py"):
        find_toolchain()
