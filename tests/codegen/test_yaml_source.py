"""YAML is read as everybody reads it: what YAML 1.1 would turn into something else is a fault with its position."""

import pytest

from assay.codegen.yaml_source import parse_yaml, read_yaml_file


def faults(text):
    return [str(fault) for fault in parse_yaml(text, "f.yaml").faults]


@pytest.mark.parametrize(
    "scalar",
    [
        "yes",
        "no",
        "Yes",
        "ON",
        "off",
        "y",
        "N",
        "True",
        "FALSE",
        "NULL",
        "010",
        "0o200",
        "0x1F",
        "0b101",
        "1_28",
        "1e2",
        "1E+2",
        ".5",
        "5.",
        ".inf",
        "-.INF",
        ".nan",
        "1:30",
        "190:20:30",
    ],
)
def test_a_scalar_that_readers_disagree_about_is_a_fault_that_says_how_to_quote_it(scalar):
    (fault,) = faults(f"a: 1\nb: [ok, {scalar}]\n")
    assert fault.startswith(f"f.yaml:2:9: {scalar}, which YAML readers disagree about; allowed: true, false, ")
    assert fault.endswith(f"quote it ('{scalar}') if it is text")
    assert parse_yaml(f"a: '{scalar}'", "f").data == {"a": scalar}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128", 128),
        ("-1", -1),
        ("0", 0),
        ("0.002", 0.002),
        ("1.5e-3", 1.5e-3),
        ("true", True),
        ("null", None),
        ("~", None),
        ("bf16", "bf16"),
        ("'128'", "128"),
        ('"true"', "true"),
        ("sm_120a", "sm_120a"),
        ("2026-01-02", "2026-01-02"),
    ],
)
def test_every_other_scalar_is_what_it_looks_like(text, value):
    read = parse_yaml(f"a: {text}", "f").data["a"]
    assert (type(read), read) == (type(value), value)


def test_an_integer_of_thousands_of_digits_is_text_and_no_crash():
    assert parse_yaml("a: " + "9" * 5000, "f").data == {"a": "9" * 5000}


def test_every_duplicate_key_is_reported_with_both_lines():
    text = "a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 4\n"
    assert faults(text) == [
        "f.yaml:5:3: duplicate key 'c'; allowed: each key once; first given at line 3; remove one of the two",
        "f.yaml:6:1: duplicate key 'a'; allowed: each key once; first given at line 1; remove one of the two",
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: &x 1\nb: 2", "1:4: an anchor (&)"),
        ("a: &x 1\nb: *x", "2:4: an alias (*)"),
        ("a: !!int '1'", "1:4: a tag (!)"),
        ("a: !!python/object/apply:os.system [ls]", "1:4: a tag (!)"),
        ("a: &x {k: 1}\nb: {<<: *x}", "2:9: an alias (*)"),
    ],
)
def test_anchors_aliases_and_tags_are_refused(text, where):
    assert f"f.yaml:{where}; allowed: plain values only" in faults(text)
    assert parse_yaml(text, "f").data is None


def test_many_aliases_of_aliases_cost_nothing():
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert len(faults("\n".join(lines))) == 60 + 3 * 59


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "f.yaml:1:1: an empty file; allowed: a mapping"),
        ("# only a comment\n", "f.yaml:1:1: an empty file; allowed: a mapping"),
        (
            "a: [1, 2\nb: 3\n",
            "f.yaml:2:2: expected ',' or ']', but got ':'; allowed: valid YAML; while parsing a flow sequence",
        ),
        (
            "a: 1\n\tb: 2\n",
            "f.yaml:2:1: found character '\\t' that cannot start any token; allowed: valid YAML; "
            "while scanning for the next token",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "f.yaml:2:1: but found another document; allowed: valid YAML; expected a single document in the stream",
        ),
        ("a: 1\nbc: \0\n", "f.yaml:2:5: character U+0000; allowed: printable text"),
        ("? [a, b]\n: 1\n", "f.yaml:1:3: a key that is not a name; allowed: a plain name as key"),
    ],
)
def test_text_that_is_no_mapping_is_one_fault_with_its_position(text, fault):
    assert faults(text) == [fault]


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "[" * 300 + "]" * 300, "{a: " * 300 + "1" + "}" * 300])
def test_nesting_without_end_is_a_fault_and_no_crash(text):
    assert len(faults(text)) >= 1


def test_a_file_that_is_not_utf_8_is_a_fault_that_names_the_byte(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"a: caf\xe9\n")
    (fault,) = read_yaml_file(tmp_path / "f.yaml", "f.yaml").faults
    assert str(fault) == "f.yaml: not UTF-8 text (invalid continuation byte at byte 6); allowed: a readable UTF-8 file"


def test_a_folder_in_the_place_of_a_file_is_a_fault(tmp_path):
    (tmp_path / "f.yaml").mkdir()
    (fault,) = read_yaml_file(tmp_path / "f.yaml", "f.yaml").faults
    assert "Is a directory" in str(fault)
