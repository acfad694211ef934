"""Processes come and go: a fork after loading, and the end of the interpreter with everything still loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runtime import load
from assay.runtime.drivers import ForkedError

ROOT = Path(__file__).parents[2]
LIBRARY = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.6"}
# What a subprocess does before the code of each test: the stand-in is found as the real library would be.
START = """
import ctypes, gc, sys
sys.path.insert(0, sys.argv[1])
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from assay.runtime import load
from tests.runtime.standin.device import Bench
from tests.runtime.standin.library import Standin
spec = spec_from_file_location("factory", Path(sys.argv[1]) / "tests/bundle/factory.py")
factory = module_from_spec(spec)
spec.loader.exec_module(factory)
bench = Bench(Standin(sys.argv[2], Path(sys.argv[3])), factory, Path(sys.argv[4]))
kernels = load(bench.bundle("a"), device=bench.device())
tensors = bench.tensors()
bench.launch(kernels, "a", tensors)
kernels.driver.filled_i32(1, 4)
"""


def in_child(act) -> bool:
    """Whether `act` returns true in a process that is forked off here."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if act() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refused(act) -> bool:
    with pytest.raises(ForkedError, match=r"opened before this process was forked off.*spawn"):
        act()
    return True


def test_a_child_is_refused_by_name_and_calls_no_driver_and_the_parent_works_on(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a", "b"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors)
        address = kernels.driver.filled_i32(5, 2)
        function = kernels._executor.function(kernels.rows("copy")[0])
        for act in (
            lambda: bench.launch(kernels, "a", tensors),
            lambda: bench.launch(kernels, "b", tensors),
            lambda: kernels.preload(),
            lambda: kernels.driver.filled_i32(5, 2),
            lambda: kernels.driver.filled_i32(6, 2),
            lambda: kernels.driver.read(address, 8),
            lambda: kernels.driver.resident_groups(function),
            kernels.driver.synchronize,
            kernels.driver.describe,
            kernels.driver.check_usable,
        ):
            assert in_child(lambda act=act: refused(act) and bench.standin.forked_calls == 0)
        bench.launch(kernels, "b", tensors)
        assert [launch.symbol for launch in bench.standin.launches] == ["copy_a", "copy_b"]


def test_a_child_may_close_what_it_inherited_and_the_parent_keeps_it(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors)
        assert in_child(lambda: kernels.close() is None and bench.standin.forked_calls == 0)
        assert bench.standin.live_modules == 1
        bench.launch(kernels, "a", tensors)
        assert len(bench.standin.launches) == 2


def test_a_child_that_loads_the_bundle_itself_works_where_the_driver_was_not_started(bench):
    """What the refusal advises; the stand-in starts anew as a driver does in a process without handles."""
    path = bench.bundle("a")

    def act():
        tensors = bench.tensors()
        with load(path, device=bench.device()) as kernels:
            bench.launch(kernels, "a", tensors)
        return [launch.symbol for launch in bench.standin.launches] == ["copy_a"]

    assert in_child(act)
    assert bench.standin.launches == []


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "del kernels; gc.collect()",
        "kernels.close(); kernels.close()",
        "import atexit; atexit.register(kernels.close)",
        "sys.modules['held'] = kernels; kernels.cycle = kernels; del kernels",
    ],
    ids=["open", "deleted", "closed twice", "closed at exit", "in a cycle"],
)
def test_the_interpreter_ends_in_silence(standins, vendor, ending, tmp_path):
    library = tmp_path / LIBRARY[vendor]
    library.symlink_to(standins[vendor].path)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", START + ending, str(ROOT), vendor, str(library), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_what_was_bound_goes_on_after_its_kernels_are_out_of_sight(standins, vendor, tmp_path):
    """A captured graph replays what nobody holds any more: nothing is unloaded behind its back."""
    library = tmp_path / LIBRARY[vendor]
    library.symlink_to(standins[vendor].path)
    ending = "del kernels; gc.collect(); print(bench.standin.live_modules, bench.standin.live_blocks)"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", START + ending, str(ROOT), vendor, str(library), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    # Two tensors of the test's, one buffer of the driver's.
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 3\n", "")
