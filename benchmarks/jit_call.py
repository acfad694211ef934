"""The kernels of a planned decode call from the bundle's own rendered sources, through the Triton installed here.

Nothing of Triton is imported before the first `JitCall` is made.
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch
from gpu import Inputs

from assay.bundle.picking import DEPENDENT_LAUNCH
from assay.runtime.limits import MOST_SPLITS


class JitCall:
    """The kernels of a plan of the bundle's, with as many splits, on one set of slots: stage 1 and merge, or one."""

    def __init__(self, kernels: Any, inputs: Inputs, plan: Any, copy: int = 0):
        """plan: what `kernels.plan` gave for these inputs."""
        stages = plan.stages
        variants = [kernels.variant(stage.row.id) for stage in stages]
        _check(inputs, variants[0].problem, [stage.grid for stage in stages])
        self._out = torch.empty_like(inputs.q)
        arguments = _arguments(inputs, copy, self._out, splits=stages[0].grid[2] if len(stages) > 1 else None)
        self._starts = [
            functools.partial(
                _imported(variant.id, variant.source, stage.row.symbol)[stage.grid], *given, **_options(variant)
            )
            for variant, stage, given in zip(variants, stages, arguments, strict=True)
        ]

    def stage_1(self) -> None:
        """Launch the first kernel alone."""
        self._starts[0]()

    def both(self) -> Any:
        """Launch all kernels; the output, [batch, q_heads, head_dim] BF16."""
        for start in self._starts:
            start()
        return self._out


def _check(inputs: Inputs, problem: Any, grids: list[tuple[int, ...]]) -> None:
    """Raises ValueError where the plan is not one of these inputs."""
    shape, (grid, *merges) = inputs.shape, grids
    kv_format = "fp8_per_token_head" if "k_scale" in inputs.caches else "bf16"
    planned = (problem["kv_format"], problem["head_dim"], problem["rows"], *grid[:2], *merges)
    blocks = shape.kv_heads * -(-shape.gqa // problem["block_m"])
    merged = [(shape.batch, shape.q_heads, 1) for _ in merges]
    if planned != (kv_format, shape.head_dim, 1, blocks, shape.batch, *merged):
        raise ValueError(f"the plan is not one of {shape} on a {kv_format} cache: {planned}")


def _arguments(inputs: Inputs, copy: int, out: Any, splits: int | None) -> list[tuple[Any, ...]]:
    """Of each kernel, in the order of its arguments.  splits: None where one kernel does all."""
    shape, device = inputs.shape, inputs.q.device
    merged = torch.empty(shape.batch, shape.q_heads, device=device)
    caches = [inputs.caches[name] for name in ("k", "v", "k_scale", "v_scale") if name in inputs.caches]
    tensors = (inputs.q, *caches, inputs.indptr, inputs.copies[copy], inputs.positions)
    numbers = (
        inputs.sm_scale, shape.gqa, *inputs.q.stride()[:2], *(step for cache in caches for step in cache.stride()[:2])
    )  # fmt: skip
    if splits is None:
        return [(*tensors, out, merged, *numbers, *out.stride()[:2], *merged.stride())]
    partial = torch.empty(shape.batch, shape.q_heads, splits, shape.head_dim, device=device)
    lse = torch.empty(shape.batch, shape.q_heads, splits, device=device)
    counts = torch.full((shape.batch,), splits, device=device, dtype=torch.int32)
    merge = (
        partial, lse, counts, out, merged, *_with_row(partial.stride()[:3]), *_with_row(lse.stride()),
        *_with_row(out.stride()[:2]), *_with_row(merged.stride()),
    )  # fmt: skip
    return [(*tensors, counts, partial, lse, *numbers, *partial.stride()[:3], *lse.stride()), merge]


def _with_row(strides: tuple[int, ...]) -> tuple[int, ...]:
    """With the stride of a request's queries behind the requests' own; there is one query."""
    return strides[0], 0, *strides[1:]


def _options(variant: Any) -> dict[str, Any]:
    """Compile-time constants and launch of a variant, as the JIT takes them."""
    problem, launch = variant.problem, variant.launch
    head_dim = problem["head_dim"]
    options = {"HEAD_DIM": head_dim, "BLOCK_D": 1 << (head_dim - 1).bit_length()}
    options |= {"num_warps": launch["num_warps"], "num_stages": launch["num_stages"]}
    if launch.get(DEPENDENT_LAUNCH) is True:
        options["launch_pdl"] = True
    if variant.family == "merge_splits":
        return {**options, "MAX_SPLITS": problem.get("most_splits", MOST_SPLITS)}
    return {**options, "BLOCK_M": problem["block_m"], "BLOCK_N": launch["block_n"]}


@functools.cache
def _imported(variant_id: str, source: str, symbol: str) -> Any:
    """The kernel of a rendered source; the same object each time, so that it is compiled once."""
    path = Path(tempfile.mkdtemp()) / f"kernel_{variant_id}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, symbol)
