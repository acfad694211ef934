"""Judging many mutants of one kernel on all processors."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from .judging import Verdict, judge
from .mutations import Mutant, mutants
from .subject import SUBJECTS


@functools.cache
def all_mutants(family: str) -> tuple[Mutant, ...]:
    """Every mutant of the family's kernel, in order of address."""
    subject = SUBJECTS[family]()
    return tuple(mutants(subject.kernel, subject.program.instructions))


def judge_all(family: str, *, every: int = 1) -> Iterator[Verdict]:
    """Verdicts on one mutant in `every`, in order of address, each as it comes."""
    numbers = range(0, len(all_mutants(family)), every)
    # Forked, so that each worker has the subject that was just made.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        yield from pool.map(functools.partial(_judge_one, family), numbers)


def _judge_one(family: str, number: int) -> Verdict:
    return judge(SUBJECTS[family](), all_mutants(family)[number])
