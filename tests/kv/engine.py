"""New rows and a paged cache as a serving engine holds them, and torch's own conversions as the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

LARGEST = {"fp8_per_token_head": 448.0, "int8_per_token_head": 127.0}


@dataclass
class Engine:
    """k, v: [tokens, kv_heads, head_dim] BF16; caches hold 0x55 everywhere, scales NaN."""

    kv_format: str = "fp8_per_token_head"
    slots: tuple[int, ...] = (6, 1, 3)
    capacity: int = 9
    kv_heads: int = 2
    head_dim: int = 128
    slot_dtype: torch.dtype = torch.int32
    seed: int = 0
    tensors: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        rows, cache = ((count, self.kv_heads, self.head_dim) for count in (len(self.slots), self.capacity))
        for name in ("k", "v"):
            self.tensors[name] = torch.randn(rows, generator=generator).to(torch.bfloat16)
            filled = torch.full(cache, 0x55, dtype=torch.uint8)
            if self.kv_format == "bf16":
                filled = filled.to(torch.int16).view(torch.bfloat16)
            if self.kv_format == "int8_per_token_head":
                filled = filled.view(torch.int8)
            self.tensors[f"{name}_cache"] = filled
            if self.kv_format != "bf16":
                self.tensors[f"{name}_scale"] = torch.full(cache[:2], float("nan"))
        self.tensors["slots"] = torch.tensor(self.slots, dtype=self.slot_dtype)

    def stored(self, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What k or v must be as codes and scales [tokens, kv_heads], from torch's division and casts."""
        rows = self.tensors[name]
        if self.kv_format == "bf16":
            return rows, None
        largest = torch.tensor(LARGEST[self.kv_format])
        magnitude = rows.float().abs().amax(-1)
        numbers = rows.float() * (largest / magnitude)[..., None]
        if self.kv_format == "int8_per_token_head":
            return numbers.round().clamp(-127, 127).to(torch.int8), magnitude / largest
        return numbers.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8), magnitude / largest

    def check_stored(self) -> None:
        """Rows of the slots as `stored` says, all others as they were."""
        untouched = Engine(
            self.kv_format, self.slots, self.capacity, self.kv_heads, self.head_dim, self.slot_dtype, self.seed
        )
        for name in ("k", "v"):
            codes, scales = self.stored(name)
            expected = {f"{name}_cache": untouched.tensors[f"{name}_cache"]}
            if scales is not None:
                expected[f"{name}_scale"] = untouched.tensors[f"{name}_scale"]
            for token, slot in enumerate(self.slots):
                if 0 <= slot < self.capacity:
                    expected[f"{name}_cache"][slot] = codes[token]
                    if scales is not None:
                        expected[f"{name}_scale"][slot] = scales[token]
            for tensor, wanted in expected.items():
                assert bits(self.tensors[tensor]).equal(bits(wanted)), tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as integers of its width, so that NaN equals itself."""
    return tensor.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])
