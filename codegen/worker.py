"""One compilation, inside a worker process: text and options in, bytes and messages out.

Triton's own objects do not pickle, so nothing of them leaves this module.  A worker runs one compilation at a time: the
environment, standard output and standard error of the whole process belong to it meanwhile.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import linecache
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from assay import objects

from .environment import compile_environment
from .ir_text import ir_sha256
from .records import sha256_hex

# LLVM and MLIR print and go on; Triton then returns an object without the instruction that could not be assembled.
_COMPLAINT = re.compile(r"(?im)^.*(\berror:|LLVM ERROR|fatal error).*$")
# How Triton reports an assembler that a signal ended.
_KILLED_TOOL = re.compile(r"failed with error code -\d+|raised SIG(?!SEGV)")
_MESSAGE_LIMIT = 20_000
# In a scratch folder: what was printed, and Triton's own cache, which holds each stage's text as soon as it is done.
PRINTED, TRITON_CACHE = "printed", "cache"


def compile_in_worker(request: dict[str, Any], scratch: str, keep: bool = False) -> dict[str, Any]:
    """Compile a `CompileRequest` given as a dictionary; returns an `Outcome` as one.  Never raises for bad source.

    `scratch` is a folder to make; a worker that dies leaves it, with what was printed, to its caller.  keep: leave it
    in any case; `texts` reads the compiler's texts out of it.
    """
    started, used = time.perf_counter(), _processor_seconds()
    os.mkdir(scratch)
    environment = compile_environment(
        dict(os.environ), os.path.join(scratch, TRITON_CACHE), line_info=request["line_info"]
    )
    with _environment(environment), _captured_output(os.path.join(scratch, PRINTED)) as printed:
        result, failure = _attempt(request)
    text = printed()
    if not keep:
        shutil.rmtree(scratch, ignore_errors=True)
    try:
        outcome = _judge(request, result, failure, text)
    except (objects.ObjectError, LookupError, OSError, AttributeError) as error:
        # The tools that measure may have been killed or found no room; a later run must not read that as a verdict.
        # Another version of the compiler may lack a figure.
        outcome = {"status": "crashed", "messages": f"the code object cannot be inspected: {error}"}
    outcome["seconds"] = time.perf_counter() - started
    outcome["cpu_seconds"] = _processor_seconds() - used
    return outcome


def _processor_seconds() -> float:
    """Of this process and of the assemblers and disassemblers that it ran and waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class _TooMuchSharedMemory(Exception):
    """Raised between two compiler stages; the argument is the size in bytes."""


def _attempt(request: dict[str, Any]) -> tuple[Any, str]:
    try:
        return _compile(request), ""
    except _TooMuchSharedMemory as reached:
        return reached, ""
    except (OSError, MemoryError, KeyboardInterrupt) as error:
        return _MachineFailed(f"{type(error).__name__}: {error}"), ""
    except BaseException as error:  # whatever it raises, SystemExit too, is this candidate's failure, never the build's
        said = f"{type(error).__name__}: {error}"
        return (_MachineFailed(said), "") if _KILLED_TOOL.search(said) else (None, said)


class _MachineFailed(Exception):
    """No room, no memory, an interrupt or a killed tool: says nothing about the candidate, and is not kept."""


def _compile(request: dict[str, Any]) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = load_kernel(request["source"], request["kernel"])
    names = list(function.arg_names)
    signature = dict(request["signature"])
    if names != list(signature):
        raise ValueError(f"the kernel takes ({', '.join(names)}), the spec says ({', '.join(signature)})")
    attributes = _attributes(request, names)
    architecture = request["compiler_arch"]
    target = GPUTarget(
        request["backend"], int(architecture) if architecture.isdigit() else architecture, request["wavefront_size"]
    )
    options = {
        **dict(request["options"]),
        "num_warps": request["num_warps"],
        "num_stages": request["num_stages"],
        "enable_fp_fusion": request["enable_fp_fusion"],
    }
    source = ASTSource(function, signature, dict(request["constants"]), attributes)
    with _shared_memory_limit(request["shared_limit_bytes"]):
        return triton.compile(source, target=target, options=options)


@contextlib.contextmanager
def _shared_memory_limit(limit: int | None) -> Iterator[None]:
    """Ends a compilation once its launch-time shared memory is known, with the LLVM IR, and over `limit` bytes.

    What is left out then, LLVM and the assembler, is most of the time.
    """
    hooks = _stage_hooks()

    def watch(_backend: Any = None, stages: Any = None, *_: Any) -> tuple[str, str]:
        if stages is not None:
            lower = stages["llir"]

            def lower_and_look(source: Any, metadata: Any) -> Any:
                lowered = lower(source, metadata)
                if metadata["shared"] > limit:
                    raise _TooMuchSharedMemory(metadata["shared"])
                return lowered

            stages["llir"] = lower_and_look
        return "assay", "assay"  # what Triton adds to the key of its own cache, which is empty

    if limit is None or hooks is None:
        yield
        return
    hooks.add_stages_inspection_hook = watch
    try:
        yield
    finally:
        hooks.add_stages_inspection_hook = None


