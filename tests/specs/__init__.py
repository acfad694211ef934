"""Spec directories for tests, and what tests do with them: copy, change a line, run a command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import kernel_specs
from assay.qualify import entry

TOY = Path(__file__).with_name("toy")
MISFITS = Path(__file__).with_name("misfits")
SHIPPED = Path(kernel_specs.DIRECTORY)

FAMILY = "families/scale.yaml"
TEMPLATE = "templates/scale.py.j2"


def copy_toy(folder: Path) -> Path:
    """A copy of the toy specs in `folder`, to be changed."""
    return Path(shutil.copytree(TOY, folder))


def copy_misfits(folder: Path) -> Path:
    """The misfits with the shipped targets, whose limits are what they do not fit."""
    shutil.copytree(MISFITS, folder)
    shutil.copytree(SHIPPED / "targets", folder / "targets")
    return folder


def edit(specs: Path, file: str, old: str, new: str) -> None:
    """Replace the one occurrence of `old`; a test whose text is no longer there must fail."""
    path = specs / file
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new))


@dataclass(frozen=True)
class Ran:
    """What one command line gave.  `said` is all of standard error on one line: it is wrapped where it is long."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return " ".join(self.err.split())

    @property
    def text(self) -> str:
        return " ".join(f"{self.out} {self.err}".split())

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(capsys: Any, *arguments: object) -> Ran:
    """Run `assay` in this process; whatever happens, it must end in a status and no traceback."""
    capsys.readouterr()
    status = entry.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    ran = Ran(status, captured.out, captured.err)
    assert "Traceback" not in ran.text
    assert "internal error" not in ran.text, ran.err
    return ran
