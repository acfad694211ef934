"""Host cost of a call, and of the first one in a process, next to Triton's JIT and the bare driver in the same run.

    python benchmarks/launch_cost.py BUNDLE [--out FILE]

A small decode call (batch 4, 64 keys: `first_call.py`), so that the GPU keeps up; samples of a few hundred launches
between two waits. 'jit' launches the bundle's own rendered sources through Triton's JIT as it is installed here.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import protocol
import torch
from first_call import PARTS, SHAPE, SPLITS, WITHIN
from gpu import make_inputs
from jit_call import JitCall

import assay.runtime

SCHEMA = "assay.benchmark.launch/2"
LAUNCHES = 300
# Fresh processes: ours, and the JIT's of either kind.
STARTS, JIT_STARTS = 15, 5
FIRST_CALL = Path(__file__).with_name("first_call.py")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path)
    protocol.add_options(parser, rounds=15)
    parser.add_argument(
        "--first-jit", action="store_true", help="only the JIT's first call of this process, for itself"
    )
    options = parser.parse_args()
    if options.first_jit:
        print(json.dumps(_first_jit_call(options.bundle)))
        return 0
    document = {
        "schema": SCHEMA,
        "protocol": protocol.declared(options.rounds, options.seed),
        "complete": False,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__,
        "python": platform.python_version(),
    }
    # The gate is on file before anything is measured.
    _write(document, options.out)
    document["host_us"] = _host(options.bundle, options.rounds, options.seed)
    parts = _first_call_parts(options.bundle)
    document["first_call_ms"] = {"assay": parts.pop("total"), **_first_jit_calls(options.bundle)}
    document["first_call_parts_ms"] = parts
    document["open_ms"] = _open(options.bundle)
    document["complete"] = True
    _print(document)
    _write(document, options.out)
    return 0


def _write(document: dict[str, Any], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(document, indent=1) + "\n")


def _host(bundle: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Microseconds of host time for each way to launch, by the protocol."""
    kernels = assay.runtime.load(bundle, device="cuda:0")
    inputs = make_inputs(SHAPE, fp8=True)
    arguments, scales = inputs.call()
    plan = kernels.plan(*arguments, **scales, num_splits=SPLITS)
    given = {"num_splits": SPLITS, "out": plan.out, "workspace": plan.workspace, **scales}
    jit = JitCall(kernels, inputs, plan)
    torch.testing.assert_close(plan.launch(), jit.both(), atol=1e-2, rtol=2e-2)
    # One launch of a call with these buffers fills the block that the bare launch repeats.
    same = kernels.plan(*arguments, **given)
    kernels.decode_attention(*arguments, **given)
    bare = _bare(same.stages[0])
    stream = torch.cuda.current_stream().cuda_stream
    ways: dict[str, Callable[[], Any]] = {
        "checked call, buffers given (2 kernels)": lambda: kernels.decode_attention(*arguments, **given),
        "checked call, nothing given (2 kernels)": lambda: kernels.decode_attention(*arguments, **scales),
        "plan.launch() (2 kernels)": plan.launch,
        "plan.launch(stream) (2 kernels)": lambda: plan.launch(stream),
        "plan, stage 1 alone": lambda start=plan.starts[0]: start(stream),
        "jit (2 kernels)": jit.both,
        "jit, stage 1 alone": jit.stage_1,
        "bare cuLaunchKernel, stage 1 (ctypes)": bare,
    }
    taken = protocol.sampled({name: _sample(way) for name, way in ways.items()}, rounds, seed)
    torch.cuda.synchronize()
    return {name: protocol.summary(samples) for name, samples in taken.items()}


def _sample(way: Callable[[], Any]) -> Callable[[], float]:
    """A function that gives the microseconds of one launch, over many, from an idle device."""

    def sample() -> float:
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(LAUNCHES):
            way()
        return (time.perf_counter() - started) / LAUNCHES * 1e6

    return sample


def _bare(stage_1: Any) -> Callable[[], None]:
    """The driver's own launch with everything ready: the same argument block again and again."""
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    launch.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
    function, block = stage_1.function, stage_1.block
    fixed = (function.handle, *stage_1.grid, function.threads, 1, 1, function.lds_bytes, 0, None, block.extra)
    return lambda: launch(*fixed)


def _first_jit_call(bundle: Path) -> float:
    """Milliseconds from a warm torch to the JIT's first result, in this process."""
    inputs = make_inputs(SHAPE, fp8=True)
    arguments, scales = inputs.call()
    kernels = assay.runtime.load(bundle, device="cuda:0")
    plan = kernels.plan(*arguments, **scales, num_splits=SPLITS)
    torch.cuda.synchronize()
    started = time.perf_counter()
    JitCall(kernels, inputs, plan).both()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e3


def _first_call_parts(bundle: Path) -> dict[str, Any]:
    """Our first result in fresh processes, by part and in total: from the import to the end of the kernels."""
    command = [str(FIRST_CALL), str(bundle)]
    _fresh(command)  # Writes the byte code.
    starts = [_fresh(command) for _ in range(STARTS)]
    return {part: _summed_up([start[part] for start in starts]) for part in starts[0]}


def _first_jit_calls(bundle: Path) -> dict[str, Any]:
    """The JIT's first results in fresh processes, with an empty and with a filled cache."""
    found: dict[str, list[float]] = {"jit, empty cache": [], "jit, filled cache": []}
    for _ in range(JIT_STARTS):
        with tempfile.TemporaryDirectory() as cache:
            for taken in found.values():
                taken.append(_fresh([__file__, str(bundle), "--first-jit"], TRITON_CACHE_DIR=cache))
    return {name: _summed_up(taken) for name, taken in found.items()}


def _summed_up(taken: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(taken), "samples": taken}


def _fresh(command: list[str], **environment: str) -> Any:
    """What a fresh Python prints last, as JSON."""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, *command], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _open(bundle: Path) -> float:
    """Milliseconds to open the bundle without a device, the best of a few."""
    taken = []
    for _ in range(9):
        started = time.perf_counter()
        assay.runtime.load(bundle).close()
        taken.append((time.perf_counter() - started) * 1e3)
    return min(taken)


def _print(document: dict[str, Any]) -> None:
    print(f"{document['device']}, torch {document['torch']}, triton {document['triton']}\n\nhost, µs a call (median)")
    for name, figures in document["host_us"].items():
        least = f"least {figures['least_us']:.2f}"
        print(f"  {name:42s} {figures['median_us']:8.2f}   {least}{protocol.mark(figures)}")
    print("\nfirst result in a fresh process, ms (median)")
    for name, figures in document["first_call_ms"].items():
        print(f"  {name:42s} {figures['median']:8.1f}")
    print("\nassay's first result in parts, ms (median)")
    for name in PARTS:
        print(f"  {name:42s} {_spread(document, name)}")
        if name == "call":
            for within in WITHIN:
                print(f"    {within:40s} {_spread(document, within)}")
    print(f"\nopening the bundle: {document['open_ms']:.2f} ms")


def _spread(document: dict[str, Any], part: str) -> str:
    figures = document["first_call_parts_ms"][part]
    return f"{figures['median']:8.2f}   {min(figures['samples']):.2f} to {max(figures['samples']):.2f}"


if __name__ == "__main__":
    sys.exit(main())
