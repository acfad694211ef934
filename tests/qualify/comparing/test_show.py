"""`assay compare --show`: the right pair, both disassemblies, and source lines only where they are of that code."""

import pytest

from assay.bundle import Bundle
from tests.qualify.comparing.changed_bundles import contents_of, with_code
from tests.qualify.comparing.test_bundles import an_immediate_changed
from tests.specs import TEMPLATE, edit


@pytest.fixture
def changed(other):
    return other(lambda contents: with_code(contents, an_immediate_changed))


def first_id(path):
    return contents_of(path).rows[0].id


def test_the_only_one_that_differs_is_meant(assay, toy, changed):
    ran = assay("compare", toy, changed, "--show", "family=scale")
    assert ran.status == 1
    assert "code: changed" in ran.text
    assert "s_endpgm" in ran.out
    assert f"{toy}: {first_id(toy)} scale_rows" in ran.text


def test_an_id_may_be_shortened_and_equal_stretches_are_folded_unless_all_is_asked_for(assay, toy):
    id = first_id(toy)
    folded = assay("compare", toy, toy, "--show", id[:8])
    whole = assay("compare", toy, toy, "--show", id, "--all")
    assert (folded.status, whole.status) == (0, 0)
    assert "equal instructions" in folded.out
    assert len(whole.out.splitlines()) > len(folded.out.splitlines()) + 10
    assert "code: bytes" in whole.out


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("family=scale", "fits 6 variants"),
        ("0000ffff0000ffff", "fits 0 variants"),
        ("no id", "neither an id nor NAME=VALUE"),
        ("width=65", "no such value; allowed: 64, 96"),
        ("wdith=64", "did you mean width?"),
        ("width=", "'width='"),
    ],
)
def test_what_is_not_one_variant_is_bad_input(assay, toy, wanted, said):
    ran = assay("compare", toy, toy, "--show", wanted)
    assert ran.status == 2
    assert said in ran.said


def test_a_lock_has_nothing_to_show(assay, built):
    toy = built("gfx1201")
    with Bundle.open(toy.bundle) as bundle:
        id = bundle.variant_ids()[0]
    ran = assay("compare", toy.lock, toy.bundle, "--show", id)
    assert ran.status == 2
    assert "has no code on both sides" in ran.said


def test_it_prints_for_people(assay, toy):
    assert assay("compare", toy, toy, "--show", "family=scale", "--json").status == 2


def test_source_lines_are_those_of_each_revision(assay, repository):
    """Each side is built once more by what it holds, with line tables; what ships has none."""
    edit(repository.specs, TEMPLATE, "* factor, mask", "* factor * factor, mask")
    repository.commit("squared")
    part = "x_dtype=f16,width=64,alignment=16"
    options = ("--specs", "specs", "--target", "gfx1201", "--part", part, "--show", part, "--all")
    ran = assay("compare", "first", "HEAD", *options)
    assert ran.status == 1
    lines = [line for line in ran.out.splitlines() if "tl.store(" in line]
    assert any("* factor, mask" in line for line in lines)
    assert any("* factor * factor, mask" in line for line in lines)


def test_a_bundle_of_other_specs_is_shown_without_source_lines(assay, toy):
    """Of the toy's bundle nothing here knows the specs; guessing would show another kernel's lines."""
    ran = assay("compare", toy, toy, "--show", first_id(toy))
    assert "no source lines: cannot be built again here with line tables" in ran.text
