"""Whether memory that a kernel writes is another argument's too: workgroups run in no order, so that is a race.

This is the check of every call, on integers alone and never wrong where it says no; `overlap_faults.py` says which
tensors it is about.
"""

from collections.abc import Collection, Sequence


def may_overlap(addresses: Sequence[int], extents: Sequence[int], written: Collection[int]) -> bool:
    """Whether a written range meets any other.  extents: bytes of each, 0 where there is nothing."""
    spans = sorted(
        (at, at + size, index) for index, (at, size) in enumerate(zip(addresses, extents, strict=True)) if size
    )
    end_of_any = end_of_written = 0
    for start, end, index in spans:
        is_written = index in written
        if start < (end_of_any if is_written else end_of_written):
            return True
        end_of_any = max(end_of_any, end)
        if is_written:
            end_of_written = max(end_of_written, end)
    return False
