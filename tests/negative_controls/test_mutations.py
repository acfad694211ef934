"""A mutant is its kernel but for one instruction; every instruction has one."""

import pytest

from assay.emulator.decode import decode

from .judging_all import all_mutants
from .subject import SUBJECTS


@pytest.fixture(scope="module")
def merge():
    return SUBJECTS["merge_splits"]()


def test_every_instruction_is_deleted_once_and_most_are_altered(merge):
    made = all_mutants("merge_splits")
    deleted = [mutant.address for mutant in made if mutant.kind == "deleted"]
    assert deleted == [instruction.address for instruction in merge.program.instructions]
    altered = {mutant.address for mutant in made if mutant.kind != "deleted"}
    without = {item.opcode for item in merge.program.instructions if item.address not in altered}
    nothing_to_alter = {"s_clause", "s_delay_alu", "s_wait_alu", "s_nop", "s_sendmsg", "s_barrier_wait"}
    assert without <= nothing_to_alter | {"s_branch", "s_endpgm", "s_mov_b32", "v_mov_b32"}


def test_a_mutant_differs_in_its_own_instruction_alone(merge):
    original = merge.kernel.code
    for mutant in all_mutants("merge_splits"):
        size = merge.program.instructions[mutant.number].size
        if mutant.class_name == "barriers" and mutant.kind == "operand":
            continue  # signal and wait
        inside = range(mutant.address, mutant.address + size)
        differing = [at for at, (old, new) in enumerate(zip(original, mutant.code, strict=True)) if old != new]
        assert set(differing) <= set(inside)
        assert differing or mutant.before == "s_nop 0"


def test_a_mutant_keeps_the_addresses_of_all_others(merge):
    own = [instruction.address for instruction in merge.program.instructions]
    for mutant in all_mutants("merge_splits")[::7]:
        # A deleted instruction of several words becomes several.
        addresses = {instruction.address for instruction in decode(mutant.code)}
        assert addresses.issuperset(own) or mutant.address == own[-1]
