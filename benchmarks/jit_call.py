"""The two kernels of a planned decode call from the bundle's own rendered sources, through the Triton installed here.

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
    """Stage 1 and merge of a plan of the bundle's, with as many splits, on one set of slots."""

    def __init__(self, kernels: Any, inputs: Inputs, plan: Any, copy: int = 0):
        """plan: what `kernels.plan` gave for these inputs."""
        stages = plan.stages
        self._variants = [kernels.variant(stage.row.id) for stage in stages]
        self._kernels = [
            _imported(variant.id, variant.source, stage.row.symbol)
            for variant, stage in zip(self._variants, stages, strict=True)
        ]
        self._grids = [stage.grid for stage in stages]
        self._options = [_options(variant) for variant in self._variants]
        self._check(inputs)
        self._bind(inputs, copy, splits=stages[0].grid[2])

    def _check(self, inputs: Inputs) -> None:
        """Raises ValueError where the plan is not one of these inputs."""
        shape, problem, (grid, merged) = inputs.shape, self._variants[0].problem, self._grids
        kv_format = "fp8_per_token_head" if "k_scale" in inputs.caches else "bf16"
        planned = (problem["kv_format"], problem["head_dim"], problem["rows"], *grid[:2], *merged)
        blocks = shape.kv_heads * -(-shape.gqa // problem["block_m"])
        if planned != (kv_format, shape.head_dim, 1, blocks, shape.batch, shape.batch, shape.q_heads, 1):
            raise ValueError(f"the plan is not one of {shape} on a {kv_format} cache: {planned}")

    def _bind(self, inputs: Inputs, copy: int, splits: int) -> None:
        shape, device = inputs.shape, inputs.q.device
        partial = torch.empty(shape.batch, shape.q_heads, splits, shape.head_dim, device=device)
        lse = torch.empty(shape.batch, shape.q_heads, splits, device=device)
        counts = torch.full((shape.batch,), splits, device=device, dtype=torch.int32)
        self._out = torch.empty_like(inputs.q)
        merged = torch.empty(shape.batch, shape.q_heads, device=device)
        caches = [inputs.caches[name] for name in ("k", "v", "k_scale", "v_scale") if name in inputs.caches]
        self._stage_1_arguments = (
            inputs.q, *caches, inputs.indptr, inputs.copies[copy], inputs.positions, counts, partial, lse,
            inputs.sm_scale, shape.gqa, *inputs.q.stride()[:2],
            *(step for cache in caches for step in cache.stride()[:2]), *partial.stride()[:3], *lse.stride(),
        )  # fmt: skip
        self._merge_arguments = (
            partial, lse, counts, self._out, merged, *_with_row(partial.stride()[:3]), *_with_row(lse.stride()),
            *_with_row(self._out.stride()[:2]), *_with_row(merged.stride()),
        )  # fmt: skip

    def stage_1(self) -> None:
        self._kernels[0][self._grids[0]](*self._stage_1_arguments, **self._options[0])

    def both(self) -> Any:
        """Launch both; the output, [batch, q_heads, head_dim] BF16."""
        self.stage_1()
        self._kernels[1][self._grids[1]](*self._merge_arguments, **self._options[1])
        return self._out


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
