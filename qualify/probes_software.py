"""Probes of `assay doctor`: this Python, this assay, the compiler and the tools and packages next to it."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .findings import BUILD_EXTRA_HINT, Finding, ask, ask_python

_OLDEST_PYTHON = (3, 11)
_SHOWN_FILES = 3
# Of what a plain installation may lack: what for.
_OPTIONAL = {"numpy": "emulated evidence", "torch": "interpreted evidence, some of the tests"}


def python() -> Iterator[Finding]:
    """The interpreter and the platform."""
    state = "ok" if sys.version_info >= _OLDEST_PYTHON else "problem"
    said = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    yield Finding("python", state, said, "" if state == "ok" else "assay needs Python 3.11 or newer")
    yield Finding("platform", "ok", f"{platform.platform()}, {os.cpu_count()} processors")


def assay() -> Iterator[Finding]:
    """Which assay this is, and whether it is a checkout."""
    try:
        distribution = importlib.metadata.distribution("assay")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("assay", "problem", "not installed as a distribution", "pip install --editable '.[build]'")
        return
    url = json.loads(distribution.read_text("direct_url.json") or "{}")
    editable = url.get("dir_info", {}).get("editable", False)
    where = f"editable, from {url.get('url', 'an unknown folder')}" if editable else "installed, not editable"
    yield Finding("assay", "ok", f"{distribution.version} ({where})")


def build_extra() -> Iterator[Finding]:
    """Whether everything that building needs is installed."""
    wanted = [item for item in importlib.metadata.requires("assay") or () if re.search(r"extra\s*==\s*.build.", item)]
    missing = [spec for item in wanted if not _installed(name := _name(spec := item.split(";")[0].strip())) and name]
    if missing:
        yield Finding("build extra", "warning", f"missing: {', '.join(missing)}", BUILD_EXTRA_HINT)
    else:
        yield Finding("build extra", "ok", f"all {len(wanted)} packages are installed")


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[ (]", requirement, maxsplit=1)[0]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def triton() -> Iterator[Finding]:
    """The compiler build, whether its files are as installed, and whether it can be imported."""
    if _installed("triton") is None:
        yield Finding("triton", "warning", "not installed; bundles can be used, not built", BUILD_EXTRA_HINT)
        return
    from assay.codegen.toolchain import installed_toolchain

    toolchain = installed_toolchain()
    yield Finding("triton", "ok", f"{toolchain.triton_version}, wheel {toolchain.wheel_sha256[:16]}")
    yield _files_as_recorded(importlib.metadata.distribution("triton"))
    answer = ask_python("import triton, triton.compiler; print(triton.__version__)")
    if answer.works:
        yield Finding("triton import", "ok", f"works, says {answer.text}")
    else:
        yield Finding("triton import", "problem", answer.text, _reinstall(toolchain.triton_version))


def _reinstall(version: str) -> str:
    return f"pip install --force-reinstall --no-deps triton=={version}"


def _files_as_recorded(distribution: importlib.metadata.Distribution) -> Finding:
    """Sizes only: a hash of every file would take seconds, and an edited file rarely keeps its size."""
    wrong, count = [], 0
    for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if len(row) != 3 or not row[2]:
            continue
        count += 1
        path = Path(str(distribution.locate_file(row[0])))
        size = path.stat().st_size if path.is_file() else None
        if size != int(row[2]):
            wrong.append(f"{row[0]} ({'missing' if size is None else f'{size:,} bytes, not {int(row[2]):,}'})")
    if not wrong:
        return Finding("triton files", "ok", f"{count:,} files have the sizes that the wheel's RECORD gives")
    more = f" and {len(wrong) - _SHOWN_FILES} more" if len(wrong) > _SHOWN_FILES else ""
    said = f"{len(wrong)} differ from RECORD: {', '.join(wrong[:_SHOWN_FILES])}{more}"
    return Finding("triton files", "problem", said, _reinstall(distribution.version))


def assemblers() -> Iterator[Finding]:
    """NVIDIA's assembler and disassembler, which come in Triton's wheel."""
    spec = importlib.util.find_spec("triton")
    if spec is None:
        yield Finding("ptxas", "warning", "no triton, whose wheel carries it", BUILD_EXTRA_HINT)
        return
    folders = [Path(root) / "backends" / "nvidia" / "bin" for root in spec.submodule_search_locations or ()]
    found = sorted(path for folder in folders for path in folder.glob("ptxas*") if os.access(path, os.X_OK))
    if not found:
        yield Finding("ptxas", "problem", f"none in {', '.join(map(str, folders))}", "reinstall triton from its wheel")
    for path in found:
        answer = ask([str(path), "--version"])
        version = re.search(r"release [^\n]*", answer.text)
        said = f"{path}: {version[0] if version else answer.text}"
        yield Finding(path.name, "ok" if answer.works else "problem", said)
    yield from _disassembler()


def _disassembler() -> Iterator[Finding]:
    from assay.objects import find_disassembler

    tool = find_disassembler()
    if tool is None:
        hint = "install Triton's wheel, or put nvdisasm on PATH"
        yield Finding("disassembler", "warning", "none: NVIDIA targets cannot qualify", hint)
    else:
        yield Finding("disassembler", "ok", str(tool))


def optional_packages() -> Iterator[Finding]:
    """What only some jobs need: present, and can be imported."""
    for name, purpose in _OPTIONAL.items():
        version = _installed(name)
        if version is None:
            yield Finding(name, "absent", f"not installed; needed for {purpose}")
            continue
        answer = ask_python(f"import {name}")
        state, said = ("ok", version) if answer.works else ("problem", f"{version} cannot be imported: {answer.text}")
        yield Finding(name, state, said, "" if answer.works else f"pip install --force-reinstall {name}")


def overrides() -> Iterator[Finding]:
    """Variables of the shell that would change code if builds looked at them."""
    from assay.codegen.environment import ignored_overrides

    names = ignored_overrides(os.environ)
    if names:
        hint = "unset them if you meant to change the build: put it into the specs"
        yield Finding("overrides", "warning", f"set and ignored by builds: {', '.join(names)}", hint)
    else:
        yield Finding("overrides", "ok", "no variable is set that builds would ignore")
