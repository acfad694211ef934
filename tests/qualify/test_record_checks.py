"""`assay verify` finds a row and its record that lie together: what can be recomputed is."""

import hashlib

import pytest

from assay.bundle import verify_bundle, write_bundle
from assay.qualify import bundling


def changed(items, **changes):
    """The first of these records, with other fields, and the rest as it was."""
    first, *rest = items
    return (first._replace(**changes), *rest)


def both(contents, **changes):
    """The same change in the first row and in its record."""
    row = contents.rows[0]
    others = [variant for variant in contents.variants if variant.id != row.id]
    (own,) = (variant for variant in contents.variants if variant.id == row.id)
    known = {name: value for name, value in changes.items() if name in own._fields}
    in_row = {name: value for name, value in changes.items() if name in row._fields}
    return contents._replace(rows=changed(contents.rows, **in_row), variants=(own._replace(**known), *others))


def record_of(contents):
    return next(variant for variant in contents.variants if variant.id == contents.rows[0].id)


def conditions(contents, change):
    """The first row with other conditions: each is replaced by what `change` makes of it, or dropped with None."""
    kept = tuple(new for old in contents.rows[0].conditions if (new := change(old)) is not None)
    return contents._replace(rows=changed(contents.rows, conditions=kept))


def of(field, **changes):
    """A change of the condition on that field alone; none without changes."""

    def change(condition):
        if condition.field != field:
            return condition
        return condition._replace(**changes) if changes else None

    return change


def other_source(contents):
    source = record_of(contents).source + "# another\n"
    return both(contents, source=source, source_sha256=hashlib.sha256(source.encode()).hexdigest())


LIES = {
    "another launch": (lambda c: both(c, launch=c.rows[0].launch | {"unroll": 7}), "id: "),
    "more warps in the launch": (
        lambda c: both(c, launch=c.rows[0].launch | {"num_warps": 16}), "allowed: 16, as its launch says",
    ),
    "another promise": (
        lambda c: both(c, specialisation=c.rows[0].specialisation | {"within_2gib": ["x"]}), "the hash of its record's",
    ),
    "another source": (other_source, "the hash of its record's problem, launch, specialisation and source"),
    "another id": (lambda c: both(c, id="0" * 16), "id: 0000000000000000"),
    "another problem, and the condition that goes with it": (
        lambda c: conditions(both(c, problem=record_of(c).problem | {"width": 8}), of("width", value=8)), "id: ",
    ),
    "a condition on another value": (
        lambda c: conditions(c, of("width", value=8)), "condition on width: 8; allowed: ",
    ),
    "a condition that admits more": (
        lambda c: conditions(c, of("width", op="at_least", value=1)), "condition on width: at least 1; allowed: ",
    ),
    "a condition left out": (lambda c: conditions(c, of("width")), "no condition on width, built for "),
    "fewer registers": (
        lambda c: both(c, resources=record_of(c).resources | {"vgpr_count": 1}), "resources: vgpr_count: 1; allowed: ",
    ),
    "no spills told": (
        lambda c: both(c, resources=record_of(c).resources | {"scratch_bytes": None}),
        "resources: scratch_bytes: None; allowed: 0, as the binary says",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_row_and_record_tell_together_is_found(assay, out, lie):
    change, said = LIES[lie]
    assert assay("verify", out.bundle).status == 0
    contents = bundling._read(out.bundle).contents
    write_bundle(out.bundle, change(contents))
    assert verify_bundle(out.bundle) == [], "nothing that hashes and references could show"
    ran = assay("verify", out.bundle)
    assert ran.status == 1
    assert said in ran.said, ran.said
    for command in (("wheel", out.bundle, "--out", out.out), ("bundle", out.bundle, "--out", out.out / "x.assay")):
        refused = assay(*command)
        assert refused.status == 1
        assert said in refused.said
