"""The assembler inside the Triton wheel, as an oracle: text in, machine code out."""

from __future__ import annotations

import functools
import io
import os
import re
import tempfile

from elftools.elf.elffile import ELFFile


@functools.cache
def _assembler():
    from triton._C.libtriton import amd, llvm

    llvm.init_targets()
    return amd.assemble_amdgcn


def assemble(text: str, arch: str = "gfx1201") -> bytes:
    """The machine code of a file of instructions. Raises ValueError with what the assembler said."""
    code, said = try_to_assemble(text, arch)
    if code is None:
        raise ValueError(said)
    return code


def try_to_assemble(text: str, arch: str = "gfx1201") -> tuple[bytes | None, str]:
    """The machine code, or none, and what the assembler printed on standard error (from C++, so by descriptor)."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            made = _assembler()(f"\t.text\n{text}\n", arch, "")
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        said = file.read().decode(errors="replace")
    if not made:
        return None, said
    section = ELFFile(io.BytesIO(made)).get_section_by_name(".text")
    return section.data(), said


def refused_lines(said: str) -> set[int]:
    """Numbers that stand as `; #7#` behind the lines that the assembler complained of."""
    return {int(number) for number in re.findall(r"; #(\d+)#", said)}
