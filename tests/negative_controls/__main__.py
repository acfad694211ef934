"""Judges all mutants of both kernels and writes docs/negative-controls.md; progress goes to standard error."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .judging import Verdict
from .judging_all import all_mutants, judge_all
from .page import page, share_noticed, summary
from .subject import SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "negative-controls.md"
_SHARE = 0.95
_SAID_EVERY = 100


def main() -> int:
    """1 where fewer than 95 % of a kernel's mutants that change an output are noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.negative_controls", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="judge one mutant in N")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args()
    verdicts = {family: _judged(family, options.every) for family in SUBJECTS}
    options.out.write_text(page([(SUBJECTS[family](), found) for family, found in verdicts.items()], options.every))
    for family, found in verdicts.items():
        print(f"{family}: {summary(found)}")
    return 0 if all(share_noticed(found) >= _SHARE for found in verdicts.values()) else 1


def _judged(family: str, every: int) -> list[Verdict]:
    started, found = time.monotonic(), []
    total = len(range(0, len(all_mutants(family)), every))
    for verdict in judge_all(family, every=every):
        found.append(verdict)
        if len(found) % _SAID_EVERY == 0 or len(found) == total:
            print(f"{family}: {len(found)} of {total} mutants, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
