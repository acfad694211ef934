"""PTX to a CUBIN by the assembler of the Triton wheel, with the options that Triton gives it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from assay.bundle.faults import Fault

from .cached_work import FAILURE, CachedWork
from .environment import compile_environment
from .records import canonical_json, sha256_hex
from .toolchain import Toolchain, ToolchainError
from .workers import Workers

# The wheel has an older one too, which refuses the PTX version that Triton writes for its newest targets.
TOOL = "ptxas-blackwell"
# As triton/backends/nvidia/compiler.py, make_cubin, calls it without line tables.
_OPTIONS = ("-lineinfo", "-suppress-debug-info", "--regAllocOptLevel=2")
_NO_CONTRACTION = "--fmad=false"
_SOURCE, _CUBIN = "kernel.ptx", "kernel.cubin"
_MESSAGE_LINES = 12


def find_assembler() -> Path:
    """The wheel's assembler.  Raises ToolchainError where there is none."""
    spec = importlib.util.find_spec("triton")
    roots = (spec.submodule_search_locations or []) if spec else []
    for root in roots:
        path = Path(root, "backends", "nvidia", "bin", TOOL)
        if os.access(path, os.X_OK):
            return path
    hint = "install Triton from its wheel: it carries the assembler"
    raise ToolchainError(Fault(TOOL, "not in the installed Triton", f"backends/nvidia/bin/{TOOL}", hint))


class Assembler:
    """CUBINs by PTX and architecture, cached: `{"failure", "code"}`; the failure is what the assembler said."""

    def __init__(self, cache: Path, toolchain: Toolchain, workers: Workers, time_limit: float):
        """Raises ToolchainError where there is no assembler."""
        self._tool = str(find_assembler())
        self._toolchain = toolchain
        self._work = CachedWork(cache, "assembly", workers, time_limit)

    @property
    def damaged(self) -> list[str]:
        """Names of cache entries that were passed over."""
        return self._work.damaged

    def submit(self, ptx: str, arch: str, *, contraction: bool) -> Future[dict[str, Any]]:
        """A future of the CUBIN.  contraction: as `enable_fp_fusion` of the compile request."""
        options = [*_OPTIONS, *(() if contraction else (_NO_CONTRACTION,)), f"--gpu-name={arch}"]
        identity = {"ptx": sha256_hex(ptx), "options": options, "toolchain": self._toolchain.to_dict()}
        return self._work.submit(sha256_hex(canonical_json(identity)), assemble, [self._tool, options, ptx], _is_made)


def assemble(tool: str, options: list[str], ptx: str, scratch: str) -> dict[str, Any]:
    """Assemble in this worker process.  `scratch` is a folder to make; it is removed."""
    os.mkdir(scratch)
    folder = Path(scratch)
    try:
        (folder / _SOURCE).write_text(ptx)
        # No folder's name reaches the assembler, so none can reach the code object.
        done = subprocess.run(
            [tool, *options, _SOURCE, "-o", _CUBIN], cwd=folder, capture_output=True, text=True, errors="replace",
            env=compile_environment(os.environ, scratch, line_info=False), check=False,
        )  # fmt: skip
        if done.returncode:
            said = "; ".join(line.strip() for line in (done.stdout + done.stderr).splitlines()[:_MESSAGE_LINES])
            return {FAILURE: f"{TOOL} ended with status {done.returncode}: {said}"}
        return {FAILURE: "", "code": (folder / _CUBIN).read_bytes()}
    except OSError as error:
        return {FAILURE: f"{TOOL} could not be run: {error.strerror or error}"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_made(entry: dict[str, Any]) -> bool:
    return set(entry) == {FAILURE, "code"} and entry[FAILURE] == "" and type(entry["code"]) is bytes
