"""Occupancy by hand, by LLVM and by NVIDIA's calculator."""

import dataclasses
import re
from pathlib import Path

import pytest

from assay.codegen.specs import load_specs
from assay.objects import read_object
from assay.qualify.occupancy import occupancy, occupancy_of, unit_of
from tests.specs import SHIPPED

OBJECTS = Path(__file__).parents[2] / "objects/data"


@pytest.fixture(scope="module")
def facts():
    specs = load_specs(SHIPPED)
    return {name: specs.target(name).occupancy for name in specs.targets}


# target, unit, registers, LDS, threads -> workgroups, waves, limits that hold no more.
BY_HAND = [
    # 176 -> 192 = 8 x 24; 1,536 / 192 = 8 waves a SIMD, 32 a WGP, 4 a workgroup; 131,072 / 16,384 = 8 as well.
    ("gfx1201", "wgp", 176, 16_384, 128, 8, 32, ("lds", "registers")),
    # 256 -> 264 = 11 x 24; 1,536 / 264 = 5 waves a SIMD.
    ("gfx1201", "wgp", 256, 16_384, 128, 5, 20, ("registers",)),
    # 97 -> 120, 12 a SIMD, 48 a WGP: six workgroups of eight; LDS 131,072 / 33,792 (33,000 in granules of 1,024) = 3.
    ("gfx1201", "wgp", 97, 33_000, 256, 3, 24, ("lds",)),
    # 16 waves a SIMD at most: 64 a WGP; 96 VGPRs would just hold as many.
    ("gfx1201", "wgp", 95, 0, 64, 32, 64, ("registers", "waves")),
    ("gfx1201", "wgp", 8, 0, 64, 32, 64, ("waves",)),
    # The whole of one CU's LDS: two workgroups a WGP, of one wave each, over four SIMDs.
    ("gfx1201", "wgp", 64, 65_536, 32, 2, 2, ("lds",)),
    # A CU: two SIMDs and half the LDS.
    ("gfx1201", "cu", 96, 32_768, 128, 2, 8, ("lds",)),
    ("gfx1201", "cu", 240, 0, 128, 3, 12, ("registers",)),
    # 168 x 32 = 5,376 registers a warp; 16,384 / 5,376 = 3 a sub-partition, 12 an SM; 233,472 / 26,112 = 8.
    ("sm90", "sm", 168, 25_088, 32, 8, 8, ("lds",)),
    # 65 -> 72: 2,304 a warp, 7 a sub-partition, 28 an SM: seven blocks of four.
    ("sm90", "sm", 65, 0, 128, 7, 28, ("registers",)),
    ("sm90", "sm", 16, 0, 32, 32, 32, ("workgroups",)),
    ("sm90", "sm", 32, 0, 1024, 2, 64, ("registers", "waves")),
    # 1,024 B of driver's reserve: 98,304 + 1,024 = 99,328 twice into 233,472; without it, still twice; 116,224 not.
    ("sm90", "sm", 32, 115_712, 128, 2, 8, ("lds",)),
    ("sm90", "sm", 32, 115_713, 128, 1, 4, ("lds",)),
    # sm_120: 48 warps, 24 blocks, 102,400 B an SM.
    ("sm120", "sm", 255, 12_928, 128, 2, 8, ("registers",)),
    ("sm120", "sm", 16, 0, 32, 24, 24, ("workgroups",)),
    ("sm120", "sm", 32, 0, 512, 3, 48, ("waves",)),
    ("sm120", "sm", 32, 101_376, 128, 1, 4, ("lds",)),
    # 32 warps of 128 registers need 131,072: not even one block.
    ("sm120", "sm", 128, 0, 1024, 0, 0, ("registers",)),
]


@pytest.mark.parametrize(
    ("target", "unit", "registers", "lds", "threads", "workgroups", "waves", "limited_by"), BY_HAND
)
def test_occupancy_is_what_the_vendors_formulas_give(
    facts, target, unit, registers, lds, threads, workgroups, waves, limited_by
):
    found = occupancy(facts[target], unit, wavefront_size=32, registers=registers, lds_bytes=lds, threads=threads)
    assert (found.workgroups, found.waves, found.limited_by) == (workgroups, waves, limited_by)


# Printed by cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h, as Triton 3.8.0's wheel has it, for compute
# capabilities 9.0 and 12.0: registers, threads, shared memory, blocks.  All of 5,320 such rows agreed when this was
# written, limiting factors too.
BY_NVIDIA = [
    ("sm90", 255, 128, 0, 2),
    ("sm90", 24, 96, 4096, 21),
    ("sm90", 80, 160, 16_384, 4),
    ("sm90", 40, 640, 49_152, 2),
    ("sm120", 168, 32, 25_088, 3),
    ("sm120", 33, 320, 1024, 4),
    ("sm120", 200, 256, 0, 1),
    ("sm120", 64, 96, 32_768, 3),
]


@pytest.mark.parametrize(("target", "registers", "threads", "lds", "blocks"), BY_NVIDIA)
def test_occupancy_is_what_nvidias_calculator_gives(facts, target, registers, threads, lds, blocks):
    found = occupancy(facts[target], "sm", wavefront_size=32, registers=registers, lds_bytes=lds, threads=threads)
    assert found.workgroups == blocks


