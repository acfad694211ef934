"""The merge's cases hold what they are for, and its reference is torch's weighted mean."""

import numpy as np
import pytest

from assay import reference

torch = pytest.importorskip("torch")


def cases(*, sinks, every=False):
    return reference.cases("merge_splits", {"out_dtype": "bf16", "head_dim": 64, "sinks": sinks}, every=every)


@pytest.mark.parametrize("sinks", [False, True])
def test_the_reference_is_torchs_softmax_over_splits_and_sink(sinks):
    for case in cases(sinks=sinks, every=True):
        expected = reference.expected("merge_splits", case)
        partial, lse = (
            torch.from_numpy(case.tensors[n].view.astype(np.float64)) for n in ("partial_out", "partial_lse")
        )
        for request, count in enumerate(case.tensors["num_kv_splits"].view):
            for row, head in np.ndindex(*lse.shape[1:3]):
                at = (request, row, head)
                terms = lse[at][:count]
                if torch.isneginf(terms).all():
                    assert not expected["out"][at].any()
                    assert np.isneginf(expected["lse"][at])
                    continue
                if sinks:
                    terms = torch.cat([terms, torch.tensor([float(case.tensors["sinks"].view[head])]).double()])
                weights = torch.softmax(terms, 0)[:count]
                wanted = weights @ torch.where(weights[:, None] > 0, partial[at][:count], 0.0)
                if torch.isnan(terms).any():
                    wanted = torch.full_like(wanted, torch.nan)
                np.testing.assert_allclose(expected["out"][at], wanted, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(expected["lse"][at], torch.logsumexp(terms, 0), rtol=1e-12)


def test_the_cases_reach_128_splits_sinks_on_both_sides_and_nothing_infinite_among_the_sinks():
    chosen = cases(sinks=True)
    assert max(int(case.tensors["num_kv_splits"].view.max()) for case in chosen) == 128
    sinks = np.concatenate([case.tensors["sinks"].view for case in chosen])
    assert np.isfinite(sinks).all()
    assert sinks.min() < -88 < 88 < sinks.max()


@pytest.mark.parametrize(("sinks", "wanted"), [(False, 0.75), (True, 0.6)])
def test_one_case_has_weights_one_and_three(sinks, wanted):
    case = cases(sinks=sinks)[0]
    expected = reference.expected("merge_splits", case)
    np.testing.assert_allclose(expected["out"], wanted, rtol=1e-7)
    np.testing.assert_allclose(expected["lse"], np.log(5 if sinks else 4), rtol=1e-7)
