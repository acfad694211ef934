"""Every variant of a bundle on a device, and whole decode calls; one that fails does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.reference import NoReference
from assay.reference.attention import CAP, FORMATS, CallShape
from assay.runtime import Kernels

from .calls import MERGE, STAGE_1, Call, case_calls, decode_call
from .checking import DIRECT, FAIL, GRAPH, NOT_RUN, PASS, Check, Checking
from .opening import Opened
from .rows import Built

_EVERY_CASE = "every case"
# (keys of each request, KV heads, splits, window, sinks): what stage 1 and merge are tried on together.
_SIZES: tuple[tuple[tuple[int, ...], int, int | None, int, bool], ...] = (
    ((1,), 1, 1, 1, False),
    ((70, 0, 200), 2, None, 33, True),
    ((2048, 513), 2, 64, 257, False),
    ((1000,) * 8, 1, None, 999, True),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged: one variant of a family, or one whole call.  id: the variant's, '' of a call."""

    id: str
    family: str
    label: str
    facts: Mapping[str, Any]
    calls: Callable[[Kernels], Sequence[Call]]


@dataclass(frozen=True, slots=True)
class Result:
    """A subject and what its checks gave, in order."""

    subject: Subject
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """The worst of its checks; without any it was not run."""
        return worst(check.verdict for check in self.checks)


def worst(verdicts: Iterator[str] | Sequence[str]) -> str:
    """A failure weighs more than what was not run, and that more than a pass; of nothing: not run."""
    found = set(verdicts)
    return FAIL if FAIL in found else NOT_RUN if NOT_RUN in found or not found else PASS


def subjects_of(selected: Sequence[Built], every: Sequence[Built]) -> list[Subject]:
    """The selected rows, then whole calls of each decode problem among them that the bundle has a merge for."""
    return [*map(_variant, selected), *_whole_calls(selected, every)]


def qualify(opened: Opened, subjects: Sequence[Subject], report: Callable[[Result], None]) -> list[Result]:
    """Judge all of them; `report` is told of each when it is done.

    Once the device is lost, what is left is 'not run': nothing on it can be believed any more.
    """
    results, lost = [], ""
    for subject in subjects:
        result = not_run(subject, lost) if lost else None
        if result is None:
            result, lost = _judge(opened, subject)
        report(result)
        results.append(result)
    return results


def not_run(subject: Subject, reason: str) -> Result:
    """A subject that nothing was launched for."""
    return Result(subject, tuple(Check(_EVERY_CASE, how, NOT_RUN, fault=reason) for how in (DIRECT, GRAPH)))


def _judge(opened: Opened, subject: Subject) -> tuple[Result, str]:
    """The result, and why the device is lost, '' where it is not."""
    try:
        calls = subject.calls(opened.kernels)
    except NoReference as error:
        return not_run(subject, str(error)), ""
    checks: list[Check] = []
    lost = ""
    for call in calls:
        checking = Checking(opened, call)
        for how, check in ((DIRECT, checking.launch), (GRAPH, checking.replay)):
            if lost:
                checks.append(Check(call.case.name, how, NOT_RUN, fault=lost))
                continue
            done = check()
            checks.append(done)
            if done.verdict == FAIL and (why := opened.lost()):
                lost = f"the device was lost at case {call.case.name!r} of {subject.id or subject.label}: {why}"
    return Result(subject, tuple(checks)), lost


def _variant(built: Built) -> Subject:
    row, problem = built.row, dict(built.problem)
    return Subject(
        row.id, row.family, built.label, problem, lambda kernels: case_calls(kernels, row.family, problem, row.id)
    )


def _whole_calls(selected: Sequence[Built], every: Sequence[Built]) -> list[Subject]:
    merges = {
        (built.problem.get("head_dim"), built.problem.get("sinks")) for built in every if built.row.family == MERGE
    }
    asked: dict[tuple[Any, ...], None] = {}
    for built in selected:
        if built.row.family == STAGE_1 and built.problem["kv_format"] in FORMATS:
            axes = ("head_dim", "rows", "block_m", "kv_format", "window", "soft_cap")
            asked[tuple(built.problem[name] for name in axes)] = None
    subjects = []
    for head_dim, most_rows, block_m, kv_format, windowed, capped in asked:
        rows, gqa = queries_of(most_rows, block_m)
        for keys, kv_heads, splits, window, sinks in _SIZES:
            if (head_dim, sinks) in merges:
                length = window if windowed else None
                shape = CallShape(
                    head_dim=head_dim, gqa=gqa, kv_format=kv_format, keys=keys, kv_heads=kv_heads, rows=rows,
                    window=length, logit_cap=CAP if capped else None, sinks=sinks, splits=splits,
                )  # fmt: skip
                subjects.append(_whole_call(shape))
    return subjects


def queries_of(most_rows: int, block_m: int) -> tuple[int, int]:
    """(queries of a request, query heads a KV head) of a call that a row for at most so many is meant for.

    A block of at most 8 query rows is filled but for one in four, so that groups are no powers of two.
    """
    if most_rows == 1:
        return 1, block_m - (block_m > 4) * (block_m // 4)
    return most_rows, max(1, block_m // most_rows)


def _whole_call(shape: CallShape) -> Subject:
    facts = {"head_dim": shape.head_dim, "gqa": shape.gqa, "kv_format": shape.kv_format}
    label = " ".join([*(f"{name}={value}" for name, value in facts.items()), f"({shape.label})"])
    return Subject("", "decode_attention and merge_splits", label, facts, lambda kernels: [decode_call(kernels, shape)])
