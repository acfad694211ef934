"""Both sides on the same cases: equal, or the first element that differs; the same code is not run."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import numpy as np
import pytest

from assay import kernel_specs
from assay.bundle import Bundle
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
from assay.qualify.comparing.case_sets import isolation_names
from assay.qualify.comparing.emulated_outputs import compare_in_worker
from assay.qualify.comparing.launches import emulation_request
from assay.qualify.comparing.output_bits import first_difference, outcome
from assay.qualify.comparing.output_report import ISOLATION_POINTS
from assay.qualify.comparing.outputs import OutputsRequest, compare_outputs
from assay.qualify.comparing.running import compare
from assay.qualify.comparing.sides import SideRequest
from assay.qualify.comparing.trees import Recipe
from assay.qualify.emulating import emulation_request as request_of
from assay.reference import Case, cases
from assay.reference.tensors import dense
from tests.kernels.shipped import compile_variant

SHIPPED = str(kernel_specs.DIRECTORY)
MERGE = ("family=merge_splits,head_dim=64,sinks=false,most_splits=16",)


@functools.cache
def request(specs_folder: str, launch: int = 0) -> dict:
    """An emulation request of the merge for a head of 64, at its candidate of that number."""
    specs = load_specs(Path(specs_folder))
    only = {"family": ("merge_splits",), "head_dim": ("64",), "sinks": ("false",), "most_splits": ("128",)}
    (problem,) = [item for item in expand(specs, "gfx1201", Selection("core", only)) if isinstance(item, Problem)]
    family, target = specs.families["merge_splits"].model, specs.target("gfx1201")
    candidate = candidates(family, target, problem)[launch]
    variant = make_variant(family, target, candidate, Renderer(specs.templates))
    return request_of(variant, compile_variant(variant), family)


@pytest.fixture
def edited(tmp_path):
    """The shipped specs with one text of the merge's template replaced."""

    def make(old: str, new: str) -> Path:
        folder = tmp_path / "specs"
        shutil.copytree(kernel_specs.DIRECTORY, folder)
        path = folder / "templates" / "merge_splits.py.j2"
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
        return folder

    return make


@pytest.mark.usefixtures("compile_cache")
def test_two_launches_of_one_template_give_equal_bits_or_a_difference_that_is_there():
    one, other = request(SHIPPED), request(SHIPPED, launch=1)
    assert one["code"] != other["code"]
    result = compare_in_worker(one, other, "chosen")
    assert not result["fault"]
    if result["difference"] is None:
        assert result["cases"] == len(cases("merge_splits", one["axes"]))
    else:
        mirrored = compare_in_worker(other, one, "chosen")
        turned = {**result["difference"], "left": result["difference"]["right"], "right": result["difference"]["left"]}
        assert mirrored["difference"] == turned
        assert result["difference"]["left"] != result["difference"]["right"]


@pytest.mark.usefixtures("compile_cache")
def test_a_changed_element_is_found_at_its_place(edited):
    changed = edited("    tl.store(out_row + dims, merged", "    merged = tl.where(dims == 5, merged + 1.0, merged)\n"
                     "    tl.store(out_row + dims, merged")  # fmt: skip
    result = compare_in_worker(request(SHIPPED), request(str(changed)), "chosen")
    difference = result["difference"]
    assert (difference["tensor"], difference["index"][-1]) == ("out", 5)
    assert set(difference["index"][:-1]) == {0}
    assert difference["differing"] * 64 <= difference["elements"]
    left, right = (float(difference[side].partition(" ")[0]) for side in ("left", "right"))
    assert right == pytest.approx(left + 1.0, abs=0.01)


