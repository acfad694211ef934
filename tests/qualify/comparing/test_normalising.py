"""Two codes are equal after normalising exactly if a one-to-one renaming of registers makes them the same text."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from assay.qualify.comparing.listing import Line
from assay.qualify.comparing.normalising import normalised


def lines(*texts: str) -> tuple[Line, ...]:
    return tuple(Line(4 * at, text) for at, text in enumerate(texts))


def equal(one: list[str], other: list[str]) -> bool:
    return normalised(lines(*one)) == normalised(lines(*other))


def renamed(text: str, numbers: dict[int, int]) -> str | None:
    """A line under a renaming of vector registers; None where a run would not stay one."""
    failed = []

    def replace(found: re.Match[str]) -> str:
        if found[1] is not None:
            return f"v{numbers[int(found[1])]}"
        first, last = int(found[2]), int(found[3])
        mapped = [numbers[number] for number in range(first, last + 1)]
        if mapped != list(range(mapped[0], mapped[0] + len(mapped))):
            failed.append(text)
        return f"v[{mapped[0]}:{mapped[-1]}]"

    result = re.sub(r"v(?:(\d+)|\[(\d+):(\d+)\])", replace, text)
    return None if failed else result


def some_renaming_exists(one: list[str], other: list[str], registers: range) -> bool:
    for permutation in itertools.permutations(registers):
        numbers = {0: 0, **dict(zip(registers, permutation, strict=True))}
        if [renamed(text, numbers) for text in one] == other:
            return True
    return False


def random_code(chance: random.Random, registers: range) -> list[str]:
    texts = []
    for _ in range(chance.randint(1, 4)):
        first = chance.choice(registers[:-1])
        run, single = f"v[{first}:{first + 1}]", f"v{chance.choice([0, *registers])}"
        texts.append(chance.choice([f"load_b64 {run}, {single}", f"mov {single}, v{chance.choice(registers)}"]))
    return texts


@pytest.mark.parametrize("seed", range(300))
def test_equality_is_what_trying_every_renaming_finds(seed):
    chance, registers = random.Random(seed), range(1, 6)
    one = random_code(chance, registers)
    numbers = {0: 0, **dict(zip(registers, chance.sample(registers, 5), strict=True))}
    moved = [renamed(text, numbers) for text in one]
    other = moved if None not in moved and chance.random() < 0.5 else random_code(chance, registers)
    assert equal(one, other) == some_renaming_exists(one, other, registers)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["v_mov_b32_e32 v1, v2", "v_mov_b32_e32 v2, v1"], ["v_mov_b32_e32 v1, v2", "v_mov_b32_e32 v1, v2"]),
        (["s_mov_b32 s20, s2"], ["s_mov_b32 s20, s3"]),
        (["v_mov_b32_e32 v1, v0"], ["v_mov_b32_e32 v1, v2"]),
        (["s_mov_b32 s20, vcc_lo"], ["s_mov_b32 s20, exec_lo"]),
        (["s_mov_b32 s20, ttmp9"], ["s_mov_b32 s20, ttmp7"]),
        (["v_mov_b16_e32 v1.l, v2.h"], ["v_mov_b16_e32 v1.l, v2.l"]),
        (["v_mov_b32_e32 v1, 1"], ["v_mov_b32_e32 v1, 2"]),
        (["load v[4:5], v1", "use v5, v4"], ["load v[4:5], v1", "use v4, v5"]),
        (["load v[4:5], v1", "load v[6:7], v1", "use v[4:7]"], ["load v[6:7], v1", "load v[4:5], v1", "use v[4:7]"]),
        (["MOV R4, c[0x0][0x160]"], ["MOV R4, c[0x0][0x164]"]),
        (["MOV R4, RZ"], ["MOV R4, R5"]),
        (["ISETP.GE.AND P0, PT, R4, R5, PT"], ["ISETP.GE.AND P0, PT, R4, R5, !PT"]),
        (["LDG.E.64 R4, desc[UR4][R8.64]", "FADD R6, R4, R5"], ["LDG.E.64 R4, desc[UR4][R8.64]", "FADD R6, R5, R4"]),
        (["LDG.E.ENL2.256 R4, desc[UR4][R20.64]", "FADD R30, R10, R11"],
         ["LDG.E.ENL2.256 R4, desc[UR4][R20.64]", "FADD R30, R11, R10"]),
        # `PR` takes predicates by their numbers, and a product of unknown reach keeps the whole file.
        (["R2P PR, R4, 0x1", "@P0 MOV R5, R4"], ["R2P PR, R4, 0x1", "@P1 MOV R5, R4"]),
        (["HGMMA.64x8x16.F32 R24, gdesc[UR8], R24", "FADD R40, R30, R31"],
         ["HGMMA.64x8x16.F32 R24, gdesc[UR8], R24", "FADD R41, R31, R30"]),
        (["v_movrels_b32_e32 v9, v4", "use v6"], ["v_movrels_b32_e32 v9, v4", "use v7"]),
        ([".long 0x7e0802ff, 0x00000001", "use v4"], [".long 0x7e0802ff, 0x00000001", "use v5"]),
    ],
)  # fmt: skip
def test_code_that_does_something_else_stays_different(one, other):
    assert not equal(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["load v[4:7], v1", "use v5"], ["load v[12:15], v9", "use v13"]),
        (["s_load_b64 s[20:21], s[0:1], 0x0"], ["s_load_b64 s[30:31], s[0:1], 0x0"]),
        (["v_add_f32_e64 v1, -v2, |v3|"], ["v_add_f32_e64 v7, -v6, |v5|"]),
        (["LDG.E.64 R4, desc[UR4][R8.64]", "FADD R6, R4, R5"],
         ["LDG.E.64 R14, desc[UR6][R18.64]", "FADD R20, R14, R15"]),
        (["@P0 FADD R6, R4.reuse, -R5"], ["@P3 FADD R9, R8.reuse, -R7"]),
    ],
)  # fmt: skip
def test_other_registers_alone_make_no_difference(one, other):
    assert equal(one, other)


def test_labels_are_places_and_not_names():
    def loop(label: str, target: str) -> tuple[Line, ...]:
        there = (Line(0, "s_nop 0", (label,)), Line(4, "s_nop 0", (f"{label}_end",)))
        return (*there, Line(8, f"s_cbranch_scc1 {target}"))

    assert normalised(loop(".L4", ".L4")) == normalised(loop(".L_x_7", ".L_x_7"))
    assert normalised(loop(".L4", ".L4")) != normalised(loop(".L4", ".L4_end"))


def test_addresses_do_not_matter():
    assert normalised((Line(64, "s_nop 0"),)) == normalised((Line(0, "s_nop 0"),))


def test_an_empty_listing_is_empty():
    assert normalised(()) == ()
