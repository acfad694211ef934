"""The decode template computes attention: its rendered source, run by Triton's interpreter, against float64 numpy."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay import kernel_specs
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
from tests.kernels.decode_reference import attention, make_case, merge

pytest.importorskip("torch")
ABSOLUTE, RELATIVE = 0.002, 0.02


def variant_for(target: str, launch: dict | None = None, **axes):
    specs = load_specs(Path(kernel_specs.DIRECTORY))
    family = specs.families["decode_attention"].model
    only = {"family": ("decode_attention",), **{name: (str(value).lower(),) for name, value in axes.items()}}
    (problem,) = (item for item in expand(specs, target, Selection("core", only)) if isinstance(item, Problem))
    candidate = candidates(family, specs.target(target), problem)[0]
    if launch:
        changed = tuple((name, launch.get(name, value)) for name, value in candidate.launch)
        candidate = type(candidate)(problem, changed)
    return make_variant(family, specs.target(target), candidate, Renderer(specs.templates))


def interpret(variant, case, tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Partial outputs and LSE; both are poisoned first, so what the kernel leaves out is seen."""
    batch, q_heads, head_dim = case.q.shape
    splits = int(case.splits.max()) + 1
    out = np.full((batch, q_heads, splits, head_dim), np.nan, np.float32)
    lse = np.full((batch, q_heads, splits), np.nan, np.float32)
    inputs = {
        "q": case.q,
        "k_cache": case.k,
        "v_cache": case.v,
        "indptr": case.indptr,
        "indices": case.indices,
        "q_positions": case.positions,
        "num_kv_splits": case.splits,
        "partial_out": out,
        "partial_lse": lse,
        "sm_scale": case.scale,
        "window_length": 0 if case.window is None else case.window,
        "grid0": batch,
        "grid1": case.k.shape[1],
        "grid2": splits,
    }
    shapes = {"q": case.q, "k": case.k, "v": case.v, "out": out, "lse": lse}
    dims = {"q": ("batch", "head"), "k": ("slot", "head"), "v": ("slot", "head")}
    dims |= {"out": ("batch", "head", "split"), "lse": ("batch", "head", "split")}
    if case.k_scale is not None:
        inputs |= {"k_scale": case.k_scale, "v_scale": case.v_scale}
        shapes |= {"k_scale": case.k_scale, "v_scale": case.v_scale}
        dims |= {"k_scale": ("slot", "head"), "v_scale": ("slot", "head")}
    for name, array in shapes.items():
        for axis, dim in enumerate(dims[name]):
            inputs[f"{name}_stride_{dim}"] = array.strides[axis] // array.itemsize
    source, given, made = tmp_path / "kernel.py", tmp_path / "in.npz", tmp_path / "out.npz"
    source.write_text(variant.request.source)
    np.savez(given, **inputs)
    constants = [f"{name}={value}" for name, value in variant.request.constants]
    script = Path(__file__).with_name("interpret_decode.py")
    command = [sys.executable, str(script), str(source), str(given), str(made), variant.request.kernel, *constants]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    result = np.load(made)
    return result["out"], result["lse"]


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    error = np.abs(actual - expected)
    assert not np.isnan(actual).any()
    assert (error <= ABSOLUTE + RELATIVE * np.abs(expected)).all(), f"largest error {error.max()}"


@pytest.mark.parametrize("window", [None, 17])
@pytest.mark.parametrize("score_form", ["queries_as_rows", "keys_as_rows"])
@pytest.mark.parametrize(("kv_format", "gqa"), [("bf16", 4), ("fp8_per_token_head", 8)])
def test_split_decode_is_attention(tmp_path, kv_format, gqa, score_form, window):
    case = make_case(
        np.random.default_rng(7),
        lengths=[70, 1, 0, 33],
        splits=[3, 1, 2, 2],
        kv_format=kv_format,
        group=gqa,
        window=window,
    )
    launch = {"score_form": score_form, "block_n": 32}
    axes = {"kv_format": kv_format, "gqa": gqa, "window": window is not None, "reader": "generic"}
    partial, lse = interpret(variant_for("sm90", launch, **axes), case, tmp_path)
    whole, whole_lse = merge(partial, lse)
    expected, expected_lse = attention(case)
    assert_close(whole, expected)
    finite = ~np.isneginf(expected_lse)
    assert (np.isneginf(whole_lse) == ~finite).all()
    assert_close(whole_lse[finite], expected_lse[finite])


def test_a_split_without_keys_holds_zeros_and_minus_infinity(tmp_path):
    case = make_case(np.random.default_rng(1), lengths=[40, 0], splits=[4, 2], kv_format="bf16", group=4)
    variant = variant_for("sm90", {"block_n": 32}, kv_format="bf16", gqa=4, window=False, reader="generic")
    partial, lse = interpret(variant, case, tmp_path)
    # 40 keys in splits of 32: the third and later are empty, and so is every split of the second request.
    assert np.isfinite(lse[0, :, :2]).all()
    assert np.isneginf(lse[0, :, 2:]).all()
    assert np.isneginf(lse[1]).all()
    assert (partial[0, :, 2:] == 0).all()
    assert (partial[1] == 0).all()


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_window_of_four_sees_the_query_and_three_keys_before_it(tmp_path, length):
    case = make_case(
        np.random.default_rng(3), lengths=[length], splits=[1], kv_format="bf16", group=4, kv_heads=1, window=4
    )
    case.q[:] = 0  # equal scores: the output is the mean of the visible values
    case.v[:] = 0
    for position in range(length):
        case.v[case.indices[position], 0, position] = 1.0
    variant = variant_for("sm90", {"block_n": 32}, kv_format="bf16", gqa=4, window=True, reader="generic")
    partial, lse = interpret(variant, case, tmp_path)
    seen = min(length, 4)
    expected = np.zeros(128)
    expected[length - seen : length] = 1 / seen
    np.testing.assert_allclose(partial[0, :, 0], np.broadcast_to(expected, (4, 128)), atol=2e-3)
    np.testing.assert_allclose(lse[0, :, 0], np.log(seen), rtol=1e-6)


def test_a_large_key_scale_does_not_overflow_where_the_scores_are_finite(tmp_path):
    case = make_case(
        np.random.default_rng(5), lengths=[2], splits=[1], kv_format="fp8_per_token_head", group=4, kv_heads=1
    )
    case.scale = 2.0
    case.q[:] = 0
    case.q[..., 0] = 0.25
    case.k[:] = 0
    case.k[case.indices[0], 0, 0] = 0x38  # the code of 1.0
    case.k_scale[case.indices[0], 0] = 3.4e38
    case.k_scale[case.indices[1], 0] = 1e-30
    axes = {"kv_format": "fp8_per_token_head", "gqa": 4, "window": False, "reader": "generic"}
    partial, lse = interpret(variant_for("sm90", {"block_n": 32}, **axes), case, tmp_path)
    expected, expected_lse = attention(case)
    assert np.isfinite(lse[0, :, 0]).all()
    np.testing.assert_allclose(lse[0, :, 0], expected_lse[0], rtol=1e-5)
    assert_close(partial[0, :, 0], expected[0])
