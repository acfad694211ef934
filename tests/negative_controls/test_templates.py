"""Templates made wrong on purpose: every one compiles, and the emulated gate notices what it computes."""

import functools
import shutil

import pytest

from assay.qualify.emulation import emulate_in_worker
from tests.specs import SHIPPED, edit

from .extend_mutations import EXTEND_MUTATIONS
from .kernels import DECODE, EXTEND, MERGE, QUERIES, UNSPLIT, compiled, sampled

# What the kernels under test are rendered from, by family.
TEMPLATES = {
    "decode_attention": ("templates/decode_attention.py.j2", "templates/attention_bf16.j2"),
    "decode_attention_unsplit": ("templates/decode_attention_unsplit.py.j2", "templates/decode_attention.py.j2"),
    "merge_splits": ("templates/merge_splits.py.j2",),
    "kv_store": ("templates/kv_store.py.j2", "templates/kv_codes.j2"),
    "kv_reconstruct": ("templates/kv_reconstruct.py.j2", "templates/kv_codes.j2"),
    "extend_attention": ("templates/extend_attention.py.j2",),
}

KEY_SCALE = "tl.load(k_scale + slots * k_scale_stride_slot + kv_head * k_scale_stride_head,"
VALUE_SCALE = "tl.load(v_scale + slots * v_scale_stride_slot + kv_head * v_scale_stride_head,"
WINDOW_START = "visible_start = tl.maximum(position - window_length + 1, 0)"
VISIBLE_END = "visible_end = tl.minimum(key_count, position + 1)"
DECODE_MUTATIONS = {
    "sm_scale dropped": ("score_scale = sm_scale * LOG2_E", "score_scale = LOG2_E"),
    "scores in base e": ("score_scale = sm_scale * LOG2_E", "score_scale = sm_scale"),
    "key scale for values": (VALUE_SCALE, KEY_SCALE),
    "value scale for keys": (KEY_SCALE, VALUE_SCALE),
    "key scale of the next slot": ("k_scale + slots *", "k_scale + (slots + 1) *"),
    "value scale of the next slot": ("v_scale + slots *", "v_scale + (slots + 1) *"),
    "key scale of the first head": ("+ kv_head * k_scale_stride_head", "+ 0 * k_scale_stride_head"),
    "value scale of the first head": ("+ kv_head * v_scale_stride_head", "+ 0 * v_scale_stride_head"),
    "window one key longer": (WINDOW_START, "visible_start = tl.maximum(position - window_length, 0)"),
    "window one key shorter": (WINDOW_START, "visible_start = tl.maximum(position - window_length + 2, 0)"),
    "its own key not visible": (VISIBLE_END, "visible_end = tl.minimum(key_count, position)"),
    "the key after it visible": (VISIBLE_END, "visible_end = tl.minimum(key_count, position + 2)"),
    "position ignored": (VISIBLE_END, "visible_end = key_count"),
    "window before the first key": (WINDOW_START, "visible_start = position - window_length + 1"),
    "first index of the request dropped": ("indices + first_index + keys", "indices + keys"),
    "scores behind the last key": (
        'scores = tl.where(is_key[None, :], scores, float("-inf"))',
        "scores = scores",
    ),
    "indices behind the last key": (
        "indices + first_index + keys, mask=is_key, other=0)",
        "indices + first_index + keys)",
    ),
    "split reaches into the next": ("is_key = keys < split_end", "is_key = keys < visible_end"),
    "split one key shorter": ("is_key = keys < split_end", "is_key = keys < split_end - 1"),
    "last split not cut": (
        "tl.minimum(split_start + split_keys, visible_end)",
        "split_start + split_keys",
    ),
    "half the granule": ("SPLIT_GRANULE = tl.constexpr(32)", "SPLIT_GRANULE = tl.constexpr(16)"),
    "twice the granule": ("SPLIT_GRANULE = tl.constexpr(32)", "SPLIT_GRANULE = tl.constexpr(64)"),
    "queries without head mask": ("dims[None, :], mask=in_row, other=0.0)", "dims[None, :])"),
    "outputs without head mask": ("dims[None, :], out, mask=in_row)", "dims[None, :], out)"),
    "LSE without head mask": ("lse_rows, lse, mask=is_row)", "lse_rows, lse)"),
    "padded group in the head's number": ("kv_head * group + query_rows)", "kv_head * BLOCK_M + query_rows)"),
    "KV head not times the group": ("kv_head * group + query_rows)", "kv_head + query_rows)"),
    "LSE in base two": ("(row_max + tl.log2(row_sum)) * LN_2", "row_max + tl.log2(row_sum)"),
    "LSE half in base two": ("(row_max + tl.log2(row_sum)) * LN_2", "row_max + tl.log(row_sum)"),
    "split without keys not zero": (
        "tl.where(has_keys, acc / tl.where(has_keys, row_sum, 1.0)[:, None], 0.0)",
        "acc / row_sum[:, None]",
    ),
    "LSE of a split without keys": ('* LN_2, float("-inf"))', "* LN_2, 0.0)"),
    "sum not rescaled": ("row_sum * rescale + tl.sum", "row_sum + tl.sum"),
    "output not rescaled": ("v, acc * rescale[:, None])", "v, acc)"),
    "key count ignored": (VISIBLE_END, "visible_end = position + 1"),
    "value scales behind the last key": (
        f"{VALUE_SCALE} mask=is_key, other=0.0)",
        f"{VALUE_SCALE} mask=keys >= 0, other=0.0)",
    ),
    "a logarithm one per cent off": ("LN_2 = tl.constexpr(0.6931471805599453)", "LN_2 = tl.constexpr(0.686)"),
    "no more than 288 keys of a split": (
        "tl.range(split_start, split_end, BLOCK_N)",
        "tl.range(split_start, tl.minimum(split_end, split_start + 288), BLOCK_N)",
    ),
    "maximum that starts at zero": (
        'row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)',
        "row_max = tl.zeros([BLOCK_M], tl.float32)",
    ),
    "KV heads counted modulo two": ("kv_head * group + query_rows)", "(kv_head & 1) * group + query_rows)"),
    "maximum of the last tile only": ("tl.maximum(row_max, tl.max(scores, 1))", "tl.max(scores, 1)"),
}
QUERIES_MUTATIONS = {
    "cap dropped": ("capped(scores * sm_scale, logit_cap) * LOG2_E", "scores * sm_scale * LOG2_E"),
    "cap twice as large": ("capped(scores * sm_scale, logit_cap)", "capped(scores * sm_scale, 2 * logit_cap)"),
    "cap in base two": ("capped(scores * sm_scale, logit_cap) * LOG2_E", "capped(scores * sm_scale, logit_cap)"),
    "queries see what the last one does": ("row_end = tl.minimum(key_count, position + 1)", "row_end = visible_end"),
    "the key after each query visible": ("row_end = tl.minimum(key_count, position + 1)", "row_end = position + 2"),
    "window of the first query": (
        "row_start = tl.maximum(position - window_length + 1, 0)",
        "row_start = visible_start",
    ),
    "position of the first query": (
        "request * num_rows + row, mask=is_row",
        "request * num_rows + 0 * row, mask=is_row",
    ),
    "positions of the first request": ("tl.load(q_positions + request * num_rows + row", "tl.load(q_positions + row"),
    "rows of another group": ("row = query_rows // group", "row = query_rows // (group + 1)"),
    "heads counted on over the queries": ("group + query_rows - row * group)", "group + query_rows)"),
    "every block the first": ("% blocks * BLOCK_M + tl.arange", "% blocks * 0 + tl.arange"),
    "blocks taken for KV heads": ("kv_head = tl.program_id(0) // blocks", "kv_head = tl.program_id(0)"),
    "queries behind the request's last": ("is_row = row < num_rows", "is_row = row < 8"),
    "row stride of the queries dropped": ('" + row * q_stride_row"', '" + row * q_stride_head"'),
    "a split without keys of one query not zero": (
        "< tl.minimum(split_end, row_end)",
        "< tl.minimum(split_end, row_end + 4096)",
    ),
}
# What is its own in the kernel that does not split; the rest is stage 1's.
UNSPLIT_MUTATIONS = {
    "sink dropped from the output": ("    out = out * (1.0 / (1.0 + tl.exp2(sink - denominator)))[:, None]\n", ""),
    "sink twice in the output": ("(1.0 + tl.exp2(sink - denominator))", "(1.0 + 2.0 * tl.exp2(sink - denominator))"),
    "sink dropped from the LSE": ("+ tl.exp2(sink - top))", ")"),
    "sink in base e": ("mask=is_row, other=0.0) * LOG2_E", "mask=is_row, other=0.0)"),
    "sink of the first head": ("tl.load(sinks + heads,", "tl.load(sinks + 0 * heads,"),
    "sinks of the first KV head": ("tl.load(sinks + heads,", "tl.load(sinks + query_rows,"),
    "nothing subtracted for the sink": ("top = tl.maximum(denominator, sink)", "top = tl.zeros_like(sink)"),
    "LSE in base two": ("denominator * LN_2", "denominator"),
    "LSE of a request without keys": ('* LN_2, float("-inf"))', "* LN_2, 0.0)"),
    "sum dropped from the LSE": ("denominator = row_max + tl.log2(row_sum)", "denominator = row_max"),
    "keys before the window": ("split_start = visible_start", "split_start = 0"),
    "last key left out": ("split_end = visible_end", "split_end = visible_end - 1"),
    "outputs without head mask": ("dims[None, :], out, mask=in_row)", "dims[None, :], out)"),
    "LSE without head mask": ("lse_rows, lse, mask=is_row)", "lse_rows, lse)"),
    "stride of the LSE's heads ignored": ("heads * lse_stride_head", "heads"),
    "stride of the requests taken for the heads'": ("heads * out_stride_head", "heads * out_stride_batch"),
}
MERGE_MUTATIONS = {
    "base two for the weights": ("sums += tl.exp(split_lse - pivot)", "sums += tl.exp2(split_lse - pivot)"),
    "base two for the sum": ("tl.sum(tl.exp(every_lse - pivot), 0)", "tl.sum(tl.exp2(every_lse - pivot), 0)"),
    "base two for the sink": ("tl.exp(sink - new_top), 0.0)", "tl.exp2(sink - new_top), 0.0)"),
    "base two for the LSE": ("top + tl.log(tl.where", "top + tl.log2(tl.where"),
    "an LSE one per cent off": ("top + tl.log(tl.where", "top * 1.01 + tl.log(tl.where"),
    "wrong sign": ("top + tl.log(tl.where", "top - tl.log(tl.where"),
    "nothing subtracted before the exponential": (
        'pivot = tl.where(top > float("-inf"), top, 0.0)',
        "pivot = tl.zeros([], tl.float32)",
    ),
    "last row dropped": ("mask=row < splits - first,", "mask=row < splits - first - 1,"),
    "one row too many": ("mask=row < splits - first,", "mask=row <= splits - first,"),
    "last weight dropped from the sum": ("mask=split < splits,", "mask=split < splits - 1,"),
    "one weight too many in the sum": ("mask=split < splits,", "mask=split <= splits,"),
    "first row dropped": ("tl.range(0, splits,", "tl.range(1, splits,"),
    "last tile dropped": ("tl.range(0, splits,", "tl.range(0, splits - 16,"),
    "splits of the first request": ("tl.load(num_kv_splits + request)", "tl.load(num_kv_splits)"),
    "two splits taken for one": ("if splits == 1:", "if splits <= 2:"),
    "sink added twice": ("tl.exp(sink - new_top), 0.0)", "2.0 * tl.exp(sink - new_top), 0.0)"),
    "sink dropped": (
        "total = total * rescale + tl.where(has_keys, tl.exp(sink - new_top), 0.0)",
        "total = total * rescale",
    ),
    "sink of the first head": ("tl.load(sinks + head)", "tl.load(sinks)"),
    "sum not rescaled by the sink": ("total = total * rescale + tl.where", "total = total + tl.where"),
    "output not rescaled by the sink": ("    acc = acc * rescale\n", ""),
    "row of a split without keys read": (
        'mask=split_has_keys[:, None]{{ " & is_dim[None, :]" if masked_dims }}, other=0.0)',
        "mask=(row < splits - first)[:, None])",
    ),
    "request without keys not zero": ("tl.where(has_keys, acc / tl.where(has_keys, total, 1.0), 0.0)", "acc / total"),
    "LSE of a request without keys": ('total, 1.0)), float("-inf"))', "total, 1.0)), 0.0)"),
    "split stride of the LSE ignored": ("lse_rows + split * partial_lse_stride_split", "lse_rows + split"),
    "split stride of the rows' LSE ignored": ("lse_rows + row * partial_lse_stride_split", "lse_rows + row"),
    "eight elements further": ("out_row + dims, merged", "out_row + dims + 8, merged"),
}


