"""Whether tensors share memory: two of a call's, or one with itself.

Exact for layouts that nest, as those of every framework's views do: each stride at least what the smaller ones span.
Others count as overlapping, since some of them are.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from assay.bundle.faults import Fault

from .tensors import TensorView


class Layout(NamedTuple):
    """Bytes from a tensor's lowest element to behind its highest, and (stride in bytes, size) of dimensions above 1."""

    extent: int
    steps: tuple[tuple[int, int], ...]
    item_bytes: int

    @classmethod
    def of(cls, view: TensorView) -> Layout:
        """The layout of a tensor; its address is no part of it."""
        steps = [
            (stride * view.item_bytes, size) for size, stride in zip(view.shape, view.strides, strict=True) if size > 1
        ]
        return cls(view.extent_bytes, tuple(sorted(steps)), view.item_bytes)

    @property
    def meets_itself(self) -> bool:
        """Whether two of its elements may lie on each other."""
        span = self.item_bytes
        for stride, size in self.steps:
            if stride < span:
                return True
            span += (size - 1) * stride
        return False

    def span_below(self, period: int) -> int:
        """Bytes that its dimensions with strides below `period` reach; 0 where the others are no multiples of it."""
        if any(stride % period for stride, _ in self.steps if stride >= period):
            return 0
        return self.item_bytes + sum((size - 1) * stride for stride, size in self.steps if stride < period)


def self_overlap_faults(layouts: Mapping[str, Layout], written: Iterable[str]) -> list[Fault]:
    """Written tensors in which several elements are one."""
    return [
        Fault(name, "elements that share memory", "an element's memory of its own", "do not pass an expanded tensor")
        for name in written
        if layouts[name].extent and layouts[name].meets_itself
    ]


def overlap_faults(
    layouts: Mapping[str, Layout], addresses: Mapping[str, int], written: Collection[str]
) -> list[Fault]:
    """Written tensors that share memory with another one of the call."""
    ranges = sorted((addresses[name], layout.extent, name) for name, layout in layouts.items() if layout.extent)
    faults = []
    for at, (start, extent, name) in enumerate(ranges):
        for other_start, _, other in itertools.islice(ranges, at + 1, None):
            if other_start >= start + extent:
                break
            if (name in written or other in written) and not _interleave(
                layouts[name], layouts[other], other_start - start
            ):
                output, given = (name, other) if name in written else (other, name)
                faults.append(Fault(output, f"shares memory with {given}", "memory of its own"))
    return faults


def _interleave(first: Layout, second: Layout, distance: int) -> bool:
    """Whether both repeat at one stride and lie beside each other within it; distance: between their starts, bytes."""
    for period in {stride for stride, _ in first.steps} & {stride for stride, _ in second.steps}:
        first_span, second_span = (layout.span_below(period) if period else 0 for layout in (first, second))
        offset = distance % period if period else 0
        if first_span and second_span and first_span <= offset and offset + second_span <= period:
            return True
    return False
