"""What `assay compare --json` prints."""

from __future__ import annotations

from typing import Any

from .output_report import outputs_document
from .records import Difference, Entry, Pair, Side
from .running import Comparison, Judged, counted

SCHEMA = "assay.compare/1"


def document(comparison: Comparison) -> dict[str, Any]:
    """Every pair, the identical ones too: what is not in the list was not compared."""
    pairs = [item.pair for item in comparison.judged]
    outputs = comparison.outputs
    return {
        "schema": SCHEMA,
        "verdict": comparison.verdict,
        "sides": [_side(comparison.left), _side(comparison.right)],
        "rules": [str(rule) for rule in comparison.rules],
        "counts": {
            "pairs": sum(pair.left is not None and pair.right is not None for pair in pairs),
            "new": sum(pair.left is None for pair in pairs),
            "gone": sum(pair.right is None for pair in pairs),
            "different": sum(bool(pair.differences) for pair in pairs),
            "violations": sum(bool(item.violations) for item in comparison.judged),
            "levels": counted([pair for pair in pairs if pair.left is not None and pair.right is not None]),
        },
        "pairs": [_pair(item) for item in comparison.judged],
        "outputs": outputs_document(outputs.results, outputs.request) if outputs else None,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "kind": side.kind,
        "detail": side.detail,
        "variants": len(side.entries),
        "toolchains": {target: dict(side.toolchains[target]) for target in side.targets},
    }


def _pair(judged: Judged) -> dict[str, Any]:
    pair = judged.pair
    entry = pair.entry
    return {
        "target": entry.target,
        "family": entry.family,
        "problem": dict(entry.problem),
        "state": state_of(pair),
        "level": pair.level,
        "differences": [_difference(item) for item in pair.differences],
        "violations": list(judged.violations),
        "notes": [_difference(item) for item in pair.notes],
        "instruction_classes": {name: list(counts) for name, counts in pair.classes.items()},
        "executed_instructions": {name: list(counts) for name, counts in pair.executed.items()},
        "variants": [_variant(pair.left), _variant(pair.right)],
    }


def state_of(pair: Pair) -> str:
    """`new`, `gone`, `changed` or `same`."""
    if pair.left is None:
        return "new"
    if pair.right is None:
        return "gone"
    return "changed" if pair.differences else "same"


def _difference(item: Difference) -> dict[str, Any]:
    return {"aspect": item.aspect, "name": item.name, "before": item.before, "after": item.after}


def _variant(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    known = {"launch": dict(entry.launch), "resources": dict(entry.figures), "evidence": dict(entry.evidence)}
    if entry.built is None:
        return known
    row = entry.built.row
    return {"id": row.id, "code_sha256": row.object, "source_sha256": entry.built.record.source_sha256, **known}
