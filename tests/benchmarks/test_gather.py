"""The gather reads every word of the listed rows, once, and none of the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
HERE = Path(__file__).parent
# Triton decides when it is imported whether kernels are interpreted, so this needs a process of its own.
INTERPRETED = """
import functools, operator, sys
import gather, gpu
gpu.DEVICE = "cpu"

def words(rows):
    return functools.reduce(operator.xor, rows.contiguous().view(gpu.torch.int32).reshape(-1).tolist(), 0)

for fp8 in (False, True):
    inputs = gpu.make_inputs(gpu.Shape(2, 128, 4, 2, 16), fp8=fp8, copies=2)
    if fp8:  # scales as random as rows: a missing one shows
        inputs.caches["k_scale"] = gpu.torch.rand(512, 2)
    # Warps and stages are nothing to the interpreter.
    found = gather.launches(inputs.shape, processors=3)
    launches = list({(launch.block_n, launch.splits): launch for launch in found}.values())
    for launch in launches:
        read = gather.call(inputs, launch)
        for copy, slots in enumerate(inputs.copies):
            wanted = 0
            for rows in inputs.caches.values():
                wanted ^= words(rows[slots.long()])
            assert gather.folded(read(copy)) == wanted, (fp8, launch, copy)
            assert copy or gather.expected(inputs) == wanted
            assert wanted not in (0, -1)
print("read", len(launches))
"""


@pytest.mark.slow
def test_the_kernel_reads_the_rows_of_each_turn_under_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    folder = str(HERE.parents[1] / "benchmarks")
    code = f"import sys; sys.path.insert(0, {folder!r})\n{INTERPRETED}"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout.split()[-1]) >= 3


@pytest.fixture
def modules(monkeypatch):
    """The gather with clocks and devices that need no GPU."""
    import gpu

    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    import gather

    class FakeTimed:
        """Its time is what the launch's splits say."""

        def __init__(self, function, _turns):
            self.us = float(function(0).numel())

        def once(self):
            return self.us

    monkeypatch.setattr(gather, "Timed", FakeTimed)
    device = type("Properties", (), {"multi_processor_count": 3})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    inputs = gpu.make_inputs(gpu.Shape(2, 128, 4, 2, 64), fp8=True, copies=2)
    return gather, inputs


def reads(gather, inputs, *, wrong=()):
    """A stand-in for `gather.call` whose words are right but for some block sizes."""

    def call(_inputs, launch):
        def read(_turn):
            out = torch.zeros(launch.splits, dtype=torch.int32)
            out[0] = gather.expected(inputs) ^ (launch.block_n in wrong)
            return out

        return read

    return call


def test_the_fastest_launch_is_the_floor(modules, monkeypatch):
    gather, inputs = modules
    monkeypatch.setattr(gather, "call", reads(gather, inputs))
    best, problem = gather.floor(inputs, cold=True)
    assert best.launch.splits == min(launch.splits for launch in gather.launches(inputs.shape, 3))
    assert not problem


def test_a_launch_with_wrong_words_ends_the_search(modules, monkeypatch):
    gather, inputs = modules
    monkeypatch.setattr(gather, "call", reads(gather, inputs, wrong=(64,)))
    best, problem = gather.floor(inputs, cold=False)
    assert best is None
    assert "block_n=64" in problem


def test_launches_that_do_not_fit_are_passed_over(modules, monkeypatch):
    gather, inputs = modules
    right = reads(gather, inputs)

    def call(given, launch):
        if launch.num_stages == 1:
            return right(given, launch)

        def too_large(_turn):
            raise gather.triton.runtime.errors.OutOfResources(300_000, 232_448, "shared memory")

        return too_large

    monkeypatch.setattr(gather, "call", call)
    assert gather.floor(inputs, cold=False)[0].launch.num_stages == 1


def test_a_tail_is_refused(modules):
    gather, inputs = modules
    with pytest.raises(ValueError, match="whole blocks"):
        gather.launches(type(inputs.shape)(1, 130, 4, 2, 64), 3)
