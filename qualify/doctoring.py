"""`assay doctor`: what this machine has for building and running, a line each.  It cannot itself fail.

Standard library only at import: it also has to say what a plain installation lacks.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import probes_devices, probes_project, probes_software
from .findings import Finding, Probe, guarded

SCHEMA = "assay.doctor/1"
# Section, name for when the probe itself fails, probe.
PROBES: tuple[tuple[str, str, Probe], ...] = (
    ("environment", "python", probes_software.python),
    ("environment", "assay", probes_software.assay),
    ("environment", "build extra", probes_software.build_extra),
    ("environment", "overrides", probes_software.overrides),
    ("tools", "triton", probes_software.triton),
    ("tools", "assemblers", probes_software.assemblers),
    ("optional packages", "packages", probes_software.optional_packages),
    ("devices", "nvidia", probes_devices.nvidia),
    ("devices", "amd", probes_devices.amd),
    ("cache", "cache", probes_project.cache),
    ("specs", "specs", probes_project.specs),
    ("specs", "locks", probes_project.locks),
)
_IMPORTING = ("cache", "specs")
_COLOURS = {"ok": "32", "absent": "2", "warning": "33", "problem": "31;1"}


def run(as_json: bool) -> int:
    """Probe everything and print it; always 0, also when nobody reads what is printed."""
    sections = examine()
    text = json.dumps(document(sections), ensure_ascii=True) if as_json else "\n".join(lines(sections, _coloured()))
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # closed, or a reader such as `head` that went away
        with contextlib.suppress(Exception):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def examine() -> list[tuple[str, list[Finding]]]:
    """Every probe's findings by section, in order.

    Probes run side by side, as some wait for other programs; but those of the project import its modules, and where an
    import fails for want of a package another thread would find a module that is half there.
    """
    waiting = [entry for entry in PROBES if entry[0] not in _IMPORTING]
    try:
        with ThreadPoolExecutor() as pool:
            found = dict(zip(waiting, pool.map(_ask, waiting), strict=True))
    except RuntimeError:  # no further thread may be started
        found = {entry: _ask(entry) for entry in waiting}
    sections: dict[str, list[Finding]] = {}
    for entry in PROBES:
        sections.setdefault(entry[0], []).extend(found[entry] if entry in found else _ask(entry))
    return list(sections.items())


def _ask(entry: tuple[str, str, Probe]) -> list[Finding]:
    _, name, probe = entry
    return guarded(name, probe)


def document(sections: list[tuple[str, list[Finding]]]) -> dict[str, Any]:
    """The findings as plain data."""
    return {
        "schema": SCHEMA,
        "counts": _counts(sections),
        "findings": [
            {"section": section, "name": item.name, "state": item.state, "text": item.text, "hint": item.hint}
            for section, findings in sections
            for item in findings
        ],
    }


def lines(sections: list[tuple[str, list[Finding]]], coloured: bool = False) -> list[str]:
    """The findings for a person: a heading a section, a line each, hints below."""
    text = []
    for section, findings in sections:
        text.append(section)
        for item in findings:
            state = f"{item.state:<8}"
            shown = f"\x1b[{_COLOURS[item.state]}m{state}\x1b[0m" if coloured else state
            text.append(f"  {shown} {item.name:<18} {item.text}")
            if item.hint:
                text.append(f"{'':29} -> {item.hint}")
    counts = _counts(sections)
    return [*text, ", ".join(f"{number} {state}" for state, number in counts.items())]


def _counts(sections: list[tuple[str, list[Finding]]]) -> dict[str, int]:
    states = [item.state for _, findings in sections for item in findings]
    return {state: states.count(state) for state in _COLOURS}


def _coloured() -> bool:
    try:
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    except (ValueError, AttributeError):
        return False
