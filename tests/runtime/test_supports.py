"""`supports` says yes exactly when a row is found and its code object is whole.

A probe that says yes to an image that does not exist surfaces later, in an unrelated operation.
"""

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.bundle import Bundle, BundleError, write_bundle
from assay.runtime import (
    AssayRuntimeError,
    MissingFieldError,
    NoMatchError,
    UnknownFamilyError,
    UnknownFieldError,
    load,
)

DEVICE = ("hip", "gfx1201")

VALUES = st.one_of(
    st.sampled_from([64, 128, 256, 1, 0, 16, True, False, None, "128", 128.0, "bf16", 2**31 - 1, 2**31]),
    st.integers(-1, 2**33),
)
FIELDS = ["head_dim", "gqa", "kv_format", "q_align", "kv_bytes", "window", "x"]
WILD = st.dictionaries(st.sampled_from(FIELDS), VALUES)
PLAUSIBLE = st.fixed_dictionaries(
    {"head_dim": st.sampled_from([64, 96, 128, 256]), "gqa": st.sampled_from([1, 4, 5, 8, 16])},
    optional={
        "q_align": st.sampled_from([1, 2, 4, 8, 16]),
        "kv_bytes": st.integers(0, 2**32),
        "window": st.booleans(),
    },
)
REQUESTS = st.one_of(PLAUSIBLE, PLAUSIBLE, WILD)


# Of each field values enough that, if any completion of a request finds a row, one of these does.
ENOUGH = {"head_dim": (64, 128, 256), "gqa": (1, 8), "q_align": (16,), "kv_bytes": (0,), "window": (True, False)}


def completions(request):
    """The request with every choice of the fields that it leaves out; none where it leaves out nothing."""
    left_out = [name for name in ENOUGH if name not in request]
    for values in itertools.product(*(ENOUGH[name] for name in left_out)) if left_out else ():
        yield request | dict(zip(left_out, values, strict=True))


def selects(kernels, family, **request):
    try:
        kernels.select(family, **request)
    except NoMatchError:
        return False
    return True


@pytest.fixture(scope="module")
def spoilt(factory, tmp_path_factory):
    """A bundle of 96 rows with every third code object damaged; and the ids of the whole ones, found independently."""
    path = tmp_path_factory.mktemp("spoilt") / "x.assay"
    rows = []
    for i in range(96):
        conditions = [("head_dim", "eq", (64, 128, 256)[i % 3]), ("gqa", "one_of", (1, 4) if i % 2 else (8, 16))]
        if i % 5:
            conditions.append(("q_align", "multiple_of", 2 ** (i % 5)))
        if i % 4 == 0:
            conditions.append(("kv_bytes", "at_most", 2**31 - 1))
        if i % 7 == 0:
            conditions.append(("window", "eq", bool(i % 2)))
        rows.append(factory.make_row(f"r{i:02}", conditions, preference=i))
    write_bundle(path, factory.make_contents(rows))
    data = bytearray(path.read_bytes())
    with Bundle.open(path) as bundle:
        index = bundle._blob_index("object")
        for row in rows[::3]:
            data[index[row.object].offset + 20] ^= 1
    path.write_bytes(data)
    whole = set()
    with Bundle.open(path) as bundle:
        for row in rows:
            try:
                bundle.object_bytes(row.object)
                whole.add(row.id)
            except BundleError:
                pass
    assert len(whole) == 64
    return path, whole


def test_supports_says_yes_exactly_when_select_finds_a_row_whose_object_verifies(spoilt):
    path, whole = spoilt
    answers = []
    with load(path, device=DEVICE) as kernels:

        @settings(max_examples=1000, deadline=None, database=None)
        @given(REQUESTS, st.sampled_from(["copy", "copy", "copy", "absent"]))
        def holds(request, family):
            try:
                found = kernels.select(family, **request).row.id in whole
            except (UnknownFamilyError, UnknownFieldError) as error:
                with pytest.raises(type(error)):
                    kernels.supports(family, **request)
                return
            except AssayRuntimeError:
                found = False
                if any(selects(kernels, family, **completed) for completed in completions(request)):
                    with pytest.raises(MissingFieldError) as caught:
                        kernels.supports(family, **request)
                    assert set(caught.value.missing) <= ENOUGH.keys() - request.keys()
                    answers.append(None)
                    return
            answers.append(found)
            assert kernels.supports(family, **request) == found
            if found:
                assert kernels.require(family, **request) == kernels.select(family, **request)

        holds()
    assert {True, False, None} == set(answers)


def test_every_real_shape_is_answered_alike(spoilt):
    path, whole = spoilt
    seen = set()
    with load(path, device=DEVICE) as kernels:
        for head_dim in (64, 96, 128, 256):
            for gqa in (1, 4, 5, 8):
                for q_align in (1, 2, 8, 16):
                    for kv_bytes in (2**31 - 1, 2**31):
                        request = {"head_dim": head_dim, "gqa": gqa, "q_align": q_align, "kv_bytes": kv_bytes}
                        request["window"] = False
                        try:
                            found = kernels.select("copy", **request).row.id in whole
                        except AssayRuntimeError:
                            found = False
                        assert kernels.supports("copy", **request) == found
                        seen.add(found)
    assert seen == {True, False}


def test_an_incomplete_question_names_the_fields_that_its_answer_depends_on(path):
    with load(path, device=DEVICE) as kernels:
        with pytest.raises(MissingFieldError) as caught:
            kernels.supports("copy", head_dim=128)
        assert str(caught.value) == (
            "supports('copy'): gqa, q_align left out; allowed: all of gqa, head_dim, kv_bytes, q_align"
        )
        assert caught.value.missing == ("gqa", "q_align")
        assert isinstance(caught.value, UnknownFieldError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.missing, again.known) == (
            str(caught.value), caught.value.missing, caught.value.known
        )  # fmt: skip
        assert not kernels.supports("copy", head_dim=96), "no completion of it is answered"
        assert kernels.supports("copy", head_dim=128, gqa=4), "a row answers, whatever the rest is"
        with pytest.raises(MissingFieldError) as caught:
            kernels.supports("copy", force_row="aligned", head_dim=128, gqa=4)
        assert "q_align" in caught.value.missing
