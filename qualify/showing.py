"""`assay show`: one variant in full, recompiled: source, what the compiler made of it stage by stage, verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from assay import objects
from assay.bundle.faults import Fault, FaultsError
from assay.codegen.records import spell
from assay.codegen.spec_models import Waiver
from assay.codegen.texts import Reading, compile_for_reading
from assay.codegen.toolchain import Toolchain

from .finding import Found
from .gates import Judgement, budgets, judge
from .source_lines import with_source_lines
from .waiving import WaiverBook, today_utc

SCHEMA = "assay.show/1"
TEXTS = ("source", "ttir", "ttgir", "llir", "ptx", "isa")
WHAT = (*TEXTS, "resources", "all")
DEFAULT = ("resources", "source")
# Which text a backend has under which name; the machine code itself is AMD's assembly, and NVIDIA's disassembly.
_STAGES = {
    "hip": {"ttir": "ttir", "ttgir": "ttgir", "llir": "llir", "isa": "amdgcn"},
    "cuda": {"ttir": "ttir", "ttgir": "ttgir", "llir": "llir", "ptx": "ptx"},
}
_COMMENTS = {"hip": ";", "cuda": "//"}


class NoText(FaultsError):
    """A text that this variant does not have; exit status 2."""


@dataclass(frozen=True)
class Shown:
    """One variant, compiled and judged.  texts: what there is of TEXTS.  same_code: whether the build with line tables
    has the machine code of the one without, or None where none was asked for."""

    found: Found
    judgement: Judgement
    texts: Mapping[str, str]
    same_code: bool | None = None


def show_variant(found: Found, waivers: Iterable[Waiver], *, time_limit: float, line_info: bool) -> Shown:
    """Compile a variant to its end, even where a build would abandon it, and judge it.  A failure is in the verdict."""
    # Without the limit the compiler goes on where a build would stop, and there is an ISA to read.
    request = replace(found.variant.request, shared_limit_bytes=None)
    requests = [request, replace(request, line_info=True)] if line_info else [request]
    readings = compile_for_reading(requests, time_limit=time_limit)
    book = WaiverBook.of(waivers, found.target.target, found.profile, today_utc())
    judgement = book.apply(judge(found.variant, readings[0].outcome, found.target, found.family))
    texts = {"source": request.source, **_texts(readings[0], request.backend)}
    if not line_info:
        return Shown(found, judgement, _in_order(texts))
    lined = _texts(readings[1], request.backend, line_info=True)
    if "isa" in lined:
        texts["isa"] = with_source_lines(lined["isa"], request.source, _COMMENTS[request.backend])
    return Shown(found, judgement, _in_order(texts), _machine_code(readings[0]) == _machine_code(readings[1]))


def _texts(reading: Reading, backend: str, *, line_info: bool = False) -> dict[str, str]:
    texts = {name: reading.texts[stage] for name, stage in _STAGES[backend].items() if stage in reading.texts}
    disassembler = objects.find_disassembler()
    if backend == "cuda" and reading.outcome.code and disassembler is not None:
        texts["isa"] = objects.list_sass(reading.outcome.code, disassembler, line_info=line_info)
    return texts


def _in_order(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: texts[name] for name in TEXTS if name in texts}


def _machine_code(reading: Reading) -> bytes | None:
    if not reading.outcome.code:
        return None
    return objects.read_object(reading.outcome.code, where="recompiled code object").kernels[0].code


def document(shown: Shown, toolchain: Toolchain) -> dict[str, Any]:
    """All of it as plain data: what `assay show --json` prints."""
    judgement, variant = shown.judgement, shown.found.variant
    code = judgement.outcome.code
    return {
        "schema": SCHEMA,
        "id": variant.id,
        "target": variant.candidate.problem.target,
        "profile": shown.found.profile,
        "family": variant.candidate.problem.family,
        "problem": dict(variant.candidate.problem.axes),
        "launch": dict(variant.candidate.launch),
        "candidate": {"number": shown.found.number, "of": shown.found.of},
        "specialisation": variant.specialisation,
        "toolchain": toolchain.to_dict(),
        "verdict": "qualified" if judgement.qualified else "rejected",
        "reasons": [
            {"budget": reason.budget, "limit": reason.limit, "actual": reason.actual, "detail": reason.detail}
            for reason in judgement.reasons
        ],
        "waived": [
            {"waiver": item.waiver.name, "budget": item.reason.budget, "expires": item.waiver.expires}
            for item in judgement.waived
        ],
        "resources": judgement.resources.to_dict() if judgement.resources else None,
        "code_sha256": hashlib.sha256(code).hexdigest() if code else None,
        "compiler_messages": judgement.outcome.messages,
        "line_info": None if shown.same_code is None else {"same_code": shown.same_code},
        "texts": dict(shown.texts),
    }


def print_shown(shown: Shown, wanted: tuple[str, ...], *, styled: bool) -> None:
    """The wanted sections on standard output; none wanted: DEFAULT, and the ISA where it has source lines.  One alone
    has no header unless `styled`, so that it can be a file.

    Raises NoText for a section asked for by name that there is none of.
    """
    usual = DEFAULT if shown.same_code is None else (*DEFAULT, "isa")
    names = (*TEXTS, "resources") if "all" in wanted else wanted or usual
    sections = {name: _section(shown, name) for name in dict.fromkeys(names)}
    missing = [name for name, text in sections.items() if text is None]
    if missing and wanted and "all" not in wanted:
        raise NoText([_missing(shown, name) for name in missing])
    there = {name: text for name, text in sections.items() if text is not None}
    if "resources" in sections:
        there = {"variant": _heading(shown), **there}
    for name, text in there.items():
        if styled or len(there) > 1:
            click.echo(click.style(f"== {name} ".ljust(100, "="), bold=True))
        click.echo(text.rstrip("\n"))


def _section(shown: Shown, name: str) -> str | None:
    return _resources(shown) if name == "resources" else shown.texts.get(name)


def _missing(shown: Shown, name: str) -> Fault:
    variant, outcome = shown.found.variant, shown.judgement.outcome
    given = f"{variant.id} has no {name}"
    if name == "ptx" and variant.request.backend == "hip":
        return Fault("--what ptx", f"{given}: {shown.found.target.target} is an AMD target", ", ".join(shown.texts))
    if outcome.status == "compiled":
        return Fault(f"--what {name}", f"{given}: no disassembler here", ", ".join(shown.texts))
    said = f"{outcome.status.replace('_', ' ')}: {outcome.messages.strip()}"
    return Fault(f"--what {name}", f"{given}, as its compilation failed ({said})", ", ".join(shown.texts))


def _heading(shown: Shown) -> str:
    variant, judgement = shown.found.variant, shown.judgement
    promised = [f"{name} divisible by {divisor}" for name, divisor in variant.request.divisibility]
    promised += [f"{name} within 2 GiB" for name in variant.request.within_2gib]
    lines = {
        "id": variant.id,
        "target": variant.candidate.problem.target,
        "profile": shown.found.profile,
        "family": variant.candidate.problem.family,
        "problem": variant.candidate.problem.label,
        "launch": f"{variant.candidate.label} (candidate {shown.found.number} of {shown.found.of})",
        "promised": ", ".join(promised),
        "verdict": f"qualified (static: {judgement.static_evidence})" if judgement.qualified else "rejected",
    }
    text = [f"{name:<9} {value}" for name, value in lines.items() if value]
    text += [f"{'':<9} {reason}" for reason in judgement.reasons]
    text += [f"{'':<9} {item.reason}, waived by {item.waiver.name}" for item in judgement.waived]
    if judgement.outcome.messages and judgement.outcome.status == "compiled":
        text += [f"compiler  {line}" for line in judgement.outcome.messages.splitlines()]
    return "\n".join(text)


def _resources(shown: Shown) -> str | None:
    """A line a resource of the backend, with its limit where there is one; `?` where the binary does not tell."""
    if shown.judgement.resources is None:
        return None
    limits = budgets(shown.found.target, shown.found.family)
    foreign = objects.FOREIGN[shown.found.target.backend]
    lines = []
    for name, value in shown.judgement.resources.to_dict().items():
        if name in foreign and value is None:
            continue
        limit = f"  (limit {limits[name]:,})" if name in limits else ""
        figure = "?" if value is None else f"{value:,}" if type(value) is int else spell(value)
        lines.append(f"{name:<20} {figure:>10}{limit}")
    return "\n".join(lines)
