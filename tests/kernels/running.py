"""Variants of the shipped families, and running their rendered source in Triton's interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from assay import kernel_specs
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem, Variant
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant


def variant_for(
    family: str,
    target: str,
    launch: dict | None = None,
    specs_folder: Path | None = None,
    profile: str = "core",
    **axes: object,
) -> Variant:
    """The first candidate of the profile's one problem with these axis values, with parts of its launch replaced."""
    specs = load_specs(specs_folder or Path(kernel_specs.DIRECTORY))
    model = specs.families[family].model
    only = {"family": (family,), **{name: (str(value).lower(),) for name, value in axes.items()}}
    (problem,) = (item for item in expand(specs, target, Selection(profile, only)) if isinstance(item, Problem))
    candidate = candidates(model, specs.target(target), problem)[0]
    changed = tuple((name, (launch or {}).get(name, value)) for name, value in candidate.launch)
    return make_variant(model, specs.target(target), type(candidate)(problem, changed), Renderer(specs.templates))


def interpret(
    variant: Variant, inputs: dict[str, object], grid: tuple[int, ...], folder: Path, bf16: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Every array after one run of the variant's source; `bf16` names the float32 arrays that are passed as BF16."""
    source, given, made = folder / "kernel.py", folder / "in.npz", folder / "out.npz"
    source.write_text(variant.request.source)
    sizes = {f"grid{axis}": (*grid, 1, 1)[axis] for axis in range(3)}
    np.savez(given, bf16=np.array(bf16, dtype=str), **sizes, **inputs)
    constants = [f"{name}={value}" for name, value in variant.request.constants]
    script = Path(__file__).with_name("interpret_kernel.py")
    command = [sys.executable, str(script), str(source), str(given), str(made), variant.request.kernel, *constants]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(np.load(made))