@pytest.mark.usefixtures("compile_cache")
def test_a_change_that_no_output_shows_is_equal_on_every_case(edited):
    changed = edited("tl.store(out_row + dims, merged.to(out.dtype.element_ty)", "tl.store(out_row + dims, "
                     "merged.to(out.dtype.element_ty), cache_modifier='.cs'")  # fmt: skip
    one, other = request(SHIPPED), request(str(changed))
    assert one["code"] != other["code"]
    number = len(cases("merge_splits", one["axes"]))
    assert compare_in_worker(one, other, "chosen") == outcome(number)


@pytest.mark.usefixtures("compile_cache")
def test_a_fault_of_one_side_is_a_difference():
    one = request(SHIPPED)
    wrong = [argument for argument in one["arguments"] if argument[0] != "out"]
    result = compare_in_worker(one, {**one, "arguments": tuple(wrong)}, "chosen")
    assert (result["one_sided"], result["cases"]) == (True, 0)
    assert result["fault"].partition(": ")[2].startswith("right: ")


def case_of(values: np.ndarray) -> Case:
    return Case("a case", {"out": dense(values)}, {}, {}, ("out",), {})


def test_bits_are_compared_and_not_numbers():
    zeros = np.zeros((2, 3), np.float32)
    assert first_difference(case_of(zeros), case_of(zeros.copy()), {"out": "f32"}) is None
    other = zeros.copy()
    other[1, 1:] = -0.0
    found = first_difference(case_of(zeros), case_of(other), {"out": "f32"})
    assert (found.index, found.differing, found.elements) == ((1, 1), 2, 6)
    assert (found.left, found.right) == ("0 (0x00000000)", "-0 (0x80000000)")


def test_nan_equals_nan_of_the_same_bits_alone():
    one = np.array([0x7FC00000], np.uint32).view(np.float32)
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert first_difference(case_of(one), case_of(one.copy()), {"out": "f32"}) is None
    assert first_difference(case_of(one), case_of(other), {"out": "f32"}).right == "nan (0x7fc00001)"


def test_bf16_and_codes_are_spelled_with_their_bits():
    one, other = np.array([0x3F80], np.uint16), np.array([0x3F81], np.uint16)
    found = first_difference(case_of(one), case_of(other), {"out": "bf16"})
    assert (found.left, found.right) == ("1 (0x3f80)", "1.0078125 (0x3f81)")
    assert str(found) == "a case: out[0] is 1 (0x3f80) and 1.0078125 (0x3f81); 1 of 1 elements differ"


def test_the_isolation_set_is_81_calls_each_of_them_answered_by_some_row_of_full():
    specs = load_specs(Path(kernel_specs.DIRECTORY))
    only = {"family": ("decode_attention",), "alignment": ("16",), "offset_bits": ("64",)}
    names = set()
    for item in expand(specs, "gfx1201", Selection("full", only)):
        if isinstance(item, Problem):
            names.update(isolation_names("decode_attention", dict(item.axes)))
    assert len(names) == ISOLATION_POINTS == 81
    assert "int8_per_token_head D=256 GQA 8, 32,768 keys, 8 rows" in names


def compared(left: Path, right: Path):
    import contextlib

    @contextlib.contextmanager
    def silent(*_):
        yield lambda *_: None

    with contextlib.ExitStack() as stack:
        recipe = Recipe("core", {}, 1, None)
        return compare(SideRequest(str(left), str(right), (), recipe), (), silent, stack)


def outputs_of(left: Path, right: Path, cache: Path, **options):
    comparison = compared(left, right)
    wanted = OutputsRequest(**{"device": None, "case_set": "chosen", "cache": cache, "jobs": 2, **options})
    told = []
    pairs = [item.pair for item in comparison.judged]
    results = compare_outputs(comparison.left, comparison.right, pairs, wanted, lambda *one: told.append(one))
    assert told == results
    return results


def test_the_same_code_at_the_same_launch_is_not_run(toy, tmp_path):
    results = outputs_of(toy, toy, tmp_path)
    assert {(outputs.verdict, outputs.cases) for _, outputs in results} == {("same code", 0)}


