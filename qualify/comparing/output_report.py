"""What a person, or a machine, reads of the outputs of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from .outputs import DIFFERENT, EQUAL, NOT_RUN, SAME_CODE, OutputsRequest, PairOutputs
from .records import Pair

Results = Sequence[tuple[Pair, PairOutputs]]
ISOLATION_POINTS = 81  # calls of the isolation set: 3 cache formats x 3 heads x 3 lengths x 3 numbers of queries

_STYLES = {DIFFERENT: "red", NOT_RUN: "yellow"}


def all_equal(results: Results) -> bool:
    """Whether every pair has the same code or ran equal; what was not run proves nothing."""
    return all(outputs.verdict in (SAME_CODE, EQUAL) for _, outputs in results)


def print_outputs(out: Console, results: Results, request: OutputsRequest) -> None:
    """A line for each pair that differs or was not run, then the counts, and how much of the isolation set is there."""
    for pair, outputs in results:
        if outputs.verdict in _STYLES:
            problem = " ".join(f"{name}={value}" for name, value in pair.entry.problem)
            line = f"outputs {outputs.verdict}: {pair.entry.family} on {pair.entry.target} {problem}: {outputs.said}"
            out.print(Text(line, _STYLES[outputs.verdict]), soft_wrap=True)
    counts = Counter(outputs.verdict for _, outputs in results)
    ran = sum(outputs.cases for _, outputs in results)
    where = request.device or "emulated"
    parts = [f"{counts[verdict]} {verdict}" for verdict in (SAME_CODE, EQUAL, DIFFERENT, NOT_RUN) if counts[verdict]]
    out.print(Text(f"outputs, {where}: {', '.join(parts) or 'no pair to run'}; {ran} cases ran on both sides"))
    if request.case_set == "isolation":
        out.print(Text(_coverage(results)))


def _coverage(results: Results) -> str:
    """Of the isolation set's calls: those whose every pair has the same code or ran equal."""
    verdicts: dict[str, set[str]] = {}
    for _, outputs in results:
        for point in outputs.points:
            verdicts.setdefault(point, set()).add(outputs.verdict)
    proven = sum(found <= {SAME_CODE, EQUAL} for found in verdicts.values())
    missing = ISOLATION_POINTS - len(verdicts)
    left_out = f"; {missing} that no compared row answers" if missing else ""
    return f"isolation set: {proven} of {ISOLATION_POINTS} calls unchanged{left_out}"


def outputs_document(results: Results, request: OutputsRequest) -> dict[str, Any]:
    """For `--json`: how they were run, and one entry a pair, in the order of the pairs."""
    pairs = [
        {"target": pair.entry.target, "family": pair.entry.family, "problem": dict(pair.entry.problem)}
        | outputs.to_dict()
        for pair, outputs in results
    ]
    return {"device": request.device, "case_set": request.case_set, "equal": all_equal(results), "pairs": pairs}
