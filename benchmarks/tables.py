"""Markdown tables of what was measured on a GPU, from the JSON in benchmarks/results.

python benchmarks/tables.py > benchmarks/results/sm90.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import decode_tables
import family_tables
from findings import Ratio

RESULTS = Path(__file__).with_name("results")
SCHEMAS = {"decode-sm90.json": "assay.benchmark.decode/2", "launch-sm90.json": "assay.benchmark.launch/2"}


def main() -> int:
    """Print the page."""
    decode, launch = (_read(name, schema) for name, schema in SCHEMAS.items())
    evidence = json.loads((RESULTS / "sm90.device.json").read_text())
    kv, extend = (json.loads((RESULTS / name).read_text()) for name in ("kv-sm90.json", "extend-sm90.json"))
    families = [*family_tables.kv_section(kv), *family_tables.prefill_section(extend, label="sm90")]
    print("\n".join([*page(decode, launch, evidence), "", *families]).rstrip())
    return 0


def _read(name: str, schema: str) -> dict[str, Any]:
    """Exits with a message where the file was written by another version of its benchmark, or not to its end."""
    document = json.loads((RESULTS / name).read_text())
    if document["schema"] != schema:
        raise SystemExit(f"{name}: schema {document['schema']}, this reads {schema}: measure again")
    if not document["complete"]:
        raise SystemExit(f"{name}: the run was cut short: measure again")
    return document


def page(decode: Mapping[str, Any], launch: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[str]:
    """The page's lines."""
    return [
        f"# {decode['device']}: the sm90 bundle\n",
        "Written by `python benchmarks/tables.py` from the JSON beside it, which has every sample.\n",
        *_protocol(decode["protocol"]),
        *_evidence(evidence),
        *decode_tables.sections(decode, label="sm90"),
        *_launch(launch),
    ]


def _protocol(protocol: Mapping[str, Any]) -> list[str]:
    return [
        f"Candidates were timed in {protocol['order']}. Declared before the run: a candidate drifted where the largest "
        f"median of the thirds of its rounds is more than {protocol['drift_limit']:.2f} times the smallest. Figures "
        f"marked {decode_tables.MARK} drifted, or rest on one that did: they are descriptive only.\n"
    ]


def _evidence(document: Mapping[str, Any]) -> list[str]:
    variants = document["variants"]
    passed = sum(item["device"] == "pass" for item in variants.values())
    return [
        "## Correctness\n",
        f"`assay qualify-device`: {document['verdict']}; {passed} of {len(variants)} variants passed every case, each "
        f"launched directly and replayed from a CUDA graph. Bundle {document['bundle']['identity'][:16]}, "
        f"driver {document['device']['kernel_driver_version']}. The raw figures are in `sm90.device.json`, for "
        "`assay attest`.\n",
    ]


def _launch(document: Mapping[str, Any]) -> list[str]:
    jit = document["host_us"]["jit (2 kernels)"]
    lines = [
        "## Host cost\n",
        f"Microseconds a call, medians of {document['protocol']['rounds']} rounds; the JIT is Triton "
        f"{document['triton']}, on the bundle's own sources.\n",
        "| way | µs | of the JIT's two kernels |\n|---|--:|--:|",
    ]
    for name, figures in document["host_us"].items():
        part = Ratio(figures["median_us"] / jit["median_us"], figures["drifted"] or jit["drifted"])
        lines.append(f"| {name} | {decode_tables.time(figures)} | {decode_tables.times(part)} |")
    lines.append("\n## First result in a fresh process, torch started\n\n| way | ms |\n|---|--:|")
    lines += [f"| {name} | {figures['median']:.1f} |" for name, figures in document["first_call_ms"].items()]
    if parts := document.get("first_call_parts_ms"):
        lines.append("\nassay's by part; those below 'synchronize' are within the call:\n\n| part | ms |\n|---|--:|")
        lines += [f"| {name} | {figures['median']:.2f} |" for name, figures in parts.items()]
        loading = parts["load"]["median"] + parts["loading the modules"]["median"]
        lines.append(
            f"\nLoading bundle and kernels, 'load' and 'loading the modules', takes {loading:.1f} ms of it; the rest "
            "is imports, planning and the first run of Python code."
        )
    lines.append(f"\nOpening the bundle takes {document['open_ms']:.2f} ms.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
