"""Targets and known regressions are computed from the figures."""

import pytest

from .documents import LONG, SHORT, decode, five, row


@pytest.fixture
def findings():
    import findings

    return findings


def verdicts(findings, *rows):
    return [(target.what, target.verdict) for target in findings.targets(decode(*rows), "sm90")]


# 536.9 MB of BF16 and 276.8 MB of FP8 at 4 TB/s take 134.2 and 69.2 µs.
@pytest.mark.parametrize(
    ("bf16", "fp8", "expected"),
    [
        (144.3, 92.2, ["holds", "holds", "holds"]),
        (144.4, 92.2, ["missed", "holds", "holds"]),
        (144.3, 92.4, ["holds", "missed", "holds"]),
        (140.0, 91.0, ["holds", "holds", "missed"]),
    ],
)
def test_targets_hold_up_to_their_limits(findings, bf16, fp8, expected):
    found = verdicts(findings, *five(LONG, bf16=bf16, fp8=fp8, sdpa=125))
    assert found == list(
        zip(
            ["BF16, share of read bandwidth", "FP8, share of read bandwidth", "FP8, speed of BF16"],
            expected,
            strict=True,
        )
    )


def test_a_target_on_a_figure_that_drifted_is_descriptive_only(findings):
    found = verdicts(findings, *five(LONG, bf16=130, fp8=80, sdpa=125, drifted=("fp8",)))
    assert [verdict for _, verdict in found] == ["holds", "descriptive only", "descriptive only"]


def test_other_shapes_have_no_targets(findings):
    assert verdicts(findings, *five(SHORT, bf16=6, fp8=6, sdpa=8)) == []


def regressions(findings, *rows):
    return [(found.shape, found.what) for found in findings.regressions(decode(*rows), "sm90")]


def test_nothing_is_a_regression_at_its_limit(findings):
    assert regressions(findings, *five(SHORT, bf16=9.5, fp8=10.0, sdpa=10.0)) == []


def test_fp8_below_its_share_of_the_speed_of_bf16_is_one_for_each_way(findings):
    rows = five(SHORT, bf16=9.4, fp8=10.0, sdpa=20.0)
    assert regressions(findings, *rows) == [(SHORT, "FP8 than BF16, warm"), (SHORT, "FP8 than BF16, cold")]


def test_every_format_slower_than_sdpa_is_one(findings):
    rows = [*five(LONG, bf16=126, fp8=80, sdpa=125), *five(SHORT, bf16=8.1, fp8=8.2, sdpa=8.0)]
    assert regressions(findings, *rows) == [
        (LONG, "BF16 than SDPA"), (SHORT, "BF16 than SDPA"), (SHORT, "FP8 than SDPA"),
    ]  # fmt: skip


def test_a_regression_has_its_figures(findings):
    (found,) = findings.regressions(decode(*five(LONG, bf16=125, fp8=80, sdpa=100, drifted=("sdpa",))), "sm90")
    assert (found.row["name"], found.against["name"]) == ("sm90 bf16 warm", "sdpa")
    assert found.ratio == findings.Ratio(0.8, True)


def test_a_kernel_that_was_not_timed_is_compared_with_nothing(findings):
    wrong = {"shape": SHORT, "name": "sm90 fp8", "kind": "bundle", "format": "fp8", "wrong": "request 0: off by 1"}
    rows = [wrong, row(SHORT, "sdpa", 8.0), row(SHORT, "sm90 bf16 warm", 9.0)]
    assert regressions(findings, *rows) == [(SHORT, "BF16 than SDPA")]
