"""Builds the HSACO fixtures from kernels.ll with the LLVM inside the Triton wheel: `python make_hsaco.py`."""

import re
import tempfile
from pathlib import Path

from triton._C.libtriton import amd, llvm

HERE = Path(__file__).parent


def only(source: str, kernels: set[str]) -> str:
    """`source` without the other kernels."""
    pattern = re.compile(r"define amdgpu_kernel void @(\w+)\(.*?\n}\n", re.S)
    return pattern.sub(lambda match: match[0] if match[1] in kernels else "", source)


def build(source: str, arch: str, features: str = "") -> bytes:
    """LLVM IR to a linked HSACO."""
    llvm.init_targets()
    text = llvm.translate_to_asm(source, "amdgcn-amd-amdhsa", arch, features, [], True, False, False)
    with tempfile.NamedTemporaryFile() as relocatable, tempfile.NamedTemporaryFile() as linked:
        relocatable.write(amd.assemble_amdgcn(text, arch, features))
        relocatable.flush()
        amd.link_hsaco(relocatable.name, linked.name)
        return Path(linked.name).read_bytes()


if __name__ == "__main__":
    everything = {"copy", "lds", "stack", "dynamic"}
    for name, arch, features, version, kernels in (
        ("four.gfx1201", "gfx1201", "", 500, everything),
        ("copy.gfx1200", "gfx1200", "", 600, {"copy"}),
        ("copy.gfx942", "gfx942", "+sramecc,-xnack", 500, {"copy"}),
        ("dynamic.gfx90a", "gfx90a", "", 400, {"dynamic"}),
    ):
        source = only((HERE / "kernels.ll").read_text(), kernels)
        source = source.replace('code_object_version", i32 500', f'code_object_version", i32 {version}')
        (HERE / f"{name}.hsaco").write_bytes(build(source, arch, features))
