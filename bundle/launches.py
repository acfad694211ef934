"""What of a row says how its kernel is launched: its grid, and whether it may start early."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

# Field of a row's launch.  True: the kernel waits by itself for what the kernel before it wrote (griddepcontrol.wait),
# and may be launched while that one still runs.  Source: CUDA Programming Guide, 'Programmatic Dependent Launch'.
DEPENDENT_LAUNCH = "programmatic_dependent_launch"


def grid_size(axis: Iterable[str], dims: Mapping[str, int]) -> int:
    """Programs along one axis of a grid.

    A term is a dimension of the call, a product of some (`rows*gqa`), or either by what one program takes of it,
    rounded up (`tokens/64`).
    """
    size = 1
    for term in axis:
        names, _, per_program = term.partition("/")
        size *= -(-math.prod(dims[name] for name in names.split("*")) // int(per_program or 1))
    return size