def llvm_occupancy(processor, vgprs, threads, lds, features):
    """Waves a SIMD by the comment of LLVM's own assembly, for a kernel with static LDS."""
    from triton._C.libtriton import llvm

    llvm.init_targets()
    memory = f"@lds = internal addrspace(3) global [{lds} x i8] poison\n" if lds else ""
    use = "  store volatile i8 0, ptr addrspace(3) @lds\n" if lds else ""
    source = (
        f'{memory}define amdgpu_kernel void @k() #0 {{\n  call void asm sideeffect "", "~{{v{vgprs - 1}}}"()\n{use}'
        f'  ret void\n}}\nattributes #0 = {{ nounwind "amdgpu-flat-work-group-size"="{threads},{threads}" }}\n'
    )
    text = llvm.translate_to_asm(source, "amdgcn-amd-amdhsa", processor, features, [], True, False, False)
    assert int(re.search(r"; NumVgprs: (\d+)", text)[1]) == vgprs
    return int(re.search(r"; Occupancy: (\d+)", text)[1])


# A wave a SIMD and workgroup: LLVM rounds waves a SIMD up and does not ask whether workgroups fit as a whole.
@pytest.mark.parametrize(
    ("target", "unit", "features", "wavefront_size", "threads"),
    [
        ("gfx1201", "wgp", "", 32, 128),
        ("gfx1201", "cu", "+cumode", 32, 64),
        ("gfx1100", "wgp", "", 32, 128),
        ("gfx1151", "wgp", "", 32, 128),
        ("gfx942", "cu", "", 64, 256),
    ],
)
def test_occupancy_is_what_llvm_says(facts, target, unit, features, wavefront_size, threads):
    for vgprs in (8, 24, 96, 97, 120, 144, 168, 169, 192, 193, 240, 241, 256):
        for lds in (0, 8_192, 16_384, 32_768):
            found = occupancy(
                facts[target], unit, wavefront_size=wavefront_size, registers=vgprs, lds_bytes=lds, threads=threads
            )
            assert found.waves / found.simds == llvm_occupancy(target, vgprs, threads, lds, features), (vgprs, lds)


@pytest.mark.parametrize(("sgprs", "waves"), [(48, 8), (80, 8), (97, 7), (102, 7), (108, 7)])
def test_sgprs_limit_the_waves_that_share_them(facts, sgprs, waves):
    found = occupancy(facts["gfx942"], "cu", wavefront_size=64, registers=32, lds_bytes=0, threads=64, sgprs=sgprs)
    assert found.waves / found.simds == waves
    assert ("sgprs" in found.limited_by) == (waves < 8)


def test_sgprs_limit_nothing_where_every_wave_has_all(facts):
    found = occupancy(facts["gfx1100"], "wgp", wavefront_size=32, registers=8, lds_bytes=0, threads=64, sgprs=108)
    assert "sgprs" not in found.to_dict()["workgroups_by"]


def test_waves_are_said_as_the_vendors_tools_say_them(facts):
    wgp = occupancy(facts["gfx1201"], "wgp", wavefront_size=32, registers=256, lds_bytes=0, threads=128)
    assert str(wgp) == "5/16 registers"
    half = occupancy(facts["gfx1201"], "wgp", wavefront_size=32, registers=64, lds_bytes=65_536, threads=32)
    assert str(half) == "0.5/16 lds"
    sm = occupancy(facts["sm120"], "sm", wavefront_size=32, registers=255, lds_bytes=0, threads=128)
    assert str(sm) == "8/48 registers"
    assert sm.to_dict()["workgroups_by"] == {"lds": 100, "registers": 2, "waves": 12, "workgroups": 24}


def test_the_mode_is_read_from_the_kernel_descriptor():
    kernel = read_object((OBJECTS / "four.gfx1201.hsaco").read_bytes(), where="fixture").kernels[0]
    assert unit_of(kernel) == "wgp"
    cleared = dataclasses.replace(kernel.descriptor, rsrc1=kernel.descriptor.rsrc1 & ~(1 << 29))
    assert unit_of(dataclasses.replace(kernel, descriptor=cleared)) == "cu"
    cubin = read_object((OBJECTS / "three.sm_90a.cubin").read_bytes(), where="fixture").kernels[0]
    assert unit_of(cubin) == "sm"


def test_what_a_binary_does_not_tell_makes_no_occupancy(facts):
    kernel = read_object((OBJECTS / "four.gfx1201.hsaco").read_bytes(), where="fixture").kernels[0]
    launched = kernel.resources.with_launch(4096)
    assert occupancy_of(facts["gfx1201"], kernel, launched) is not None
    assert occupancy_of(facts["gfx1201"], kernel, dataclasses.replace(launched, lds_total_bytes=None)) is None
    assert occupancy_of(facts["gfx1201"], kernel, dataclasses.replace(launched, vgpr_count=None)) is None
    assert occupancy_of(facts["sm90"], kernel, launched) is None
    assert occupancy_of(facts["gfx1201"], None, None) is None
