"""The instructions of one variant with the source lines that they come from, by building it once more.

What ships has no line tables.  So the variant is compiled with them by the code and specs that it came from, and its
lines are taken only where the machine code is the same.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from .building import child_environment, linked_site
from .git import temporary_folder
from .listing import Line, kernel_listing
from .normalising import same_code_section
from .records import Built
from .trees import OWN_ROOT, Tree

_SECONDS = 300
# Compiles variant `id` of specs with line tables into a file; by the assay that lies in `root`.
_COMPILE = """
import pathlib, sys
from dataclasses import replace
root, specs, target, id, out = sys.argv[1:]
from assay.codegen.specs import load_specs
from assay.codegen.texts import compile_for_reading
from assay.qualify import finding
if not pathlib.Path(finding.__file__).resolve().is_relative_to(pathlib.Path(root).resolve()):
    sys.exit("another assay is in front")
loaded = load_specs(pathlib.Path(specs))
profiles = sorted(loaded.profiles, key=lambda name: name != "core")
found = finding.find_variant(loaded, id, [target], profiles)
(reading,) = compile_for_reading([replace(found.variant.request, line_info=True)], time_limit=120)
pathlib.Path(out).write_bytes(reading.outcome.code)
"""


@dataclass(frozen=True, slots=True)
class Lined:
    """note: why no line has a source mark; empty where they have."""

    lines: tuple[Line, ...]
    note: str = ""


def lined_listing(built: Built, tree: Tree | None) -> Lined:
    """The listing of a variant of a tree, or of a bundle that this assay's own specs make.  Raises NoListing."""
    symbol, backend = built.row.symbol, built.target.backend
    code = _compiled_with_lines(built, tree)
    if isinstance(code, str):
        return Lined(kernel_listing(built.code, symbol, backend), code)
    if not same_code_section(built.code, code, symbol, symbol):
        note = "built with line tables its code is another, so they say nothing of this one"
        return Lined(kernel_listing(built.code, symbol, backend), note)
    return Lined(kernel_listing(code, symbol, backend, line_info=True))


def _compiled_with_lines(built: Built, tree: Tree | None) -> bytes | str:
    """The code object, or why there is none."""
    root = OWN_ROOT if tree is None else tree.code
    specs = OWN_ROOT / "kernel_specs" if tree is None else tree.specs
    with temporary_folder() as folder:
        out = folder / "lined"
        command = [
            sys.executable,
            "-P",
            "-c",
            _COMPILE,
            str(root),
            str(specs),
            built.row.target,
            built.row.id,
            str(out),
        ]
        said = _run(command, child_environment(linked_site(folder, root)))
        code = out.read_bytes() if out.is_file() else b""
    return code or f"cannot be built again here with line tables ({said})"


def _run(command: list[str], environment: dict[str, str]) -> str:
    """The last that it said on standard error."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not within {_SECONDS} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
