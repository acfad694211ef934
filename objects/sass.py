"""Lists and counts machine instructions of a CUBIN with NVIDIA's own disassembler.

Spills and local arrays show up as LDL and STL alone: the `LOCAL` column of cuobjdump's resource dump reads 0
for them. The Triton wheel carries nvdisasm and cuobjdump; they are found without importing Triton.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from assay.objects.cubin import Function, read_functions
from assay.objects.elf import Elf
from assay.objects.errors import ObjectError
from assay.objects.nv_callgraph import reachable

TIMEOUT_SECONDS = 60.0  # the largest object seen here, 13,500 instructions, takes 0.5 s
INSTRUCTION_BYTES = 16  # sm_70 and later (CUDA Binary Utilities, 'Instruction Set Reference')

_TOOLS = ("nvdisasm", "cuobjdump")
_SECTION = re.compile(r'^\s*\.section\s+"?\.text\.(?P<name>[^,"\s]+)"?,')  # nvdisasm
_FUNCTION = re.compile(r"^\s*Function : (?P<name>\S+)\s*$")  # cuobjdump
_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P[T0-9]+\s+)?(?P<mnemonic>[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)"
)


@dataclass(frozen=True, slots=True)
class SassCounts:
    """Instructions of one kernel and of the functions of the file that it may call, as they stand in the code
    (not as executed): by full mnemonic (`LDL.LU.64`) and by root (`LDL`). Predicated ones count too."""

    full: Counter[str]
    root: Counter[str]


def find_disassembler() -> Path | None:
    """nvdisasm (else cuobjdump) of the installed Triton wheel, else from PATH, else `None`."""
    for folder in _wheel_folders():
        for tool in _TOOLS:
            if os.access(folder / tool, os.X_OK):
                return folder / tool
    found = (shutil.which(tool) for tool in _TOOLS)
    return next((Path(path) for path in found if path), None)


def _wheel_folders() -> list[Path]:
    try:
        spec = importlib.util.find_spec("triton")
    except (ImportError, ValueError):  # a half-removed or stubbed package
        return []
    roots = (spec.submodule_search_locations or []) if spec else []
    return [Path(root) / "backends" / "nvidia" / "bin" for root in roots]


def count_local_accesses(cubin: bytes, disassembler: Path, *, where: str = "cubin") -> dict[str, tuple[int, int]]:
    """Kernel name → (LDL, STL) instructions, any suffix, in the kernel and in what it may call.

    Raises ObjectError as `count_instructions_sass` does.
    """
    counts = count_instructions_sass(cubin, disassembler, where=where)
    return {name: (c.root["LDL"], c.root["STL"]) for name, c in counts.items()}


def count_instructions_sass(
    cubin: bytes, disassembler: Path, *, where: str = "cubin", timeout_s: float = TIMEOUT_SECONDS
) -> dict[str, SassCounts]:
    """Kernel name → instruction counts, from one run of `disassembler`.

    Raises ObjectError if the file is no sound CUBIN, or if the tool is missing, fails, runs longer than
    `timeout_s` seconds or prints fewer or more instructions for a function than its section holds: silence is
    never a count of zero. The temporary copy of the file is always removed.
    """
    elf = Elf(bytes(cubin), where)
    functions = read_functions(elf)
    listed = _count_by_function(_run(elf.data, Path(disassembler), (), where, timeout_s))
    for function in functions.values():
        _check_complete(function, listed.get(function.name, Counter()), disassembler, where)
    result = {}
    for kernel, names in reachable(elf, functions).items():
        full: Counter[str] = Counter()
        for name in names:
            full.update(listed[name])
        root: Counter[str] = Counter()
        for mnemonic, count in full.items():
            root[mnemonic.partition(".")[0]] += count
        result[kernel] = SassCounts(full, root)
    return result


def list_sass(cubin: bytes, disassembler: Path, *, line_info: bool = False, where: str = "cubin") -> str:
    """The disassembly of a CUBIN as the tool prints it, for a reader.

    line_info: with the source line before the instructions that come from it, where the CUBIN has a line table and the
    tool is nvdisasm (cuobjdump prints none). Raises ObjectError if the tool is missing, fails or takes too long.
    """
    tool = Path(disassembler)
    options = ("-g",) if line_info and not tool.name.startswith("cuobjdump") else ()
    return _run(bytes(cubin), tool, options, where, TIMEOUT_SECONDS)


def _run(cubin: bytes, tool: Path, options: tuple[str, ...], where: str, timeout_s: float) -> str:
    place = f"{where}: {tool.name}"
    option = "-sass" if tool.name.startswith("cuobjdump") else "-c"
    with tempfile.TemporaryDirectory(prefix="assay-sass-") as folder:
        path = Path(folder) / "object.cubin"
        path.write_bytes(cubin)
        try:
            run = subprocess.run(
                [str(tool), option, *options, str(path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ObjectError(place, f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            raise ObjectError(place, f"cannot run {tool}: {error.strerror or error}") from None
    if run.returncode != 0:
        message = run.stderr.decode("utf-8", "replace").strip()
        raise ObjectError(place, f"exit status {run.returncode}: {message[:400] or '(no message)'}")
    return run.stdout.decode("utf-8", "replace")


def _count_by_function(listing: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] | None = None
    for line in listing.splitlines():
        instruction = _INSTRUCTION.match(line)
        if instruction:
            if current is not None:
                current[instruction["mnemonic"]] += 1
        elif heading := _SECTION.match(line) or _FUNCTION.match(line):
            current = counts.setdefault(heading["name"], Counter())
    return counts


def _check_complete(function: Function, listed: Counter[str], tool: Path, where: str) -> None:
    expected, odd = divmod(function.section.size, INSTRUCTION_BYTES)
    if odd or listed.total() != expected or not expected:
        raise ObjectError(
            f"{where}: function {function.name!r}",
            f"{Path(tool).name} printed {listed.total()} instructions for {function.section.size} bytes",
            f"{expected} of {INSTRUCTION_BYTES} bytes each",
        )