@functools.cache
def shipped_passes(*axes):
    """So that what a mutant is found to do is the mutation's doing."""
    return not faults(SHIPPED, dict(axes))


def faults(specs, axes):
    """What the emulated gate says of the kernel with these axes, case by case."""
    request = compiled(axes, specs)[1]
    result = emulate_in_worker({name: getattr(request, name) for name in request.__dataclass_fields__})
    return [f"{case['case']}: {case['fault']}" for case in result["cases"] if case["fault"]]


@pytest.fixture
def noticed(tmp_path):
    """The faults of a kernel one line of whose template is changed, where the shipped one has none."""

    def run(axes, old, new):
        assert shipped_passes(*axes.items())
        specs = shutil.copytree(SHIPPED, tmp_path / "specs")
        files = TEMPLATES[axes["family"]]
        edit(specs, next((file for file in files if old in (specs / file).read_text()), files[0]), old, new)
        return faults(specs, axes)

    return run


@pytest.mark.parametrize(("old", "new"), MERGE_MUTATIONS.values(), ids=MERGE_MUTATIONS)
def test_a_wrong_merge_is_noticed(noticed, old, new):
    found = noticed(MERGE, old, new)
    assert found
    assert not found[0].startswith("load:")


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), sampled(DECODE_MUTATIONS).values(), ids=sampled(DECODE_MUTATIONS))
def test_a_wrong_decode_is_noticed(noticed, old, new):
    found = noticed(DECODE, old, new)
    assert found
    assert not found[0].startswith("load:")


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), sampled(UNSPLIT_MUTATIONS).values(), ids=sampled(UNSPLIT_MUTATIONS))
def test_a_wrong_kernel_that_does_not_split_is_noticed(noticed, old, new):
    found = noticed(UNSPLIT, old, new)
    assert found
    assert not found[0].startswith("load:")


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), sampled(EXTEND_MUTATIONS).values(), ids=sampled(EXTEND_MUTATIONS))
def test_a_wrong_prefill_is_noticed(noticed, old, new):
    found = noticed(EXTEND, old, new)
    assert found
    assert not found[0].startswith("load:")


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), sampled(QUERIES_MUTATIONS).values(), ids=sampled(QUERIES_MUTATIONS))
def test_a_wrong_decode_of_several_queries_is_noticed(noticed, old, new):
    found = noticed(QUERIES, old, new)
    assert found
    assert not found[0].startswith("load:")


@pytest.mark.slow
def test_a_tile_without_a_key_of_one_query_is_noticed_by_queries_far_apart_alone(noticed):
    """Queries side by side have all of them a key in every tile that one has, but for the last."""
    found = noticed(QUERIES, 'pivot = tl.where(new_max > float("-inf"), new_max, 0.0)', "pivot = new_max")
    assert found
    assert all(fault.startswith("queries more than a tile and a window apart: ") for fault in found)
