"""`assay inspect`: the resources of any HSACO, CUBIN or bundle, whoever made it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from assay import objects
from assay.bundle import Bundle, Fault, FaultsError
from assay.bundle.format import MAGIC_NAME
from assay.codegen.records import spell

from .reports.labels import constant_axes, problem_label
from .terminal import NARROW
from .verification import file_fault

SCHEMA = "assay.inspect/1"
COMPANION = "companion"
# Of a variant's id, and what is left out of the table, on a narrow terminal.
_SHOWN_ID = 8
_WIDE_ONLY = frozenset({"lds_static_bytes", "lds_dynamic_bytes", "max_threads", "kernarg_bytes"})
# Columns of a line that a log may have.
_WIDEST = 2000
# What a launch asks for, which no bare file tells.
_AT_LAUNCH = frozenset({"lds_dynamic_bytes", "lds_total_bytes"})


class InspectError(FaultsError):
    """A file that is none of the three, or a damaged one; exit status 2."""


@dataclass(frozen=True)
class Inspected:
    """document: what `assay inspect --json` prints.  families: of a bundle's kernels, in their order."""

    document: dict[str, Any]
    families: tuple[str, ...] = ()


def inspect_file(path: Path) -> Inspected:
    """What is in a file.  Raises InspectError."""
    if fault := file_fault(path):
        raise InspectError(fault)
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC_NAME))
            if head == MAGIC_NAME:
                return _bundle(path)
            data = head + file.read()
        found = objects.read_object(data, where=str(path), disassembler=objects.find_disassembler())
    except OSError as error:
        raise InspectError(Fault(str(path), error.strerror or str(error), "a readable file")) from None
    except objects.ObjectError as error:
        raise InspectError(Fault(error.where, error.given, error.allowed, error.hint)) from None
    except FaultsError as error:
        raise InspectError(error.faults) from None
    kernels = [_kernel(kernel) for kernel in found.kernels]
    return Inspected({"schema": SCHEMA, "kind": found.kind, "kernels": kernels})


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


def _bundle(path: Path) -> Inspected:
    """Each row's kernel, read from its code object again; figures of the build come from the variant's record."""
    families, kernels = [], []
    with Bundle.open(path, companion=True) as bundle:
        companion = bundle.manifest.companion
        for family in bundle.families():
            for row in bundle.rows(family):
                where = f"{path}: row {row.id}"
                found = {k.name: k for k in objects.read_object(bundle.object_bytes(row.object), where=where).kernels}
                if row.symbol not in found:
                    raise InspectError(Fault(where, f"no kernel {row.symbol!r} in its code object", ", ".join(found)))
                kernel = found[row.symbol]
                record = bundle.variant(row.id)
                read = {name: value for name, value in kernel.resources.to_dict().items() if value is not None}
                resources = {**record.resources, **read}
                said = {"variant": row.id, "problem": record.problem, "resources": resources}
                families.append(family)
                kernels.append({**_kernel(kernel), **said})
    if companion is None:
        return Inspected({"schema": SCHEMA, "kind": "bundle", "kernels": kernels}, tuple(families))
    return Inspected({"schema": SCHEMA, "kind": COMPANION, "companion": companion, "kernels": kernels}, tuple(families))


def print_inspected(out: Console, inspected: Inspected) -> None:
    """The same for a person: a bundle's variants a line each, a single object's resources a line each."""
    document = inspected.document
    kernels = document["kernels"]
    out.print(f"{document['kind']}, {len(kernels):,} {'kernel' if len(kernels) == 1 else 'kernels'}", style="bold")
    if document["kind"] == COMPANION:
        companion = document["companion"]
        out.print(f"assembled for {companion['arch']}, of bundle {companion['of']}: evidence only", markup=False)
    if document["kind"] in ("bundle", COMPANION):
        _print_variants(out, kernels, inspected.families)
    else:
        _print_kernels(out, kernels)


def _print_variants(out: Console, kernels: list[dict[str, Any]], families: Iterable[str]) -> None:
    """A table a family; axes and figures with one value stand above it."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for family, kernel in zip(families, kernels, strict=True):
        groups.setdefault(family, []).append(kernel)
    for family, group in groups.items():
        table = _variant_table(family, group, narrow=out.is_terminal and out.width < NARROW, fold=out.is_terminal)
        if not out.is_terminal:
            out.width = max(out.width, Measurement.get(out, out.options.update(max_width=_WIDEST), table).maximum)
        out.print(table)


def _variant_table(family: str, group: list[dict[str, Any]], *, narrow: bool, fold: bool) -> Table:
    """A line a variant.  fold: a terminal may have to.  narrow: without some of the figures, which --json has."""
    names = [name for name in _names(group) if any(kernel["resources"].get(name) is not None for kernel in group)]
    figures = {name: [_figure(kernel["resources"].get(name)) for kernel in group] for name in names}
    figures["target"] = [kernel["arch"] for kernel in group]
    same = [name for name in figures if len(group) > 1 and len(set(figures[name])) == 1]
    constant = constant_axes([kernel["problem"].items() for kernel in group])
    title = family + (f" ({', '.join(constant)})" if constant else "")
    if same:
        title += "\nin every row: " + ", ".join(f"{name} {figures[name][0]}" for name in same)
    table = Table(
        title=Text(title), title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("variant", no_wrap=True)
    table.add_column("problem", no_wrap=not fold, overflow="fold", min_width=16)
    shown = [name for name in figures if name not in same and not (narrow and name in _WIDE_ONLY)]
    for name in shown:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for number, kernel in enumerate(group):
        variant = kernel["variant"][: _SHOWN_ID if narrow else None]
        label = problem_label(kernel["problem"].items(), constant)
        table.add_row(*map(Text, (variant, label, *(figures[name][number] for name in shown))))
    return table


def _print_kernels(out: Console, kernels: list[dict[str, Any]]) -> None:
    """One column a kernel; `?` where the file does not tell.  What only the other vendor's files tell is left out."""
    for start in range(0, len(kernels), 4):
        shown = kernels[start : start + 4]
        table = Table(header_style="bold")
        table.add_column("resource")
        for kernel in shown:
            table.add_column(Text(f"{kernel['name']} ({kernel['arch']})"), justify="right", overflow="fold")
        foreign = frozenset.intersection(*(objects.FOREIGN[kernel["backend"]] for kernel in shown))
        for name in _names(shown):
            if name not in foreign:
                unknown = "known only at launch" if name in _AT_LAUNCH else "?"
                table.add_row(name, *(_figure(kernel["resources"].get(name), unknown) for kernel in shown))
        table.add_row("arguments", *(str(len(kernel["arguments"])) for kernel in shown))
        out.print(table)


def _names(kernels: list[dict[str, Any]]) -> list[str]:
    there = {name for kernel in kernels for name in kernel["resources"]}
    return [field.name for field in dataclasses.fields(objects.Resources) if field.name in there]


def _figure(value: bool | int | None, unknown: str = "?") -> str:
    if value is None:
        return unknown
    return spell(value) if isinstance(value, bool) else f"{value:,}"
