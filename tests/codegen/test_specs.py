"""A wrong spec is refused with every mistake at once: file:line:column, given, allowed, the nearest name."""

import pytest

from assay.codegen.specs import SpecError, load_specs
from tests.specs import FAMILY, SHIPPED, TEMPLATE, TOY, copy_toy, edit

TARGET = "targets/gfx1201.yaml"
PROFILE = "profiles/core.yaml"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A copy of the toy specs at ./toy, so that messages begin with toy/."""
    monkeypatch.chdir(tmp_path)
    return copy_toy(tmp_path / "toy")


def faults_of(specs):
    with pytest.raises(SpecError) as caught:
        load_specs(specs)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize("specs", [TOY, SHIPPED])
def test_good_specs_load(specs):
    assert load_specs(specs).families


def test_a_tensor_with_one_element_more_than_a_dimension_tells_the_dimension(toy):
    offsets = "  - {name: offsets, kind: pointer, dtype: i32, role: input, shape: [batch_plus_1]}\n"
    edit(toy, FAMILY, "  - {name: factor", offsets + "  - {name: factor")
    edit(toy, FAMILY, "grid: [[rows]]", "grid: [[rows], [batch]]")
    assert load_specs(toy).families["scale"].model.grid == [["rows"], ["batch"]]


LAST = "{unroll: 2, num_stages: 1, num_warps: 4}"
FACTOR = "{name: factor, kind: scalar, dtype: f32}"
ALIGN_4 = "{alignment: 4, target.backend: cuda}"

WRONG = {
    "unknown key": (
        FACTOR,
        FACTOR.replace("dtype", "dtyp"),
        "23:34: unknown key 'dtyp'; allowed: name, kind, dtype, dtype_by, ",
        "did you mean dtype?",
    ),
    "duplicate key": (
        "num_warps: 4}",
        "num_warps: 4, num_warps: 8}",
        "40:50: duplicate key 'num_warps'",
        "first given at line 40; remove one of the two",
    ),
    "three warps": ("num_warps: 4", "num_warps: 3", "40:47: num_warps: 3; allowed: 1, 2, 4, 8, 16 or 32", ""),
    "a number as text": ("num_warps: 4", "num_warps: '4'", "40:47: num_warps: '4'; allowed: an integer", ""),
    "a truth value as number": ("num_warps: 4", "num_warps: true", "40:47: num_warps: True; allowed: an integer", ""),
    "a decimal as number": ("num_warps: 4", "num_warps: 4.0", "40:47: num_warps: 4.0; allowed: an integer", ""),
    "no stages": (
        LAST,
        LAST.replace("num_stages: 1", "num_stages: 0"),
        "40:33: num_stages: 0; allowed: greater than or equal to 1",
        "",
    ),
    "launch without a field": (
        LAST,
        "{num_stages: 1, num_warps: 4}",
        "40:9: no unroll; allowed: all of num_stages, num_warps, unroll",
        "",
    ),
    "launch without warps": (
        LAST,
        "{unroll: 2, num_stages: 1}",
        "40:9: missing key 'num_warps'; allowed: 1, 2, 4, 8, 16, 32",
        "",
    ),
    "launch value outside": (
        "unroll: 2, num",
        "unroll: 3, num",
        "40:18: unroll is never 3; allowed: 1, 2",
        "",
    ),
    "launch with a stranger": (
        "unroll: 2, num",
        "unrol: 1, unroll: 2, num",
        "40:10: unknown name 'unrol'; allowed: num_stages, num_warps, unroll",
        "did you mean unroll?",
    ),
    "unknown axis in when": (
        ALIGN_4,
        ALIGN_4.replace("alignment", "alignmnt"),
        "16:12: unknown name 'alignmnt'; allowed: alignment, target.arch",
        "did you mean alignment?",
    ),
    "unknown operator": (
        "{alignment: 4,",
        "{alignment: {at_leest: 4},",
        "16:24: unknown operator 'at_leest'; allowed: not, contains, lacks, at_least",
        "did you mean at_least?",
    ),
    "operand of another type": (
        "{alignment: 4,",
        "{alignment: {at_least: '4'},",
        "16:34: at_least: '4'; allowed: an integer",
        "",
    ),
    "integer operator on texts": (
        "{alignment: 4,",
        "{x_dtype: {at_least: 4},",
        "16:22: at_least; allowed: on integers only",
        "",
    ),
    "contains on no list": (
        "{alignment: 4,",
        "{x_dtype: {contains: f32},",
        "16:22: contains; allowed: on a list only",
        "",
    ),
    "lacks on no list": (
        "{alignment: 4,",
        "{x_dtype: {lacks: f32},",
        "16:22: lacks; allowed: on a list only",
        "",
    ),
    "lacking a feature that no target has": (
        "target.backend: cuda",
        "target.features: {lacks: toy_featur}",
        "16:51: toy_featur, which no target has; allowed: toy_feature",
        "did you mean toy_feature?",
    ),
    "feature that no target has": (
        "target.backend: cuda",
        "target.features: {contains: toy_featur}",
        "16:54: toy_featur, which no target has; allowed: toy_feature",
        "did you mean toy_feature?",
    ),
    "value outside its domain": (
        "{alignment: 4,",
        "{alignment: 8,",
        "16:23: alignment is never 8; allowed: 4, 16",
        "",
    ),
    "value of another type": (
        "{alignment: 4,",
        "{alignment: '4',",
        "16:23: alignment is never '4'; allowed: 4, 16; '4' is str, 4 is int",
        "",
    ),
    "empty list": ("{alignment: 4,", "{alignment: [],", "16:23: an empty list, which nothing satisfies", ""),
    "empty test": ("{alignment: 4,", "{alignment: {},", "16:23: an empty test", ""),
    "unknown backend": (
        "target.backend: cuda",
        "target.backend: cudda",
        "16:42: target.backend is never cudda; allowed: hip, cuda",
        "did you mean cuda?",
    ),
    "no template": (
        "template: scale.py.j2",
        "template: scal.py.j2",
        "4:11: unknown template 'scal.py.j2'; allowed: scale.py.j2",
        "did you mean scale.py.j2?",
    ),
    "template elsewhere": ("template: scale.py.j2", "template: ../scale.py.j2", "4:11: template: '../scale.py.j2'", ""),
    "argument without dtype": (
        FACTOR,
        "{name: factor, kind: scalar}",
        "23:5: factor: dtype and dtype_by; allowed: exactly one of the two",
        "",
    ),
    "argument with both dtypes": (
        FACTOR,
        FACTOR.replace("}", ", dtype_by: {x_dtype: {f32: f32, f16: f16}}}"),
        "23:5: factor: dtype and dtype_by",
        "",
    ),
    "unknown dtype": (
        FACTOR,
        FACTOR.replace("f32", "f23"),
        "23:41: dtype: 'f23'; allowed: bf16, f16, f32",
        "did you mean f32?",
    ),
    "unknown kind": (
        FACTOR,
        FACTOR.replace("scalar", "scaler"),
        "23:26: kind: 'scaler'; allowed: pointer, scalar, size or stride",
        "did you mean scalar?",
    ),
    "dtype for one value only": (
        "{f32: f32, f16: f16}",
        "{f32: f32}",
        "21:50: no dtype for f16; allowed: one for every value of x_dtype",
        "",
    ),
    "pointer without role": (
        "dtype: f32, role: output, ",
        "dtype: f32, ",
        "22:5: out: no role; allowed: role on every pointer",
        "",
    ),
    "argument twice": ("name: factor", "name: out", "23:12: out twice; allowed: each argument once", ""),
    "odd alignment": ("{bytes: 16}", "{bytes: 3}", "22:99: bytes: 3; allowed: 1, 2, 4, 8 or 16", ""),
    "stride of a stranger": (
        "of: x, dim",
        "of: xx, dim",
        "24:56: unknown pointer argument 'xx'; allowed: out, x",
        "did you mean x?",
    ),
    "stride of no dimension": (
        "dim: rows",
        "dim: row",
        "24:64: unknown dimension of x 'row'; allowed: rows, width",
        "did you mean rows?",
    ),
    "float stride": (
        "stride, dtype: i64",
        "stride, dtype: f32",
        "24:47: x_stride_row: f32; allowed: i32 or i64 for a stride",
        "",
    ),
    "float size": (
        FACTOR,
        "{name: factor, kind: size, dtype: f32, of: x, dim: rows}",
        "23:39: factor: f32; allowed: i32 or i64 for a size",
        "",
    ),
    "size of no dimension": (
        FACTOR,
        "{name: factor, kind: size, dtype: i32, of: x, dim: row}",
        "23:56: unknown dimension of x 'row'; allowed: rows, width",
        "did you mean rows?",
    ),
    "size of nothing": (
        FACTOR,
        "{name: factor, kind: size, dtype: i32, dim: rows}",
        "23:5: factor: no of; allowed: of on every size",
        "",
    ),
    "stride without its pointer": (
        "kind: pointer, dtype_by",
        "kind: pointer, when: {width: 64}, dtype_by",
        "24:56: x_stride_row in problems without x",
        "",
    ),
    "axis value twice": ("values: [64, 96]", "values: [64, 64]", "9:24: 64 twice; allowed: each value once", ""),
    "axis value of no type": (
        "values: [64, 96]",
        "values: [64, null]",
        "9:24: values: None; allowed: true, false, an integer or a word",
        "",
    ),
    "axis values of two types": (
        "values: [64, 96]",
        "values: [64, wide]",
        "9:19: values of types int, str; allowed: values of one type",
        "",
    ),
    "axis value that a lock cannot hold": (
        "values: [f32, f16]",
        "values: [f32, f16, 'a | b']",
        "8:32: values: 'a | b'; allowed: true, false, an integer or a word",
        "",
    ),
    "axis without values": ("values: [64, 96]", "values: []", "9:19: values: []; allowed: at least 1 item", ""),
    "grid of a stranger": (
        "grid: [[rows]]",
        "grid: [[row]]",
        "31:9: unknown dimension 'row'; allowed: rows, width",
        "did you mean rows?",
    ),
    "constant of a stranger": (
        "BLOCK: {next_power_of_two: width}",
        "BLOCK: {next_power_of_two: widht}",
        "28:30: unknown axis or launch field 'widht'",
        "did you mean width?",
    ),
    "constant of two rules": (
        "WIDTH: {value_of: width}",
        "WIDTH: {value_of: width, literal: 3}",
        "27:10: 2 rules; allowed: value_of, next_power_of_two or literal",
        "",
    ),
    "constant raised where nothing can be": (
        "BLOCK: {next_power_of_two: width}",
        "BLOCK: {next_power_of_two: width, at_least: {when: {width: 65}, value: 128}}",
        "28:62: width is never 65; allowed: 64, 96",
        "",
    ),
    "launch field called as an axis": (
        "  unroll: {values: [1, 2]",
        "  width: {values: [64]",
        "34:3: width is taken",
        "",
    ),
    "unknown dispatch": (
        "width: equal",
        "width: equals",
        "44:10: width: 'equals'; allowed: equal, multiple_of, at_least or at_most",
        "did you mean equal?",
    ),
    "dispatch of a stranger": (
        "width: equal",
        "widths: equal",
        "44:3: unknown axis 'widths'; allowed: alignment, width, x_dtype",
        "did you mean width?",
    ),
    "order of texts": (
        "x_dtype: equal",
        "x_dtype: at_least",
        "43:12: x_dtype: at_least; allowed: equal, as the axis is no integer",
        "",
    ),
    "integer as tolerance": ("absolute: 0.0", "absolute: '0'", "52:13: absolute: '0'; allowed: a number", ""),
    "name that is none": (
        "kernel: scale_rows",
        "kernel: scale-rows",
        "5:9: kernel: 'scale-rows'; allowed: a name: a letter",
        "",
    ),
    "missing schema": ("schema: assay.family/1", "", "2:1: missing key 'schema'; allowed: assay.family/1", ""),
    "missing mapping": (
        "tolerance:\n  absolute: 0.0\n  relative: 0.0\n  against: float64 product\n",
        "",
        "1:1: missing key 'tolerance'; allowed: a mapping with absolute, relative, against",
        "",
    ),
    "missing name": ("kernel: scale_rows\n", "", "1:1: missing key 'kernel'; allowed: a name", ""),
    "number for a name": ("dim: rows", "dim: 0", "24:64: dim: 0; allowed: a name", ""),
    "number in a list of names": (
        "grid: [[rows]]",
        "grid: [[rows, 1]]",
        "31:15: grid: 1; allowed: a dimension, or a term",
        "",
    ),
    "grid term that is none": (
        "grid: [[rows]]",
        "grid: [[rows/]]",
        "31:9: grid: 'rows/'; allowed: a dimension, or a term",
        "",
    ),
    "grid by a stranger": (
        "grid: [[rows]]",
        "grid: [[rows/BLOK]]",
        "31:9: unknown constant, axis or launch field 'BLOK'; allowed: ",
        "did you mean BLOCK?",
    ),
    "grid by true": (
        "grid: [[rows]]",
        "grid: [[rows*widht/BLOCK]]",
        "31:9: unknown dimension 'widht'; allowed: rows, width",
        "did you mean width?",
    ),
    "dimension that a tensor has": (
        "grid: [[rows]]",
        "dimensions: {rows: how many}\ngrid: [[rows]]",
        "31:14: rows is taken; allowed: a name that no tensor's dimension has",
        "",
    ),
    "key that is no name": ("BLOCK: {next", "B-LOCK: {next", "28:3: key 'B-LOCK'; allowed: a name", ""),
    "number for a text": (
        "relative: 0.0\n  against: float64 product",
        "relative: 0.0\n  against: 1",
        "54:12: against: 1; allowed: a text",
        "",
    ),
    "text without letters": (
        "summary: out = factor",
        "summary: ''\n#",
        "3:10: summary: ''; allowed: at least 1 character",
        "",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_family_is_refused_with_position_given_and_allowed(toy, name):
    old, new, expected, hint = WRONG[name]
    edit(toy, FAMILY, old, new)
    matching = [fault for fault in faults_of(toy) if fault.startswith(f"toy/{FAMILY}:{expected}")]
    assert len(matching) == 1, faults_of(toy)
    assert matching[0].endswith(hint)
    assert "allowed: " in matching[0]


def test_one_wrong_line_is_one_fault(toy):
    """Nothing that only follows from another mistake is reported beside it."""
    for name in ("unknown key", "three warps", "value outside its domain", "unknown dispatch", "grid of a stranger"):
        old, new, _, _ = WRONG[name]
        specs = copy_toy(toy.parent / name)
        edit(specs, FAMILY, old, new)
        assert len(faults_of(specs)) == 1, name


def test_all_mistakes_of_all_files_are_reported_at_once_in_file_and_line_order(toy):
    edit(toy, FAMILY, "num_warps: 4", "num_warps: 3")
    edit(toy, FAMILY, "width: equal", "width: equals")
    edit(toy, TARGET, "threads: 1024", "thread: 1024")
    edit(toy, "targets/sm90.yaml", "lds_bytes: 232448", "lds_bytes: 232_448")
    edit(toy, "profiles/half.yaml", "schema: assay.profile/1", "schema: assay.profile/2")
    assert [fault.partition("; ")[0] for fault in faults_of(toy)] == [
        "toy/families/scale.yaml:40:47: num_warps: 3",
        "toy/families/scale.yaml:44:10: width: 'equals'",
        "toy/profiles/half.yaml:1:9: schema: 'assay.profile/2'",
        "toy/targets/gfx1201.yaml:10:3: missing key 'threads'",
        "toy/targets/gfx1201.yaml:11:3: unknown key 'thread'",
        "toy/targets/sm90.yaml:10:14: 232_448, which YAML readers disagree about",
    ]


def test_a_broken_target_does_not_make_families_look_wrong(toy):
    edit(toy, FAMILY, "target.backend: cuda", "target.features: {contains: toy_feature}")
    edit(toy, TARGET, "features: [toy_feature]", "featurs: [toy_feature]")
    assert {fault.partition(":")[0] for fault in faults_of(toy)} == {f"toy/{TARGET}"}


def test_a_key_that_is_none_of_a_few_is_told_with_all_that_is_wrong_beside_it(toy):
    edit(toy, TARGET, "    wgp: {", "    wpg: {")
    edit(toy, TARGET, "cu: {simds: 2, ", "cu: {simd: 2, ")
    edit(toy, TARGET, "waves: 16", "waves: 0")
    assert faults_of(toy) == [
        f"toy/{TARGET}:24:10: waves: 0; allowed: greater than 0",
        f"toy/{TARGET}:28:5: key 'wpg'; allowed: wgp, cu or sm; did you mean wgp?",
        f"toy/{TARGET}:29:9: missing key 'simds'; allowed: SIMDs (NVIDIA: sub-partitions), each with registers of its "
        "own",
        f"toy/{TARGET}:29:10: unknown key 'simd'; allowed: simds, lds_bytes, workgroups; did you mean simds?",
    ]


AMD = ("vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack")
NVIDIA = ("stack_bytes", "local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes")


@pytest.mark.parametrize(
    ("target", "budget"), [("gfx1201", name) for name in AMD] + [("sm90", name) for name in NVIDIA]
)
def test_a_target_states_a_limit_for_every_budget_of_its_backend(toy, target, budget):
    edit(toy, f"targets/{target}.yaml", f"  {budget}: 0\n", "")
    (fault,) = faults_of(toy)
    line = {"gfx1201": 15, "sm90": 14}[target]
    assert fault.startswith(
        f"toy/targets/{target}.yaml:{line}:3: no budget for {budget}; allowed: a limit for {budget} on "
    )


def test_a_dynamic_stack_cannot_be_allowed(toy):
    edit(toy, TARGET, "dynamic_stack: 0", "dynamic_stack: 1")
    line = (toy / TARGET).read_text().splitlines().index("  dynamic_stack: 1") + 1
    assert [f.partition(";")[0] for f in faults_of(toy)] == [f"toy/{TARGET}:{line}:18: dynamic_stack: 1"]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("scale: {}\n  scal: {}", "6:3: unknown family 'scal'; allowed: scale; did you mean scale?"),
        ("scale: {widht: [64]}", "5:11: unknown name 'widht'; allowed: alignment, width, x_dtype; did you mean width?"),
        ("scale: {width: [65]}", "5:19: width is never 65; allowed: 64, 96"),
        ("scale: {width: [64, 64]}", "5:23: 64 twice; allowed: each value once"),
        ("scale: {width: []}", "5:18: an empty list, which nothing satisfies; allowed: at least one value"),
        ("scale: {width: 64}", "5:18: width: 64; allowed: a list"),
    ],
)
def test_a_profile_names_what_exists(toy, new, expected):
    edit(toy, PROFILE, "scale: {}", new)
    assert faults_of(toy) == [f"toy/{PROFILE}:{expected}"]


@pytest.mark.parametrize(
    ("key", "wrong", "expected"),
    [
        ("variant", "1234567890123456", "variant: 1234567890123456; allowed: 16 hexadecimal digits, quoted"),
        ("variant", "89abcdef", "variant: '89abcdef'; allowed: 16 hexadecimal digits, quoted"),
        ("expires", "31.1.2027", "expires: '31.1.2027'; allowed: a date such as 2027-01-31"),
        ("expires", "", "missing key 'expires'; allowed: last day it holds, UTC"),
    ],
)
def test_a_waiver_is_told_how_ids_and_dates_are_written(toy, key, wrong, expected):
    given = {"name": "w", "target": "sm90", "profile": "core", "variant": "'0123456789abcdef'", "budget": "code_bytes"}
    given |= {"ceiling": "4", "expires": "2027-01-31", "reason": "r", key: wrong}
    lines = "\n    ".join(f"{name}: {value}" for name, value in given.items() if value)
    (toy / "waivers").mkdir()
    (toy / "waivers/w.yaml").write_text(f"schema: assay.waivers/1\nwaivers:\n  - {lines}\n")
    (fault,) = faults_of(toy)
    assert fault.split(": ", 1)[1] == expected


def test_a_file_is_called_as_what_it_describes(toy):
    (toy / TARGET).rename(toy / "targets/gfx1202.yaml")
    fault = (
        "2:9: target 'gfx1201' in a file called gfx1202.yaml; allowed: gfx1201.yaml; rename the file, or the name in it"
    )
    assert faults_of(toy) == [f"toy/targets/gfx1202.yaml:{fault}"]


def test_a_yml_file_is_not_left_out_without_a_word(toy):
    (toy / "targets/sm90.yaml").rename(toy / "targets/sm90.yml")
    fault = "toy/targets/sm90.yml: a .yml file, which is not read; allowed: a .yaml file; rename it"
    assert fault in faults_of(toy)


@pytest.mark.parametrize("content", [b"", b"# nothing\n"])
def test_an_empty_file_is_refused(toy, content):
    (toy / TARGET).write_bytes(content)
    assert faults_of(toy) == [f"toy/{TARGET}:1:1: an empty file; allowed: a mapping"]


def test_a_list_in_the_place_of_a_mapping_is_refused(toy):
    (toy / TARGET).write_text("- schema\n")
    assert faults_of(toy) == [f"toy/{TARGET}:1:1: ['schema']; allowed: a mapping"]


def test_a_folder_without_specs_is_refused_with_what_belongs_there(tmp_path):
    (tmp_path / "empty").mkdir()
    assert len(faults_of(tmp_path / "empty")) == 3
    (fault,) = faults_of(tmp_path / "nowhere")
    assert fault.endswith("no such directory; allowed: a directory with targets/, profiles/ and families/")


UNKNOWN_TARGETS = {
    "gfx1202": "did you mean gfx1201?",
    "GFX1201": "did you mean gfx1201?",
    "gfx1201:xnack-": "leave feature suffixes such as :xnack- out",
    "amdgcn-amd-amdhsa--gfx1201": "did you mean gfx1201?",
    "sm_90": "did you mean sm90?",
    "": "",
}


@pytest.mark.parametrize("name", UNKNOWN_TARGETS)
def test_an_unknown_target_is_refused_with_the_known_and_the_nearest(name):
    with pytest.raises(SpecError) as caught:
        load_specs(TOY).target(name)
    (fault,) = caught.value.faults
    assert f"target {name!r}: not a known target; allowed: gfx1201, sm90" in str(fault)
    assert UNKNOWN_TARGETS[name] in fault.hint


def test_an_unknown_profile_is_refused_with_the_known_and_the_nearest():
    with pytest.raises(SpecError, match=r"'cor': not a known profile; allowed: core, half; did you mean core\?"):
        load_specs(TOY).profile("cor")


def test_source_hashes_name_every_file_relative_to_the_folder_and_change_with_it(toy):
    before = load_specs(TOY).sources
    assert before == load_specs(toy).sources
    assert set(before) == {str(p.relative_to(TOY)) for p in TOY.rglob("*") if p.suffix in (".yaml", ".j2")}
    (toy / TEMPLATE).write_text((toy / TEMPLATE).read_text() + "# more\n")
    changed = {name for name, value in load_specs(toy).sources.items() if before[name] != value}
    assert changed == {TEMPLATE}


def test_specs_that_change_between_loading_and_recording_are_refused(toy):
    specs = load_specs(toy)
    specs.check_unchanged()
    edit(toy, TEMPLATE, "* factor", "* factor * 1.0")
    with pytest.raises(SpecError, match=r"changed during the run: templates/scale.py.j2"):
        specs.check_unchanged()
