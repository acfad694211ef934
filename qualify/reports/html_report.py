"""The report as one HTML file: no script, no font, no image, nothing fetched."""

from __future__ import annotations

from pathlib import Path

import jinja2

from assay.qualify.headroom import summary

from .record import RunRecord, reasons_of

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
    chosen = [result.chosen.resources for result in run.results if result.chosen and result.chosen.resources]
    columns = [(title, name) for title, name in _COLUMNS if any(getattr(item, name) is not None for item in chosen)]
    return environment.get_template(_TEMPLATE).render(
        run=run,
        families=list(dict.fromkeys(result.problem.family for result in run.results)),
        columns=columns,
        near_summary=summary(limits for _, limits in run.near),
        reasons_of=reasons_of,
    )
