"""The gfx1201 kernels that ship: the candidate that passes the gates, compiled once a session, and running it.

Arguments are packed here and not by the code under test; of the cases only the tensors are used.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from assay import kernel_specs
from assay.codegen.cache import CompileCache, cache_key
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Outcome, Problem, Variant
from assay.codegen.render import Renderer
from assay.codegen.spec_models import FamilyFile
from assay.codegen.specs import SpecSet, load_specs
from assay.codegen.toolchain import find_toolchain
from assay.codegen.variants import make_variant
from assay.codegen.worker import compile_in_worker
from assay.emulator import LaunchResult, Memory, Program
from assay.qualify.gates import judge

TARGET = "gfx1201"


@dataclass(frozen=True)
class Shipped:
    """A variant that passed the static gates, its code object and the decoded program."""

    variant: Variant
    outcome: Outcome
    family: FamilyFile
    program: Program

    def launch(self, grid: tuple[int, ...], values: Mapping[str, int | float], memory: Memory) -> LaunchResult:
        """Runs it.  values: every argument of the kernel by name; others may be among them."""
        return self.program.launch(
            grid=grid,
            num_warps=self.outcome.num_warps,
            arguments=[values[argument.name] for argument in self.variant.arguments],
            lds_bytes=self.outcome.shared_bytes,
            memory=memory,
        )


@functools.cache
def shipped_specs() -> SpecSet:
    return load_specs(Path(kernel_specs.DIRECTORY))


def problems(specs: SpecSet, family: str, profile: str = "core", target: str = TARGET, **axes: object) -> list[Problem]:
    """The family's problems of the profile on a target with these axis values."""
    only = {"family": (family,), **{name: (str(value).lower(),) for name, value in axes.items()}}
    return [item for item in expand(specs, target, Selection(profile, only)) if isinstance(item, Problem)]


@functools.cache
def shipped(family: str, profile: str = "core", **axes: object) -> Shipped:
    """The kernel that ships for the profile's one problem with these axis values."""
    return first_qualified(shipped_specs(), family, profile, **axes)


@functools.cache
def shipped_without(features: tuple[str, ...], family: str, **axes: object) -> Shipped:
    """The same for a target that lacks these features: what other targets' readers and forms make of the case."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(kernel_specs.DIRECTORY, Path(folder, "specs")))
        path = copy / "targets" / f"{TARGET}.yaml"
        target = yaml.safe_load(path.read_text())
        target["features"] = [name for name in target["features"] if name not in features]
        path.write_text(yaml.safe_dump(target))
        return first_qualified(load_specs(copy), family, **axes)


def shipped_merge(*, head_dim: int, sinks: bool) -> Shipped:
    """The merge for any number of splits."""
    return shipped("merge_splits", head_dim=head_dim, sinks=sinks, most_splits=128)


def first_qualified(specs: SpecSet, family: str, profile: str = "core", **axes: object) -> Shipped:
    """The first candidate of the one problem that passes the static gates."""
    variant, outcome = first_qualified_on(specs, TARGET, family, profile, **axes)
    return Shipped(variant, outcome, specs.families[family].model, Program.load(outcome.code, where=variant.id))


def first_qualified_on(
    specs: SpecSet, target: str, family: str, profile: str = "core", **axes: object
) -> tuple[Variant, Outcome]:
    """The same on any target, where nothing may execute it."""
    (problem,) = problems(specs, family, profile, target, **axes)
    model, wanted = specs.families[family].model, specs.target(target)
    for candidate in candidates(model, wanted, problem):
        variant = make_variant(model, wanted, candidate, Renderer(specs.templates))
        outcome = compile_variant(variant)
        if not judge(variant, outcome, wanted, model).reasons:
            return variant, outcome
    raise AssertionError(f"no candidate of {problem.label} qualifies on {target}")


def compile_variant(variant: Variant) -> Outcome:
    """Through the session's compile cache, where there is one."""
    folder = os.environ.get("ASSAY_CACHE_DIR")
    cache = CompileCache(Path(folder)) if folder else None
    key = cache_key(variant.request, find_toolchain())
    if cache and (known := cache.get(key)):
        return known
    with tempfile.TemporaryDirectory() as scratch:
        outcome = Outcome(**compile_in_worker(variant.request.to_dict(), str(Path(scratch, "compile"))))
    if cache:
        cache.put(key, outcome)
    return outcome


