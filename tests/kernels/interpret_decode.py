"""Runs a rendered decode template in Triton's interpreter: a process of its own, as the interpreter is chosen at import.

python interpret_decode.py SOURCE INPUTS.npz OUTPUTS.npz KERNEL CONSTANT=VALUE...
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import importlib.util

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter


def widen_bf16_dots() -> None:
    """Triton 3.8's interpreter holds BF16 as uint16 and multiplies the bit patterns in a dot; FP32 operands are exact."""
    original = interpreter.InterpreterBuilder.create_dot

    def widened(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self, a, b, *rest):
        return original(self, widened(a), widened(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def main(source: str, inputs: str, outputs: str, kernel: str, constants: list[str]) -> None:
    widen_bf16_dots()
    spec = importlib.util.spec_from_file_location("rendered", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = dict(np.load(inputs))
    tensors = {name: torch.from_numpy(value) for name, value in data.items() if value.ndim}
    for name in ("q", "k_cache", "v_cache"):
        if tensors[name].dtype == torch.float32:
            tensors[name] = tensors[name].to(torch.bfloat16)
    scalars = {name: value.item() for name, value in data.items() if not value.ndim and not name.startswith("grid")}
    grid = tuple(int(data[f"grid{axis}"]) for axis in range(3))
    values = {name: int(value) for name, _, value in (item.partition("=") for item in constants)}
    function = getattr(module, kernel)
    wanted = {name: {**tensors, **scalars}[name] for name in function.arg_names if name not in values}
    function[grid](**wanted, **values)
    np.savez(outputs, out=tensors["partial_out"].numpy(), lse=tensors["partial_lse"].numpy())


if __name__ == "__main__":
    main(*sys.argv[1:5], sys.argv[5:])
