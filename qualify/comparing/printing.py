"""A comparison for a person: what differs first, by family; what is identical is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..reports.labels import constant_axes, problem_label
from .document import state_of
from .output_report import print_outputs
from .records import Difference, Level, Pair, Side
from .running import Comparison, Judged, counted

# Lines of a family that are printed unless all are asked for.
SHOWN = 24
_SHOWN_TEXT = 60
_STYLES = {"new": "cyan", "gone": "red", "changed": "yellow", "same": ""}
LEVEL_WORDS: Mapping[Level, str] = {
    "identical_bytes": "bytes",
    "identical_code_section": "code section",
    "identical_normalised": "after normalising",
    "changed": "changed",
    "not_compared": "not compared",
}
_SHORT = {
    "vgpr_count": "VGPR",
    "sgpr_count": "SGPR",
    "vgpr_spill_count": "VGPR spills",
    "sgpr_spill_count": "SGPR spills",
    "scratch_bytes": "scratch B",
    "lds_static_bytes": "static LDS B",
    "lds_total_bytes": "LDS B",
    "code_bytes": "code B",
    "register_count": "registers",
    "stack_bytes": "stack B",
    "local_load_count": "LDL",
    "local_store_count": "STL",
}
# What another figure next to it says as well.
_SAID_ELSEWHERE = {"lds_bytes": "lds_total_bytes", "lds_dynamic_bytes": "lds_total_bytes"}


def print_comparison(out: Console, comparison: Comparison, *, show_all: bool) -> None:
    """show_all: every line of a family, not only the first of them."""
    out.print(Text(f"{_side(comparison.left)}  →  {_side(comparison.right)}", "bold"), soft_wrap=True)
    for line in _toolchain_lines(comparison.left, comparison.right):
        out.print(line, soft_wrap=True)
    groups: dict[tuple[str, str], list[Judged]] = {}
    for item in comparison.judged:
        groups.setdefault((item.pair.entry.family, item.pair.entry.target), []).append(item)
    for group in groups.values():
        if any(item.pair.differences for item in group):
            _print_group(out, group, show_all=show_all)
    if comparison.outputs:
        print_outputs(out, comparison.outputs.results, comparison.outputs.request)
    for line in (*_count_lines(comparison), *_rule_lines(comparison)):
        out.print(line, soft_wrap=True)


def _side(side: Side) -> str:
    return f"{side.name} ({', '.join(filter(None, [side.kind, side.detail]))})"


def _toolchain_lines(left: Side, right: Side) -> Iterator[Text]:
    for target in sorted({*left.targets, *right.targets}):
        before, after = left.toolchains.get(target), right.toolchains.get(target)
        if before is None or after is None:
            yield Text(f"{target}: on one side alone, {(left if after is None else right).name}", "yellow")
        elif before != after:
            yield Text(f"{target}: made by other compiler builds: {_spelled(before)} → {_spelled(after)}", "yellow")


def _spelled(value: Any) -> str:
    """A value for a person, cut where it is long."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        text = " ".join(f"{name}={_spelled(item)}" for name, item in value.items())
    elif isinstance(value, list | tuple):
        text = "[" + " ".join(map(_spelled, value)) + "]"
    else:
        text = str(value)
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"


