"""Whether a bundle is whole and its code objects are what its rows say: architecture, kernel, wavefront, arguments."""

from __future__ import annotations

import stat
from pathlib import Path

from assay import objects
from assay.bundle import Bundle, BundleError, Fault, Row, TargetRecord, verify_bundle

from .record_checks import coverage_faults, record_faults

# No bundle and no code object comes near it.
_MOST_BYTES = 1 << 30


def file_fault(path: Path) -> Fault | None:
    """Why a file is not to be read: it is not there, may never end, such as a pipe or a device, or is huge."""
    try:
        status = path.stat()
    except OSError as error:
        return Fault(str(path), error.strerror or str(error), "a readable file")
    if stat.S_ISDIR(status.st_mode):
        return Fault(str(path), "a folder", "a regular file")
    if not stat.S_ISREG(status.st_mode):
        return Fault(str(path), "a pipe, device or socket", "a regular file", "copy what it holds to a file")
    if status.st_size > _MOST_BYTES:
        return Fault(str(path), f"{status.st_size:,} bytes", f"at most {_MOST_BYTES:,} bytes")
    return None


def bundle_faults(path: Path, *, companion: bool = False) -> list[Fault]:
    """Everything wrong with a bundle, its code objects and its records.  Never raises for what the file holds.

    companion: whether the file may be one; its records are those of the bundle that it was made of.
    """
    if faults := verify_bundle(path, object_faults, companion=companion):
        return faults
    try:
        with Bundle.open(path, companion=companion) as bundle:
            return [] if bundle.manifest.companion is not None else _record_faults(bundle)
    except BundleError as error:  # it was replaced meanwhile
        return list(error.faults)


def _record_faults(bundle: Bundle) -> list[Fault]:
    rows = [row for family in bundle.families() for row in bundle.rows(family)]
    variants = {row.id: bundle.variant(row.id) for row in rows}
    faults = []
    for row in rows:
        code = objects.read_object(bundle.object_bytes(row.object), where=row.id)
        kernel = next(kernel for kernel in code.kernels if kernel.name == row.symbol)
        faults += record_faults(row, variants[row.id], kernel)
    return faults + coverage_faults(rows, variants)


def object_faults(code: bytes, row: Row, target: TargetRecord) -> list[Fault]:
    """What a code object says of itself against the row that would launch it."""
    where = f"row {row.id}: code object {row.object[:12]}"
    try:
        code_object = objects.read_object(code, where=where)
    except objects.ObjectError as error:
        return [Fault(error.where, error.given, error.allowed, error.hint)]
    kernels = {kernel.name: kernel for kernel in code_object.kernels}
    if row.symbol not in kernels:
        return [Fault(where, f"no kernel {row.symbol!r}", ", ".join(kernels))]
    kernel = kernels[row.symbol]
    threads = row.num_warps * row.wavefront_size
    claims = (
        ("architecture", f"{kernel.backend} {kernel.arch}", f"{target.backend} {target.arch}"),
        ("wavefront size", kernel.resources.wavefront_size, row.wavefront_size),
        ("threads of a workgroup", kernel.resources.max_threads, threads),
        (
            "argument layout",
            [(argument.offset, argument.size) for argument in kernel.arguments],
            [(argument.offset, argument.size) for argument in row.arguments],
        ),
    )
    return [
        Fault(where, f"{what} {actual} in the binary", f"{claimed}, as the row says")
        for what, actual, claimed in claims
        if actual != claimed
    ]
