"""What `assay upgrade --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .comparing import SPILL_COUNTS
from .records import Chosen, Pair, Row, Side, TargetUpgrade, Upgrade
from .summing import summary_of
from .wording import recommendation

SCHEMA = "assay.upgrade/1"


def document(upgrades: Sequence[Upgrade], profile: str) -> dict[str, Any]:
    """Every row that is not the same in all that is compared, every candidate whose spills or code changed while its IR
    did not, and the figures of all."""
    return {
        "schema": SCHEMA,
        "profile": profile,
        "verdict": "harmless" if all(upgrade.harmless for upgrade in upgrades) else "not harmless",
        "upgrades": [
            {
                "before": upgrade.before,
                "after": upgrade.after,
                "harmless": upgrade.harmless,
                "recommendation": recommendation(upgrade),
                "warnings": list(upgrade.warnings),
                "targets": [_target(item) for item in upgrade.targets],
            }
            for upgrade in upgrades
        ],
    }


def _target(item: TargetUpgrade) -> dict[str, Any]:
    summary = summary_of(item)
    return {
        "target": item.target,
        "before": _side(item.before),
        "after": _side(item.after),
        "rows": dict(summary.kinds),
        "totals": {name: asdict(total) for name, total in summary.totals.items()},
        "largest_error": list(summary.errors),
        "ir": asdict(summary.ir),
        "spills": {
            "candidates": summary.spills.candidates,
            "spilling_before": summary.spills.spilling_before,
            "spilling_after": summary.spills.spilling_after,
            "changed": [_spill(*changed) for changed in summary.spills.changed],
        },
        "ir_equal_code_differs": [_pair(pair) for pair in item.pairs if pair.ir_equal and not pair.code_equal],
        "changes": [_row(row) for row in item.rows if row.kind != "same"],
    }


def _side(side: Side) -> dict[str, Any]:
    watched = [
        {
            **{key: workaround[key] for key in ("family", "name", "verdict")},
            "comparisons": [
                {key: comparison[key] for key in ("problem", "verdict", "criteria")}
                for comparison in workaround["comparisons"]
            ],
        }
        for workaround in side.workarounds
    ]
    return {
        "unusable": side.unusable or None,
        "toolchain": dict(side.toolchain) if side.toolchain else None,
        "build": dict(side.build) if side.build else None,
        "workarounds": watched,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "family": row.family,
        "problem": dict(row.axes),
        "reason": row.reason or None,
        "before": _chosen(row.before),
        "after": _chosen(row.after),
        "ir_equal": row.ir_equal,
        "code_equal": row.code_equal,
        "changes": [{key: value for key, value in asdict(change).items() if key != "weight"} for change in row.changes],
    }


def _chosen(chosen: Chosen | None) -> dict[str, Any] | None:
    return {"variant": chosen.form.variant, "launch": dict(chosen.form.launch)} if chosen else None


def _spill(pair: Pair, before: int, after: int) -> dict[str, Any]:
    return {**_pair(pair), "before": before, "after": after, "ir_equal": pair.ir_equal}


def _pair(pair: Pair) -> dict[str, Any]:
    spills = [form.spills(SPILL_COUNTS) for form in (pair.before, pair.after)]
    return {"variant": pair.before.variant, "family": pair.family, "launch": dict(pair.before.launch), "spills": spills}
