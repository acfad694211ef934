"""Two builds of the same specs, compared problem by problem: what is lost, worse, better, or merely different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from assay.codegen.records import canonical_json
from assay.qualify.workaround_verdicts import SPILLS

from .records import KINDS, Change, Chosen, Kind, Pair, Problem, Row, Side, TargetUpgrade

# Relative change of an instruction count that counts; below it, compilers differ without anybody noticing.
NOTICEABLE = 0.02
# Spilled registers and local accesses are counts; bytes of scratch and stack say the same once more.
SPILL_COUNTS = tuple(name for name in SPILLS if name.endswith("count"))
# Figures that are shown where they differ.  Registers matter by what they do to spills and occupancy.
_SHOWN = ("vgpr_count", "sgpr_count", "register_count", "lds_total_bytes", "code_bytes")


def compare_sides(before: Side, after: Side) -> TargetUpgrade:
    """Every problem of either side, the worst change first; a side that is unusable lost all of its problems."""
    old, new = _by_key(before), _by_key(after)
    rows = [_row(old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    pairs = tuple(pair for key, problem in old.items() if key in new for pair in _pairs(problem, new[key]))
    return TargetUpgrade(before, after, tuple(sorted(rows, key=_worst_first)), pairs)


def _by_key(side: Side) -> dict[str, Problem]:
    return {canonical_json([problem.family, dict(problem.axes)]): problem for problem in side.problems}


def _worst_first(row: Row) -> tuple[int, float]:
    return KINDS.index(row.kind), -row.weight


def _row(before: Problem | None, after: Problem | None) -> Row:
    either = before or after
    assert either is not None, "a key comes from one of the two"
    old = before.chosen if before else None
    new = after.chosen if after else None
    changes = tuple(_changes(old, new)) if old and new else ()
    same_variant = bool(old and new and old.form.variant == new.form.variant)
    return Row(
        kind=_kind(old, new, changes),
        family=either.family,
        axes=either.axes,
        before=old,
        after=new,
        changes=changes,
        ir_equal=_equal(old.form.ir, new.form.ir) if old and new and same_variant else None,
        code_equal=_equal(old.form.machine_code, new.form.machine_code) if old and new and same_variant else None,
        reason=after.nearest if after and not after.chosen else "",
    )


def _equal(a: str | None, b: str | None) -> bool | None:
    return None if a is None or b is None else a == b


def _kind(old: Chosen | None, new: Chosen | None, changes: tuple[Change, ...]) -> Kind:
    if old is None or new is None:
        return "lost" if old else "gained" if new else "failed"
    directions = {change.direction for change in changes}
    if 1 in directions:
        return "worse"
    if -1 in directions:
        return "better"
    equal = old.form.machine_code is not None and old.form.machine_code == new.form.machine_code
    return "same" if equal and not changes else "changed"


def _changes(old: Chosen, new: Chosen) -> Iterator[Change]:
    """Differing figures, those that can be better or worse first."""
    yield from _change("candidates rejected before it", old.rejected, new.rejected, _any_more)
    if old.form.launch != new.form.launch:
        yield Change("launch", dict(old.form.launch), dict(new.form.launch))
    yield from _change("spills", old.form.spills(SPILL_COUNTS), new.form.spills(SPILL_COUNTS), _any_more)
    yield from _change("waves", old.waves, new.waves, lambda a, b: _any_more(b, a))
    # What was executed tells more of a kernel than what is in the file; only where nothing was, the latter judges.
    counted = old.executed is not None and new.executed is not None
    yield from _change("executed", old.executed, new.executed, _noticeably_more)
    yield from _change("instructions", old.instructions, new.instructions, _neither if counted else _noticeably_more)
    for name in _SHOWN:
        yield from _change(name, old.form.resource(name), new.form.resource(name), _neither)
    yield from _change("largest_error", old.largest_error, new.largest_error, _neither)


# From before and after to direction and weight.
_Judge = Callable[[float, float], tuple[int, float]]


def _change(name: str, before: Any, after: Any, judge: _Judge) -> Iterator[Change]:
    if before == after:
        return
    known = before is not None and after is not None
    yield Change(name, before, after, *(judge(before, after) if known else (0, 0.0)))


def _relative(before: float, after: float) -> float:
    return abs(after - before) / max(abs(before), 1)


def _any_more(before: float, after: float) -> tuple[int, float]:
    return (1 if after > before else -1), _relative(before, after)


def _noticeably_more(before: float, after: float) -> tuple[int, float]:
    relative = _relative(before, after)
    if relative <= NOTICEABLE:
        return 0, relative
    return (1 if after > before else -1), relative


def _neither(_before: float, _after: float) -> tuple[int, float]:
    return 0, 0.0


def _pairs(before: Problem, after: Problem) -> Iterator[Pair]:
    """Candidates that both compilers compiled: the same source and launch, and so the same variant id."""
    compiled = {form.variant: form for form in after.forms if form.resources is not None}
    for form in before.forms:
        if form.resources is not None and form.variant in compiled:
            yield Pair(before.family, before.axes, form, compiled[form.variant])
