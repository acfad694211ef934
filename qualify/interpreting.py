"""The level `interpreted`: a variant's rendered source, run by Triton's interpreter in worker processes.

It says nothing of a code object, so that it tells a wrong template from a wrong compilation, and covers every target.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from typing import Any

from assay.codegen.environment import ignored_overrides
from assay.codegen.records import Outcome, Variant
from assay.codegen.spec_models import FamilyFile

from .executing import (
    EvidenceError,
    Level,
    call_request,
    cannot_import,
    hash_of_sources,
    missing_packages,
    missing_references,
)

_NEEDED = {"numpy": "numpy", "torch": "torch"}
_VERSIONS = ("triton", "torch", "numpy")
_JUDGES = ("interpretation", "interpreter_builder", "interpreter_memory", "case_runs")
# A worker has one processor; what BLAS would start beside it only waits.
_ENVIRONMENT = {
    "TRITON_INTERPRET": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def require_interpretation(families: list[str]) -> None:
    """Raises EvidenceError when the families' sources cannot be interpreted on this machine."""
    faults = missing_packages("interpreted", _NEEDED, "interpret") + missing_references("interpreted", families)
    if faults:
        raise EvidenceError(faults)


def interpretation_request(variant: Variant, _outcome: Outcome, family: FamilyFile) -> dict[str, Any]:
    """The fields of interpretation.InterpretationRequest.

    Neither target nor warps and stages are among them: the interpreter knows none, and variants of one source share a
    verdict.
    """
    request = variant.request
    return {
        **call_request(variant, family),
        "source": request.source,
        "kernel": request.kernel,
        "constants": tuple(request.constants),
    }


@functools.cache
def judged_by() -> dict[str, str]:
    """Versions of what interprets, and a hash of the sources of references, comparison and our changes to Triton's."""
    versions = {name: importlib.metadata.version(name) for name in _VERSIONS}
    return {**versions, "sources": hash_of_sources(("assay.reference", "assay.codegen"), _JUDGES)}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """In a worker that never compiles: Triton chooses between compiler and interpreter when it is imported."""
    for name in ignored_overrides():
        del os.environ[name]
    os.environ.update(_ENVIRONMENT)
    try:
        from .interpretation import interpret_in_worker
    except ImportError as error:
        raise cannot_import("interpreted", error) from None

    return interpret_in_worker(request)


INTERPRETED = Level("interpreted", "interpreter", interpretation_request, judged_by, _run)
