"""One compilation for a reader: the compiler's own texts of every stage, next to the outcome.

Triton puts each stage's text into its cache as soon as the stage is done, so that a compilation that failed, crashed or
was stopped still shows how far it came.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pebble import ProcessPool

from .builder import outcome_of
from .records import CompileRequest, Outcome
from .worker import TRITON_CACHE, compile_in_worker

# In the order in which the compiler makes them; amdgcn is AMD's assembly, ptx NVIDIA's virtual one.
STAGES = ("ttir", "ttgir", "llir", "amdgcn", "ptx")


@dataclass(frozen=True)
class Reading:
    """An outcome, and the text of each stage that was reached."""

    outcome: Outcome
    texts: Mapping[str, str]


def compile_for_reading(requests: Iterable[CompileRequest], *, time_limit: float) -> list[Reading]:
    """Compile each in a fresh worker process, as `Builder` does and with the same scrubbed environment; uncached.

    time_limit: seconds for each.  Never raises for bad source: that is in the outcome.
    """
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="assay-show-", ignore_cleanup_errors=True) as folder,
        ProcessPool(max_workers=1, context=context) as pool,
    ):
        readings = []
        for number, request in enumerate(requests):
            scratch = Path(folder, str(number))
            work = pool.schedule(compile_in_worker, args=[request.to_dict(), str(scratch), True], timeout=time_limit)
            outcome = outcome_of(work, scratch, time_limit)
            readings.append(Reading(outcome, stage_texts(scratch)))
        return readings


def stage_texts(scratch: Path) -> dict[str, str]:
    """The texts that a compilation left in its scratch folder, by stage."""
    found = {}
    for stage in STAGES:
        for path in (scratch / TRITON_CACHE).glob(f"*/*.{stage}"):
            found[stage] = path.read_text(errors="replace")
    return found
