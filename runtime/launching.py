"""A row made ready for calls of one shape: what is left to a call is its addresses, its numbers and its stream."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from assay.bundle.faults import Fault
from assay.bundle.record import Record
from assay.bundle.records import KernelArgument, Row, grid_size

from .contract import Contract
from .drivers.driver import Driver, Function, LaunchGrid, NativeLaunch, Pointer
from .errors import ArgumentError
from .tensors import TensorView

_CODES = {"pointer": "Q", "i32": "i", "i64": "q", "f32": "f"}
# As _fast.c counts them.
_NUMBER_KINDS = {"f32": 0, "i32": 1, "i64": 2}


class Prepared:
    """One kernel, bound to shapes and strides.  Safe to use from several threads.

    used: a counter of the row's launches, shared by all that launch it.  pointer_names and scalar_names give the order
    in which `launch` and `bind` take addresses and numbers.  block: the driver's argument block, as the last `launch`
    filled it.
    """

    __slots__ = (
        "_block_bytes", "_driver", "_in_order", "_launch", "_lock", "_pack", "_pointers", "_tail",
        "_used", "block", "function", "grid", "pointer_names", "row", "scalar_names",
    )  # fmt: skip

    def __init__(self, row: Row, function: Function, driver: Driver, bound: Layout, grid: LaunchGrid, used: list[int]):
        self.row = row
        self.function = function
        self.grid = grid
        self._used = used
        self.pointer_names = bound.pointer_names
        self.scalar_names = bound.scalar_names
        self._driver = driver
        self._pack = bound.packer.pack_into
        self._block_bytes = bound.packer.size
        self._in_order = bound.in_order
        self._tail = bound.tail
        self._pointers = bound.pointers if driver.watches_memory else ()
        self.block = driver.argument_block(self._block_bytes)
        self._launch = driver.launch
        self._lock = threading.Lock()

    def launch(self, addresses: Sequence[int], scalars: Sequence[float], stream: int) -> None:
        """Start the kernel on these addresses and numbers.  Nothing is checked here but by the driver."""
        values = (*addresses, *scalars, *self._tail)
        if self._in_order is not None:
            values = self._in_order(values)
        with self._lock:
            self._pack(self.block.data, 0, *values)
            self._launch(self.function, self.grid, self.block, stream, self._pointers)
            self._used[0] += 1

    def count(self) -> None:
        """One more launch of this row."""
        with self._lock:
            self._used[0] += 1

    def recipe(self, native: NativeLaunch, sources: Sequence[Address]) -> bytes:
        """What `_fast.launch` takes; sources: of each pointer, in the order of pointer_names."""
        offsets = {argument.name: argument for argument in self.row.arguments}
        pointers = [(offsets[name].offset, *source) for name, source in zip(self.pointer_names, sources, strict=True)]
        numbers = [(offsets[name].offset, _NUMBER_KINDS[offsets[name].kind]) for name in self.scalar_names]
        template = bytearray(self._block_bytes)
        values = (*(0 for _ in pointers), *(0 for _ in numbers), *self._tail)
        self._pack(template, 0, *(values if self._in_order is None else self._in_order(values)))
        slots = [part for slot in (*pointers, *numbers) for part in slot]
        return self._head(native, len(pointers), len(numbers)) + struct.pack(f"<{len(slots)}q", *slots) + template

    def _head(self, native: NativeLaunch, pointers: int, numbers: int) -> bytes:
        """A recipe's fixed part."""
        function, block = self.function, self._block_bytes
        return struct.pack(
            "<13q", *native, *self.grid, function.threads, function.lds_bytes, block, pointers, numbers
        )  # fmt: skip

    def bind(self, addresses: Sequence[int], scalars: Sequence[float]) -> Callable[[int], None]:
        """A launch with an argument block of its own, filled once: call it with the stream."""
        from . import fast  # Here and not above: a first call does without it.

        values = (*addresses, *scalars, *self._tail)
        block = self._driver.argument_block(self._block_bytes)
        self._pack(block.data, 0, *(values if self._in_order is None else self._in_order(values)))
        launch, function, grid, pointers, count = self._launch, self.function, self.grid, self._pointers, self.count
        driver = self._driver

        def start(stream: int) -> None:
            launch(function, grid, block, stream, pointers)
            count()

        native = driver.native_launch(function)
        if fast.module is None or native is None:
            return start
        recipe, start_fast, check = (
            self._head(native, 0, 0) + bytes(block.data),
            fast.module.launch,
            driver.check_usable,
        )

        def start_in_c(stream: int) -> None:
            check()
            if start_fast(recipe, b"", (), stream):
                start(stream)
            else:
                count()

        return start_in_c


