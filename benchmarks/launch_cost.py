"""Host cost of a call, and of the first one in a process, next to Triton's JIT and the bare driver in the same run.

    python benchmarks/launch_cost.py BUNDLE [--out FILE]

A small decode call (batch 4, 64 keys: `first_call.py`), so that the GPU keeps up; samples of a few hundred launches
between two waits. 'jit' launches the bundle's own rendered sources through Triton's JIT as it is installed here.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
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

import torch
from first_call import PARTS, SHAPE, SPLITS, WITHIN
from gpu import make_inputs

import assay.runtime
from assay.runtime.limits import MOST_SPLITS

SCHEMA = "assay.benchmark.launch/2"
LAUNCHES, ROUNDS = 300, 15
# Fresh processes: ours, and the JIT's of either kind.
STARTS, JIT_STARTS = 15, 5
FIRST_CALL = Path(__file__).with_name("first_call.py")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--first-jit", action="store_true", help="only the JIT's first call of this process, for itself"
    )
    options = parser.parse_args()
    if options.first_jit:
        print(json.dumps(_first_jit_call(options.bundle)))
        return 0
    parts = _first_call_parts(options.bundle)
    document = {
        "schema": SCHEMA,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__,
        "python": platform.python_version(),
        "host_us": _host(options.bundle),
        "first_call_ms": {"assay": parts.pop("total"), **_first_jit_calls(options.bundle)},
        "first_call_parts_ms": parts,
        "open_ms": _open(options.bundle),
    }
    _print(document)
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _host(bundle: Path) -> dict[str, Any]:
    """Microseconds of host time for each way to launch, in turns."""
    kernels = assay.runtime.load(bundle, device="cuda:0")
    inputs = make_inputs(SHAPE, fp8=True)
    arguments, scales = inputs.call()
    plan = kernels.plan(*arguments, **scales, num_splits=SPLITS)
    given = {"num_splits": SPLITS, "out": plan.out, "workspace": plan.workspace, **scales}
    jit = _JitCall(kernels, inputs)
    torch.testing.assert_close(plan.launch(), jit.both(), atol=1e-2, rtol=2e-2)
    # One launch of its own fills the block that the bare launch repeats.
    kernels.decode_attention(*arguments, **given)
    bare = _bare(_prepared(kernels)[0])
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
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(LAUNCHES):
                way()
            samples[name].append((time.perf_counter() - started) / LAUNCHES * 1e6)
    torch.cuda.synchronize()
    return {name: {"median": statistics.median(taken), "least": min(taken)} for name, taken in samples.items()}


def _prepared(kernels: Any) -> tuple[Any, Any]:
    """The two kernels that the last call used."""
    plan = next(reversed(kernels._decode._plans.values()))
    return plan.stage_1, plan.merge


def _bare(prepared: Any) -> Callable[[], None]:
    """The driver's own launch with everything ready: the same argument block again and again."""
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    launch.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
    function, block = prepared.function, prepared._block
    fixed = (function.handle, *prepared.grid, function.threads, 1, 1, function.lds_bytes, 0, None, block.extra)
    return lambda: launch(*fixed)


class _JitCall:
    """The same two kernels from their sources, through Triton's JIT."""

    def __init__(self, kernels: Any, inputs: Any):
        shape = inputs.shape
        rows = [prepared.row for prepared in _prepared(kernels)]
        self._kernels = [_imported(kernels.variant(row.id), row.symbol) for row in rows]
        self._variants = [kernels.variant(row.id) for row in rows]
        partial = torch.empty(shape.batch, shape.q_heads, SPLITS, shape.head_dim, device="cuda")
        lse = torch.empty(shape.batch, shape.q_heads, SPLITS, device="cuda")
        counts = torch.full((shape.batch,), SPLITS, device="cuda", dtype=torch.int32)
        k, v = inputs.caches["k"], inputs.caches["v"]
        self._out = torch.empty_like(inputs.q)
        merged = torch.empty(shape.batch, shape.q_heads, device="cuda")
        ks, vs = inputs.caches["k_scale"], inputs.caches["v_scale"]
        self._stage_1_arguments = (
            inputs.q, k, v, ks, vs, inputs.indptr, inputs.copies[0], inputs.positions, counts, partial, lse,
            inputs.sm_scale, *inputs.q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *ks.stride(), *vs.stride(),
            *partial.stride()[:3], *lse.stride(),
        )  # fmt: skip
        self._merge_arguments = (
            partial, lse, counts, self._out, merged, *partial.stride()[:3], *lse.stride(), *self._out.stride()[:2],
            *merged.stride(),
        )  # fmt: skip
        self._grids = ((shape.batch, shape.kv_heads, SPLITS), (shape.batch, shape.q_heads))

    def stage_1(self) -> None:
        launch, problem = self._variants[0].launch, self._variants[0].problem
        self._kernels[0][self._grids[0]](
            *self._stage_1_arguments,
            HEAD_DIM=problem["head_dim"],
            GROUP=problem["gqa"],
            BLOCK_H=1 << (problem["gqa"] - 1).bit_length(),
            BLOCK_N=launch["block_n"],
            num_warps=launch["num_warps"],
            num_stages=launch["num_stages"],
        )

    def both(self) -> Any:
        self.stage_1()
        launch = self._variants[1].launch
        self._kernels[1][self._grids[1]](
            *self._merge_arguments,
            HEAD_DIM=self._variants[1].problem["head_dim"],
            MAX_SPLITS=MOST_SPLITS,
            num_warps=launch["num_warps"],
            num_stages=launch["num_stages"],
        )
        return self._out


def _imported(variant: Any, symbol: str) -> Any:
    """The kernel of a rendered source."""
    path = Path(tempfile.mkdtemp()) / f"kernel_{variant.id}.py"
    path.write_text(variant.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, symbol)


def _first_jit_call(bundle: Path) -> float:
    """Milliseconds from a warm torch to the JIT's first result, in this process."""
    inputs = make_inputs(SHAPE, fp8=True)
    arguments, scales = inputs.call()
    kernels = assay.runtime.load(bundle, device="cuda:0")
    kernels.plan(*arguments, **scales, num_splits=SPLITS)
    torch.cuda.synchronize()
    started = time.perf_counter()
    _JitCall(kernels, inputs).both()
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
        print(f"  {name:42s} {figures['median']:8.2f}   least {figures['least']:.2f}")
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
