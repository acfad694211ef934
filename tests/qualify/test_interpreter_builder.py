"""Our changes to Triton's interpreter against definitions that share no code with either."""

import subprocess
import sys

import numpy as np
import pytest

from assay.reference.number_formats import e4m3fn_values, from_bf16


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    output = tmp_path_factory.mktemp("interpreted") / "made.npz"
    subprocess.run([sys.executable, "-m", "tests.qualify.interpreted_operations", output], check=True, timeout=120)
    return dict(np.load(output))


def test_a_bf16_product_is_of_values_not_of_bit_patterns(made):
    expected = from_bf16(made["a"]) @ from_bf16(made["b"])
    np.testing.assert_allclose(made["product"], expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_fp32_becomes_the_nearest_bf16_ties_to_even(made):
    values, rounded = made["values"].astype(np.float64), made["rounded"]
    same = values == from_bf16(rounded)
    between = np.isfinite(values) & ~same
    error = np.abs(from_bf16(rounded) - values)[between]
    for step in (-1, 1):
        neighbour = np.abs(from_bf16((rounded.astype(np.int64) + step).astype(np.uint16)) - values)[between]
        tie = error == neighbour
        assert (error[~tie] < neighbour[~tie]).all()
        assert tie.any()
        assert (rounded[between][tie] % 2 == 0).all()
    assert (np.isnan(from_bf16(rounded)) == np.isnan(values)).all()
    assert np.isinf(values[same]).sum() == 2
    assert (~same & ~between).sum() == np.isnan(values).sum()


def test_every_bf16_becomes_the_fp32_of_its_value_subnormal_ones_too(made):
    bits = np.arange(1 << 16)
    is_nan = (bits & 0x7FFF) > 0x7F80
    widened = made["widened"].view(np.uint32)
    np.testing.assert_array_equal(widened[~is_nan], bits[~is_nan] << 16)
    np.testing.assert_array_equal(widened[is_nan], (bits[is_nan] | 0x40) << 16)


@pytest.mark.parametrize("wider", ["bf16", "f16", "f32"])
def test_all_codes_of_e4m3fn_have_their_value_nan_among_them(made, wider):
    codes = made[f"code_{wider}"]
    values = from_bf16(codes) if wider == "bf16" else codes.astype(np.float64)
    np.testing.assert_array_equal(values, e4m3fn_values())


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("addition in BF16", "arithmetic in bf16, which Triton's interpreter does on bit patterns"),
        ("FP32 to E4M3FN", "a conversion from fp32 to fp8e4nv"),
        ("FP64 to BF16", "a conversion from fp64 to bf16"),
        ("inline assembly", "inline assembly"),
    ],
)
def test_what_would_be_computed_wrong_is_refused_by_name(made, operation, said):
    assert str(made[f"refused {operation}"]) == f"NotInterpretable: {said}"


def test_an_access_outside_every_buffer_is_stopped_before_it_happens(made):
    assert str(made["fault inside"]) == "nothing"
    assert str(made["fault masked"]) == "nothing"
    outside = "OutOfBounds: read of 4 bytes outside every buffer: "
    assert str(made["fault behind"]) == f"{outside}byte 64 of buffer 0, which has 64 bytes"
    assert str(made["fault before"]) == f"{outside}8 bytes before buffer 0, which has 64 bytes; 1 more with it"
