"""Code objects compiled from two folders or linked from assembly written here, bundles and repositories of specs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from assay.bundle import write_bundle
from tests.qualify.comparing.changed_bundles import contents_of
from tests.qualify.comparing.repositories import SpecRepository
from tests.specs import TOY

_KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(x, y, a, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * a, mask=i < n)
"""
_ASSEMBLY = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
	.amdhsa_code_object_version 5
	.section .rodata,"a",@progbits
	.p2align 8
table:
	.long {constant}
	.text
	.globl helper
	.p2align 8
	.type helper,@function
helper:
	v_mov_b32_e32 v1, {helper}
	s_setpc_b64 s[30:31]
	.size helper, .-helper
	.globl k
	.p2align 8
	.type k,@function
k:
	s_getpc_b64 s[4:5]
	s_add_co_u32 s4, s4, table@rel32@lo+4
	s_add_co_ci_u32 s5, s5, table@rel32@hi+12
	s_load_b32 s6, s[4:5], 0x0
	s_wait_kmcnt 0x0
	{body}
	s_endpgm
	.size k, .-k
	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel k
		.amdhsa_next_free_vgpr {vgprs}
		.amdhsa_next_free_sgpr 32
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .args: []
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 32
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 32
amdhsa.target: amdgcn-amd-amdhsa--gfx1201
amdhsa.version: [1, 2]
...
	.end_amdgpu_metadata
	.section .note.build_id,"a",@note
	.long 4, {id_bytes}, 3
	.asciz "GNU"
	.fill {id_bytes}, 1, {id_byte}
	.section .comment,"MS",@progbits,1
	.asciz "{comment}"
"""


@pytest.fixture(scope="session")
def link(tmp_path_factory):
    """Makes the HSACO of kernel `k`, which reads a constant beside its code and has a function beside it."""

    def make(
        *, constant=7, helper=1, body="v_mov_b32_e32 v1, s6", comment="made here", vgprs=8, build_id=b"\1" * 20
    ) -> bytes:
        from triton._C.libtriton import amd, llvm

        llvm.init_targets()
        text = _ASSEMBLY.format(constant=constant, helper=helper, body=body, comment=comment, vgprs=vgprs,
                                id_bytes=len(build_id), id_byte=build_id[0])  # fmt: skip
        folder = tmp_path_factory.mktemp("link")
        made = amd.assemble_amdgcn(text, "gfx1201", "")
        assert made, "the assembler refused the text"
        (folder / "k.o").write_bytes(made)
        amd.link_hsaco(str(folder / "k.o"), str(folder / "k.hsaco"))
        return (folder / "k.hsaco").read_bytes()

    return make


@pytest.fixture(scope="session")
def from_folders(tmp_path_factory):
    """Compiles one kernel from a file in a folder of its own: its path is in the line table. (backend, name, above)"""

    def make(backend: str, folder: str, lines_above: int = 0) -> bytes:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        path = tmp_path_factory.mktemp(folder) / "kernels.py"
        path.write_text("\n" * lines_above + _KERNEL)
        module = _import(path)
        types = {"x": "*fp32", "y": "*fp32", "a": "fp32", "n": "i32", "B": "constexpr"}
        target = GPUTarget("hip", "gfx1201", 32) if backend == "hip" else GPUTarget("cuda", 90, 32)
        made = triton.compile(ASTSource(module.scale, types, {(4,): 128}), target=target)
        return made.asm["hsaco" if backend == "hip" else "cubin"]

    return make


def _import(path: Path):
    spec = importlib.util.spec_from_file_location(f"kernels_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def toy(built):
    """gfx1201's toy bundle; it is shared."""
    return built("gfx1201").bundle


@pytest.fixture
def other(toy, tmp_path):
    """Writes a bundle of the toy's contents as `change` returns them."""

    def write(change, name="other.assay"):
        write_bundle(tmp_path / name, change(contents_of(toy)))
        return tmp_path / name

    return write


@pytest.fixture
def repository(tmp_path, monkeypatch) -> SpecRepository:
    """The toy specs under specs/: one commit, tagged `first`; the current folder is inside."""
    made = SpecRepository(tmp_path / "repository")
    shutil.copytree(TOY, made.specs)
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit("specs")
    made.git("tag", "first")
    monkeypatch.chdir(made.top)
    # Where worktrees and what is built from them go: all of it must be gone afterwards.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return made
