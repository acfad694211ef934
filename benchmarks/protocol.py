"""How candidates are compared: seeded shuffled rounds, every sample kept in order, a drift gate declared beforehand.

In each round every candidate is timed once, in an order drawn anew.  A candidate drifted when the largest median of the
thirds of its rounds is more than DRIFT_LIMIT times the smallest: its figures are then descriptive only.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

DRIFT_LIMIT = 1.10
LEAST_ROUNDS = 3
DESCRIPTIVE = "descriptive only"


def declared(rounds: int, seed: int) -> dict[str, Any]:
    """What stands at the top of a document before anything is measured."""
    return {
        "order": "seeded shuffled rounds",
        "rounds": rounds,
        "seed": seed,
        "drift": "largest / smallest median of the thirds of a candidate's rounds",
        "drift_limit": DRIFT_LIMIT,
    }


def add_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """The options of the protocol; rounds: how many unless told otherwise."""
    parser.add_argument("--rounds", type=_rounds, default=rounds, help=f"at least {LEAST_ROUNDS}; default {rounds}")
    parser.add_argument("--seed", type=int, default=1, help="of the order within the rounds; default 1")


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{rounds}: at least {LEAST_ROUNDS}, as drift is between thirds of the rounds")
    return rounds


def orders(names: Collection[str], rounds: int, seed: int) -> Iterator[list[str]]:
    """The order of each round."""
    generator = random.Random(seed)
    for _ in range(rounds):
        order = list(names)
        generator.shuffle(order)
        yield order


def sampled(candidates: Mapping[str, Callable[[], float]], rounds: int, seed: int) -> dict[str, list[float]]:
    """Every sample of each candidate, in the order of the rounds."""
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for order in orders(candidates, rounds, seed):
        for name in order:
            samples[name].append(candidates[name]())
    return samples


def drift(samples: Sequence[float]) -> float:
    """Largest / smallest median of the thirds; 1.0 is a candidate that stayed as it was.  At least three samples."""
    cuts = [len(samples) * third // 3 for third in range(4)]
    medians = [statistics.median(samples[start:end]) for start, end in itertools.pairwise(cuts)]
    return max(medians) / min(medians)


def summary(samples: Sequence[float]) -> dict[str, Any]:
    """A candidate's figures in microseconds, its samples, and whether it passed the gate."""
    moved = drift(samples)
    return {
        "median_us": statistics.median(samples),
        "least_us": min(samples),
        "drift": moved,
        "drifted": moved > DRIFT_LIMIT,
        "samples_us": list(samples),
    }


def mark(result: Mapping[str, Any]) -> str:
    """What stands behind a printed line; nothing where the gate was passed."""
    return f"  {DESCRIPTIVE}: drift {result['drift']:.2f}" if result["drifted"] else ""
