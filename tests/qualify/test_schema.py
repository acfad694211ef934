"""The JSON Schemas that editors use: current, true to the specs that ship, and able to refuse bad ones."""

import copy
import itertools
import json

import jsonschema
import pytest
import yaml

from assay.codegen.predicates import OPERATORS
from assay.codegen.spec_checks import TARGET_FACTS
from assay.codegen.spec_models import FamilyFile
from assay.codegen.spec_parse import parse_model
from assay.codegen.spec_schema import KINDS, schema, schema_text
from assay.codegen.yaml_source import read_yaml_file
from tests.specs import MISFITS, SHIPPED, TOY

FOLDERS = {
    "target": "targets",
    "family": "families",
    "profile": "profiles",
    "waivers": "waivers",
    "models": "models",
}
FILES = [
    (kind, path)
    for kind in FOLDERS
    for specs in (SHIPPED, TOY, MISFITS)
    for path in sorted(specs.glob(f"{FOLDERS[kind]}/*.yaml"))
]
VALIDATORS = {kind: jsonschema.Draft202012Validator(schema(kind)) for kind in KINDS}


def read(path):
    return read_yaml_file(path, path.name).data


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_the_one_that_the_models_make(kind):
    path = SHIPPED / "schemas" / f"{kind}.schema.json"
    assert path.read_text() == schema_text(kind), "write them anew with `make schemas`"
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_every_kind_has_a_file_and_no_file_is_left_over():
    assert {path.name for path in (SHIPPED / "schemas").iterdir()} == {f"{kind}.schema.json" for kind in KINDS}
    assert set(FOLDERS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_it(assay, kind):
    ran = assay("schema", kind)
    assert (ran.status, ran.out) == (0, schema_text(kind))


def test_an_unknown_kind_is_bad_usage(assay):
    assert assay("schema", "kernel").status == 2
    assert assay("schema").status == 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if (SHIPPED / FOLDERS[kind]).is_dir()])
def test_each_shipped_spec_names_its_schema_for_editors(kind):
    for path in (SHIPPED / FOLDERS[kind]).glob("*.yaml"):
        reference = path.read_text().splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / reference).resolve() == SHIPPED / "schemas" / f"{kind}.schema.json"


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: getattr(value, "name", value))
def test_every_spec_at_hand_is_valid(kind, path):
    assert not list(VALIDATORS[kind].iter_errors(read(path)))
    # Editors read YAML with readers of their own and take keys as text; for these files they must agree with ours.
    assert json.loads(json.dumps(yaml.safe_load(path.read_text()))) == read(path)


def changed(document, path, value):
    """`document` with the value at `path` replaced; with the key removed where the value is `...`."""
    document = copy.deepcopy(document)
    here = document
    for part in path[:-1]:
        here = here[part]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return document


BAD_FAMILY = [
    (["axes"], {}),
    (["axes"], ...),
    (["axis"], {}),
    (["schema"], "assay.family/2"),
    (["family"], "no name"),
    (["template"], "../up.j2"),
    (["tolerance", "relative"], "small"),
    (["grid"], [["a"], ["b"], ["c"], ["d"]]),
    (["dispatch", "width"], "less_than"),
    (["axes", "width", "values"], []),
    (["axes", "width", "values"], ["a b"]),
    (["axes", "width", "values"], [1.5]),
    (["axes", "not-a-name"], {"values": [1], "about": "x"}),
    (["arguments", 0, "kind"], "tensor"),
    (["arguments", 0, "alignment"], {"bytes": 3}),
    (["candidates", 0, "launches"], []),
    (["candidates", 0, "launches", 0, "num_warps"], 3),
    (["candidates", 0, "launches", 0, "unroll"], [1]),
    (["budgets"], {"vgpr_spill_count": -1}),
    (["budgets"], {"registers": 3}),
    (["conditions"], [{"field": "extent", "below": 3}]),
]
BAD_PREDICATES = [
    "always",
    {"width": {}},
    {"width": {"at_last": 64}},
    {"width": {"at_least": "64"}},
    {"width": {"at_least": True}},
    {"width": {"multiple_of": 0}},
    {"width": []},
    {"width": 1.5},
    {"width": None},
    {"width": {"not": []}},
    {"width": {"contains": [64]}},
    {"width": {"lacks": [64]}},
    {"target.vendor": "amd"},
    {"target": {"name": "gfx1201"}},
    {"a b": 1},
]
GOOD_PREDICATES = [
    {},
    {"width": 64},
    {"width": [64, 96], "x_dtype": "f16"},
    {"width": {"at_least": 64, "at_most": 128}},
    {"x_dtype": {"not": "f16"}},
    {"x_dtype": {"not": ["f16", "f32"]}},
    {"target.features": {"contains": "toy_feature"}},
    {"target.features": {"lacks": "toy_feature"}},
    {"target.backend": "hip", "width": {"multiple_of": 32}},
]


