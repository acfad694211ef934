"""What a person reads of the outputs of a comparison, behind what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from .outputs import DIFFERENT, EQUAL, NOT_RUN, SAME_CODE, OutputsRequest, PairOutputs
from .records import Pair

ISOLATION_POINTS = 81  # calls of the isolation set: 3 cache formats x 3 heads x 3 lengths x 3 numbers of queries


def print_outputs(out: Console, pairs: Iterable[Pair], request: OutputsRequest) -> None:
    """How many pairs were run and how they came out, and how much of the isolation set is unchanged."""
    given = [pair.outputs for pair in pairs if pair.outputs is not None]
    counts = Counter(outputs.verdict for outputs in given)
    parts = [f"{counts[verdict]} {verdict}" for verdict in (SAME_CODE, EQUAL, DIFFERENT, NOT_RUN) if counts[verdict]]
    ran = sum(outputs.cases for outputs in given)
    where = request.device or "emulated"
    out.print(Text(f"outputs, {where}: {', '.join(parts) or 'no pair to run'}; {ran} cases ran on both sides"))
    for outputs in given:
        if outputs.difference is not None:
            out.print(Text(f"  {outputs.difference}", "red"), soft_wrap=True)
    if request.case_set == "isolation":
        out.print(Text(_coverage(given)))


def _coverage(given: Sequence[PairOutputs]) -> str:
    """Of the isolation set's calls: those whose every pair has the same code or ran equal."""
    verdicts: dict[str, set[str]] = {}
    for outputs in given:
        for point in outputs.points:
            verdicts.setdefault(point, set()).add(outputs.verdict)
    unchanged = sum(found <= {SAME_CODE, EQUAL} for found in verdicts.values())
    missing = ISOLATION_POINTS - len(verdicts)
    left_out = f"; {missing} that no compared row answers" if missing else ""
    return f"isolation set: {unchanged} of {ISOLATION_POINTS} calls unchanged{left_out}"
