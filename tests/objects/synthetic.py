"""Builds small HSACOs with any fact in them, right or wrong, without a compiler.

    build_hsaco(kernel(vgpr_spill_count=3))                   one kernel that spills
    build_hsaco(kernel("a"), kernel("b"), arch="gfx1200")     two kernels
    build_hsaco(kernel(drop=[".vgpr_count"]))                 a required key left out
    build_hsaco(kernel(scratch_bytes=8, descriptor={"private": 0}))   note and descriptor disagree
    build_hsaco(with_note=False), build_hsaco()               no note, a note with zero kernels

The descriptor follows the note unless told otherwise. The file is whole: it has sections, symbols and code.
"""

import struct
from dataclasses import dataclass, field
from typing import Any

import msgpack

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41, "gfx1200": 0x48, "gfx1201": 0x4E}
S_ENDPGM = bytes.fromhex("0000b0bf")  # gfx11 and gfx12

# Names of assay.objects.Resources → keys of the note.
NOTE_KEYS = {
    "vgpr_count": ".vgpr_count",
    "sgpr_count": ".sgpr_count",
    "vgpr_spill_count": ".vgpr_spill_count",
    "sgpr_spill_count": ".sgpr_spill_count",
    "scratch_bytes": ".private_segment_fixed_size",
    "dynamic_stack": ".uses_dynamic_stack",
    "lds_static_bytes": ".group_segment_fixed_size",
    "max_threads": ".max_flat_workgroup_size",
    "wavefront_size": ".wavefront_size",
    "kernarg_bytes": ".kernarg_segment_size",
}


@dataclass(frozen=True)
class SyntheticKernel:
    """One kernel: its record in the note, and what its descriptor says."""

    record: dict[str, Any]
    descriptor: dict[str, int]
    symbol: str
    function: str
    code: bytes = field(repr=False)


def kernel(
    name="kernel",
    *,
    symbol=None,
    function=None,
    code=S_ENDPGM * 4,
    record=None,
    drop=(),
    descriptor=None,
    **resources,
):
    """A clean kernel with one 8-byte pointer, changed by resource names, raw note keys, or keys to drop.

    `symbol` names the descriptor (`<name>.kd` unless given), `function` the code's symbol.
    """
    symbol = f"{name}.kd" if symbol is None else symbol
    values = {
        ".name": name,
        ".symbol": symbol,
        ".args": [{".offset": 0, ".size": 8, ".value_kind": "global_buffer"}],
        ".kernarg_segment_size": 8,
        ".kernarg_segment_align": 8,
        ".group_segment_fixed_size": 0,
        ".private_segment_fixed_size": 0,
        ".max_flat_workgroup_size": 128,
        ".wavefront_size": 32,
        ".vgpr_count": 24,
        ".sgpr_count": 16,
        ".vgpr_spill_count": 0,
        ".sgpr_spill_count": 0,
        ".uses_dynamic_stack": False,
    }
    values.update({NOTE_KEYS[key]: value for key, value in resources.items()})
    values.update(record or {})
    follows = {
        "group": values[".group_segment_fixed_size"],
        "private": values[".private_segment_fixed_size"],
        "kernarg": values[".kernarg_segment_size"],
        "properties": 0x8 | (values[".wavefront_size"] == 32) << 10 | (values[".uses_dynamic_stack"] is True) << 11,
    }
    follows = {k: v if isinstance(v, int) and 0 <= v < 2**32 else 0 for k, v in follows.items()}
    for key in drop:
        del values[key]
    return SyntheticKernel(values, follows | (descriptor or {}), symbol, function or name, code)


def build_hsaco(*kernels, arch="gfx1201", target=None, flags=None, abi_version=3, with_note=True, note=None, root=None):
    """An HSACO of `kernels`. `note` replaces the note's bytes, `root` updates its top level."""
    image = bytearray(64)
    headers = [_header("", 0, 0, 0, 0)]

    def add(name, kind, flags, raw, link=0, entry=0):
        image.extend(bytes(-len(image) % 256))
        headers.append(_header(name, kind, flags, len(image), len(raw), link, entry))
        image.extend(raw)
        return len(headers) - 1

    if with_note:
        add(".note", 7, 2, _note(_metadata(kernels, target or arch, root) if note is None else note))
    code_at = _aligned(len(image) + 64 * len(kernels) + 256)
    codes, entries = bytearray(), []
    for k in kernels:
        entries.append(code_at + len(codes))
        codes.extend(k.code + bytes(-len(k.code) % 256))
    data_at = _aligned(len(image))
    descriptors = b"".join(
        _descriptor(k, entry - (data_at + 64 * i)) for i, (k, entry) in enumerate(zip(kernels, entries, strict=True))
    )
    rodata = add(".rodata", 1, 2, descriptors.ljust(code_at - data_at - 1, b"\0"))
    text = add(".text", 1, 6, bytes(codes))
    names, symbols = bytearray(b"\0"), bytearray(24)
    for i, (k, entry) in enumerate(zip(kernels, entries, strict=True)):
        for name, kind, section, value, size in (
            (k.function, 0x12, text, entry, len(k.code)),
            (k.symbol, 0x11, rodata, data_at + 64 * i, 64),
        ):
            symbols += struct.pack("<IBBHQQ", len(names), kind, 3, section, value, size)
            names += name.encode() + b"\0"
    strings = add(".strtab", 3, 0, bytes(names))
    add(".symtab", 2, 0, bytes(symbols), link=strings, entry=24)
    _finish(image, headers, MACH[arch] if flags is None else flags, abi_version)
    return bytes(image)


def _metadata(kernels, target, root):
    top = {
        "amdhsa.kernels": [k.record for k in kernels],
        "amdhsa.target": f"amdgcn-amd-amdhsa--{target}",
        "amdhsa.version": [1, 2],
    }
    return msgpack.packb(top | (root or {}))


def _note(payload):
    head = struct.pack("<III", 7, len(payload), 32) + b"AMDGPU\0\0"
    return head + payload + bytes(-len(payload) % 4)


def _descriptor(k, entry_offset):
    d = k.descriptor
    return struct.pack(
        "<III4xq20xIIIH6x", d["group"], d["private"], d["kernarg"], entry_offset, 0, 0, 0, d["properties"]
    )


def _header(name, kind, flags, offset, size, link=0, entry=0):
    return {"name": name, "fields": (kind, flags, offset, offset, size, link, 0, 1, entry)}


def _finish(image, headers, flags, abi_version):
    headers.append(_header(".shstrtab", 3, 0, len(image), 0))
    names, offsets = bytearray(b"\0"), []
    for header in headers:
        offsets.append(len(names) if header["name"] else 0)
        names += header["name"].encode() + b"\0" if header["name"] else b""
    headers[-1] = _header(".shstrtab", 3, 0, len(image), len(names))
    image.extend(names + bytes(-(len(image) + len(names)) % 8))
    table = len(image)
    for offset, header in zip(offsets, headers, strict=True):
        image.extend(struct.pack("<IIQQQQIIQQ", offset, *header["fields"]))
    ident = b"\x7fELF\x02\x01\x01" + bytes([64, abi_version]) + bytes(7)
    image[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, table, flags, 64, 0, 0, 64, len(headers), len(headers) - 1
    )


def _aligned(offset):
    return -(-offset // 256) * 256
