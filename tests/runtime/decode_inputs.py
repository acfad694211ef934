"""Inputs of a whole decode call as a serving engine holds them, and torch's own attention as the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Engine:
    """A paged cache and a batch of requests.  k, v: BF16, or E4M3FN codes with scales; indices: scattered slots."""

    lengths: tuple[int, ...] = (70, 1, 0, 33)
    head_dim: int = 64
    gqa: int = 2
    kv_heads: int = 2
    fp8: bool = True
    positions: tuple[int, ...] | None = None
    seed: int = 0
    q: torch.Tensor = field(init=False)
    k: torch.Tensor = field(init=False)
    v: torch.Tensor = field(init=False)
    scales: dict[str, torch.Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        keys = sum(self.lengths)
        slots = keys + 9
        self.q = torch.randn(len(self.lengths), self.kv_heads * self.gqa, self.head_dim, generator=generator)
        self.q = self.q.to(torch.bfloat16)
        size = (slots, self.kv_heads, self.head_dim)
        self.k, self.v = (torch.randn(size, generator=generator).to(torch.bfloat16) for _ in range(2))
        self.indices = torch.randperm(slots, generator=generator)[:keys].to(torch.int32)
        self.indptr = torch.tensor([0, *torch.tensor(self.lengths).cumsum(0).tolist()], dtype=torch.int32)
        last = self.positions or tuple(length - 1 for length in self.lengths)
        self.q_positions = torch.tensor(last, dtype=torch.int64)
        if self.fp8:
            for name in ("k", "v"):
                rows = getattr(self, name).float()
                scale = rows.abs().amax(-1) / 448
                setattr(self, name, (rows / scale[..., None]).to(torch.float8_e4m3fn).view(torch.uint8))
                self.scales[f"{name}_scale"] = scale

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Positional arguments of `decode_attention`."""
        return self.q, self.k, self.v, self.indptr, self.indices, self.q_positions, self.head_dim**-0.5

    def rows(self, name: str) -> torch.Tensor:
        """A cache's values in FP64."""
        rows = getattr(self, name)
        if not self.fp8:
            return rows.double()
        return rows.view(torch.float8_e4m3fn).double() * self.scales[f"{name}_scale"][..., None].double()

    def attention(
        self, window: int | None = None, sinks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """FP64 output [batch, q_heads, head_dim] and LSE [batch, q_heads], from torch."""
        out = torch.zeros(self.q.shape, dtype=torch.float64)
        lse = torch.full(self.q.shape[:2], -torch.inf, dtype=torch.float64)
        heads = torch.arange(self.q.shape[1]) // self.gqa
        for request in range(len(self.lengths)):
            slots = self.indices[self.indptr[request] : self.indptr[request + 1]].long()
            end = int(self.q_positions[request]) + 1
            visible = slots[:end][max(0, end - window) if window else 0 :]
            if not len(visible):
                continue
            k, v = (self.rows(name)[visible][:, heads] for name in ("k", "v"))
            scores = torch.einsum("hd,nhd->hn", self.q[request].double(), k) * self.head_dim**-0.5
            terms = scores if sinks is None else torch.cat([scores, sinks[:, None].double()], 1)
            lse[request] = torch.logsumexp(terms, 1)
            out[request] = torch.einsum("hn,nhd->hd", torch.exp(scores - lse[request][:, None]), v)
        return out, lse


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """The numerical gate of the decode family."""
    torch.testing.assert_close(actual.double(), expected, atol=0.002, rtol=0.02)
