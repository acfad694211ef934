"""Triton kernels compiled for gfx1201 compute what numpy says, with every check on."""

from __future__ import annotations

import pytest

from assay.emulator import Checks, OutOfBoundsError

from .corpus.cases import make_cases
from .corpus.running import SPECIALISATIONS, compile_case, mismatch, run_case

CASES = {case.name: case for case in make_cases()}
FEW = (
    ("add_float32", "plain"),
    ("softmax_float16", "buffers"),
    ("matmul_f16_ragged", "aligned"),
    ("matmul_i8_small", "plain"),
    ("matmul_fp8_e4nv", "aligned"),
    ("cumulative_sum_int32", "plain"),
    ("sort_rows", "aligned"),
    ("atomic_mixture", "plain"),
    ("double_math", "plain"),
    ("integer_functions_int64", "aligned"),
    ("collatz", "plain"),
)


def check(name: str, specialisation: str, checks: Checks | None = None) -> None:
    case = CASES[name]
    arrays, _ = run_case(case, compile_case(case, specialisation), checks)
    assert not mismatch(case, arrays)


@pytest.mark.parametrize(("name", "specialisation"), FEW)
def test_a_kernel_computes_what_numpy_says(name, specialisation):
    check(name, specialisation)


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", SPECIALISATIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_corpus_kernel_computes_what_numpy_says(name, specialisation):
    check(name, specialisation)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_execz_shortcut_changes_no_result(name):
    check(name, "plain", Checks(execz_shortcut=False))


def test_the_corpus_has_forty_kernels_and_more():
    assert len({case.kernel.fn.__name__ for case in CASES.values()}) >= 40


def test_a_fault_names_the_line_of_the_source():
    case = CASES["add_float32"]
    short = {**case.arrays, "out": case.arrays["out"][:600].copy()}
    compiled = compile_case(case, "plain")
    with pytest.raises(OutOfBoundsError, match=r"buffer 'out', which has 2400 bytes") as caught:
        run_case(type(case)(**{**vars(case), "arrays": short}), compiled)
    assert caught.value.place.source.startswith("kernels.py:")
    assert caught.value.place.kernel == "add"
