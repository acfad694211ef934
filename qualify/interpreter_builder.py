"""Triton's interpreter with what it does wrong put right, or refused by name.

docs/findings/interpreter-bf16-dot.md says what Triton 3.8's does with BF16 and E4M3FN, which it holds as integers.
Right here: loads and stores (with bounds), selections, tl.dot, FP32 to BF16 to nearest even, E4M3FN to wider types with
NaN.  Everything else on these types, inline assembly and external functions raise NotInterpretable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from .interpreter_memory import BoundedMemory

_NAN = {tl.bfloat16: np.uint16(0x7FC0), tl.float16: np.float16(np.nan), tl.float32: np.float32(np.nan)}


# Of programmatic dependent launch.  One kernel runs after the other here: there is nothing to wait for.
_WAITS = ("gdc_wait", "gdc_launch_dependents")


class NotInterpretable(Exception):
    """The interpreter cannot run this kernel, or not rightly; the text says why."""


class StrictBuilder(InterpreterBuilder):
    """What the interpreter makes of each operation.  memory: what the kernel may touch, set before each launch."""

    memory = BoundedMemory({})

    def create_masked_load(self, ptrs: Any, mask: Any, *rest: Any) -> Any:
        self._check("read", ptrs, mask.data)
        return super().create_masked_load(ptrs, mask, *rest)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        self._check("write", ptrs, mask.data)
        return super().create_masked_store(ptrs, value, mask, *rest)

    def create_atomic_cas(self, ptr: Any, *rest: Any) -> Any:
        self._check("write", ptr, np.True_)
        return super().create_atomic_cas(ptr, *rest)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        _refuse_narrow("an atomic operation", val)
        self._check("write", ptr, mask.data)
        return super().create_atomic_rmw(op, ptr, val, mask, *rest)

    def create_dot(self, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        _refuse_narrow("the accumulator of a product", d)
        return super().create_dot(self._widened(a), self._widened(b), d, *rest)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        source, wanted = src.dtype.scalar, dst_type.scalar
        if wanted == tl.bfloat16:
            # Integers of eight bits are BF16 numbers, such as the 0 of a masked load.
            if source.is_int() and (np.abs(src.data.astype(np.int64)) <= 256).all():
                return TensorHandle(_nearest_bf16(src.data.astype(np.float32)), wanted)
            if source != tl.float32:
                raise NotInterpretable(f"a conversion from {source} to bf16")
            return TensorHandle(_nearest_bf16(src.data), wanted)
        if source == tl.bfloat16 and wanted == tl.float32:
            return TensorHandle(_widened_bf16(src.data), wanted)
        return super().cast_impl(src, dst_type)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        source, wanted = src.dtype.scalar, dst_type.scalar
        if source != tl.float8e4nv or wanted not in _NAN:
            raise NotInterpretable(f"a conversion from {source} to {wanted}")
        converted = super().create_fp_to_fp(src, dst_type, rounding_mode)
        is_nan = (src.data & 0x7F) == 0x7F
        return TensorHandle(np.where(is_nan, _NAN[wanted], converted.data), wanted)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        _refuse_narrow("arithmetic", lhs, rhs)
        return super().binary_op(lhs, rhs, op)

    def unary_op(self, arg: Any, op: Any) -> Any:
        _refuse_narrow("arithmetic", arg)
        return super().unary_op(arg, op)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        _refuse_narrow("arithmetic", x, y, z)
        return super().create_fma(x, y, z)

    def create_clampf(self, arg: Any, *rest: Any) -> Any:
        _refuse_narrow("arithmetic", arg)
        return super().create_clampf(arg, *rest)

    def create_inline_asm(self, *_: Any) -> Any:
        raise NotInterpretable("inline assembly")

    def create_extern_elementwise(self, _library: Any, _path: Any, symbol: str, *_: Any) -> Any:
        raise NotInterpretable(f"the external function {symbol}")

    def _check(self, access: str, pointers: Any, mask: Any) -> None:
        bits = pointers.get_element_ty().primitive_bitwidth
        self.memory.check(access, pointers.data, mask, max(1, bits // 8))

    def _widened(self, operand: Any) -> Any:
        """FP32 holds every BF16 and E4M3FN value, and the product of two is exact in it."""
        if operand.dtype.scalar == tl.bfloat16:
            return self.cast_impl(operand, tl.float32)
        return self.create_fp_to_fp(operand, tl.float32, None) if _is_narrow(operand) else operand


def _is_narrow(handle: Any) -> bool:
    scalar = handle.dtype.scalar
    return scalar == tl.bfloat16 or scalar.is_fp8()


def _refuse_narrow(what: str, *handles: Any) -> None:
    for handle in handles:
        if _is_narrow(handle):
            raise NotInterpretable(f"{what} in {handle.dtype.scalar}, which Triton's interpreter does on bit patterns")


def _nearest_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Ties to even; NaN stays NaN, quiet."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), (bits >> 16).astype(np.uint16) | np.uint16(0x40), rounded)


def _widened_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact, subnormal numbers too.  NaN is made quiet: of a signalling one and a number, glibc's fmax is NaN."""
    quiet = np.where((bits & 0x7FFF) > 0x7F80, bits | 0x40, bits)
    return np.ascontiguousarray(quiet.astype(np.uint32) << 16).view(np.float32)


def install() -> StrictBuilder:
    """Make it this process's interpreter.  Must come before the first kernel runs: Triton keeps what it finds then."""
    builder = StrictBuilder()
    interpreter.interpreter_builder = builder
    interpreter.interpreter_semantic = TritonSemantic(builder)
    interpreter._patch_lang = _patching_once(interpreter._patch_lang)
    for name in _WAITS:
        setattr(tl.extra.cuda, name, lambda: None)
    return builder


def _patching_once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Triton puts its interpreted functions into triton.language at every call of every function, a third of the time.

    This process does nothing else, so they may stay.
    """
    patched: set[int] = set()

    def patch_once(function: Any) -> Any:
        modules = {id(value) for value in function.__globals__.values() if value is tl or value is tl.core}
        if not modules <= patched:
            patch(function)
            patched.update(modules)
        return interpreter._LangPatchScope()

    return patch_once
