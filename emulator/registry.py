"""Which factory makes the step of which instruction.

A factory takes an instruction and returns the step that executes it for a group of waves; it is chosen by encoding and
opcode.  An instruction without a factory, or whose factory refuses a modifier, is refused by name before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .errors import Unsupported
from .instruction import Instruction
from .state import Group

Step = Callable[[Group], None]
Factory = Callable[[Instruction], Step]

_FACTORIES: dict[tuple[str, str], Factory] = {}


class Refused(Exception):
    """A form of an instruction that its factory does not know; the argument says which."""


def add(encodings: str, opcodes: Iterable[str], factory: Factory) -> None:
    """Register `factory` for each opcode in each of the encodings (names separated by blanks)."""
    for encoding in encodings.split():
        for opcode in opcodes:
            key = (encoding, opcode)
            if key in _FACTORIES:
                raise ValueError(f"{key} has two factories")
            _FACTORIES[key] = factory


def semantics(encodings: str, *opcodes: str) -> Callable[[Factory], Factory]:
    """Decorator form of `add`."""

    def register(factory: Factory) -> Factory:
        add(encodings, opcodes, factory)
        return factory

    return register


def known() -> frozenset[tuple[str, str]]:
    """Every (encoding, opcode) that has a factory."""
    return frozenset(_FACTORIES)


def make_step(instruction: Instruction) -> Step | Unsupported:
    """The step of one instruction, or why there is none."""
    factory = _FACTORIES.get((instruction.encoding, instruction.opcode))
    if factory is None and instruction.parts:
        factory = _FACTORIES.get(("VOPD", "*"))
    if factory is None:
        return Unsupported(
            instruction.address, instruction.name, f"no semantics for this {instruction.encoding} opcode"
        )
    try:
        return factory(instruction)
    except Refused as error:
        return Unsupported(instruction.address, instruction.name, str(error))
