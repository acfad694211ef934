"""Launches whose argument block is laid out beforehand: for the launch path in C, and for calls bound to addresses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.bundle.record import Record

from . import fast

if TYPE_CHECKING:
    from .drivers.driver import NativeLaunch
    from .prepared import Prepared

# As _fast.c counts them.
_NUMBER_KINDS = {"f32": 0, "i32": 1, "i64": 2}


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
        self._recipe = _recipe(prepared, native, sources)

    def __call__(self, addresses: bytes, scalars: tuple[float, ...], stream: int) -> int:
        """0, or anything else where nothing was launched: the slow path then launches, or says what is wrong."""
        status = self._start(self._recipe, addresses, scalars, stream)
        if not status:
            self._prepared.count()
        return status


def bound(prepared: Prepared, addresses: Sequence[int], scalars: Sequence[float]) -> Callable[[int], None]:
    """`Prepared.bind`."""
    driver, function, grid, count = prepared.driver, prepared.function, prepared.grid, prepared.count
    block, pointers = driver.argument_block(prepared.layout.packer.size), prepared.pointers
    prepared.layout.pack(block.data, addresses, scalars)

    def start(stream: int) -> None:
        driver.launch(function, grid, block, stream, pointers)
        count()

    native = driver.native_launch(function)
    if fast.module is None or native is None:
        return start
    recipe, start_fast = _head(prepared, native, 0, 0) + bytes(block.data), fast.module.launch
    check = driver.check_usable

    def start_in_c(stream: int) -> None:
        check()
        if start_fast(recipe, b"", (), stream):
            start(stream)
        else:
            count()

    return start_in_c


def _recipe(prepared: Prepared, native: NativeLaunch, sources: Sequence[Address]) -> bytes:
    """What `_fast.launch` takes; sources: of each pointer, in the order of pointer_names."""
    layout = prepared.layout
    arguments = {argument.name: argument for argument in layout.arguments}
    offsets = [arguments[name].offset for name in layout.pointer_names]
    pointers = [(offset, *source) for offset, source in zip(offsets, sources, strict=True)]
    numbers = [(arguments[name].offset, _NUMBER_KINDS[arguments[name].kind]) for name in layout.scalar_names]
    template = bytearray(layout.packer.size)
    layout.pack(template, [0] * len(pointers), [0] * len(numbers))
    slots = [part for slot in (*pointers, *numbers) for part in slot]
    return _head(prepared, native, len(pointers), len(numbers)) + struct.pack(f"<{len(slots)}q", *slots) + template


def _head(prepared: Prepared, native: NativeLaunch, pointers: int, numbers: int) -> bytes:
    """A recipe's fixed part."""
    function, size = prepared.function, prepared.layout.packer.size
    return struct.pack(
        "<13q", *native, *prepared.grid, function.threads, function.lds_bytes, size, pointers, numbers
    )  # fmt: skip
