"""Which tensors of a call share memory that a kernel writes.

Knows interleaved ones, whose extents overlap and whose elements do not: `overlaps.may_overlap` does not.
"""

from collections.abc import Collection, Mapping

from assay.bundle.faults import Fault

from .tensors import TensorView

_OWN_MEMORY = "memory that no other argument has"


def overlap_faults(views: Mapping[str, TensorView], written: Collection[str]) -> list[Fault]:
    """Every pair of tensors that share memory of which one is written, told of the written one."""
    faults = []
    names = list(views)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            if first not in written and second not in written:
                continue
            shared = _shared(views[first], views[second])
            if shared:
                name, other = (second, first) if second in written else (first, second)
                faults.append(Fault(name, f"shares up to {shared} bytes of memory with {other}", _OWN_MEMORY))
    return faults


def self_overlap_faults(views: Mapping[str, TensorView], written: Collection[str]) -> list[Fault]:
    """Written tensors with elements that lie in one place, such as expanded ones."""
    return [
        Fault(
            name, f"strides {list(views[name].strides)} put several elements in one place", "a place for each element"
        )
        for name in written
        if name in views and _meets_itself(views[name])
    ]


def _meets_itself(view: TensorView) -> bool:
    if 0 in view.shape:
        return False
    reach = 0
    for stride, size in sorted((abs(s), n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _span(view: TensorView) -> tuple[int, int]:
    """The lowest byte, and the one behind the highest."""
    below = sum(min(0, (size - 1) * stride) for size, stride in zip(view.shape, view.strides, strict=True))
    low = view.address + below * view.item_bytes
    return low, low + view.extent_bytes


def _shared(first: TensorView, second: TensorView) -> int:
    """Bytes that the two extents have in common; 0 where none, and where the tensors are seen to be interleaved."""
    if not first.extent_bytes or not second.extent_bytes:
        return 0
    (low, high), (other_low, other_high) = _span(first), _span(second)
    shared = min(high, other_high) - max(low, other_low)
    if shared <= 0 or _interleaved(first, second, other_low - low):
        return 0
    return shared


def _interleaved(first: TensorView, second: TensorView, distance: int) -> bool:
    """Whether both repeat with one pitch, in which each has a part of its own.  distance: of their lowest bytes."""
    pitches = {abs(stride) * v.item_bytes for v in (first, second) for stride in v.strides if stride}
    for pitch in pitches:
        one, two = _within(first, pitch), _within(second, pitch)
        offset = distance % pitch
        if one and two and one <= offset <= pitch - two:
            return True
    return False


def _within(view: TensorView, pitch: int) -> int:
    """Bytes that the tensor takes of each pitch; 0 where it does not repeat with it."""
    inner = view.item_bytes
    for size, stride in zip(view.shape, view.strides, strict=True):
        step = abs(stride) * view.item_bytes
        if size > 1 and step % pitch:
            inner += (size - 1) * step
    return inner if inner <= pitch else 0
