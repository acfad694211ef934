"""The environment that a compilation runs in: nothing from the caller's shell may change code or weaken a gate."""

from __future__ import annotations

import os
from collections.abc import Mapping

# What a process needs to start, find files and be interrupted; everything else is dropped, since Triton, LLVM and the
# assemblers read dozens of variables (triton/knobs.py lists Triton's own) and a new one needs no entry here.
_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "TZ"}
    | {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT"}
)
# Variables by which a shell would have changed the compiler's output; dropped as the rest, and named in a warning.
_COMPILER_PREFIXES = ("TRITON_", "AMDGCN_", "NVPTX_", "LLVM_", "MLIR_", "PTXAS_", "DISABLE_", "HSA_", "HIP_", "ROCM_")
_COMPILER_NAMES = frozenset({"USE_IR_LOC", "CUDA_HOME", "CUDA_PATH"})
# Not about code: where Triton's own cache would be (each compilation gets an empty one).
_HARMLESS = frozenset({"TRITON_CACHE_DIR", "TRITON_HOME"})


def ignored_overrides(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Variables set by the caller that would change generated code, sorted; they have no effect on a build."""
    return sorted(
        name
        for name in environment
        if (name.startswith(_COMPILER_PREFIXES) or name in _COMPILER_NAMES) and name not in _HARMLESS
    )


def compile_environment(environment: Mapping[str, str], cache_dir: str, *, line_info: bool) -> dict[str, str]:
    """The environment of one compilation.  `cache_dir` must be empty: a cache of Triton's forgets what LLVM printed."""
    kept = {name: value for name, value in environment.items() if name in _KEPT}
    return {
        **kept,
        "TRITON_CACHE_DIR": cache_dir,
        # Line tables hold the folder's path, so the shipped object is built without them.
        "TRITON_DISABLE_LINE_INFO": "0" if line_info else "1",
        # The assembler's report is the only source of NVIDIA spill bytes.
        "TRITON_DUMP_PTXAS_LOG": "1",
    }
