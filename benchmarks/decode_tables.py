"""The sections of the page that show decode_speed.py's figures, as lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from findings import FP8_LEAST_SPEED, Ratio, Row, regressions, shapes, share, speed, targets

MARK = "†"
NOTHING = "-"
FORMATS = ("bf16", "fp8")


def sections(document: Mapping[str, Any], label: str) -> list[str]:
    """All of them, for the bundle of that label."""
    return [
        *_decode(document, label),
        *_targets(document, label),
        *_regressions(document, label),
        *_gather(document, label),
        *_jit(document, label),
        *_peers(document, label),
    ]


def marked(text: str, drifted: bool) -> str:
    """A cell whose figure may have drifted."""
    return f"{text} {MARK}" if drifted else text


def time(row: Row | None) -> str:
    """Microseconds."""
    return NOTHING if row is None else marked(f"{row['median_us']:.1f}", row["drifted"])


def percent(ratio: Ratio) -> str:
    return marked(f"{100 * ratio.value:.0f} %", ratio.drifted)


def times(ratio: Ratio, digits: int = 2) -> str:
    """digits: more where a figure stands next to its limit."""
    return marked(f"{ratio.value:.{digits}f}", ratio.drifted)


def _table(head: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """head: the columns' names, with | between them; the first is text."""
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|---|" + "--:|" * (columns - 1)]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def _ratio(row: Row | None, against: Row | None) -> str:
    """The speed of a row against another's, where both were timed."""
    return NOTHING if row is None or against is None else times(speed(row, against))


def _decode(document: Mapping[str, Any], label: str) -> list[str]:
    bandwidth = document["read_bandwidth_bytes_per_second"]
    rows = []
    for shape, found in shapes(document):
        sdpa = found.get("sdpa")
        cells = [shape, time(sdpa)]
        for kv_format in FORMATS:
            warm, cold = (found.get(f"{label} {kv_format} {way}") for way in ("warm", "cold"))
            part = NOTHING if warm is None else percent(share(warm, bandwidth))
            cells += [f"{time(warm)} / {time(cold)}", part, _ratio(warm, sdpa)]
        bf16, fp8 = (found.get(f"{label} {kv_format} warm") for kv_format in FORMATS)
        rows.append([*cells, _ratio(fp8, bf16)])
    return [
        "## Decode, all kernels of a call together\n",
        f"Microseconds, medians of {document['protocol']['rounds']} rounds, graphs of several calls; 32 query heads, "
        "scattered slots of page size 1, splits by default. 'cold' calls read other slots than the call before. SDPA "
        f"is PyTorch {document['torch']} on contiguous BF16, the same keys in each call: it stands beside 'warm'. "
        f"Read bandwidth in the same run: {bandwidth / 1e12:.2f} "
        "TB/s; the share is of that, by the bytes of keys, values and scales. "
        f"Bundle {document['bundles'][label][:16]}.\n",
        *_table(
            "batch x keys | SDPA | BF16 warm / cold | share | x SDPA | FP8 warm / cold | share | x SDPA | FP8 x BF16",
            rows,
        ),
        *_left_out(document, "bundle"),
    ]


def _targets(document: Mapping[str, Any], label: str) -> list[str]:
    rows = [
        [target.shape, target.what, f"{target.least:.2f}", times(target.ratio, digits=3), target.verdict]
        for target in targets(document, label)
    ]
    if not rows:
        return ["## Targets\n", "None of the shapes that have targets was measured in this run.\n"]
    return ["## Targets\n", *_table("batch x keys | what | at least | measured | verdict", rows)]


def _regressions(document: Mapping[str, Any], label: str) -> list[str]:
    found = regressions(document, label)
    lines = [
        "## Known regressions of decode\n",
        f"Every shape where FP8 has less than {FP8_LEAST_SPEED:.2f} of BF16's speed, and every shape and format slower "
        "than SDPA, by the medians above.\n",
    ]
    if not found:
        return [*lines, "None in this run.\n"]
    rows = [[item.shape, item.what, time(item.row), time(item.against), times(item.ratio, digits=3)] for item in found]
    return [*lines, *_table("batch x keys | slower | µs | against | speed", rows)]