@dataclass
class DecodeCall:
    """One call of stage 1, as arrays: q and BF16 caches as 16-bit codes, FP8 caches as bytes.

    q: [batch, q_heads, head_dim], or [batch, rows, q_heads, head_dim] where requests have several queries; positions
    and partial results have the same leading dimensions.

    Arrays may be views with any strides; `run` puts what they are views of into the emulator's memory.  window 0 where
    the kernel has none.  partial_out, partial_lse: made and poisoned by `run` where they are None.
    """

    q: np.ndarray
    k_cache: np.ndarray
    v_cache: np.ndarray
    k_scale: np.ndarray | None
    v_scale: np.ndarray | None
    indptr: np.ndarray
    indices: np.ndarray
    q_positions: np.ndarray
    num_kv_splits: np.ndarray
    sm_scale: float
    window: int = 0
    grid_splits: int = 0
    partial_out: np.ndarray | None = None
    partial_lse: np.ndarray | None = None


_DIMS = {
    "q": ("q", ("batch", "head")),
    "k_cache": ("k", ("slot", "head")),
    "v_cache": ("v", ("slot", "head")),
    "k_scale": ("k_scale", ("slot", "head")),
    "v_scale": ("v_scale", ("slot", "head")),
    "partial_out": ("out", ("batch", "head", "split")),
    "partial_lse": ("lse", ("batch", "head", "split")),
}
_TENSORS = (*_DIMS, "indptr", "indices", "q_positions", "num_kv_splits")


def run_decode(kernel: Shipped, call: DecodeCall, memory: Memory | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Partial outputs [.., q_heads, splits, head_dim] and LSE [.., q_heads, splits], all of it in bounds."""
    *queries, heads, head_dim = call.q.shape
    batch, rows = (*queries, 1)[:2]
    splits = call.grid_splits or int(call.num_kv_splits.max())
    if call.partial_out is None:
        call.partial_out = np.full((*queries, heads, splits, head_dim), np.nan, np.float32)
    if call.partial_lse is None:
        call.partial_lse = np.full((*queries, heads, splits), np.nan, np.float32)
    memory = memory or Memory()
    kv_heads = call.k_cache.shape[1]
    group = heads // kv_heads
    values = {"sm_scale": float(call.sm_scale), "window_length": call.window, "group": group, "num_rows": rows}
    for name in _TENSORS:
        if (array := getattr(call, name)) is not None:
            values[name] = place(memory, name, array, writable=name.startswith("partial"))
    for name, (prefix, dims) in _DIMS.items():
        if (array := getattr(call, name)) is not None:
            dims = (dims[0], "row", *dims[1:]) if len(queries) == 2 and dims[0] == "batch" else dims
            values |= strides(prefix, dims, array)
    blocks = -(-rows * group // dict(kernel.variant.candidate.problem.axes)["block_m"])
    kernel.launch((kv_heads * blocks, batch, splits), values, memory)
    return call.partial_out, call.partial_lse


def place(memory: Memory, name: str, array: np.ndarray, *, writable: bool) -> int:
    """The address of an array's first element; what it is a view of is the buffer."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    base = memory.add(name, whole, writable=writable)
    return base + array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]


def strides(prefix: str, dims: tuple[str, ...], array: np.ndarray) -> dict[str, int]:
    """Stride arguments in elements."""
    return {f"{prefix}_stride_{dim}": array.strides[axis] // array.itemsize for axis, dim in enumerate(dims)}


def run_merge(
    kernel: Shipped,
    partial_out: np.ndarray,
    partial_lse: np.ndarray,
    splits: list[int],
    sinks: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Merged output [batch, heads, head_dim] as BF16 codes and LSE [batch, heads]; poisoned first."""
    batch, heads, _, head_dim = partial_out.shape
    out = np.full((batch, heads, head_dim), 0x7FC1, np.uint16)
    lse = np.full((batch, heads), np.nan, np.float32)
    memory = Memory()
    arrays = {
        "partial_out": partial_out,
        "partial_lse": partial_lse,
        "num_kv_splits": np.array(splits, np.int32),
        "out": out,
        "lse": lse,
    }
    if sinks is not None:
        arrays["sinks"] = np.asarray(sinks, np.float32)
    values = {name: place(memory, name, array, writable=name in ("out", "lse")) for name, array in arrays.items()}
    values |= strides("partial", ("batch", "head", "split"), partial_out)
    values |= strides("partial_lse", ("batch", "head", "split"), partial_lse)
    values |= strides("out", ("batch", "head"), out) | strides("lse", ("batch", "head"), lse)
    values |= dict.fromkeys(("partial_stride_row", "partial_lse_stride_row", "out_stride_row", "lse_stride_row"), 0)
    kernel.launch((batch, heads), values, memory)
    return out, lse
