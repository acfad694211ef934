"""The expansion of specs: in spec order, the same every time, and with a reason for everything it leaves out."""

import pytest

from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Exclusion, Problem
from assay.codegen.specs import SpecError, load_specs
from tests.specs import FAMILY, TOY, copy_toy, edit


def expansion(specs, target, profile="core", **only):
    return list(expand(specs, target, Selection(profile, only)))


def labels(items):
    return [item.label for item in items if isinstance(item, Problem)]


def test_problems_come_in_the_order_of_the_family_file():
    assert labels(expansion(load_specs(TOY), "gfx1201")) == [
        "x_dtype=f32 width=64 alignment=16",
        "x_dtype=f32 width=64 alignment=4",
        "x_dtype=f16 width=64 alignment=16",
        "x_dtype=f16 width=64 alignment=4",
        "x_dtype=f16 width=96 alignment=16",
        "x_dtype=f16 width=96 alignment=4",
    ]


def test_what_is_excluded_stands_in_its_place_with_the_reason():
    items = expansion(load_specs(TOY), "sm90")
    assert len(items) == 8
    assert [item.reason if isinstance(item, Exclusion) else "built" for item in items] == [
        "built",
        "built",
        "narrow rows are for halves",
        "narrow rows are for halves",
        "built",
        "halves are aligned on NVIDIA",
        "built",
        "halves are aligned on NVIDIA",
    ]


def test_the_same_specs_in_another_folder_expand_alike(tmp_path):
    assert expansion(load_specs(TOY), "sm90") == expansion(load_specs(copy_toy(tmp_path / "toy")), "sm90")


def test_a_profile_narrows_and_only_narrows_further():
    specs = load_specs(TOY)
    assert len(labels(expansion(specs, "gfx1201", "half"))) == 4
    assert labels(expansion(specs, "gfx1201", "half", width=("96",), alignment=("4",))) == [
        "x_dtype=f16 width=96 alignment=4"
    ]
    assert labels(expansion(specs, "gfx1201", family=("scale",), x_dtype=("f32",), alignment=("16", "4"))) == [
        "x_dtype=f32 width=64 alignment=16",
        "x_dtype=f32 width=64 alignment=4",
    ]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (
            {"widht": ("64",)},
            "--only widht: neither family nor an axis; allowed: alignment, family, width, x_dtype; did",
        ),
        ({"width": ("65",)}, "--only width=65: no such value; allowed: 64, 96"),
        ({"family": ("scal",)}, "--only family=scal: no such value; allowed: scale; did you mean scale?"),
        ({"alignment": ("8",)}, "--only alignment=8: no such value; allowed: 4, 16"),
    ],
)
def test_only_names_what_exists(only, expected):
    with pytest.raises(SpecError) as caught:
        expansion(load_specs(TOY), "gfx1201", **only)
    assert str(caught.value).startswith(expected)


def test_all_unknown_names_of_only_are_reported_at_once():
    with pytest.raises(SpecError) as caught:
        expansion(load_specs(TOY), "gfx1201", widht=("64",), x_dtype=("f23", "f16", "f99"))
    assert len(caught.value.faults) == 3


def test_candidates_come_in_spec_order_and_each_once(tmp_path):
    specs = copy_toy(tmp_path / "toy")
    again = "      - {unroll: 2, num_stages: 1, num_warps: 4}\n"
    group = "  - when: {x_dtype: f32, target.backend: hip}\n    launches:\n"
    extra = group + "      - {unroll: 1, num_stages: 2, num_warps: 1}\n" + again
    edit(specs, FAMILY, again, again + again + extra)
    loaded = load_specs(specs)
    found = {}
    for target in ("gfx1201", "sm90"):
        first = next(item for item in expansion(loaded, target) if isinstance(item, Problem))
        tried = candidates(loaded.families["scale"].model, loaded.target(target), first)
        found[target] = [candidate.label for candidate in tried]
    everywhere = ["unroll=1 num_stages=1 num_warps=2", "unroll=2 num_stages=1 num_warps=4"]
    assert found == {"gfx1201": [*everywhere, "unroll=1 num_stages=2 num_warps=1"], "sm90": everywhere}
