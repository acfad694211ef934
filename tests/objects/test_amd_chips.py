import importlib.util
import subprocess
import sys

import pytest

from assay.objects.amd_chips import MACH_NAMES, target_id

# LLVM removed these two from its processor list in version 21.
GONE = {"gfx940", "gfx941"}

ASSEMBLE = """
import sys
from triton._C.libtriton import amd, llvm
llvm.init_targets()
for chip in sys.argv[1:]:
    object = amd.assemble_amdgcn("s_endpgm", chip, "")
    print(chip, object[0x30])
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_processor_table_is_the_one_that_llvm_writes():
    chips = [chip for chip in MACH_NAMES.values() if chip not in GONE]
    command = [sys.executable, "-c", ASSEMBLE, *chips]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert {int(number): chip for chip, number in map(str.split, lines)} == {
        number: chip for number, chip in MACH_NAMES.items() if chip not in GONE
    }


@pytest.mark.parametrize(
    ("flags", "version", "expected"),
    [
        (0x4E, 5, "gfx1201"),
        (0x54C, 5, "gfx942"),
        (0xB3F, 6, "gfx90a:sramecc-:xnack+"),
        (0x100055F, 6, "gfx9-4-generic"),
        (0x100055F, 5, None),
        (0x13F, 3, "gfx90a"),
        (0x00, 5, None),
    ],
)
def test_target_ids_follow_the_feature_bits(flags, version, expected):
    assert target_id(flags, version) == expected
