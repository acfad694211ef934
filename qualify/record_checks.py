"""Whether the records of a bundle agree with each other: what was built, and the row that launches it.

A hash shows that a record was not changed by chance.  These checks find a row and its record that were changed
together: an id is the hash of what it names, resources are the binary's, conditions say what the kernel was built for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.bundle import Condition, Fault, Row, VariantRecord
from assay.codegen.predicates import same
from assay.codegen.variants import variant_id
from assay.objects import Kernel


def record_faults(row: Row, variant: VariantRecord, kernel: Kernel) -> list[Fault]:
    """What one row says against its record and the kernel in its code object."""
    where = f"row {row.family}/{row.id}"
    return [
        *_id_faults(row, variant, where),
        *_launch_faults(row, where),
        *_resource_faults(row, variant, kernel, where),
        *(fault for condition in row.conditions for fault in _condition_faults(condition, variant, where)),
    ]


def _id_faults(row: Row, variant: VariantRecord, where: str) -> list[Fault]:
    order = [argument.name for argument in row.arguments]
    divisors = variant.specialisation.get("divisible_by", {})
    ranges = variant.specialisation.get("within_2gib", [])
    # The map has no order in a bundle; the id is over the arguments' own.
    promised = sorted(divisors.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))
    actual = variant_id(
        family=variant.family,
        problem=variant.problem,
        launch=variant.launch,
        target=variant.target,
        specialisation=(promised, ranges),
        source=variant.source,
    )
    if actual == row.id:
        return []
    allowed = f"{actual}, the hash of its record's problem, launch, specialisation and source"
    return [Fault(f"{where}: id", row.id, allowed)]


def _launch_faults(row: Row, where: str) -> list[Fault]:
    said = row.launch.get("num_warps")
    if same(said, row.num_warps):
        return []
    return [Fault(f"{where}: num_warps", f"{row.num_warps}", f"{said!r}, as its launch says")]


def _resource_faults(row: Row, variant: VariantRecord, kernel: Kernel, where: str) -> list[Fault]:
    """Every figure that the binary tells.  Those that tools measured at build time are not in it."""
    told = kernel.resources.with_launch(row.lds_bytes).to_dict()
    return [
        Fault(f"{where}: resources: {name}", f"{variant.resources.get(name)!r}", f"{actual!r}, as the binary says")
        for name, actual in told.items()
        if actual is not None and not same(variant.resources.get(name), actual)
    ]


def _condition_faults(condition: Condition, variant: VariantRecord, where: str) -> Iterable[Fault]:
    """A condition on an axis is about the value that the kernel was built for."""
    if condition.field not in variant.problem:
        return
    built = variant.problem[condition.field]
    admitted = condition.value if condition.op == "one_of" else (condition.value,)
    if not any(same(value, built) for value in admitted):
        yield Fault(
            f"{where}: condition on {condition.field}", condition.required(), f"{built!r}, which it was built for"
        )


def coverage_faults(rows: Sequence[Row], variants: dict[str, VariantRecord]) -> list[Fault]:
    """Rows that leave out a condition which the other rows of their family and target have.

    Which axes a family dispatches on is the same for all of its rows; a multiple of 1 is no condition.
    """
    asked: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        of_family = asked.setdefault((row.family, row.target), {})
        of_family.update((c.field, c.op) for c in row.conditions if c.field in variants[row.id].problem)
    faults = []
    for row in rows:
        fields = {condition.field for condition in row.conditions}
        problem = variants[row.id].problem
        for field, op in asked[row.family, row.target].items():
            if field in fields or field not in problem or (op == "multiple_of" and same(problem[field], 1)):
                continue
            given = f"no condition on {field}, built for {problem[field]!r}"
            faults.append(Fault(f"row {row.family}/{row.id}", given, "one, as other rows of the family have"))
    return faults