def _gather(document: Mapping[str, Any], label: str) -> list[str]:
    rows = []
    for shape, found in shapes(document):
        cells = []
        for kv_format in FORMATS:
            for way in ("warm", "cold"):
                floor = found.get(f"gather {kv_format} {way}")
                ours = found.get(f"{label} {kv_format} {way}")
                part = NOTHING if floor is None or ours is None else percent(speed(ours, floor))
                cells += [f"{time(floor)} / {time(ours)}", part]
        if any(name.startswith("gather ") for name in found):
            rows.append([shape, *cells])
    lines = ["## What scattered rows allow\n"]
    if not rows:
        return [*lines, "The gather was not measured in this run.\n", *_left_out(document, "gather")]
    return [
        *lines,
        "The gather reads the same rows, scales included, and nothing else: the best of several launches of a Triton "
        "kernel, in the same rounds. Microseconds, gather / decode; the share is the gather's time in the decode "
        "call's.\n",
        *_table(
            "batch x keys | BF16 warm | share | BF16 cold | share | FP8 warm | share | FP8 cold | share",
            rows,
        ),
        *_left_out(document, "gather"),
    ]


def _jit(document: Mapping[str, Any], label: str) -> list[str]:
    return _beside(
        document,
        label,
        f"## The same sources under Triton {document['triton']}'s JIT\n",
        "The bundle's own rendered sources, compiled by the Triton of the machine, with as many splits and in the same "
        "kind of graph. Microseconds; 'speed' is the bundle's against it.\n",
        ("jit", f"{label} jit", FORMATS),
    )


def _peers(document: Mapping[str, Any], label: str) -> list[str]:
    head, peers = "## Other decode kernels\n", document["peers"]
    if peers is None:
        return [head, "Not looked for in this run.\n"]
    if not peers["installed"]:
        return [head, f"Looked for on the machine: {', '.join(peers['looked_for'])}; none installed.\n"]
    there = ", ".join(f"{name} {version}" for name, version in peers["installed"].items())
    if "flashinfer" not in peers["installed"]:
        return [head, f"Installed: {there}. Of these none is timed: FlashInfer alone is called here.\n"]
    text = f"Installed: {there}. FlashInfer's batch decode, page size 1, on the same slots of a BF16 cache.\n"
    return _beside(document, label, head, text, ("flashinfer", "flashinfer", ("bf16",)))


def _beside(
    document: Mapping[str, Any], label: str, head: str, text: str, other: tuple[str, str, tuple[str, ...]]
) -> list[str]:
    """A table of another kernel's times next to the bundle's.  other: its kind, its name, the formats it has."""
    kind, name, formats = other
    rows = []
    for shape, found in shapes(document):
        cells = []
        for kv_format in formats:
            for way in ("warm", "cold"):
                theirs, ours = (found.get(f"{who} {kv_format} {way}") for who in (name, label))
                cells += [time(theirs), _ratio(ours, theirs)]
        rows.append([shape, *cells])
    columns = [f"{kv_format.upper()} {way} | speed" for kv_format in formats for way in ("warm", "cold")]
    left_out = _left_out(document, kind)
    if not any(row["kind"] == kind and "median_us" in row for row in document["rows"]):
        return [head, "Not measured in this run.\n", *left_out]
    return [head, text, *_table(" | ".join(["batch x keys", *columns]), rows), *left_out]


def _left_out(document: Mapping[str, Any], kind: str) -> list[str]:
    """Rows of this kind that have no time, and why."""
    lines = [
        f"- {row['shape']}: {row['name']}: {row.get('wrong') or row.get('failed')}"
        for row in document["rows"]
        if row["kind"] == kind and "median_us" not in row
    ]
    return ["Not timed:\n", *lines, ""] if lines else []