def test_the_same_code_at_another_launch_is_no_same_code(toy, other, tmp_path):
    from tests.qualify.comparing.changed_bundles import with_first

    changed = other(lambda contents: with_first(contents, lambda row: row._replace(lds_bytes=row.lds_bytes + 16)))
    results = outputs_of(toy, changed, tmp_path)
    assert [outputs.verdict for _, outputs in results].count("not run") == 1
    assert "reference" in next(outputs.detail for _, outputs in results if outputs.verdict == "not run")


@pytest.mark.slow
def test_a_request_from_a_bundle_is_the_one_of_its_build(built_merge):
    """What a bundle says of a variant leads to the same call as the variant itself."""
    path, folder = built_merge("plain")
    comparison = compared(path, path)
    entry = next(item.pair.left for item in comparison.judged)
    ours, theirs = emulation_request(entry.built), request(str(folder))
    with Bundle.open(path) as bundle:
        assert ours["code"] == bundle.object_bytes(entry.built.row.object)
    assert [ours[name] for name in ("family", "num_warps", "symbol")] == ["merge_splits", 1, theirs["symbol"]]
    # The type of a stride is the kernel's own affair: its place in the block of arguments tells it.
    places = [[(name, kind, of, dim) for name, kind, _, of, dim in side["arguments"]] for side in (ours, theirs)]
    assert places[0] == places[1]
    types = [
        {name: dtype for name, kind, dtype, *_ in side["arguments"] if kind == "pointer"} for side in (ours, theirs)
    ]
    assert types[0] == types[1]


@pytest.fixture(scope="module")
def built_merge(tmp_path_factory, compile_cache):  # noqa: ARG001
    """Bundles of one merge: as shipped, with one element changed, and with another cache hint."""
    from assay.qualify import entry

    edits = {
        "plain": ("", ""),
        "changed": ("    tl.store(out_row + dims, merged", "    merged = tl.where(dims == 5, merged + 1.0, merged)\n"
                    "    tl.store(out_row + dims, merged"),
        "hinted": ("merged.to(out.dtype.element_ty)", "merged.to(out.dtype.element_ty), cache_modifier='.cs'"),
    }  # fmt: skip

    @functools.cache
    def build(name: str) -> tuple[Path, Path]:
        top = tmp_path_factory.mktemp(name)
        folder = shutil.copytree(kernel_specs.DIRECTORY, top / "specs")
        template = folder / "templates" / "merge_splits.py.j2"
        template.write_text(template.read_text().replace(*edits[name]) if edits[name][0] else template.read_text())
        arguments = ["qualify", "--target", "gfx1201", "--specs", str(folder), "--out", str(top), "--update-lock"]
        assert entry.run([*arguments, "--evidence", "static", "--only", *MERGE]) == 0
        (path,) = (top / "gfx1201").glob("*.assay")
        return path, folder

    return build


@pytest.mark.slow
@pytest.mark.parametrize("device", [None, "emulator:gfx1201"])
def test_bundles_are_run_from_end_to_end_and_results_kept(built_merge, tmp_path, device):
    plain, changed, hinted = (built_merge(name)[0] for name in ("plain", "changed", "hinted"))
    ((_, equal),) = outputs_of(plain, hinted, tmp_path, device=device)
    ((_, different),) = outputs_of(plain, changed, tmp_path, device=device)
    assert (equal.verdict, different.verdict) == ("equal", "different")
    assert equal.cases > 5
    assert different.difference.index[-1] == 5
    if device is None:
        kept = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        ((_, again),) = outputs_of(plain, changed, tmp_path)
        assert again == different
        assert kept == sorted(path for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_device_that_is_not_here_is_said_for_each_pair(built_merge, tmp_path):
    plain, changed = (built_merge(name)[0] for name in ("plain", "changed"))
    ((_, outputs),) = outputs_of(plain, changed, tmp_path, device="hip:0")
    assert (outputs.verdict, bool(outputs.detail)) == ("not run", True)
