"""All cases of the corpus."""

from __future__ import annotations

import numpy as np

from .case import Case
from .conversions import conversion_cases
from .elementwise import elementwise_cases
from .memory import memory_cases
from .products import product_cases
from .reductions import reduction_cases
from .workloads import workload_cases

PARTS = (elementwise_cases, conversion_cases, reduction_cases, memory_cases, product_cases, workload_cases)


def make_cases() -> list[Case]:
    """The same cases every time."""
    rng = np.random.default_rng(2024)
    return [case for part in PARTS for case in part(rng)]
