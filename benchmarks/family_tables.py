"""Sections of the page on the families besides decode: storing and reconstructing rows, and prefill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import decode_tables

# Of the copy's bandwidth, of the fastest SDPA's speed at the first shapes, and of the time over a BF16 history.
COPY_AIM, SDPA_AIM, CODES_AIM = 0.80, 0.80, 1.05


def kv_section(document: Mapping[str, Any]) -> list[str]:
    """Storing and reconstructing, each next to a copy of as many bytes."""
    rows = document["rows_each_of_k_and_v"]
    lines = [
        "## Storing and reconstructing cache rows\n",
        f"{rows:,} rows of K and as many of V a call, scattered slots; microseconds, and the share of the speed of a "
        f"plain `copy_` of as many bytes in the same run (aim: {COPY_AIM:.0%} at D=128).\n",
        "| call | D | µs | share of the copy |\n|---|--:|--:|--:|",
    ]
    for item in document["results"]:
        name = f"{item['family']} {item['kv_format']}"
        lines.append(
            f"| {name} | {item['head_dim']} | {decode_tables.time(item['call'])} | {item['share_of_copy']:.0%} |"
        )
    return [*lines, ""]


def prefill_section(document: Mapping[str, Any], label: str) -> list[str]:
    """extend_attention next to the fastest backend of SDPA, and behind the reconstruction of an FP8 history."""
    lines = [
        "## Prefill\n",
        "BF16, D=128, lower-right causal mask; microseconds. 'over FP8': the history is reconstructed from a scattered "
        f"cache of E4M3FN codes first (aim: at most {CODES_AIM:.2f} times the time over BF16). The fastest of SDPA's "
        f"backends that take such a mask counts (aim: {SDPA_AIM:.1f} of its speed at 8,192 + 2,048).\n",
        "| requests x (history + new), heads | ours | x SDPA | SDPA | its backend | over FP8 | x BF16 |",
        "|---|--:|--:|--:|---|--:|--:|",
    ]
    shapes = {tuple(row["shape"].items()): row["shape"] for row in document["rows"]}
    short: list[str] = []
    for key, shape in shapes.items():
        rows = {row["name"]: row for row in document["rows"] if tuple(row["shape"].items()) == key}
        lines.append(_prefill_row(shape, rows, label))
        short += _shortfalls(shape, rows, label)
    said = (
        f"Slower than the fastest SDPA, or over the aim: {'; '.join(short)}." if short else "None is slower than SDPA."
    )
    return [*lines, f"\n{said}\n"]


def _shortfalls(shape: Mapping[str, int], rows: Mapping[str, Any], label: str) -> list[str]:
    """Where prefill is slower than SDPA, and where an FP8 history costs more than is aimed at."""
    ours, over = rows[label], rows.get(f"{label} over FP8")
    speed = _fastest_sdpa(rows)["median_us"] / ours["median_us"]
    found = [f"{_spelled(shape)} at {speed:.2f} of SDPA's speed"] if speed < 1 else []
    if over and over["median_us"] > CODES_AIM * ours["median_us"]:
        found.append(f"{_spelled(shape)} over FP8 {over['median_us'] / ours['median_us']:.3f} times the time over BF16")
    return found


def _fastest_sdpa(rows: Mapping[str, Any]) -> Any:
    timed = [row for name, row in rows.items() if name.startswith("sdpa") and "median_us" in row]
    return min(timed, key=lambda row: row["median_us"])


def _spelled(shape: Mapping[str, int]) -> str:
    heads = f"{shape['q_heads']}/{shape['kv_heads']}"
    return f"{shape['batch']} x ({shape['history']:,} + {shape['chunk']:,}), {heads}"


def _prefill_row(shape: Mapping[str, int], rows: Mapping[str, Any], label: str) -> str:
    ours, fastest = rows[label], _fastest_sdpa(rows)
    over = rows.get(f"{label} over FP8")
    codes = ["", ""]
    if over:
        codes = [decode_tables.time(over), f"{over['median_us'] / ours['median_us']:.3f}"]
    cells = [
        _spelled(shape),
        decode_tables.time(ours),
        f"{fastest['median_us'] / ours['median_us']:.2f}",
        decode_tables.time(fastest),
        fastest["name"].removeprefix("sdpa "),
        *codes,
    ]
    return f"| {' | '.join(cells)} |"
