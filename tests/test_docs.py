"""The example of docs/specs.md is what the document shows, qualifies, and computes what it says."""

import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pytest

from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
from tests.kernels.running import interpret
from tests.specs import SHIPPED, run

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLE = DOCS / "examples" / "rms_norm"
FILES = ("profiles/core.yaml", "families/rms_norm.yaml", "templates/rms_norm.py.j2")


@pytest.fixture
def specs(tmp_path):
    """The example as a reader sets it up: with the shipped targets."""
    shutil.copytree(EXAMPLE, tmp_path / "specs")
    shutil.copytree(SHIPPED / "targets", tmp_path / "specs" / "targets")
    return tmp_path / "specs"


@pytest.mark.parametrize("file", FILES)
def test_the_document_shows_the_files_as_they_are(file):
    shown = "".join(f"    {line}".rstrip() + "\n" for line in (EXAMPLE / file).read_text().splitlines())
    assert shown in (DOCS / "specs.md").read_text()


def test_the_example_has_no_other_files():
    assert sorted(FILES) == sorted(str(p.relative_to(EXAMPLE)) for p in EXAMPLE.rglob("*") if p.is_file())


@pytest.mark.parametrize("target", ["gfx1201", "sm120"])
def test_the_example_qualifies(specs, target, tmp_path, capsys, compile_cache):  # noqa: ARG001
    where = ("--specs", specs, "--target", target, "--out", tmp_path / "out")
    ran = run(capsys, "qualify", *where, "--evidence", "static", "--update-lock", "--json")
    assert ran.status == 0, ran.err
    assert [problem["family"] for problem in ran.document["problems"]] == ["rms_norm"] * 4


def test_the_example_is_launched_as_the_document_says(specs, tmp_path, capsys, compile_cache):  # noqa: ARG001
    built = tmp_path / "built"
    arguments = ("--specs", specs, "--target", "gfx1201", "--out", built, "--evidence", "static", "--update-lock")
    assert run(capsys, "qualify", *arguments).status == 0
    said = (DOCS / "specs.md").read_text()
    (shown,) = re.findall(r"Then launch it.*\n\n((?:    .*\n|\n)+)", said)
    names = {}
    exec(textwrap.dedent(shown).replace("built/", f"{built}/"), names)
    x, out = names["x"].double(), names["out"].double()
    expected = x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt()
    assert ((out - expected).abs() <= 0.01 + 0.01 * expected.abs()).all()


@pytest.mark.parametrize("width", ["1024", "2880"])
def test_the_example_is_the_float64_norm_of_each_row(specs, width, tmp_path):
    loaded = load_specs(specs)
    family, target = loaded.families["rms_norm"].model, loaded.target("gfx1201")
    only = {"width": (width,), "alignment": ("16",)}
    (problem,) = expand(loaded, "gfx1201", Selection("core", only))
    variant = make_variant(family, target, candidates(family, target, problem)[0], Renderer(loaded.templates))
    assert ("mask=" in variant.request.source) == (width == "2880")

    columns, eps, rng = int(width), 1e-3, np.random.default_rng(3)
    # Rows longer than the width: what stands behind them is neither read nor written.
    x = np.full((3, columns + 8), np.nan, np.float32)
    # Small integers and eighths are exact in BF16.
    x[:, :columns] = rng.integers(-16, 17, (3, columns)) / np.array([[1], [8], [64]])
    x[2, ::2] = 0
    weight = (rng.integers(1, 17, columns) / 8).astype(np.float32)
    out = np.full((3, columns + 16), 7, np.float32)
    strides = {"x_stride_row": np.array(columns + 8), "out_stride_row": np.array(columns + 16)}
    inputs = {"x": x, "weight": weight, "out": out, "eps": np.array(eps), **strides}
    made = interpret(variant, inputs, (3,), tmp_path, ("x", "weight", "out"))["out"]

    rows = x[:, :columns].astype(np.float64)
    expected = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + eps) * weight
    tolerance = {"atol": family.tolerance.absolute, "rtol": family.tolerance.relative}
    np.testing.assert_allclose(made[:, :columns], expected, **tolerance)
    assert (made[:, columns:] == 7).all()
