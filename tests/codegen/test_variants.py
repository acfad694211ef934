"""A variant's id is a hash of problem, launch, target, specialisation and source: no more and no less."""

import ast
import os
import re
import subprocess
import sys

import pytest

from assay.codegen.specs import load_specs
from tests.specs import FAMILY, SHIPPED, TEMPLATE, TOY, copy_toy, edit

SHIPPED_TARGETS = sorted(load_specs(SHIPPED).targets)


@pytest.mark.parametrize("target", SHIPPED_TARGETS)
def test_no_two_variants_of_a_target_have_one_id(make_variants, target):
    variants = make_variants(target, specs=SHIPPED)
    assert len({variant.id for variant in variants}) == len(variants) > 10
    assert all(re.fullmatch("[0-9a-f]{16}", variant.id) for variant in variants)


def ids(variants):
    return [variant.id for variant in variants]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (FAMILY, "num_warps: 2", "num_warps: 8"),
        (FAMILY, "unroll: 1, num_stages: 1", "unroll: 1, num_stages: 2"),
        (FAMILY, "role: output, shape: [rows, width], alignment: {bytes: 16}", "role: output, shape: [rows, width]"),
        (TEMPLATE, "times a factor", "times one factor"),
    ],
    ids=["only num_warps", "only num_stages", "only a promise", "only the source"],
)
def test_the_id_changes_with_whatever_could_change_the_object(make_variants, tmp_path, file, old, new):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, file, old, new)
    # The first candidate of the first problem is the one that every edit above touches.
    assert make_variants("gfx1201", specs=specs)[0].id != make_variants("gfx1201")[0].id


def test_variants_that_differ_in_one_dtype_alone_have_ids_and_signatures_of_their_own(make_variants):
    single, half = (
        make_variants("gfx1201", x_dtype=(dtype,), width=("64",), alignment=("16",))[0] for dtype in ("f32", "f16")
    )
    assert single.request.source == half.request.source
    assert single.id != half.id
    assert [dict(v.request.signature)["x"] for v in (single, half)] == ["*fp32", "*fp16"]


def test_one_problem_on_two_targets_has_two_ids(make_variants):
    assert make_variants("gfx1201")[0].candidate.launch == make_variants("sm90")[0].candidate.launch
    assert make_variants("gfx1201")[0].id != make_variants("sm90")[0].id


def test_the_id_does_not_depend_on_what_decides_nothing(make_variants, tmp_path):
    specs = copy_toy(tmp_path / "elsewhere")
    edit(specs, FAMILY, "summary: out = factor", "summary: y is factor")
    edit(specs, "targets/gfx1201.yaml", "lds_bytes: 65536\n  threads", "lds_bytes: 32768\n  threads")
    assert ids(make_variants("gfx1201", specs=specs)) == ids(make_variants("gfx1201"))


PRINT_IDS = """
import sys
from pathlib import Path
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem, sha256_hex
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
loaded = load_specs(Path(sys.argv[1]))
renderer = Renderer(loaded.templates)
for target in loaded.targets:
    for item in expand(loaded, target, Selection("core", {})):
        if isinstance(item, Problem):
            family = loaded.families[item.family].model
            for candidate in candidates(family, loaded.target(target), item):
                variant = make_variant(family, loaded.target(target), candidate, renderer)
                print(variant.id, sha256_hex(variant.request.source), sha256_hex(repr(variant.request)))
"""


@pytest.mark.parametrize("specs", [TOY, SHIPPED], ids=["toy", "shipped"])
def test_ids_sources_and_requests_do_not_depend_on_pythons_hash_seed(specs):
    printed = set()
    for seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT_IDS, str(specs)]
        printed.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1
    assert printed.pop().count("\n") > 10


def test_promises_become_bytes_for_pointers_and_elements_for_strides(make_variants):
    promised = {}
    for variant in make_variants("gfx1201", width=("64",)):
        axes = dict(variant.candidate.problem.axes)
        promised[axes["x_dtype"], axes["alignment"]] = dict(variant.request.divisibility)
    assert promised == {
        ("f32", 16): {"x": 16, "out": 16, "x_stride_row": 4},
        ("f32", 4): {"x": 4, "out": 16},  # four bytes are one element: nothing is promised of the stride
        ("f16", 16): {"x": 16, "out": 16, "x_stride_row": 8},
        ("f16", 4): {"x": 4, "out": 16, "x_stride_row": 2},
    }


def test_arguments_are_laid_out_in_order_at_their_natural_alignment(make_variants):
    layout = [(item.name, item.kind, item.offset, item.size) for item in make_variants("gfx1201")[0].arguments]
    assert layout == [
        ("x", "pointer", 0, 8),
        ("out", "pointer", 8, 8),
        ("factor", "f32", 16, 4),
        ("x_stride_row", "i64", 24, 8),  # not at 20
    ]


def test_constants_are_axis_values_launch_values_and_powers_of_two(make_variants):
    found = {tuple(dict(v.request.constants).items()) for v in make_variants("gfx1201", alignment=("16",))}
    wide, narrow = (("WIDTH", 64), ("BLOCK", 64)), (("WIDTH", 96), ("BLOCK", 128))
    assert found == {(*row, ("UNROLL", n)) for row in (wide, narrow) for n in (1, 2)}


def test_a_constant_is_raised_on_the_targets_that_ask_for_it(make_variants, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    rule = "BLOCK: {next_power_of_two: width, at_least: {when: {target.backend: cuda, width: 64}, value: 100}}"
    edit(specs, FAMILY, "BLOCK: {next_power_of_two: width}", rule)
    blocks = {
        target: {tuple(dict(v.request.constants)[name] for name in ("WIDTH", "BLOCK")) for v in variants}
        for target in ("gfx1201", "sm90")
        for variants in [make_variants(target, specs=specs)]
    }
    assert blocks == {"gfx1201": {(64, 64), (96, 128)}, "sm90": {(64, 100), (96, 128)}}


def literals(source):
    """Integer literals of a rendered kernel outside its docstrings."""
    return {
        node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and type(node.value) is int
    }


@pytest.mark.parametrize("target", SHIPPED_TARGETS)
def test_no_rendered_kernel_holds_a_head_dim_or_a_tile_size_as_a_literal(make_variants, target):
    """A body that was written for 128 computes something else for 256 and looks right in every test of 128."""
    for variant in make_variants(target, specs=SHIPPED):
        sizes = {value for value in dict(variant.request.constants).values() if value >= 64}
        assert not literals(variant.request.source) & (sizes | {64, 96, 128, 256}), variant.candidate.label


@pytest.mark.parametrize("target", SHIPPED_TARGETS)
def test_rendered_source_is_python_without_jinja_left_in_it_and_without_unused_arguments(make_variants, target):
    for variant in make_variants(target, specs=SHIPPED):
        source = variant.request.source
        assert not re.search(r"\{[{%#]|[#%}]\}", source)
        (kernel,) = (
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name == variant.request.kernel
        )
        names = [argument.arg for argument in kernel.args.args]
        assert names == [name for name, _ in variant.request.signature]
        read = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
        # A length and its block are two constants, of which the longer one alone is read where they are equal.
        constants = dict(variant.request.constants)
        used = {constants[name] for name in constants if name in read}
        unused = [name for name in names if name not in read and constants.get(name) not in used]
        assert not unused, variant.candidate.label