class Address(Record):
    """Where a pointer comes from: the address at `index` of those given, -1 for none, plus `addend` bytes."""

    __slots__ = ()

    index: int
    addend: int


class FastLaunch:
    """A kernel's launch through the C path: everything but addresses, numbers and stream is packed into a recipe.

    sources: where each pointer comes from, in the order of the kernel's pointer_names.
    """

    __slots__ = ("_prepared", "_recipe", "_start")

    def __init__(self, prepared: Prepared, start: Callable[..., int], native: NativeLaunch, sources: Sequence[Address]):
        self._prepared = prepared
        self._start = start
        self._recipe = prepared.recipe(native, sources)

    def __call__(self, addresses: bytes, scalars: tuple[float, ...], stream: int) -> int:
        """0, or anything else where nothing was launched: the slow path then launches, or says what is wrong."""
        status = self._start(self._recipe, addresses, scalars, stream)
        if not status:
            self._prepared.count()
        return status


class Layout:
    """How addresses, numbers and strides become the argument block of a row.

    The block is packed from (addresses, scalars, tail); `in_order` rearranges those where the kernel wants them mixed.
    """

    __slots__ = ("in_order", "packer", "pointer_names", "pointers", "scalar_names", "tail")

    def __init__(self, contract: Contract, row: Row, views: Mapping[str, TensorView]):
        arguments = row.arguments
        self.pointer_names = tuple(a.name for a in arguments if a.kind == "pointer")
        self.scalar_names = tuple(a.name for a in arguments if a.name in contract.scalars)
        named = {*self.pointer_names, *self.scalar_names}
        rest = [a for a in arguments if a.kind != "hidden" and a.name not in named]
        hidden = [a for a in arguments if a.kind == "hidden" and a.size == 8]
        self.tail = (*(contract.number_of(a.name, views) for a in rest), *(0 for _ in hidden))
        given = [*self.pointer_names, *self.scalar_names, *(a.name for a in (*rest, *hidden))]
        wanted = [given.index(a.name) for a in arguments if a.kind != "hidden" or a.size == 8]
        self.in_order = None if wanted == sorted(wanted) else itemgetter(*wanted)
        self.packer = struct.Struct(_format(arguments))
        self.pointers = tuple(
            Pointer(a.name, a.offset, views[a.name].extent_bytes, contract.pointers[a.name].written)
            for a in arguments
            if a.kind == "pointer"
        )


def _format(arguments: Sequence[KernelArgument]) -> str:
    """The argument block as `struct` spells it; hidden arguments are null."""
    text, at = "<", 0
    for argument in arguments:
        text += f"{argument.offset - at}x"
        is_number = argument.kind != "hidden" or argument.size == 8
        text += _CODES.get(argument.kind, "Q") if is_number else f"{argument.size}x"
        at = argument.offset + argument.size
    return text


def number_faults(contract: Contract, row: Row, views: Mapping[str, TensorView]) -> list[Fault]:
    """Strides and sizes that the row's own number types cannot hold."""
    faults = []
    for argument in row.arguments:
        if argument.kind == "i32" and argument.name not in contract.scalars:
            value = contract.number_of(argument.name, views)
            if value > 2**31 - 1:
                faults.append(Fault(argument.name, f"{value} elements", "at most 2147483647 for this row"))
    return faults


def grid_of(row: Row, dims: Mapping[str, int], driver: Driver) -> LaunchGrid:
    """The launch grid for a call with these dimensions.  Raises ArgumentError where the device has no such grid."""
    sizes = [grid_size(axis, dims) for axis in row.grid] + [1] * (3 - len(row.grid))
    faults = [
        Fault(f"{row.family}, grid axis {'xyz'[axis]}", f"{size} ({' x '.join(row.grid[axis])})", f"at most {limit}")
        for axis, (size, limit) in enumerate(zip(sizes, driver.grid_limit, strict=True))
        if size > limit
    ]  # fmt: skip
    if faults:
        raise ArgumentError(faults)
    return sizes[0], sizes[1], sizes[2]
