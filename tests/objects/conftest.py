import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.objects import find_disassembler

DATA = Path(__file__).with_name("data")

# Test files are imported on their own (--import-mode=importlib), so a shared helper is a fixture.
_spec = importlib.util.spec_from_file_location("synthetic_hsaco", Path(__file__).with_name("synthetic.py"))
_synthetic = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _synthetic  # dataclasses look their module up
_spec.loader.exec_module(_synthetic)

# Spills are forced: on AMD by asking for 16 waves a SIMD (96 VGPRs), on NVIDIA by capping registers.
COMPILE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import triton, kernels
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

aligned = ["tt.divisibility", 16]
scale = dict(signature={"x": "*fp32", "y": "*fp32", "a": "fp32", "n": "i32", "B": "constexpr"},
             constexprs={"B": 128}, attrs={(0,): [aligned], (1,): [aligned]})
product = dict(signature={"a": "*bf16", "b": "*bf16", "c": "*fp32", "N": "constexpr"},
               constexprs={"N": 64}, attrs={(i,): [aligned] for i in range(3)})
jobs = [
    ("plain", kernels.scale, scale, ("hip", "gfx1201"), {}),
    ("spills", kernels.product, product, ("hip", "gfx1200"), {"num_warps": 1, "waves_per_eu": 16}),
    ("plain", kernels.scale, scale, ("cuda", 90), {}),
    ("spills", kernels.product, product, ("cuda", 120), {"maxnreg": 40}),
]
for name, function, source, (backend, arch), options in jobs:
    target = GPUTarget(backend, arch, 32)
    compiled = triton.compile(ASTSource(fn=function, **source), target=target, options=options)
    for kind in ("hsaco", "amdgcn", "cubin", "ptx"):
        if kind in compiled.asm:
            content = compiled.asm[kind]
            path = Path(sys.argv[1], f"{name}.{arch}.{kind}")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
"""

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scale(x, y, a, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * a, mask=i < n)

@triton.jit
def product(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i)))
"""


@pytest.fixture(scope="session")
def synthetic():
    return _synthetic


@pytest.fixture(scope="session")
def data():
    """Reads a file of data/ by name."""
    return lambda name: (DATA / name).read_bytes()


@pytest.fixture(scope="session")
def disassembler():
    found = find_disassembler()
    if found is None:
        pytest.skip("no nvdisasm: the Triton wheel is not installed")
    return found


@pytest.fixture(scope="session")
def wheel_tool(disassembler):
    """Runs one of NVIDIA's tools next to the disassembler and returns what it printed."""

    def run(tool, *arguments):
        command = [str(disassembler.with_name(tool)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Reads `<kernel>.<arch>.<kind>` of a few kernels that the installed Triton compiled just now."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    folder = tmp_path_factory.mktemp("triton")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "compile.py").write_text(COMPILE)
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DISABLE_LINE_INFO": "1"}
    command = [sys.executable, str(folder / "compile.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return lambda name: (folder / name).read_bytes()
