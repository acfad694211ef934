"""Bounded memory of what calls of one shape share."""

from assay.runtime.prepared import Kept


def test_a_full_one_forgets_its_oldest_half_and_keeps_the_rest():
    kept: Kept[int] = Kept(4)
    for number in range(5):
        kept.keep(("shape", number), number)
    assert dict(kept) == {("shape", 2): 2, ("shape", 3): 3, ("shape", 4): 4}


def test_none_is_a_value_like_any_other():
    kept: Kept[int | None] = Kept(2)
    kept.keep("no fast plan", None)
    assert "no fast plan" in kept