def family():
    return read(TOY / "families/scale.yaml")


def refused_by_the_model(document, tmp_path):
    path = tmp_path / "scale.yaml"
    path.write_text(json.dumps(document))
    return bool(parse_model(read_yaml_file(path, "scale.yaml"), FamilyFile)[1])


@pytest.mark.parametrize(("path", "value"), BAD_FAMILY)
def test_a_bad_family_is_refused_as_the_build_refuses_it(path, value, tmp_path):
    document = changed(family(), path, value)
    assert list(VALIDATORS["family"].iter_errors(document))
    # What a launch adds to num_stages and num_warps is checked against the family's own axes, later.
    assert refused_by_the_model(document, tmp_path) or path[-1] == "unroll"


PLACES = [
    ["candidates", 0, "when"],
    ["constraints", 0, "when"],
    ["constraints", 0, "require"],
    ["preferences", 0, "when"],
    ["arguments", 0, "when"],
    ["arguments", 0, "within_2gib"],
]


@pytest.mark.parametrize(("place", "predicate"), list(itertools.product(PLACES, BAD_PREDICATES)))
def test_a_bad_predicate_is_refused_wherever_it_stands(place, predicate):
    assert list(VALIDATORS["family"].iter_errors(changed(family(), place, predicate)))


@pytest.mark.parametrize(("place", "predicate"), list(itertools.product(PLACES, GOOD_PREDICATES)))
def test_a_good_predicate_is_valid_wherever_it_stands(place, predicate):
    assert not list(VALIDATORS["family"].iter_errors(changed(family(), place, predicate)))


def test_predicates_are_described_with_every_operator_and_target_fact():
    definitions = schema("family")["$defs"]
    operators = definitions["Test"]["anyOf"][2]["properties"]
    assert set(operators) == set(OPERATORS)
    for fact in TARGET_FACTS:
        assert fact in definitions["Predicate"]["description"]
        assert not list(VALIDATORS["family"].iter_errors(changed(family(), PLACES[0], {fact: "x"})))
    assert '"additionalProperties": true' not in schema_text("family")


BAD_TARGET = [
    (["backend"], "vulkan"),
    (["wavefront_size"], 16),
    (["limits", "lds_bytes"], 0),
    (["limits", "lds_bytes"], "64k"),
    (["limits", "bundle_bytes"], 0),
    (["limits", "shared_bytes"], 1),
    (["budgets", "dynamic_stack"], 1),
    (["features"], "all"),
    (["summary"], ""),
    (["arch"], ...),
]


@pytest.mark.parametrize(("path", "value"), BAD_TARGET)
def test_a_bad_target_is_refused(path, value):
    document = read(SHIPPED / "targets/gfx1201.yaml")
    assert list(VALIDATORS["target"].iter_errors(changed(document, path, value)))


@pytest.mark.parametrize(
    "families", [{"scale": {"width": 64}}, {"scale": {"width": [[64]]}}, {"no name": {}}, ["scale"]]
)
def test_a_bad_profile_is_refused(families):
    document = read(TOY / "profiles/core.yaml")
    assert list(VALIDATORS["profile"].iter_errors({**document, "families": families}))


WAIVER = {
    "name": "spills",
    "target": "gfx1201",
    "profile": "core",
    "variant": "0123456789abcdef",
    "budget": "vgpr_spill_count",
    "ceiling": 4,
    "reason": "for a test",
    "expires": "2027-01-31",
}


@pytest.mark.parametrize(
    ("key", "value", "valid"),
    [
        ("ceiling", 4, True),
        ("ceiling", 0, False),
        ("budget", "lds_total_bytes", False),
        ("variant", "0123", False),
        ("expires", "soon", False),
        ("reason", "", False),
    ],
)
def test_waivers_are_described(key, value, valid):
    document = {"schema": "assay.waivers/1", "waivers": [{**WAIVER, key: value}]}
    assert (not list(VALIDATORS["waivers"].iter_errors(document))) is valid


MODEL = {"name": "m", "config": "org/m", "q_heads": 8, "kv_heads": 2, "head_dim": 128, "layers": [{"count": 1}]}


@pytest.mark.parametrize(
    ("key", "value", "valid"),
    [
        ("name", "m", True),
        ("name", "two words", False),
        ("q_heads", 0, False),
        ("head_dim_v", 64, True),
        ("layers", [], False),
        ("layers", [{"count": 3, "window": 128, "sinks": True, "soft_cap": 50.0}], True),
        ("layers", [{"count": 3, "windows": 128}], False),
        ("layers", [{"count": 3, "soft_cap": 0}], False),
        ("source", "x", False),
    ],
)
def test_lists_of_models_are_described(key, value, valid):
    document = {"schema": "assay.models/1", "models": [{**MODEL, key: value}]}
    assert (not list(VALIDATORS["models"].iter_errors(document))) is valid