def _stage_hooks() -> Any:
    """Where the compiler takes a hook on its stages; None for versions that have none, which compile to the end."""
    try:
        from triton import knobs
    except ImportError:
        return None
    return knobs.runtime if hasattr(knobs.runtime, "add_stages_inspection_hook") else None


def _attributes(request: dict[str, Any], names: list[str]) -> dict[tuple[int], list[list[Any]]]:
    """Triton's argument attributes.  A 32-bit pointer range is what AMD's buffer instructions need; NVIDIA has none."""
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for name, divisor in request["divisibility"]:
        attributes.setdefault((names.index(name),), []).append(["tt.divisibility", divisor])
    if request["backend"] == "hip":
        for name in request["within_2gib"]:
            attributes.setdefault((names.index(name),), []).append(["tt.pointer_range", 32])
    return attributes


def load_kernel(source: str, kernel: str) -> Any:
    """Execute rendered source; `linecache` lets Triton read it back.  The name depends on the text, on no folder."""
    _check_imports(source)
    name = f"<rendered {sha256_hex(source)[:16]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "assay_rendered_kernel", "__file__": name}
    exec(compile(source, name, "exec"), namespace)
    if kernel not in namespace:
        raise ValueError(f"the rendered source defines no {kernel}")
    return namespace[kernel]


def _check_imports(source: str) -> None:
    """Only Triton and the standard library: any other module would decide code without being part of its identity."""
    allowed = sys.stdlib_module_names | {"triton"}
    for node in ast.walk(ast.parse(source)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "."] if not node.level else ["."]
        for module in modules:
            if module.partition(".")[0] not in allowed:
                raise ImportError(f"the rendered source imports {module}; only triton and the standard library may be")


def _judge(request: dict[str, Any], result: Any, failure: str, printed: str) -> dict[str, Any]:
    complaints = [match.group(0).strip() for match in _COMPLAINT.finditer(printed)]
    if failure:
        return {"status": "compile_error", "messages": _shorten("\n".join([failure, *complaints]))}
    if isinstance(result, _MachineFailed):
        return {"status": "crashed", "messages": _shorten(str(result))}
    if isinstance(result, _TooMuchSharedMemory):
        return {"status": "abandoned", "shared_bytes": result.args[0]}
    if complaints:
        return {"status": "compiler_complaint", "messages": _shorten("\n".join(complaints))}
    code = result.asm["hsaco" if request["backend"] == "hip" else "cubin"]
    if not code:
        return {"status": "compile_error", "messages": "the compiler returned an empty code object"}
    metadata = result.metadata
    measured = _measure_hip(result) if request["backend"] == "hip" else _measure_cuda(code, metadata.name, printed)
    return {
        "status": "compiled",
        "code": bytes(code),
        "messages": _shorten("\n".join(line for line in printed.splitlines() if "warning" in line.lower())),
        "symbol": metadata.name,
        "num_warps": metadata.num_warps,
        "shared_bytes": metadata.shared,
        "global_scratch_bytes": getattr(metadata, "global_scratch_size", None),
        "profile_scratch_bytes": getattr(metadata, "profile_scratch_size", None),
        "ir_sha256": _ir_hash(result),
        **measured,
    }


def _ir_hash(result: Any) -> str | None:
    text = result.asm.get("ttgir")
    return ir_sha256(text) if isinstance(text, str) else None


def _measure_hip(result: Any) -> dict[str, Any]:
    return {"instructions": dict(objects.count_instructions_amdgcn(result.asm["amdgcn"]))}


def _measure_cuda(code: bytes, symbol: str, printed: str) -> dict[str, Any]:
    """What only tools can tell of a CUBIN.  A tool that fails leaves None, which no gate lets pass."""
    report = objects.parse_ptxas_report(printed).get(symbol)
    spills = (report.spill_load_bytes, report.spill_store_bytes) if report else None
    disassembler = objects.find_disassembler()
    if disassembler is None:
        return {"assembler_spills": spills}
    counts = objects.count_instructions_sass(code, disassembler)[symbol]
    local = counts.root["LDL"], counts.root["STL"]
    return {"assembler_spills": spills, "instructions": dict(counts.full), "sass_local": local}


# Everything that moves a terminal's cursor or colours it; line ends and tabs stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _shorten(text: str) -> str:
    text = _CONTROL.sub(lambda found: found.group(0).encode("unicode_escape").decode(), text)
    return text if len(text) <= _MESSAGE_LIMIT else text[:_MESSAGE_LIMIT] + "\n(cut)"


@contextlib.contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    saved = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _flush() -> None:
    """Python's buffers and C's: what stays in one would be taken for the next compilation's, or reach our caller."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # closed or replaced by a kernel's module
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _stream(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


@contextlib.contextmanager
def _captured_output(path: str) -> Iterator[Any]:
    """Everything the process prints meanwhile, from Python and from C++ alike, which only descriptors 1 and 2 catch."""
    _flush()
    saved = os.dup(1), os.dup(2)
    streams = sys.stdout, sys.stderr
    with open(path, "w+b") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        # Streams of this compilation alone: a kernel's module may close or replace them.
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        try:
            yield lambda: text
        finally:
            _flush()
            sys.stdout, sys.stderr = streams
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            for descriptor in saved:
                os.close(descriptor)
            file.seek(0)
            text = file.read().decode(errors="replace")