def _print_group(out: Console, group: Sequence[Judged], *, show_all: bool) -> None:
    entry = group[0].pair.entry
    constant = constant_axes([item.pair.entry.problem for item in group])
    differing = [item for item in group if item.pair.differences]
    title = f"{entry.family} on {entry.target}: {len(differing)} of {len(group)} differ"
    title += f" ({', '.join(constant)})" if constant else ""
    table = Table(
        title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("", no_wrap=True)
    table.add_column("problem", overflow="fold", min_width=16)
    table.add_column("code", no_wrap=True)
    table.add_column("what differs", overflow="fold", min_width=24)
    # What no rule allows comes first: it is what a reader looks for.
    ordered = sorted(differing, key=lambda item: not item.violations)
    shown = ordered if show_all else ordered[:SHOWN]
    for item in shown:
        state = state_of(item.pair)
        allowed = not item.violations
        style = "dim" if allowed else _STYLES[state]
        table.add_row(
            Text(f"{state} (allowed)" if allowed else state, style),
            problem_label(item.pair.entry.problem, constant),
            "-" if item.pair.level == "not_compared" else LEVEL_WORDS[item.pair.level],
            "; ".join(said_of(item.pair)) or "-",
        )
    out.print(table)
    if len(shown) < len(ordered):
        out.print(Text(f"  … and {len(ordered) - len(shown)} more (--all shows them)", "dim"))


def said_of(pair: Pair) -> Iterator[str]:
    """What differs, a text each: `VGPR 64 → 72`.  That code differs is for its level to say."""
    names = {difference.name for difference in pair.differences}
    for difference in pair.differences:
        repeated = _SAID_ELSEWHERE.get(difference.name) in names
        if difference.aspect == "outputs":
            yield "outputs differ"
        elif difference.aspect not in ("code", "renamed", "new", "gone") and not repeated:
            yield _difference(difference)
    for what, counts in (("instructions", pair.classes), ("executed", pair.executed)):
        if counts:
            yield f"{what}: " + ", ".join(f"{name} {a:,} → {b:,}" for name, (a, b) in counts.items())


def _difference(item: Difference) -> str:
    name = _SHORT.get(item.name, item.name)
    prefix = f"{item.aspect} " if item.aspect in ("contract", "evidence") else ""
    return f"{prefix}{name} {_spelled(item.before)} → {_spelled(item.after)}"


def _count_lines(comparison: Comparison) -> Iterator[Text]:
    pairs = [item.pair for item in comparison.judged]
    both = [pair for pair in pairs if pair.left is not None and pair.right is not None]
    same = [pair for pair in both if not pair.differences]
    said = (
        f"{len(same)} of {_variants(len(both))} on both sides have no difference" if both else "none is on both sides"
    )
    if levels := _levels(same):
        said += f": {levels}"
    said += f"; {len(both) - len(same)} changed, {_count(pairs, 'new')} new, {_count(pairs, 'gone')} gone"
    yield Text(said)
    if notes := sum(any(note.name == "source" for note in pair.notes) for pair in same):
        yield Text(f"{notes} of those without a difference are made from other source text", "dim")


def _count(pairs: Iterable[Pair], state: str) -> int:
    return sum(state_of(pair) == state for pair in pairs)


def _levels(pairs: Sequence[Pair]) -> str:
    """`identical bytes 250, identical code section 8`, or that a lock has no code."""
    levels = counted(pairs)
    parts = [f"identical {LEVEL_WORDS[level]} {n}" for level, n in levels.items() if level.startswith("identical")]
    if levels.get("not_compared"):
        parts.append(f"same figures {levels['not_compared']} (a lock has no code to compare)")
    return ", ".join(parts)


def _rule_lines(comparison: Comparison) -> Iterator[Text]:
    """What was proven of everything that no rule speaks of, and the verdict."""
    violated = [item for item in comparison.judged if item.violations]
    if comparison.rules:
        outside = comparison.outside
        rules = " or ".join(str(rule) for rule in comparison.rules)
        differing = sum(bool(pair.differences) for pair in outside)
        said = f"outside of {rules}: {_variants(len(outside))}"
        if not outside:
            yield Text(f"{said}: nothing is left to be identical", "yellow")
        elif differing:
            yield Text(f"{said}, {differing} of them differ: NOT PROVEN", "bold red")
        elif any(pair.level == "not_compared" for pair in outside):
            yield Text(f"{said}, none differs in its figures; code was not compared", "yellow")
        else:
            yield Text(f"{said}, all identical ({_levels(outside)}): PROVEN", "bold green")
    if comparison.verdict == "different":
        why = f": {_variants(len(violated))} {'differ' if len(violated) != 1 else 'differs'}"
        yield Text("DIFFERENT" + why + (" where no rule allows it" if comparison.rules else ""), "bold red")
    else:
        yield Text({"equal": "EQUAL", "allowed": "DIFFERENT ONLY WHERE ALLOWED"}[comparison.verdict], "bold green")


def _variants(number: int) -> str:
    return f"{number} {'variant' if number == 1 else 'variants'}"
