"""The report formats by the name that `--report` takes, and the file that each becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import html_report, json_report, junit_report, markdown_report, sarif_report
from .record import RunRecord

DEFAULT = ("json",)


@dataclass(frozen=True, slots=True)
class Format:
    """file: its name in `artifacts/<target>/`.  render: the whole report as text; pure, and never half of one."""

    file: str
    render: Callable[[RunRecord], str]

    def encoded(self, run: RunRecord) -> bytes:
        """The file's bytes, UTF-8.  A lone surrogate, as a file name may hold, becomes `?`: no reader takes it."""
        return self.render(run).encode("utf-8", errors="replace")


FORMATS = {
    "json": Format("report.json", json_report.render),
    "junit": Format("junit.xml", junit_report.render),
    "sarif": Format("report.sarif", sarif_report.render),
    "md": Format("report.md", markdown_report.render),
    "html": Format("report.html", html_report.render),
}
