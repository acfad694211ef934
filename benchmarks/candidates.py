"""What is timed at one shape: kernels of bundles, their sources under Triton's JIT, others, and the gather floor.

An output is compared with FP64 attention before it is timed.  What cannot be timed becomes a row that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gpu import DEVICE, Inputs, Shape, Timed, reference, said

import assay.runtime

ABSOLUTE, RELATIVE = 0.002, 0.02
TURNS = 8


class Candidates:
    """Graphs of one shape by name, what is known of each, and rows of those that could not be timed.

    left_out: rows with 'wrong' (an output that is not attention) or 'failed' (no output at all) and the reason.
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        self.timed: dict[str, Timed] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.left_out: list[dict[str, Any]] = []

    def add(self, name: str, function: Callable[[int], Any], fact: dict[str, Any]) -> None:
        """Capture the function's graph; it takes a turn."""
        self.timed[name] = Timed(function, TURNS)
        self.facts[name] = fact

    def add_ways(self, name: str, calls: Sequence[Callable[[], Any]], fact: dict[str, Any]) -> None:
        """One call for each set of slots: 'warm' repeats the first, 'cold' takes them in turn."""
        self.add(f"{name} warm", lambda _: calls[0](), {**fact, "way": "warm"})
        self.add(f"{name} cold", lambda turn: calls[turn % len(calls)](), {**fact, "way": "cold"})

    def leave_out(self, name: str, kind: str, why: str, fact: dict[str, Any]) -> None:
        """kind: 'wrong' or 'failed'."""
        print(f"  {name}: {kind.upper()}: {why}", flush=True)
        self.left_out.append({"shape": str(self.shape), "name": name, **fact, kind: why})


def add_sdpa(found: Candidates) -> None:
    """PyTorch's own attention on contiguous BF16 keys."""
    shape = found.shape
    q = torch.randn(shape.batch, shape.q_heads, 1, shape.head_dim, device=DEVICE, dtype=torch.bfloat16)
    k, v = (
        torch.randn(shape.batch, shape.kv_heads, shape.keys, shape.head_dim, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(2)
    )
    fact = {"kind": "sdpa", "format": "bf16", "splits": None}
    found.add("sdpa", lambda _: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), fact)


def add_bundle(
    found: Candidates, label: str, kernels: Any, inputs: Inputs, *, splits: int | None, stages: bool
) -> bool:
    """A bundle's kernels; whether there is something to compare them with.  stages: time each by itself too."""
    fact = _fact("bundle", inputs, label=label, splits=splits)
    name = f"{label} {fact['format']}" + (f" s{splits}" if splits else "")
    plans = []
    for copy in range(len(inputs.copies)):
        arguments, scales = inputs.call(copy)
        try:
            plans.append(kernels.plan(*arguments, **scales, num_splits=splits))
        except assay.runtime.NoMatchError:
            return False
    if not _right(found, name, plans[0].launch, inputs, fact):
        return True
    found.add_ways(name, [plan.launch for plan in plans], fact)
    for stage, start in zip(("stage 1", "merge"), plans[0].starts if stages else (), strict=False):
        found.add(f"{name} {stage}", lambda _, start=start: start(_stream()), {**fact, "way": stage})
    return True


def add_jit(found: Candidates, label: str, kernels: Any, inputs: Inputs) -> None:
    """The kernels of the bundle's call, from their sources; with as many splits as it chooses."""
    from jit_call import JitCall

    fact = _fact("jit", inputs, label=label, splits=None)
    name = f"{label} jit {fact['format']}"
    arguments, scales = inputs.call()
    plan = kernels.plan(*arguments, **scales)
    try:
        calls = [JitCall(kernels, inputs, plan, copy).both for copy in range(len(inputs.copies))]
        calls[0]()
    except Exception as error:
        found.leave_out(name, "failed", said(error), fact)
        return
    if _right(found, name, calls[0], inputs, fact):
        found.add_ways(name, calls, fact)


def add_gather(found: Candidates, inputs: Inputs) -> None:
    """The fastest of the launches that read the call's rows and nothing else."""
    fact = _fact("gather", inputs, splits=None)
    for way in ("warm", "cold"):
        name = f"gather {fact['format']} {way}"
        try:
            import gather

            best, problem = gather.floor(inputs, cold=way == "cold")
        except Exception as error:
            best, problem = None, said(error)
        if best is None:
            found.leave_out(name, "failed", problem, {**fact, "way": way})
            continue
        function = best.call if way == "cold" else lambda _, call=best.call: call(0)
        found.add(name, function, {**fact, "way": way, "launch": best.launch._asdict()})


def add_flashinfer(found: Candidates, inputs: Inputs) -> None:
    """FlashInfer's batch decode on the same slots; BF16 caches alone."""
    from peers import flashinfer_call

    fact = _fact("flashinfer", inputs, splits=None)
    try:
        calls = [flashinfer_call(inputs, copy) for copy in range(len(inputs.copies))]
        calls[0]()
    except Exception as error:
        found.leave_out("flashinfer bf16", "failed", said(error), fact)
        return
    if _right(found, "flashinfer bf16", calls[0], inputs, fact):
        found.add_ways("flashinfer bf16", calls, fact)


def _fact(kind: str, inputs: Inputs, **more: Any) -> dict[str, Any]:
    fp8 = "k_scale" in inputs.caches
    size = inputs.shape.cache_bytes(fp8=fp8)
    return {"kind": kind, **more, "format": "fp8" if fp8 else "bf16", "cache_bytes": size}


def _right(found: Candidates, name: str, call: Callable[[], Any], inputs: Inputs, fact: dict[str, Any]) -> bool:
    """Whether the call's output is attention; otherwise it is left out as wrong."""
    why = off(call(), inputs)
    if why:
        found.leave_out(name, "wrong", why, fact)
    return not why


def off(out: Any, inputs: Inputs) -> str:
    """How far the first or the last request's output is from FP64 attention; nothing where both hold the tolerance."""
    for request in sorted({0, inputs.shape.batch - 1}):
        wanted = reference(inputs, request)
        error = (out[request].double() - wanted).abs()
        worst = float((error - RELATIVE * wanted.abs()).max())
        if not worst <= ABSOLUTE:
            return f"request {request}: off by {float(error.max()):.3g}"
    return ""


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream
