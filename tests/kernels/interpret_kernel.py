"""Runs a rendered template in Triton's interpreter, chosen when triton is imported: hence a process of its own.

    python interpret_kernel.py SOURCE INPUTS.npz OUTPUTS.npz KERNEL CONSTANT=VALUE...

INPUTS: arrays by argument name (float32 named in `bf16` are passed as BF16), zero-dimensional scalars, grid0..grid2.
OUTPUTS: every array after the run, BF16 as float32.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import importlib.util

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


def widen_bf16_dots() -> None:
    """Triton 3.8's interpreter multiplies BF16 bit patterns in a dot (docs/findings); FP32 operands are exact."""
    original = interpreter.InterpreterBuilder.create_dot

    def widened(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self, a, b, *rest):
        return original(self, widened(a), widened(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def ignore_waits() -> None:
    """Programs run one after the other here: what orders a kernel behind the one before it has nothing to do."""
    for name in ("gdc_wait", "gdc_launch_dependents"):
        setattr(tl.extra.cuda, name, lambda **_: None)


@triton.jit
def first_codes(pairs):
    return (pairs & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16)


@triton.jit
def second_codes(pairs):
    return (pairs >> 8).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16)


def replace_assembly(module) -> None:
    """The interpreter refuses inline assembly: the templates' helpers that consist of it get their meaning instead."""
    for helper in (first_codes, second_codes):
        if hasattr(module, helper.fn.__name__):
            setattr(module, helper.fn.__name__, helper)


def main(source: str, inputs: str, outputs: str, kernel: str, constants: list[str]) -> None:
    widen_bf16_dots()
    ignore_waits()
    spec = importlib.util.spec_from_file_location("rendered", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    replace_assembly(module)
    data = dict(np.load(inputs))
    as_bf16 = data.pop("bf16").tolist()
    tensors = {name: torch.from_numpy(value) for name, value in data.items() if value.ndim}
    tensors |= {name: tensors[name].to(torch.bfloat16) for name in as_bf16}
    scalars = {name: value.item() for name, value in data.items() if not value.ndim and not name.startswith("grid")}
    grid = tuple(int(data[f"grid{axis}"]) for axis in range(3))
    values = {name: int(value) for name, _, value in (item.partition("=") for item in constants)}
    function = getattr(module, kernel)
    wanted = {name: {**tensors, **scalars}[name] for name in function.arg_names if name not in values}
    function[grid](**wanted, **values)
    kept = {name: t.float() if t.dtype == torch.bfloat16 else t for name, t in tensors.items()}
    np.savez(outputs, **{name: tensor.numpy() for name, tensor in kept.items()})


if __name__ == "__main__":
    main(*sys.argv[1:5], sys.argv[5:])
