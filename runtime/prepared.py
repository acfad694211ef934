"""Rows made ready on one device: each loaded at its first call, and bound to calls of one shape.

What is left to a call then is its addresses, its numbers and its stream.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from assay.bundle.picking import DEPENDENT_LAUNCH

if TYPE_CHECKING:
    from assay.bundle.picking import PickedRow
    from assay.bundle.records import Row

    from .drivers.driver import Driver, Function, LaunchGrid, Pointer

    AnyRow = Row | PickedRow

Value = TypeVar("Value")
_CODES = {"pointer": "Q", "i32": "i", "i64": "q", "f32": "f"}


class Loaded:
    """What of one bundle is loaded on one device.  Safe to use from several threads."""

    def __init__(self, driver: Driver, code: Callable[[Any], bytes], lds_limits: Mapping[str, int]):
        """code: a row's code object; lds_limits: shared memory of a workgroup in bytes, by the target's name."""
        self._driver = driver
        self._code = code
        self._lds_limits = lds_limits
        self._functions: dict[str, Function] = {}
        self._used: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def function(self, row: AnyRow) -> Function:
        """The row's kernel on this device, loaded at the first call.  Raises ObjectError and the driver's errors."""
        found = self._functions.get(row.id)
        if found is not None:
            return found
        with self._lock:
            if row.id not in self._functions:
                self._functions[row.id] = self._load(row)
            return self._functions[row.id]

    def used(self, row_id: str) -> list[int]:
        """The counter of the row's launches, to be counted up."""
        return self._used.setdefault(row_id, [0])

    def usage(self) -> dict[str, int]:
        """How often each row was launched, by its id."""
        return {id: count for id, (count,) in sorted(self._used.items()) if count}

    def close(self) -> None:
        """Unload everything and give the device up.  Never raises."""
        with self._lock:
            for function in self._functions.values():
                self._driver.unload(function)
            self._functions.clear()
            self._driver.close()

    def _load(self, row: AnyRow) -> Function:
        from .drivers.function import Wanted

        label = f"{row.family}/{row.id} ({row.symbol})"
        limit = min(self._lds_limits[row.target], self._driver.lds_limit)
        if row.lds_bytes > limit:
            from assay.bundle.faults import Fault  # Here and not above: a first call does without them.

            from .errors import ArgumentError

            raise ArgumentError([Fault(f"shared memory of {label}", f"{row.lds_bytes} bytes", f"at most {limit}")])
        arguments = tuple((a.offset, a.size) for a in row.arguments)
        threads, dependent = row.num_warps * row.wavefront_size, row.launch.get(DEPENDENT_LAUNCH) is True
        wanted = Wanted(label, row.symbol, row.lds_bytes, threads, arguments, dependent)
        return self._driver.load(self._code(row), wanted)


class Prepared:
    """One kernel, bound to shapes and strides.  Safe to use from several threads.

    used: a counter of the row's launches, shared by all that launch it.  pointer_names and scalar_names give the order
    in which `launch` and `bind` take addresses and numbers.  block: the driver's argument block, as the last `launch`
    filled it.  row: as it was found, with all of its fields or with those that a launch needs.
    """

    __slots__ = ("_launch", "_lock", "_used", "block", "driver", "function", "grid", "layout", "pointers", "row")

    def __init__(
        self, row: AnyRow, function: Function, driver: Driver, layout: Layout, grid: LaunchGrid, used: list[int]
    ):
        self.row = row
        self.function = function
        self.grid = grid
        self.layout = layout
        self.driver = driver
        self._used = used
        self.pointers = layout.pointers if driver.watches_memory else ()
        self.block = driver.argument_block(layout.packer.size)
        self._launch = driver.launch
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.row.family} row {self.row.id}, grid {' x '.join(map(str, self.grid))}>"

    @property
    def pointer_names(self) -> tuple[str, ...]:
        """The order of addresses."""
        return self.layout.pointer_names

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """The order of numbers."""
        return self.layout.scalar_names

    def launch(self, addresses: Sequence[int], scalars: Sequence[float], stream: int) -> None:
        """Start the kernel on these addresses and numbers.  Nothing is checked here but by the driver."""
        with self._lock:
            self.layout.pack(self.block.data, addresses, scalars)
            self._launch(self.function, self.grid, self.block, stream, self.pointers)
            self._used[0] += 1

    def count(self) -> None:
        """One more launch of this row."""
        with self._lock:
            self._used[0] += 1

    def bind(self, addresses: Sequence[int], scalars: Sequence[float]) -> Callable[[int], None]:
        """A launch with an argument block of its own, filled once: call it with the stream."""
        from .recipes import bound  # Here and not above: a first call does without it.

        return bound(self, addresses, scalars)


class Layout:
    """How addresses, numbers and strides become the argument block of a row.

    The block is packed from (addresses, scalars, tail); `in_order` rearranges those where the kernel wants them mixed.
    scalars: the names of arguments that are numbers of the call.  number_of: a stride's or a size's value by its name.
    pointers: for drivers that keep watch.
    """

    __slots__ = ("arguments", "in_order", "packer", "pointer_names", "pointers", "scalar_names", "tail")

    def __init__(
        self,
        arguments: Sequence[Any],
        scalars: Collection[str],
        number_of: Callable[[str], int],
        pointers: tuple[Pointer, ...] = (),
    ):
        self.arguments = arguments
        self.pointers = pointers
        self.pointer_names = tuple(a.name for a in arguments if a.kind == "pointer")
        self.scalar_names = tuple(a.name for a in arguments if a.name in scalars)
        named = {*self.pointer_names, *self.scalar_names}
        rest = [a.name for a in arguments if a.kind != "hidden" and a.name not in named]
        hidden = [a.name for a in arguments if a.kind == "hidden" and a.size == 8]
        self.tail = (*map(number_of, rest), *(0 for _ in hidden))
        given = [*self.pointer_names, *self.scalar_names, *rest, *hidden]
        wanted = [given.index(a.name) for a in arguments if a.kind != "hidden" or a.size == 8]
        self.in_order = None if wanted == sorted(wanted) else itemgetter(*wanted)
        self.packer = struct.Struct(_format(arguments))

    def pack(self, data: Any, addresses: Sequence[int], scalars: Sequence[float]) -> None:
        """Fill an argument block in."""
        values = (*addresses, *scalars, *self.tail)
        self.packer.pack_into(data, 0, *(values if self.in_order is None else self.in_order(values)))


def _format(arguments: Sequence[Any]) -> str:
    """The argument block as `struct` spells it; hidden arguments are null."""
    text, at = "<", 0
    for argument in arguments:
        is_number = argument.kind != "hidden" or argument.size == 8
        code = _CODES.get(argument.kind, "Q") if is_number else f"{argument.size}x"
        text += f"{argument.offset - at}x{code}"
        at = argument.offset + argument.size
    return text


class Kept(dict[Hashable, Value]):
    """A mapping of at most `most` entries.  Shapes come and go with the batch: when full it forgets its oldest half.

    Reading is a dictionary's own; only `keep` adds.  Safe to use from several threads.
    """

    def __init__(self, most: int):
        super().__init__()
        self._most = most
        self._lock = threading.Lock()

    def keep(self, key: Hashable, value: Value) -> None:
        """Add an entry, or replace the one of this key."""
        with self._lock:
            if len(self) >= self._most:
                for old in list(self)[: self._most // 2]:
                    self.pop(old, None)
            self[key] = value
