"""A workaround that names what is not there, or is its own alternative, is refused with its line."""

import json

import jsonschema
import pytest

from assay.codegen.spec_schema import schema
from assay.codegen.specs import SpecError, load_specs
from assay.codegen.yaml_source import read_yaml_file
from tests.specs import FAMILY, SHIPPED, copy_toy, edit

SOUND = """\
workarounds:
  - name: one_row
    reason: the compiler spills where two rows are written
    since: "3.8.0"
    when: {unroll: 1, target.backend: hip}
    alternative: {unroll: 2, num_warps: 4}
    hardware: [v_mul_f32]

tolerance:
"""
FIRST = 52  # the line of `- name`

WRONG = {
    "an unknown axis": (
        "{unroll: 2, num_warps: 4}",
        "{unrol: 2}",
        f"{FIRST + 4}:19",
        "unknown axis or launch field 'unrol'",
    ),
    "a value that cannot be": ("{unroll: 2, num_warps: 4}", "{unroll: 3}", f"{FIRST + 4}:27", "unroll is never 3"),
    "warps that cannot be": (
        "unroll: 2, num_warps: 4}",
        "unroll: 2, num_warps: 3}",
        f"{FIRST + 4}:41",
        "num_warps is never 3",
    ),
    "no alternative": ("{unroll: 2, num_warps: 4}", "{}", f"{FIRST + 4}:18", "at least 1 item"),
    "the workaround itself": (
        "{unroll: 2, num_warps: 4}",
        "{unroll: 1}",
        f"{FIRST + 4}:18",
        "unroll=1 is the workaround itself",
    ),
    "nothing that when asks": (
        "{unroll: 2, num_warps: 4}",
        "{num_warps: 4}",
        f"{FIRST + 4}:18",
        "num_warps=4 is the workaround itself; allowed: a form that `when` excludes",
    ),
    "what a call brings": ("{unroll: 2, num_warps: 4}", "{width: 96}", f"{FIRST + 4}:19", "width, which a call brings"),
    "an unknown name in when": (
        "when: {unroll: 1, tar",
        "when: {unrol: 1, tar",
        f"{FIRST + 3}:12",
        "unknown name 'unrol'",
    ),
    "no version": (
        '"3.8.0"',
        '"today"',
        f"{FIRST + 2}:12",
        "since: 'today'; allowed: a version such as '3.8.0', quoted",
    ),
    "a version that is a number": (
        '"3.8.0"',
        "3.8",
        f"{FIRST + 2}:12",
        "since: 3.8; allowed: a version such as '3.8.0', quoted",
    ),
    "no reason": (
        "    reason: the compiler spills where two rows are written\n",
        "",
        f"{FIRST}:5",
        "missing key 'reason'",
    ),
    "an unknown key": ("    hardware:", "    hardwear:", f"{FIRST + 5}:5", "did you mean hardware?"),
}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", SOUND)
    return specs


def faults_of(specs):
    with pytest.raises(SpecError) as caught:
        load_specs(specs)
    return [str(fault) for fault in caught.value.faults]


def test_a_sound_workaround_loads_and_fits_the_schema(toy):
    (workaround,) = load_specs(toy).families["scale"].model.workarounds
    assert workaround.alternative == {"unroll": 2, "num_warps": 4}
    data = read_yaml_file(toy / FAMILY, FAMILY).data
    jsonschema.validate(json.loads(json.dumps(data)), schema("family"))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_workaround_is_refused_at_its_place(toy, name):
    old, new, where, expected = WRONG[name]
    edit(toy, FAMILY, old, new)
    (fault,) = faults_of(toy)
    assert fault.startswith(f"toy/{FAMILY}:{where}: ")
    assert expected in fault


def test_two_workarounds_of_one_name_are_refused(toy):
    twin = SOUND.removeprefix("workarounds:\n").removesuffix("tolerance:\n")
    edit(toy, FAMILY, "tolerance:\n", f"{twin}tolerance:\n")
    (fault,) = faults_of(toy)
    assert "one_row twice; allowed: each name once" in fault


def test_the_packed_conversion_is_declared_where_it_is_used():
    family = load_specs(SHIPPED).families["decode_attention"].model
    (workaround,) = [item for item in family.workarounds if item.when == {"reader": "packed"}]
    assert workaround.alternative == {"reader": "generic"}
    assert {"v_cvt_pk_f32_fp8", "v_cvt_f32_fp8"} == set(workaround.hardware)


@pytest.mark.parametrize("given", ['""', '"(("', '"v_cvt x"', "[v_a]"])
def test_hardware_that_is_no_mnemonic_is_refused(toy, given):
    """No code would ever hold it, and the workaround be kept for ever."""
    edit(toy, FAMILY, *_hardware(f"[v_a, {given}]"))
    (fault,) = faults_of(toy)
    assert "hardware" in fault
    assert "mnemonic" in fault or "a text" in fault


def test_hardware_that_is_named_twice_is_refused(toy):
    edit(toy, FAMILY, *_hardware("[v_a, v_b, v_a]"))
    (fault,) = faults_of(toy)
    assert "v_a twice; allowed: each mnemonic once" in fault


def _hardware(listed):
    """An edit that gives the toy's workaround this hardware."""
    return "[v_mul_f32]", listed
