"""What tells two codes apart without listing them is right about the encodings that it looks at."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.objects import read_object
from assay.objects.executed import callable_functions
from assay.qualify.comparing import shortcuts
from assay.qualify.comparing.listing import kernel_listing
from assay.qualify.comparing.normalising import labels_in, shape
from assay.qualify.comparing.registers import named_registers
from tests.qualify.comparing.changed_bundles import contents_of

DATA = Path(__file__).parents[2] / "objects" / "data"
CUBINS = ("three.sm_80", "three.sm_90a", "three.sm_120", "shared.sm_120a", "linked.sm_90a")


@dataclass(frozen=True)
class Sass:
    """One instruction.  Two codes that are compared are of one architecture."""

    arch: str
    text: str
    raw: bytes

    @property
    def operation(self):
        return int.from_bytes(self.raw[:2], "little") & shortcuts._OPERATION


def instructions(code):
    """Each SASS instruction of a file's kernels that leads nowhere: a distance is the same in renamed code."""
    for kernel in read_object(code, where="test").kernels:
        body = b"".join(part for _, part in callable_functions(code, kernel.name))
        for line in kernel_listing(code, kernel.name, "cuda"):
            if not labels_in(line.text) and "`(" not in line.text:
                yield Sass(kernel.arch, line.text, body[line.address : line.address + 16])


@pytest.fixture(scope="module")
def sass(built):
    """Every instruction of the test objects and of the toy."""
    codes = [(DATA / f"{name}.cubin").read_bytes() for name in CUBINS]
    codes += contents_of(built("sm90").bundle).objects.values()
    return [item for code in codes for item in instructions(code)]


def test_instructions_of_one_shape_have_one_operation_and_one_constant(sass):
    found = {}
    for item in sass:
        has_constant = item.operation >> shortcuts._FORM_SHIFT in shortcuts._FORMS_WITH_CONSTANT
        bits = item.operation, item.raw[5:8] if has_constant else b""
        assert found.setdefault((item.arch, shape(item.text)), bits) == bits, item
    assert len(found) > 100


@pytest.mark.parametrize("place", shortcuts._REGISTER_PLACES)
def test_the_places_of_registers_hold_one_kind_of_register_or_nothing_of_any(sass, place):
    """In each operation: a register of one file, as the text numbers it, wherever the byte is not the same for all."""
    groups = {}
    for item in sass:
        groups.setdefault((item.arch, item.operation, shape(item.text)), []).append(item)
    explained = {}
    for (arch, low, _), items in groups.items():
        if len({item.raw[place] for item in items}) > 1:
            named = ({n.file for n in named_registers(i.text) if n.first == i.raw[place]} for i in items)
            files = set.intersection(*named)
            assert files, items[:4]
            explained.setdefault((arch, low), set()).add(frozenset(files))
    assert all(set.intersection(*map(set, found)) for found in explained.values())
    assert explained


def test_a_length_is_known_from_the_first_eight_bytes(toy):
    from assay.emulator.decode import decode_one

    for code in contents_of(toy).objects.values():
        body = read_object(code, where="toy").kernels[0].code
        at = 0
        while at < len(body) - 8:
            size = decode_one(body, at).size
            assert shortcuts._gfx12_size(body[at : at + 8]) == size
            at += size


def test_bytes_that_are_no_instruction_are_left_to_the_listing():
    assert shortcuts._gfx12_size(b"\xff" * 8) == 0
    assert shortcuts._gfx12_alike(b"\xff" * 8, b"\xfe" * 8)
