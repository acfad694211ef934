"""`assay inspect`: the resources of any HSACO, CUBIN or bundle, whoever made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from assay import objects
from assay.bundle import Bundle, Fault, FaultsError

SCHEMA = "assay.inspect/1"
# The first bytes of a bundle; bundle/format.py has the whole grammar.
_BUNDLE_MAGIC = b"\x89ASSAY"


class InspectError(FaultsError):
    """A file that is none of the three, or a damaged one; exit status 2."""


def inspect_file(path: Path) -> dict[str, Any]:
    """The document that `assay inspect --json` prints.  Raises InspectError."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_BUNDLE_MAGIC))
            if head == _BUNDLE_MAGIC:
                return {"schema": SCHEMA, "kind": "bundle", "kernels": _bundle_kernels(path)}
            data = head + file.read()
        found = objects.read_object(data, where=str(path), disassembler=objects.find_disassembler())
    except OSError as error:
        raise InspectError(Fault(str(path), error.strerror or str(error), "a readable file")) from None
    except objects.ObjectError as error:
        raise InspectError(Fault(error.where, error.given, error.allowed, error.hint)) from None
    except FaultsError as error:
        raise InspectError(error.faults) from None
    return {"schema": SCHEMA, "kind": found.kind, "kernels": [_kernel(kernel) for kernel in found.kernels]}


def _kernel(kernel: objects.Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "arch": kernel.arch,
        "backend": kernel.backend,
        "resources": kernel.resources.to_dict(),
        "arguments": [
            {"offset": argument.offset, "size": argument.size, "kind": argument.kind} for argument in kernel.arguments
        ],
    }


def _bundle_kernels(path: Path) -> list[dict[str, Any]]:
    """Each row's kernel, read from its code object again; figures of the build come from the variant's record."""
    kernels = []
    with Bundle.open(path) as bundle:
        for family in bundle.families():
            for row in bundle.rows(family):
                found = objects.read_object(bundle.object_bytes(row.object), where=f"{path}: row {row.id}")
                kernel = next(kernel for kernel in found.kernels if kernel.name == row.symbol)
                recorded = bundle.variant(row.id).resources
                read = {name: value for name, value in kernel.resources.to_dict().items() if value is not None}
                kernels.append({**_kernel(kernel), "variant": row.id, "resources": {**recorded, **read}})
    return kernels


def print_document(out: Console, document: dict[str, Any]) -> None:
    """The same for a person: one line a resource, one column a kernel; `?` where the file does not tell."""
    kernels = document["kernels"]
    for start in range(0, len(kernels), 4):
        shown = kernels[start : start + 4]
        table = Table(title=f"{document['kind']}, {len(kernels)} kernels", title_justify="left", header_style="bold")
        table.add_column("resource")
        for kernel in shown:
            table.add_column(f"{kernel['name']} ({kernel['arch']})", justify="right", overflow="fold")
        for name in shown[0]["resources"]:
            values = [kernel["resources"].get(name) for kernel in shown]
            table.add_row(name, *("?" if value is None else f"{value:,}" for value in values))
        table.add_row("arguments", *(str(len(kernel["arguments"])) for kernel in shown))
        out.print(table)
