"""What the figures of decode_speed.py say: targets that hold or not, and known regressions.  No torch, no device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from protocol import DESCRIPTIVE

FP8_LEAST_SPEED = 0.95
TARGET_SHAPE = "8 x 32768,"
BF16_SHARE, FP8_SHARE, FP8_SPEED = 0.93, 0.75, 1.55

Row = Mapping[str, Any]


class Ratio(NamedTuple):
    """A quotient of two rows' medians, or a share of the bandwidth; drifted where a figure behind it did."""

    value: float
    drifted: bool


class Target(NamedTuple):
    """One target at one shape.  verdict: 'holds', 'missed', or 'descriptive only' where a figure behind it drifted."""

    shape: str
    what: str
    least: float
    ratio: Ratio

    @property
    def verdict(self) -> str:
        if self.ratio.drifted:
            return DESCRIPTIVE
        return "holds" if self.ratio.value >= self.least else "missed"


class Regression(NamedTuple):
    """A bundle's kernel that is slower than it should be, and the row that it is compared with."""

    shape: str
    what: str
    row: Row
    against: Row

    @property
    def ratio(self) -> Ratio:
        return speed(self.row, self.against)


def shapes(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Row]]]:
    """Each shape and its timed rows by name, in the order in which they were measured."""
    found: dict[str, dict[str, Row]] = {}
    for row in document["rows"]:
        timed = found.setdefault(row["shape"], {})
        if "median_us" in row:
            timed[row["name"]] = row
    yield from found.items()


def speed(row: Row, against: Row) -> Ratio:
    """How much faster a row is than another; 1.0 is as fast."""
    return Ratio(against["median_us"] / row["median_us"], row["drifted"] or against["drifted"])


def share(row: Row, bandwidth: float) -> Ratio:
    """The part of the read bandwidth (bytes a second) that a row's bytes in its time are."""
    return Ratio(row["cache_bytes"] / (row["median_us"] * 1e-6) / bandwidth, row["drifted"])


def targets(document: Mapping[str, Any], label: str) -> list[Target]:
    """The targets of the bundle of that label, at each shape that has them and was measured."""
    bandwidth = document["read_bandwidth_bytes_per_second"]
    found = []
    for shape, rows in shapes(document):
        bf16, fp8 = (rows.get(f"{label} {kv_format} warm") for kv_format in ("bf16", "fp8"))
        if not shape.startswith(TARGET_SHAPE):
            continue
        if bf16:
            found.append(Target(shape, "BF16, share of read bandwidth", BF16_SHARE, share(bf16, bandwidth)))
        if fp8:
            found.append(Target(shape, "FP8, share of read bandwidth", FP8_SHARE, share(fp8, bandwidth)))
        if bf16 and fp8:
            found.append(Target(shape, "FP8, speed of BF16", FP8_SPEED, speed(fp8, bf16)))
    return found


def regressions(document: Mapping[str, Any], label: str) -> list[Regression]:
    """Shapes where FP8 has less than 0.95 of BF16's speed, warm or cold, and where either is slower than SDPA."""
    found: list[Regression] = []
    for shape, rows in shapes(document):
        for way in ("warm", "cold"):
            pair = [rows.get(f"{label} {kv_format} {way}") for kv_format in ("fp8", "bf16")]
            found += _slower(shape, f"FP8 than BF16, {way}", pair, FP8_LEAST_SPEED)
        for kv_format in ("bf16", "fp8"):
            pair = [rows.get(f"{label} {kv_format} warm"), rows.get("sdpa")]
            found += _slower(shape, f"{kv_format.upper()} than SDPA", pair, 1.0)
    return found


def _slower(shape: str, what: str, pair: Sequence[Row | None], least: float) -> list[Regression]:
    """pair: a row and the one it is compared with; one that was not timed is compared with nothing."""
    row, against = pair
    if row is None or against is None:
        return []
    found = Regression(shape, what, row, against)
    return [found] if found.ratio.value < least else []
