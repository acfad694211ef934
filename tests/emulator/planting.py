"""Small programs made of single instructions, to show one behaviour each."""

from __future__ import annotations

import numpy as np
from tinygrad.renderer.amd.dsl import FixedBitField, Reg
from tinygrad.runtime.autogen.amd.rdna4 import ins

from assay.emulator import Checks, Memory, Program
from assay.objects import Argument, Descriptor, Kernel, Resources

NULL, VCC, EXEC, M0 = 124, 106, 126, 125
TTMP9 = 117
VGPR = 256


def i(number: int) -> int:
    """The source number of a small integer constant."""
    return 128 + number if number >= 0 else 192 - number


def encode(form: str, opcode: str, *, literal: int | None = None, **fields: int) -> bytes:
    """One instruction from its bit fields. Registers in VGPR-only fields are plain numbers."""
    cls = getattr(ins, form)
    raw = 0
    for name, field in cls._fields:
        if isinstance(field, FixedBitField):
            value = field.default
        elif name in ("op", "opx") and name not in fields:
            value = member(field._enum, opcode).value
        else:
            value = fields.pop(name, field.default)
            if isinstance(value, Reg):
                value = value.offset if value.offset < 256 or field.mask > 0xFF else value.offset - 256
            value //= getattr(field, "_align", 1)
        raw |= (value & field.mask) << field.lo
    if fields:
        raise ValueError(f"{form} has no field {', '.join(fields)}")
    data = raw.to_bytes(cls._base_size, "little")
    return data if literal is None else data + (literal & 0xFFFFFFFF).to_bytes(4, "little")


def member(enumeration, opcode: str):
    """The opcode of that name, whatever suffix the tables give it."""
    for suffix in ("", "_E32", "_E64"):
        if hasattr(enumeration, opcode.upper() + suffix):
            return getattr(enumeration, opcode.upper() + suffix)
    raise ValueError(f"no opcode {opcode}")


def wait(opcode: str = "s_wait_kmcnt", count: int = 0) -> bytes:
    return encode("SOPP", opcode, simm16=count)


def end() -> bytes:
    return encode("SOPP", "s_endpgm")


def barrier() -> bytes:
    return encode("SOP1", "s_barrier_signal", ssrc0=i(-1)) + encode("SOPP", "s_barrier_wait", simm16=0xFFFF)


def load_pointer(register: int = 2, offset: int = 0) -> bytes:
    """s[register : register + 1] = the pointer argument at `offset`, waited for."""
    return encode("SMEM", "s_load_b64", sdata=register, sbase=0, ioffset=offset) + wait()


def lane_offset(register: int = 1, shift: int = 2) -> bytes:
    """v[register] = work-item id << shift."""
    return encode("VOP2", "v_lshlrev_b32", vdst=register, src0=i(shift), vsrc1=0)


def store(data: int, address: int = 1, base: int = 2, opcode: str = "global_store_b32", offset: int = 0) -> bytes:
    return encode("VGLOBAL", opcode, vsrc=data, vaddr=address, saddr=base, ioffset=offset)


def program(*code: bytes, pointers: int = 1, scratch_bytes: int = 0, name: str = "planted") -> Program:
    """A kernel of `pointers` pointer arguments that runs `code`."""
    arguments = tuple(Argument(8 * n, 8, "global_buffer", None) for n in range(pointers))
    resources = Resources(
        vgpr_count=256,
        sgpr_count=106,
        vgpr_spill_count=0,
        sgpr_spill_count=0,
        scratch_bytes=scratch_bytes,
        dynamic_stack=False,
        lds_static_bytes=0,
        max_threads=1024,
        wavefront_size=32,
        kernarg_bytes=8 * pointers,
        code_bytes=sum(map(len, code)),
    )
    descriptor = Descriptor(0, 0, 0, scratch_bytes, 8 * pointers, 0, 0, 0, 0x408)
    kernel = Kernel(name, f"{name}.kd", "gfx1201", "hip", resources, arguments, b"".join(code), descriptor)
    return Program.of_kernel(kernel, where=name)


WAVE_ID = encode("SOP2", "s_bfe_u32", sdst=8, ssrc0=116, ssrc1=255, literal=0x50019)  # s8 = wave in its workgroup


def move(register: int, source: int) -> bytes:
    return encode("VOP1", "v_mov_b32", vdst=register, src0=source)


def ds_store(address: int, data: int, opcode: str = "ds_store_b32", offset: int = 0) -> bytes:
    return encode("DS", opcode, addr=address, data0=data, offset0=offset)


def ds_load(target: int, address: int, opcode: str = "ds_load_b32") -> bytes:
    return encode("DS", opcode, vdst=target, addr=address)


def launch_planted(
    *code: bytes, words: int = 64, checks: Checks | None = None, num_warps: int = 1, grid=(1,), lds_bytes=0
):
    """Runs the code with one buffer, 'out', of `words` uint32, and returns it."""
    memory, out = Memory(), np.zeros(words, np.uint32)
    address = memory.add("out", out)
    program(*code, end()).launch(
        grid=grid, num_warps=num_warps, arguments=[address], memory=memory, checks=checks, lds_bytes=lds_bytes
    )
    return out
