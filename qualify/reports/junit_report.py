"""JUnit XML: one test case a problem, a suite a family, and a suite of its own for the lock.

The dialect is the one that CI systems share (Jenkins' junit-10.xsd, GitLab, `mikepenz/action-junit-report`): counts on
every suite, `classname` and `name` on every case, `time` where something was compiled, and nothing beyond.  `time` is
the seconds that this run spent in the compiler: what came from the cache took none, and has no `time`.  Problems that
no candidate qualifies for are failures, as are differences to the lock and complaints about waivers: whatever makes the
exit status other than 0 fails a case.  There are no skips and no errors.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass

from assay.qualify.gates import Judgement
from assay.qualify.selection import ProblemResult

from .record import RunRecord, change_details, reasons_of

# Everything that XML 1.0 allows no document to contain, escaped or not (https://www.w3.org/TR/xml/#charsets): compilers
# colour their messages with U+001B.
_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case.  seconds: spent in the compiler by this run, None where nothing was compiled.

    failure: kind, short message and full text.
    """

    name: str
    seconds: float | None = None
    failure: tuple[str, str, str] | None = None


def render(run: RunRecord) -> str:
    """junit.xml."""
    root = ET.Element("testsuites")
    suites = {f"{run.name} {family}": cases for family, cases in _problem_cases(run).items()}
    suites[f"{run.name} lock"] = _lock_cases(run)
    if run.complaints:
        suites[f"{run.name} waivers"] = [_Case(text, failure=("waiver", text, text)) for text in run.complaints]
    _count(root, f"assay qualify {run.name}", [case for cases in suites.values() for case in cases])
    for name, cases in suites.items():
        suite = ET.SubElement(root, "testsuite")
        _count(suite, name, cases)
        suite.set("skipped", "0")
        for case in cases:
            _add_case(suite, "assay." + name.replace(" ", "."), case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _count(element: ET.Element, name: str, cases: list[_Case]) -> None:
    element.set("name", clean(name))
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.failure is not None for case in cases)))
    element.set("errors", "0")
    _time(element, _total(case.seconds for case in cases))


def _total(seconds: Iterable[float | None]) -> float | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if known else None


def _time(element: ET.Element, seconds: float | None) -> None:
    if seconds is not None:
        element.set("time", f"{seconds:.3f}")


def _add_case(suite: ET.Element, class_name: str, case: _Case) -> None:
    element = ET.SubElement(suite, "testcase", {"classname": clean(class_name), "name": clean(case.name)})
    _time(element, case.seconds)
    if case.failure is not None:
        kind, message, text = case.failure
        failure = ET.SubElement(element, "failure", {"type": clean(kind), "message": clean(message)})
        failure.text = clean(text)


def clean(text: str) -> str:
    """`text` with every character that XML cannot hold as U+FFFD; markup is escaped when the tree is written."""
    return _NOT_XML.sub("\ufffd", text)


def _problem_cases(run: RunRecord) -> dict[str, list[_Case]]:
    families: dict[str, list[_Case]] = {}
    for result in run.results:
        tried = (*result.rejected, *([result.chosen] if result.chosen else []))
        seconds = _total(None if item.outcome.cached else item.outcome.seconds for item in tried)
        failure = None if result.qualified else _failure(result)
        families.setdefault(result.problem.family, []).append(_Case(result.problem.label, seconds, failure))
    return families


def _failure(result: ProblemResult) -> tuple[str, str, str]:
    nearest = result.nearest()
    if nearest is None:
        return "candidates", "no candidate at all", "no candidate of the family applies to this problem"
    message = f"nearest candidate {nearest.variant.candidate.label}: {reasons_of(nearest)}"
    lines = [_candidate_line(judgement, judgement is nearest) for judgement in result.rejected]
    return nearest.reasons[0].budget, message, "\n".join(lines)


def _candidate_line(judgement: Judgement, nearest: bool) -> str:
    return f"{judgement.variant.candidate.label}: {reasons_of(judgement)}{'  (nearest)' if nearest else ''}"


def _lock_cases(run: RunRecord) -> list[_Case]:
    """The lock as a whole, then every difference."""
    whole = "\n".join(run.lock_messages)
    cases = [_Case(run.lock_path.name, failure=("lock", run.lock_messages[0], whole) if whole else None)]
    for change in run.changes:
        details = change_details(change)
        text = "\n".join(f"{name}: {before} -> {now}" for name, before, now in change.details)
        cases.append(_Case(change.key, failure=(change.kind, f"{change.kind}: {details}".removesuffix(": "), text)))
    return cases
