"""Compiling a corpus case for gfx1201 and running it on the emulator."""

from __future__ import annotations

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.emulator import Checks, LaunchResult, Memory, Program

from .case import TYPES, Case

SPECIALISATIONS = ("plain", "aligned", "buffers")


def compile_case(case: Case, specialisation: str):
    """The compiled kernel: nothing promised; 16-byte divisibility; that and buffers below 2 GiB."""
    signature, attributes = {}, {}
    for position, name in enumerate(case.kernel.arg_names):
        if name in case.arrays:
            kind = "bf16" if name in case.bf16 else TYPES[case.arrays[name].dtype.name]
            signature[name] = f"*{kind}"
            if specialisation != "plain":
                attributes[(position,)] = [["tt.divisibility", 16]]
            if specialisation == "buffers":
                attributes[(position,)].append(["tt.pointer_range", 32])
        elif name in case.scalars:
            signature[name] = case.scalar_types.get(name, "i32")
            if specialisation != "plain" and isinstance(case.scalars[name], int) and case.scalars[name] % 16 == 0:
                attributes[(position,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "constexpr"
    constants = {(case.kernel.arg_names.index(name),): value for name, value in case.constants.items()}
    source = ASTSource(case.kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("hip", "gfx1201", 32), options={"num_warps": case.num_warps})


def run_case(case: Case, compiled, checks: Checks | None = None) -> tuple[dict[str, np.ndarray], LaunchResult]:
    """Every array after one launch, and the launch's result."""
    memory, given = Memory(), []
    arrays = {name: array.copy() for name, array in case.arrays.items()}
    outputs = set(case.expected)
    for name in case.kernel.arg_names:
        if name in arrays:
            writable = name in outputs or case.name.startswith(("atomic", "compare"))
            given.append(memory.add(name, arrays[name], writable=writable))
        elif name in case.scalars:
            given.append(case.scalars[name])
    program = Program.load(compiled.asm["hsaco"], where=case.name)
    result = program.launch(
        grid=case.grid,
        num_warps=compiled.metadata.num_warps,
        arguments=given,
        lds_bytes=compiled.metadata.shared,
        memory=memory,
        checks=checks,
    )
    return arrays, result


def mismatch(case: Case, arrays: dict[str, np.ndarray]) -> str:
    """What differs from the expected arrays, or an empty string."""
    for name, expected in case.expected.items():
        got = arrays[name]
        if callable(expected):
            if not expected(got):
                return f"{name}: {got}"
            continue
        expected = np.asarray(expected).reshape(-1)
        flat = got.reshape(-1)
        if case.tolerance == 0:
            same = flat == expected.astype(flat.dtype)
        else:
            wide = flat.astype(np.float64)
            same = np.abs(wide - expected) <= case.tolerance * (1 + np.abs(expected))
        if not same.all():
            where = int(np.argmin(same))
            return f"{name}[{where}] is {flat[where]}, expected {expected[where]} ({int((~same).sum())} differ)"
    return ""
