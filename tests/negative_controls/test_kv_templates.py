"""The kv templates made wrong on purpose: every one compiles, and the emulated gate notices what it computes."""

import pytest

from .kernels import sampled
from .test_templates import noticed  # noqa: F401 - a fixture

STORE = {
    "family": "kv_store", "kv_format": "fp8_per_token_head", "slot_dtype": "i64", "most_head_dim": 64, "alignment": 16
}  # fmt: skip
STORE_INT8 = {**STORE, "kv_format": "int8_per_token_head"}
RECONSTRUCT = {**STORE, "family": "kv_reconstruct"}
GATHER = {**RECONSTRUCT, "kv_format": "bf16"}

STORE_MUTATIONS = {
    "no floor": ("tl.maximum(tl.max(tl.abs(values), 1), LEAST)", "tl.max(tl.abs(values), 1)"),
    "a higher floor": ("* 2.0**-126)", "* 2.0**-125)"),
    "the usual floor of 1e-12": ("* 2.0**-126)", "* 2.3e-15)"),
    "no ceiling": (", LEAST), MOST)", ", LEAST), 3.4028234663852886e38)"),
    "magnitude of signed numbers": ("tl.max(tl.abs(values), 1)", "tl.max(values, 1)"),
    "scale and factor exchanged": ("[:, None]), tl.div_rn(largest, code_of_one)", "[:, None]), 1.0 / largest"),
    "codes by the scale's reciprocal": (
        "values * tl.div_rn(code_of_one, largest)[:, None]",
        "tl.div_rn(values, tl.div_rn(largest, code_of_one)[:, None] + tl.zeros_like(values))",
    ),
    "ties away from zero": (
        "steps = (magnitude + anchor.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True) - anchor",
        "steps = (magnitude * 1.0000001 + anchor.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True) - anchor",
    ),
    "subnormal codes one binade off": ("121 << 23)\n", "122 << 23)\n"),
    "no saturation": ("tl.minimum(tl.abs(numbers), LARGEST_CODE)", "tl.abs(numbers)"),
    "saturation one code early": ("tl.minimum(tl.abs(numbers), LARGEST_CODE)", "tl.minimum(tl.abs(numbers), 416.0)"),
    "sign of zero lost": ("code | sign", "tl.where(code == 0, 0, code | sign)"),
    "NaN as the largest code": ("code | sign, 0x7F)", "code | sign, 0x7E)"),
    "NaN takes its sign": ("code | sign, 0x7F)", "code | sign, 0x7F | sign)"),
    "slot 0 skipped": ("slot >= 0", "slot > 0"),
    "padding written": ("(slot >= 0) & ", ""),
    "slots behind the cache written": (" & (slot < slot_count)", ""),
    "the slot behind the last one written": ("slot < slot_count", "slot <= slot_count"),
    "low halves of slots": ("other=-1).to(tl.int64)", "other=-1).to(tl.int32).to(tl.int64)"),
    "one token too many": ("mask=token < token_count", "mask=token <= token_count"),
    "last token dropped": ("mask=token < token_count", "mask=token < token_count - 1"),
    "columns behind the row": ("(column < head_dim)[None, :]", "(column < BLOCK_D)[None, :]"),
    "every head is the first": ("program % kv_head_count)", "program % kv_head_count * 0)"),
    "scales of V for K": ("head * k_scale_stride_head, k_scales", "head * k_scale_stride_head, v_scales"),
    "rows of V for K": ("k_codes, k_scales = quantised(k_rows)", "k_codes, k_scales = quantised(v_rows)"),
    "stride of K's tokens for V": ("token * v_stride_token", "token * v_stride_head * kv_head_count"),
    "scales without slots": ("k_scales, mask=is_stored)", "k_scales, mask=token < token_count)"),
}
INT8_MUTATIONS = {
    "truncated": (
        "(limited + 12582912.0).to(tl.int32, bitcast=True)",
        "limited.to(tl.int32)",
    ),
    "ties away from zero": ("(limited + 12582912.0)", "(limited * 1.0000001 + 12582912.0)"),
    "no upper limit": ("tl.minimum(tl.maximum(numbers, -LARGEST_CODE), LARGEST_CODE)", "tl.maximum(numbers, -127.0)"),
    "one wrap more": ("-LARGEST_CODE), LARGEST_CODE)", "-LARGEST_CODE), 128.0)"),
    "NaN as a number": ("tl.where(numbers == numbers, rounded, 0)", "rounded"),
}
RECONSTRUCT_MUTATIONS = {
    "truncated": ("(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16", "bits >> 16"),
    "ties away from zero": ("(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16", "(bits + 0x8000) >> 16"),
    "NaN of the arithmetic": ("tl.where(product == product, rounded, 0x7FFF)", "rounded"),
    "NaN codes as 480": ('tl.where(magnitude == 0x7F, float("nan"), value)', "value"),
    "subnormal codes as normal ones": ("tl.where(magnitude < 8, value * 2.0 - 0.015625, value)", "value"),
    "one subnormal code too few": ("magnitude < 8", "magnitude < 7"),
    "sign lost": (" | (code >> 7 << 31)", ""),
    "scale of the next slot": ("k_scale + slot * ", "k_scale + (slot ^ 1) * "),
    "scale of V for K": ("reconstructed(k_rows, k_scales)", "reconstructed(k_rows, v_scales)"),
    "skipped rows written": ("is_element = is_listed[:, None]", "is_element = (token < token_count)[:, None]"),
    "slots behind the cache read": (" & (slot < slot_count)", ""),
    "rows by slot": ("token * k_out_stride_token", "slot * k_out_stride_token"),
}
GATHER_MUTATIONS = {
    "NaN as zero": ('else "k_rows" }}', 'else "tl.where(k_rows == k_rows, k_rows, 0.0)" }}'),
    "rows of V for K": ('else "k_rows" }}', 'else "v_rows" }}'),
    "sign of zero lost": ('else "v_rows" }}', 'else "tl.where(v_rows == 0.0, 0.0, v_rows)" }}'),
    "skipped rows written": ("is_element = is_listed[:, None]", "is_element = (token < token_count)[:, None]"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "old", "new"),
    [
        pytest.param(axes, *change, id=f"{axes['family']} {axes['kv_format'][:4]} {name}")
        for axes, changes in (
            (STORE, STORE_MUTATIONS), (STORE_INT8, INT8_MUTATIONS), (RECONSTRUCT, RECONSTRUCT_MUTATIONS),
            (GATHER, GATHER_MUTATIONS),
        )
        for name, change in sampled(changes).items()
    ],
)  # fmt: skip
def test_a_wrong_kv_kernel_is_noticed(noticed, axes, old, new):  # noqa: F811
    found = noticed(axes, old, new)
    assert found
    assert not found[0].startswith("load:")
