"""Tensors beyond 4 GiB on a real GPU: every offset that the families compute must have 64 bits."""

import pytest
import torch

from tests.kv import engine as kv
from tests.runtime.decode_inputs import Engine, assert_close

# More bytes than 32 bits count, and for BF16 more elements than 31 bits do.
BEYOND = (1 << 32) + (1 << 26)


class Spread:
    """Tensors of one type side by side in one block, their first axes so far apart that the last rows lie beyond."""

    def __init__(self, *tensors):
        size = sum(tensor[0].numel() for tensor in tensors)
        apart = max(-(-BEYOND // tensors[0].element_size() // (len(tensors[0]) - 1)), size)
        # Rows at multiples of 256 bytes; the block ends with whole 64-bit words.
        self.step = -(-apart // 256) * 256
        rows = max(len(tensor) for tensor in tensors)
        self.block = torch.zeros(rows * self.step, dtype=tensors[0].dtype, device="cuda")
        self.views, start = [], 0
        for tensor in tensors:
            view = self.block.as_strided(tensor.shape, (self.step, *tensor.stride()[1:]), start)
            self.views.append(view.copy_(tensor))
            start += tensor[0].numel()
        assert (rows - 1) * self.step * tensors[0].element_size() > 1 << 32

    def between_is_zero(self):
        """Whether nothing was written but into the tensors; their rows are zero afterwards."""
        for view in self.views:
            view.zero_()
        return not self.block.view(torch.int64).any()


def spread(tensors, *groups):
    """The tensors on the GPU, those of a group far apart in one block; and the blocks."""
    blocks = {group: Spread(*(tensors[name] for name in group)) for group in groups if group[0] in tensors}
    given = {name: item.cuda() if isinstance(item, torch.Tensor) else item for name, item in tensors.items()}
    for group, block in blocks.items():
        given |= dict(zip(group, block.views, strict=True))
    return given, blocks


@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("kv_format", ["bf16", "fp8_per_token_head", "int8_per_token_head"])
def test_rows_are_stored_and_reconstructed_beyond_four_gib(kernels, kv_format, slot_dtype):
    engine = kv.Engine(kv_format, slots=(8, 0, 5, -1, 7), slot_dtype=slot_dtype)
    caches, scales = ("k_cache", "v_cache"), ("k_scale", "v_scale")
    given, blocks = spread(engine.tensors, caches, scales, ("k", "v"))
    kernels.kv_store(**given)
    for name in (*caches, *scales):
        if name in given:
            engine.tensors[name].copy_(given[name])
    engine.check_stored()
    assert given.pop("k").equal(engine.tensors["k"].cuda())
    assert given.pop("v").equal(engine.tensors["v"].cuda())
    del blocks["k", "v"]

    wanted = {f"{name}_out": torch.zeros_like(engine.tensors[name]) for name in "kv"}
    outs, out_blocks = spread(wanted, ("k_out", "v_out"))
    kernels.kv_reconstruct(**{name: given.get(name) for name in (*caches, *scales, "slots")}, **outs)
    for name in "kv":
        codes, scale = engine.stored(name)
        codes = codes.view(torch.float8_e4m3fn) if codes.dtype == torch.uint8 else codes
        values = codes if scale is None else (codes.float() * scale[..., None]).to(torch.bfloat16)
        wanted[f"{name}_out"] = values.where((engine.tensors["slots"] >= 0)[:, None, None], torch.zeros_like(values))
        assert kv.bits(outs[f"{name}_out"].cpu()).equal(kv.bits(wanted[f"{name}_out"]))
    assert all(block.between_is_zero() for block in (*blocks.values(), *out_blocks.values()))


@pytest.mark.parametrize("fp8", [True, False])
def test_a_decode_call_reads_slots_beyond_four_gib(kernels, fp8):
    engine = Engine(fp8=fp8, head_dim=128, gqa=4, lengths=(300, 1, 0, 33))
    tensors = {"k": engine.k, "v": engine.v, **engine.scales}
    given, _ = spread(tensors, ("k", "v"), ("k_scale", "v_scale"))
    q, _, _, *rest = (item.cuda() if isinstance(item, torch.Tensor) else item for item in engine.arguments)
    out = kernels.decode_attention(q, given.pop("k"), given.pop("v"), *rest, **given)
    assert_close(out.cpu(), engine.attention()[0])


@pytest.mark.parametrize("window", [None, 90])
def test_prefill_reads_and_writes_rows_beyond_four_gib(kernels, window):
    generator = torch.Generator().manual_seed(0)
    histories, chunks, gqa, kv_heads = [150, 0, 37], [70, 1, 0], 4, 2
    tokens, rows = (sum(chunks), kv_heads, 128), (sum(histories), kv_heads, 128)
    sizes = {"k_new": tokens, "v_new": tokens, "k_hist": rows, "v_hist": rows, "q": (tokens[0], kv_heads * gqa, 128)}
    tensors = {name: torch.randn(size, generator=generator).to(torch.bfloat16) for name, size in sizes.items()}
    expected = _prefill(tensors, histories, chunks, window)
    for name, counts in (("q_indptr", chunks), ("hist_indptr", histories)):
        tensors[name] = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
    tensors["out"] = torch.zeros_like(tensors["q"])
    given, blocks = spread(tensors, ("k_hist", "v_hist"), ("q", "k_new", "v_new", "out"))
    first = [given.pop(name) for name in ("q", "k_new", "v_new", "q_indptr")]
    out = kernels.extend_attention(*first, 128**-0.5, max_chunk=max(chunks), sliding_window=window, **given)
    assert_close(out.cpu(), expected)
    assert all(block.between_is_zero() for block in blocks.values())


def _prefill(tensors, histories, chunks, window):
    """FP64 attention of every new token over its history and its chunk up to itself, from torch."""
    out = torch.zeros(tensors["q"].shape, dtype=torch.float64)
    heads = torch.arange(out.shape[1]) // (out.shape[1] // tensors["k_new"].shape[1])
    hist, new = 0, 0
    for history, chunk in zip(histories, chunks, strict=True):
        for at in range(chunk):
            k, v = (
                torch.cat([tensors[f"{n}_hist"][hist : hist + history], tensors[f"{n}_new"][new : new + at + 1]])
                .double()[-(window or 1 << 30) :, heads]
                for n in "kv"
            )  # fmt: skip
            scores = torch.einsum("hd,nhd->hn", tensors["q"][new + at].double(), k) * 128**-0.5
            out[new + at] = torch.einsum("hn,nhd->hd", scores.softmax(1), v)
        hist, new = hist + history, new + chunk
    return out
