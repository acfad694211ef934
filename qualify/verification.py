"""Whether the code objects of a bundle are what its rows say: architecture, kernel, wavefront, argument layout."""

from __future__ import annotations

from assay import objects
from assay.bundle import Fault, Row, TargetRecord


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
