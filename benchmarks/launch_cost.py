"""Host cost of a call, and of the first one in a process, next to Triton's JIT and the bare driver in the same run.

    python benchmarks/launch_cost.py BUNDLE [--out FILE]

A small decode call (batch 4, 64 keys), so that the GPU keeps up; samples of a few hundred launches between two waits.
'jit' launches the bundle's own rendered sources through Triton's JIT as it is installed here.
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
from gpu import Shape, make_inputs
from jit_call import JitCall, prepared

import assay.runtime

SCHEMA = "assay.benchmark.launch/2"
SHAPE = Shape(4, 64, 32, 4, 128)
SPLITS = 8
LAUNCHES = 300
STARTS = 5


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path)
    protocol.add_options(parser, rounds=15)
    parser.add_argument("--first", choices=("assay", "jit"), help="only the first call of this process, for itself")
    options = parser.parse_args()
    if options.first:
        print(json.dumps(_first_call(options.bundle, options.first)))
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
    document["first_call_ms"] = _first_calls(options.bundle)
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
    jit = JitCall(kernels, inputs)
    torch.testing.assert_close(plan.launch(), jit.both(), atol=1e-2, rtol=2e-2)
    # One launch of its own fills the block that the bare launch repeats.
    kernels.decode_attention(*arguments, **given)
    bare = _bare(prepared(kernels)[0])
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
    function, block = stage_1.function, stage_1._block
    fixed = (function.handle, *stage_1.grid, function.threads, 1, 1, function.lds_bytes, 0, None, block.extra)
    return lambda: launch(*fixed)


def _first_call(bundle: Path, way: str) -> dict[str, float]:
    """Milliseconds from a warm torch to the first result, in this process."""
    inputs = make_inputs(SHAPE, fp8=True)
    arguments, scales = inputs.call()
    torch.cuda.synchronize()
    started = time.perf_counter()
    kernels = assay.runtime.load(bundle, device="cuda:0")
    loaded = time.perf_counter()
    if way == "assay":
        kernels.decode_attention(*arguments, **scales, num_splits=SPLITS)
    else:
        kernels.plan(*arguments, **scales, num_splits=SPLITS)
        started = time.perf_counter()
        JitCall(kernels, inputs).both()
    torch.cuda.synchronize()
    ended = time.perf_counter()
    return {"load": (loaded - started) * 1e3 if way == "assay" else 0.0, "total": (ended - started) * 1e3}


def _first_calls(bundle: Path) -> dict[str, Any]:
    """First results in fresh processes: ours, and the JIT's with an empty and with a filled cache."""
    found: dict[str, list[float]] = {"assay": [], "jit, empty cache": [], "jit, filled cache": []}
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as cache:
            found["assay"].append(_fresh(bundle, "assay", cache))
            found["jit, empty cache"].append(_fresh(bundle, "jit", cache))
            found["jit, filled cache"].append(_fresh(bundle, "jit", cache))
    return {name: {"median": statistics.median(taken), "samples": taken} for name, taken in found.items()}


def _fresh(bundle: Path, way: str, cache: str) -> float:
    done = subprocess.run(
        [sys.executable, __file__, str(bundle), "--first", way],
        env={**os.environ, "TRITON_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])["total"]


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
    print(f"\nopening the bundle: {document['open_ms']:.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
