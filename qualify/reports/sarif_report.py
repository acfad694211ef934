"""SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/): findings at the line of the spec that one would edit.

error   a problem that no candidate qualifies for, at the nearest candidate's launch; rule `budget/<what it broke>`
error   a lock difference that is worse or gone; rule `lock/<kind>`
warning a lock difference that is neither better nor worse; rule `lock/changed`
note    a chosen variant with less than 5 % left to a limit; rule `near/<resource>`

Why the run failed as a whole (no lock, another compiler build) is a notification of the invocation: it has no line.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.qualify.lock import LockChange, key_of
from assay.qualify.selection import ProblemResult

from .positions import Position, candidate_position, family_position
from .record import RunRecord, change_details, reasons_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# Enough for a compiler's first complaint; the whole of it is in report.json and junit.xml.
_LONGEST_MESSAGE = 2000
_REPORTED_CHANGES = frozenset({"worse", "gone", "changed"})
# Rules whose level is not that of their kind.
_LEVELS = {"lock/changed": "warning"}


@dataclass(frozen=True, slots=True)
class _RuleKind:
    """What the rules of one kind say; `{}` is the budget, the kind of lock change or the resource."""

    level: str
    short: str
    full: str


_RULES = {
    "budget": _RuleKind(
        "error",
        "No candidate keeps within {}",
        "Every launch tried for a problem broke a budget; the one nearest to qualifying broke {}.",
    ),
    "lock": _RuleKind(
        "error",
        "A kernel differs from the lock: {}",
        "The committed record says something else of this kernel ({}); --update-lock accepts it.",
    ),
    "near": _RuleKind(
        "note",
        "Less than 5 % left to the limit of {}",
        "The kernel qualifies; a small edit or another compiler may push {} over its limit.",
    ),
}


@dataclass(frozen=True, slots=True)
class _Finding:
    """One result.  key: what it is about, the same from run to run whatever line it moves to."""

    rule: str
    key: str
    text: str
    position: Position

    @property
    def level(self) -> str:
        return _level(self.rule)


def _level(rule: str) -> str:
    return _LEVELS.get(rule) or _RULES[rule.partition("/")[0]].level


def render(run: RunRecord) -> str:
    """report.sarif."""
    findings = [*_failed(run), *_changed(run), *_near(run)]
    rules = sorted({finding.rule for finding in findings})
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(rules)},
                # One category a target and profile, so that code scanning keeps the targets of a matrix apart.
                "automationDetails": {"id": f"assay/{run.target.target}/{run.profile}/"},
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(run)],
                "results": [_result(run, finding, rules.index(finding.rule)) for finding in findings],
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _driver(rules: list[str]) -> dict[str, Any]:
    version = importlib.metadata.version("assay")
    return {"name": "assay", "version": version, "rules": [_rule(rule) for rule in rules]}


def _rule(rule: str) -> dict[str, Any]:
    kind, _, subject = rule.partition("/")
    said = _RULES[kind]
    return {
        "id": rule,
        "shortDescription": {"text": said.short.format(subject)},
        "fullDescription": {"text": said.full.format(subject)},
        "help": {"text": said.full.format(subject)},
        "defaultConfiguration": {"level": _level(rule)},
        "properties": {"tags": ["gpu", kind]},
    }


def _invocation(run: RunRecord) -> dict[str, Any]:
    """executionSuccessful says that the tool itself ran to its end; the verdict is the exit status."""
    notes = [("error" if run.status else "note", text) for text in run.messages]
    notes += [("warning", text) for text in run.warnings]
    return {
        "executionSuccessful": True,
        "exitCode": run.status,
        "exitCodeDescription": run.said,
        "toolExecutionNotifications": [{"level": level, "message": {"text": escape(text)}} for level, text in notes],
    }


def _result(run: RunRecord, finding: _Finding, rule_index: int) -> dict[str, Any]:
    identity = "\n".join((finding.rule, run.target.target, run.profile, finding.key))
    fingerprint = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.level,
        "message": {"text": escape(finding.text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri_of(finding.position.path)},
                    "region": {"startLine": finding.position.line, "startColumn": finding.position.column},
                },
                "logicalLocations": [{"name": finding.key, "kind": "function"}],
            }
        ],
        # Many problems share a line, and lines move: without the first, which GitHub reads, code scanning would make up
        # its own from the line's text and take one problem for another.
        "partialFingerprints": {
            "primaryLocationLineHash": f"{fingerprint[:16]}:1",
            "assayProblem/v1": fingerprint[:32],
        },
    }


def escape(text: str) -> str:
    """Plain text as SARIF messages spell it: brackets would begin a link (section 3.11.6)."""
    cut = text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " …"
    return cut.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def uri_of(path: str) -> str:
    """A relative path stays one, with forward slashes, for CI to find in the checkout; others become file URIs."""
    location = Path(path)
    return location.as_uri() if location.is_absolute() else quote(location.as_posix())


def _failed(run: RunRecord) -> Iterator[_Finding]:
    for result in run.failed:
        nearest = result.nearest()
        if nearest is None:
            where = family_position(run.specs, result.problem.family, "candidates")
            yield _Finding("budget/candidates", key_of(result), f"{key_of(result)}: no candidate applies", where)
            continue
        # `instruction v_wmma` is one rule with all other instructions: rules are few and stable.
        broken = nearest.reasons[0].budget.partition(" ")[0]
        where = candidate_position(run.specs, run.target, nearest.variant.candidate)
        yield _Finding(f"budget/{broken}", key_of(result), _failed_text(result), where)


def _failed_text(result: ProblemResult) -> str:
    nearest = result.nearest()
    assert nearest is not None, "told apart by the caller"
    lines = [
        f"{key_of(result)}: no candidate qualifies, of {len(result.rejected)} tried.",
        f"Nearest: {nearest.variant.candidate.label}: {reasons_of(nearest)}",
    ]
    others = [judgement for judgement in result.rejected if judgement is not nearest]
    lines += [f"{judgement.variant.candidate.label}: {reasons_of(judgement)}" for judgement in others]
    return "\n".join(lines)


def _changed(run: RunRecord) -> Iterator[_Finding]:
    by_key = {key_of(result): result for result in run.results}
    for change in run.changes:
        if change.kind in _REPORTED_CHANGES:
            details = change_details(change)
            text = f"{change.key}: {change.kind}" + (f": {details}" if details else "")
            yield _Finding(f"lock/{change.kind}", change.key, text, _change_position(run, change, by_key))


def _change_position(run: RunRecord, change: LockChange, by_key: dict[str, ProblemResult]) -> Position:
    result = by_key.get(change.key)
    if result is None or result.chosen is None:
        return family_position(run.specs, change.key.partition(" ")[0])
    return candidate_position(run.specs, run.target, result.chosen.variant.candidate)


def _near(run: RunRecord) -> Iterator[_Finding]:
    for result, limits in run.near:
        assert result.chosen is not None, "only a chosen variant is near a limit"
        candidate = result.chosen.variant.candidate
        where = candidate_position(run.specs, run.target, candidate)
        for limit in limits:
            text = f"{key_of(result)}: {candidate.label}: {limit}"
            yield _Finding(f"near/{limit.budget}", key_of(result), text, where)
