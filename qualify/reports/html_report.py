"""The report as one HTML file: no script, no font, no image, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2

from assay.qualify.gates import Judgement
from assay.qualify.headroom import summary
from assay.qualify.lock import LockChange
from assay.qualify.selection import ProblemResult

from .labels import constant_axes, launch_label, problem_label
from .record import RunRecord, change_details, reasons_of

_TEMPLATE = "report.html.j2"
# The figures of a variant, by column title; a column is shown when any chosen variant of the run has the figure.
_COLUMNS = (
    ("VGPR", "vgpr_count"),
    ("SGPR", "sgpr_count"),
    ("registers", "register_count"),
    ("scratch B", "scratch_bytes"),
    ("stack B", "stack_bytes"),
    ("LDS B", "lds_total_bytes"),
    ("code B", "code_bytes"),
)


def render(run: RunRecord) -> str:
    """report.html."""
    # Everything shown is text: autoescape covers names, reasons and the compiler's own messages.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        run=run,
        families=[_Family.of(name, run) for name in dict.fromkeys(result.problem.family for result in run.results)],
        change_groups=_change_groups(run.changes),
        near_summary=summary(limits for _, limits in run.near),
        reasons_of=reasons_of,
        change_details=change_details,
        launch_of=lambda judgement: launch_label(judgement.variant.candidate.launch),
        problem_label=problem_label,
    )


@dataclass(frozen=True)
class _Family:
    """One family's section: what is the same in all its rows, for the caption, and the figures that any row has."""

    name: str
    constant: tuple[str, ...]
    evidence: str
    columns: tuple[tuple[str, str], ...]
    failed: tuple[ProblemResult, ...]
    qualified: tuple[ProblemResult, ...]

    @classmethod
    def of(cls, name: str, run: RunRecord) -> _Family:
        results = [result for result in run.results if result.problem.family == name]
        chosen = [result.chosen for result in results if result.chosen]
        figures = [item.resources for item in chosen if item.resources]
        evidence = {_evidence(item) for item in chosen}
        return cls(
            name,
            tuple(constant_axes([result.problem.axes for result in results])),
            evidence.pop() if len(evidence) == 1 else "",
            tuple(item for item in _COLUMNS if any(getattr(known, item[1]) is not None for known in figures)),
            tuple(result for result in results if not result.qualified),
            tuple(result for result in results if result.qualified),
        )

    @property
    def caption(self) -> str:
        return ", ".join((*self.constant, *([self.evidence] if self.evidence else [])))

    def evidence_of(self, judgement: Judgement) -> str:
        """What the caption does not say."""
        return "" if self.evidence else _evidence(judgement)


def _evidence(judgement: Judgement) -> str:
    return ", ".join(f"{level}={verdict}" for level, verdict in judgement.evidence.items())


def _change_groups(changes: Iterable[LockChange]) -> list[tuple[str, list[LockChange]]]:
    """Changes by kind, what got worse first."""
    kinds: dict[str, list[LockChange]] = {kind: [] for kind in ("gone", "worse", "changed", "new", "better")}
    for change in changes:
        kinds[change.kind].append(change)
    return [(kind, found) for kind, found in kinds.items() if found]
