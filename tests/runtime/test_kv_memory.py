"""Bytes of a KV cache: the field's own figures, and everything wrong at once."""

import subprocess
import sys

import pytest

import assay.runtime
from assay.runtime import KV_FORMATS, ArgumentError, kv_bytes

MODEL = {"layers": 48, "kv_heads": 4, "head_dim": 128}
ROWS = 33_059


def test_a_token_of_the_model_in_the_field():
    bf16, fp8 = (kv_bytes(**MODEL, kv_format=name) for name in ("bf16", "fp8_per_token_head"))
    assert (bf16.cache, bf16.scales) == (98_304, 0)
    assert (fp8.cache, fp8.elements, fp8.scales) == (50_688, 49_152, 1_536)


def test_the_pool_of_the_model_in_the_field():
    bf16, fp8 = (kv_bytes(**MODEL, kv_format=name, tokens=ROWS) for name in ("bf16", "fp8_per_token_head"))
    assert (bf16.total, bf16.workspace) == (3_249_831_936, 0)
    assert (fp8.cache, fp8.workspace) == (1_675_694_592, 67_704_832)
    assert round(100 * (1 - fp8.total / bf16.total), 2) == 46.35


def test_int8_rows_take_what_fp8_rows_take():
    assert kv_bytes(**MODEL, kv_format="int8_per_token_head") == kv_bytes(**MODEL, kv_format="fp8_per_token_head")


@pytest.mark.parametrize("kv_format", KV_FORMATS)
def test_rows_of_v_may_be_shorter(kv_format):
    of_192, of_128 = (kv_bytes(layers=2, kv_heads=3, head_dim=d, kv_format=kv_format, tokens=5) for d in (192, 128))
    mixed = kv_bytes(layers=2, kv_heads=3, head_dim=192, head_dim_v=128, kv_format=kv_format, tokens=5)
    assert 2 * mixed.elements == of_192.elements + of_128.elements
    assert 2 * mixed.workspace == of_192.workspace + of_128.workspace
    assert mixed.scales == of_128.scales


def test_everything_wrong_is_told_at_once():
    with pytest.raises(ArgumentError) as caught:
        kv_bytes(layers=0, kv_heads=True, head_dim=128.0, head_dim_v=0, kv_format="fp8_per_token_heads", tokens=-1)
    said = str(caught.value)
    assert [fault.where for fault in caught.value.faults] == [
        "layers", "kv_heads", "head_dim", "tokens", "head_dim_v", "kv_format",
    ]  # fmt: skip
    assert "did you mean fp8_per_token_head?" in said


def test_it_is_public_and_imported_when_it_is_asked_for():
    code = "import sys, assay.runtime; print('assay.runtime.kv_memory' in sys.modules); assay.runtime.kv_bytes"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
    assert {"KV_FORMATS", "KVBytes", "kv_bytes"} <= set(assay.runtime.__all__)
    with pytest.raises(AttributeError):
        _ = assay.runtime.kv_byte
