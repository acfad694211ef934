"""The first decode call of a process in which torch has started, in parts.

    python benchmarks/first_call.py BUNDLE

Prints one line of JSON, milliseconds by part: those of `PARTS` follow one another, those of `WITHIN` lie within 'call'.
`launch_cost.py` runs it in fresh processes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from gpu import Inputs, Shape, make_inputs

SHAPE = Shape(4, 64, 32, 4, 128)
SPLITS = 8
PARTS = ("import", "load", "call", "synchronize")
# What the driver does within the call, by the name of the method that the runtime calls.
WITHIN = {"loading the modules": "load", "filling the split counts": "filled_i32"}


def main() -> int:
    """Measure in this process, print."""
    inputs = make_inputs(SHAPE, fp8=True)
    torch.cuda.synchronize()
    print(json.dumps(first_call(sys.argv[1], inputs)))
    return 0


def first_call(bundle: str, inputs: Inputs, device: str = "cuda:0") -> dict[str, float]:
    """Milliseconds by part; nothing of assay may have been imported before."""
    arguments, scales = inputs.call()
    clock = time.perf_counter
    at = [clock()]
    import assay.runtime

    at.append(clock())
    kernels = assay.runtime.load(bundle, device=device)
    at.append(clock())
    # Not `kernels.driver`: that would import what the call has to.
    within = {part: _timed(kernels._driver, method) for part, method in WITHIN.items()}
    watched = clock() - at[-1]
    kernels.decode_attention(*arguments, **scales, num_splits=SPLITS)
    at.append(clock())
    torch.cuda.synchronize()
    at.append(clock())
    parts = {part: end - start for part, start, end in zip(PARTS, at, at[1:], strict=False)}
    parts["call"] -= watched
    seconds = {**parts, **{part: sum(taken) for part, taken in within.items()}, "total": sum(parts.values())}
    return {part: taken * 1e3 for part, taken in seconds.items()}


def _timed(driver: Any, method: str) -> list[float]:
    """Seconds of each call of the driver's method from now on."""
    taken: list[float] = []
    original: Callable[..., Any] = getattr(driver, method)

    def timed(*arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return original(*arguments)
        finally:
            taken.append(time.perf_counter() - started)

    setattr(driver, method, timed)
    return taken


if __name__ == "__main__":
    sys.exit(main())
