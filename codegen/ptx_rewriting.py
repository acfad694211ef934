"""PTX of one NVIDIA target as PTX of another: what the other one lacks, in instructions that do exactly the same.

    op{.rnd}{.ftz}.f32x2  d, a, b{, c}    op: add sub mul fma, rnd: rn rz rm rp
        each half by the same op with the same modifiers on .f32, which is the instruction's definition
    op{.ftz}{.NaN}.f32    d, a, b, c      op: max min
        op t, a, b; op d, t, c; which is the instruction's definition
    (PTX ISA 9.0, sections 9.7.3.3 to 9.7.3.6, 9.7.3.11 and 9.7.3.12, 'Semantics')

Every other instruction stays as it is, and is the assembler's to accept or to refuse.  Sources are read before the
destination is written, through registers of a block's own, so that the destination may be one of them.  A packed
instruction without a rounding modifier leaves it to the assembler to contract it with a neighbour, as PTX has it; so
does what takes its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from assay.bundle.faults import Fault, FaultsError

_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
_TARGET = re.compile(r"^[ \t]*\.target[ \t]+([^\s,]+)", re.MULTILINE)
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?%?[\w$]+\s+)?(?<![\w.%$@!])(?P<base>[a-z]\w*)(?P<modifiers>(?:(?:\.|::)\w+)+)\s+(?P<operands>[^;]*);"
)
_REGISTER = re.compile(r"%?[A-Za-z_$][\w$]*")
_PACKED, _PACKED_OPERANDS = "f32x2", {"add": 3, "sub": 3, "mul": 3, "fma": 4}
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_PACKED_MODIFIERS = re.compile(rf"(\.({'|'.join(_ROUNDINGS)}))?(\.ftz)?\.{_PACKED}")
_EXTREMES, _THREE_INPUTS = ("max", "min"), 4
_EXTREME_MODIFIERS = re.compile(r"(\.ftz)?(\.NaN)?\.f32")


class RewritingError(FaultsError):
    """Instructions that have no exact equivalent here, or a text that is not of the target it should be of."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """text: of the other target.  instructions: what was rewritten and how often, `fma.rn.f32x2` -> 12."""

    text: str
    instructions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """guard: `@%p1 ` or nothing.  operands: the destination first."""

    guard: str
    base: str
    modifiers: str
    operands: tuple[str, ...]

    @property
    def opcode(self) -> str:
        return self.base + self.modifiers

    @property
    def is_packed(self) -> bool:
        return _PACKED in self.modifiers.split(".")

    @property
    def is_extreme_of_three(self) -> bool:
        return self.base in _EXTREMES and len(self.operands) == _THREE_INPUTS

    def __str__(self) -> str:
        return f"{self.guard}{self.opcode} {', '.join(self.operands)}"


def rewrite(ptx: str, from_arch: str, to_arch: str, where: str) -> Rewritten:
    """`ptx`, which is for `from_arch`, for `to_arch`; both as `.target` spells them.

    Raises RewritingError with every instruction that is to be rewritten and cannot be, by name and line.
    """
    masked = _COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), ptx)
    temporary = _unused_name(masked)
    faults: list[Fault] = []
    counts: Counter[str] = Counter()
    edits = [_target_edit(masked, from_arch, to_arch, where, faults)]
    for match in _INSTRUCTION.finditer(masked):
        instruction = _read(match)
        if not (instruction.is_packed or instruction.is_extreme_of_three):
            continue
        if allowed := _allowed_instead(instruction):
            line = masked.count("\n", 0, match.start("base")) + 1
            faults.append(Fault(f"{where}: line {line}", f"{instruction} has no exact equivalent here", allowed))
            continue
        make = _halves if instruction.is_packed else _two_steps
        counts[_name(instruction)] += 1
        edits.append((match.start(), match.end(), "\n\t".join([f"// {instruction}", *make(instruction, temporary)])))
    if faults:
        raise RewritingError(faults)
    return Rewritten(_edited(ptx, edits), dict(sorted(counts.items())))


def _unused_name(masked: str) -> str:
    name = "%part"
    while name in masked:
        name += "_"
    return name


def _target_edit(masked: str, from_arch: str, to_arch: str, where: str, faults: list[Fault]) -> tuple[int, int, str]:
    found = list(_TARGET.finditer(masked))
    if [match[1] for match in found] != [from_arch]:
        given = ", ".join(match[1] for match in found) or "none"
        faults.append(Fault(f"{where}: .target", given, f"{from_arch}, once"))
        return (0, 0, "")
    return (*found[0].span(1), to_arch)


def _read(match: re.Match[str]) -> _Instruction:
    guard = f"{match['guard'].strip()} " if match["guard"] else ""
    return _Instruction(guard, match["base"], match["modifiers"], _operands(match["operands"]))


def _operands(text: str) -> tuple[str, ...]:
    """Split at commas, but not at those inside braces, brackets or parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(" ".join(part.split()) for part in parts)


def _allowed_instead(instruction: _Instruction) -> str:
    """What could be rewritten where this one cannot, '' where it can."""
    if instruction.is_packed:
        wanted = _PACKED_OPERANDS.get(instruction.base)
        if wanted is None or not _PACKED_MODIFIERS.fullmatch(instruction.modifiers):
            return f"{', '.join(_PACKED_OPERANDS)} with {{.{'|.'.join(_ROUNDINGS)}}}{{.ftz}}.{_PACKED}"
        plain = len(instruction.operands) == wanted and all(map(_REGISTER.fullmatch, instruction.operands))
        return "" if plain else f"{wanted} registers"
    if not _EXTREME_MODIFIERS.fullmatch(instruction.modifiers):
        return f"three inputs of {' or '.join(_EXTREMES)} with {{.ftz}}{{.NaN}}.f32"
    return "" if _REGISTER.fullmatch(instruction.operands[0]) else "a register as its destination"


def _halves(instruction: _Instruction, temporary: str) -> list[str]:
    destination, *sources = instruction.operands
    opcode = instruction.opcode.removesuffix(_PACKED) + "f32"
    low = [f"{temporary}{2 * number}" for number in range(len(sources))]
    high = [f"{temporary}{2 * number + 1}" for number in range(len(sources))]
    steps = [f"mov.b64 {{{a}, {b}}}, {source};" for a, b, source in zip(low, high, sources, strict=True)]
    steps += [f"{opcode} {half[0]}, {', '.join(half)};" for half in (low, high)]
    steps.append(f"mov.b64 {destination}, {{{low[0]}, {high[0]}}};")
    return _block(instruction, f"{temporary}<{2 * len(sources)}>", steps)


def _two_steps(instruction: _Instruction, temporary: str) -> list[str]:
    destination, first, second, third = instruction.operands
    opcode = instruction.opcode
    steps = [f"{opcode} {temporary}0, {first}, {second};", f"{opcode} {destination}, {temporary}0, {third};"]
    return _block(instruction, f"{temporary}<1>", steps)


def _block(instruction: _Instruction, registers: str, steps: list[str]) -> list[str]:
    return ["{", f".reg .b32 {registers};", *(instruction.guard + step for step in steps), "}"]


def _name(instruction: _Instruction) -> str:
    return instruction.opcode + (" of three" if instruction.is_extreme_of_three else "")


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, end = [], 0
    for start, stop, replacement in sorted(edits):
        parts += [text[end:start], replacement]
        end = stop
    return "".join([*parts, text[end:]])
