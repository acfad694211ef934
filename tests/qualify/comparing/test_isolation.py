"""The shipped templates, edited: what moves is what the edit says, and what else would have moved is caught."""

import shutil
from pathlib import Path

import pytest

from tests.qualify.comparing.repositories import SpecRepository
from tests.specs import edit

ROOT = Path(__file__).parents[3]
FOLDERS = ("kernel_specs", "objects", "bundle", "reference", "codegen", "emulator", "runtime", "qualify")
READERS = "templates/kv_readers.j2"
# The packed reader's second half of a word; what every other reader loads, 16 elements off.
OF_PACKED = ('"v_cvt_pk_f32_fp8_e64 $0, $1 op_sel:[1,0]"', '"v_cvt_pk_f32_fp8_e64 $0, $1 op_sel:[0,0]"')
OF_OTHERS = (
    "_rows[:, None] + {{ columns }}[None, :]{{ mask }}",
    "_rows[:, None] + ({{ columns }}[None, :] + 16){{ mask }}",
)

DECODE = "head_dim=64,rows=1,block_m=4,slot_dtype=i32,window=false,soft_cap=false,alignment=16,offset_bits=32"
FORMATS = "kv_format=bf16,kv_format=fp8_per_token_head"
PART = ("--part", f"family=decode_attention,family=merge_splits,{DECODE},{FORMATS},most_splits=16")
BOTH = ("--target", "gfx1201", "--target", "sm120")
ISOLATION = "target=gfx1201,reader=packed"

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """This checkout in a repository of its own, tagged `before`, as a revision that carries its own code."""
    made = SpecRepository(tmp_path / "checkout", "kernel_specs")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, made.top / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit("as it is")
    made.git("tag", "before")
    monkeypatch.chdir(made.top)
    return made


def moved(document):
    """Target, family and reader of each variant that differs."""
    return {
        (pair["target"], pair["family"], pair["problem"].get("reader"))
        for pair in document["pairs"]
        if pair["differences"]
    }


def test_an_edit_of_one_reader_leaves_cuda_isolated_and_one_of_the_others_is_caught(assay, checkout):
    edit(checkout.specs, READERS, *OF_PACKED)
    checkout.commit("the packed reader")
    ran = assay("compare", "before..HEAD", *BOTH, *PART, "--only", ISOLATION, "--json")
    assert (ran.status, ran.document["verdict"]) == (0, "allowed"), ran.err
    assert moved(ran.document) == {("gfx1201", "decode_attention", "packed")}
    assert {pair["level"] for pair in ran.document["pairs"] if pair["target"] == "sm120"} == {"identical_bytes"}
    assert {pair["family"] for pair in ran.document["pairs"]} == {"decode_attention", "merge_splits"}

    edit(checkout.specs, READERS, *OF_OTHERS)
    checkout.commit("every other reader")
    ran = assay("compare", "before..HEAD", *BOTH, *PART, "--only", ISOLATION, "--json")
    assert (ran.status, ran.document["verdict"]) == (1, "different")
    violated = {pair["target"] for pair in ran.document["pairs"] if pair["violations"]}
    assert violated == {"gfx1201", "sm120"}
    assert ("sm120", "decode_attention", "generic") in moved(ran.document)
    assert all(family == "decode_attention" for _, family, _ in moved(ran.document))


def test_one_line_marks_its_family_and_a_comment_marks_nothing(assay, checkout):
    part = ("--part", "family=merge_splits,family=kv_reconstruct,head_dim=64,sinks=false")
    edit(
        checkout.specs,
        "templates/merge_splits.py.j2",
        "    splits = tl.load(",
        "    # One of each.\n\n    splits = tl.load(",
    )
    edit(
        checkout.specs,
        "templates/merge_splits.py.j2",
        "{%- if sinks %}\n    sinks,",
        "{#- said -#}\n{%- if sinks %}\n    sinks,",
    )
    checkout.commit("comments")
    ran = assay("compare", "before..HEAD", *BOTH, *part, "--json")
    assert (ran.status, ran.document["verdict"]) == (0, "equal"), ran.err
    assert list(ran.document["counts"]["levels"]) == ["identical_bytes"]
    notes = {pair["family"] for pair in ran.document["pairs"] if pair["notes"]}
    assert notes == {"merge_splits"}

    edit(checkout.specs, "templates/merge_splits.py.j2", 'float("-inf"), top, 0.0)', 'float("-inf"), top, 1.0)')
    checkout.commit("a line")
    ran = assay("compare", "before..HEAD", *BOTH, *part, "--json")
    assert ran.status == 1
    differing = [pair for pair in ran.document["pairs"] if pair["differences"]]
    assert {pair["family"] for pair in differing} == {"merge_splits"}
    assert len(differing) == sum(pair["family"] == "merge_splits" for pair in ran.document["pairs"])
