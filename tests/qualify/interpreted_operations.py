"""Runs small kernels with our changes to Triton's interpreter; a process of its own, since Triton chooses at import.

    python -m tests.qualify.interpreted_operations OUTPUT.npz

OUTPUT: an array a name; `refused` and `faults`: what a kernel was stopped with, by operation, as text.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl

from assay.qualify.interpreter_builder import install
from assay.qualify.interpreter_memory import BoundedMemory


@triton.jit
def product(a, b, out, N: tl.constexpr):
    rows = tl.arange(0, N)
    at = rows[:, None] * N + rows[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def convert(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@triton.jit
def widen_codes(codes, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(codes + at).to(tl.float8e4nv, bitcast=True).to(out.dtype.element_ty))


@triton.jit
def add(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) + tl.load(x + at))


@triton.jit
def narrow(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(tl.float8e4nv).to(tl.uint8, bitcast=True))


@triton.jit
def assembly(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,v", [tl.load(x + at)], tl.float32, is_pure=True, pack=1)
    tl.store(out + at, value)


@triton.jit
def copy_range(x, out, first, last, N: tl.constexpr):
    at = first + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at, mask=at < last, other=0.0), mask=at < last)


def run(kernel, *arrays, bf16=(), **arguments):
    """The last array after one program of the kernel; arrays numbered in `bf16` are passed as BF16."""
    BUILDER.memory = BoundedMemory({f"buffer {number}": array for number, array in enumerate(arrays)})
    tensors = [torch.from_numpy(array) for array in arrays]
    tensors = [item.view(torch.bfloat16) if number in bf16 else item for number, item in enumerate(tensors)]
    kernel[(1,)](*tensors, **arguments)
    return arrays[-1]


def message_of(*given, **arguments):
    """What a run was stopped with."""
    try:
        run(*given, **arguments)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        return f"{type(error).__name__}: {error}"
    return "nothing"


def main(output):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0x3F00, 0x4080, (16, 16)).astype(np.uint16) for _ in range(2))
    values = np.concatenate([rng.standard_normal(1016).astype(np.float32) * 1e3, TIES])
    codes = np.arange(256, dtype=np.uint8)
    floats = np.ones(16, np.float32)
    bits = np.ones(16, np.uint16)
    refused = {
        "addition in BF16": message_of(add, bits, bits.copy(), bf16=(0, 1), N=16),
        "FP32 to E4M3FN": message_of(narrow, floats, np.zeros(16, np.uint8), N=16),
        "FP64 to BF16": message_of(convert, np.ones(16), bits, bf16=(1,), N=16),
        "inline assembly": message_of(assembly, floats, floats.copy(), N=16),
    }
    faults = {
        "inside": message_of(copy_range, floats, floats.copy(), first=0, last=16, N=16),
        "masked": message_of(copy_range, floats, floats.copy(), first=0, last=16, N=32),
        "behind": message_of(copy_range, floats, floats.copy(), first=0, last=17, N=32),
        "before": message_of(copy_range, floats, floats.copy(), first=-2, last=16, N=16),
    }
    every_bf16 = np.arange(1 << 16, dtype=np.uint16)
    np.savez(
        output,
        widened=run(convert, every_bf16, np.zeros(1 << 16, np.float32), bf16=(0,), N=1 << 16),
        a=a,
        b=b,
        product=run(product, a, b, np.zeros((16, 16), np.float32), bf16=(0, 1), N=16),
        values=values,
        rounded=run(convert, values, np.zeros(1024, np.uint16), bf16=(1,), N=1024),
        code_bf16=run(widen_codes, codes, np.zeros(256, np.uint16), bf16=(1,), N=256),
        code_f16=run(widen_codes, codes, np.zeros(256, np.float16), N=256),
        code_f32=run(widen_codes, codes, np.zeros(256, np.float32), N=256),
        **{f"refused {name}": np.array(text) for name, text in refused.items()},
        **{f"fault {name}": np.array(text) for name, text in faults.items()},
    )


TIES = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001, 0x80000000], "u4")
TIES = TIES.view(np.float32)
BUILDER = install()

if __name__ == "__main__":
    main(sys.argv[1])
