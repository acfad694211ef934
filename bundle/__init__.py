"""The bundle: one file that holds qualified kernels, the table that picks among them, and the proof that it is whole.

Standard library only. Names are imported when first used, so that a runtime does not pay for the writer.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ArchitectureMismatch": "devices",
    "BudgetError": "faults",
    "Bundle": "reader",
    "BundleError": "faults",
    "Condition": "conditions",
    "Contents": "contents",
    "Fault": "faults",
    "FaultsError": "faults",
    "KernelArgument": "records",
    "Manifest": "records",
    "NoMatch": "verdicts",
    "Row": "records",
    "Selection": "table",
    "TargetRecord": "records",
    "UnknownName": "reader",
    "UnknownRow": "table",
    "VariantRecord": "records",
    "Verdict": "verdicts",
    "attach_evidence": "attaching",
    "check_budgets": "writer",
    "explain": "verdicts",
    "matching_targets": "devices",
    "nearest": "faults",
    "select": "table",
    "verify_bundle": "verify",
    "write_bundle": "writer",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
