"""A side that is one or more bundles: every row with its record, its code object and its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, BundleError, Fault, verify_bundle
from assay.codegen.records import spell

from ..verification import file_fault
from .errors import CompareError
from .records import Built, Entry

# Of a family's contract: words for people, which no caller acts on.
_WORDS = frozenset({"summary", "axes", "about"})


def bundle_entries(path: Path) -> tuple[list[Entry], dict[str, Mapping[str, Any]], str]:
    """Every variant of a bundle, its compiler build by target, and its identity.

    Everything in the file is hashed on the way: what is damaged must not count as equal.  Raises CompareError for a
    file that is no whole bundle, one of another schema, a companion, and rows without a variant record.
    """
    if fault := file_fault(path):
        raise CompareError(fault)
    if faults := verify_bundle(path):
        raise CompareError(_named(path, fault) for fault in faults)
    try:
        with Bundle.open(path) as bundle:
            entries = list(_entries(bundle))
            toolchains = {target.name: dict(bundle.manifest.toolchain) for target in bundle.manifest.targets}
            return entries, toolchains, bundle.identity
    except BundleError as error:
        raise CompareError(_named(path, fault) for fault in error.faults) from None


def _entries(bundle: Bundle) -> Iterator[Entry]:
    rows = [row for family in bundle.families() for row in bundle.rows(family)]
    evidence = {name: bundle.evidence(name) for name in bundle.evidence_names()}
    targets = {target.name: target for target in bundle.manifest.targets}
    contracts = {name: _without_words(contract) for name, contract in bundle.manifest.families.items()}
    codes = {sha256: bundle.object_bytes(sha256) for sha256 in bundle.object_hashes()}
    for row in rows:
        record = bundle.variant(row.id)
        verdicts, executed = _evidence_of(evidence, row.id)
        yield Entry(
            target=row.target,
            family=row.family,
            problem=tuple((name, spell(value)) for name, value in record.problem.items()),
            launch={name: spell(value) for name, value in row.launch.items()},
            figures={name: int(value) for name, value in record.resources.items() if value is not None},
            evidence=verdicts,
            executed=executed,
            built=Built(row, record, targets[row.target], contracts.get(row.family, {}), codes[row.object]),
        )


def _named(path: Path, fault: Fault) -> Fault:
    """With the file's name, which a fault of what is inside may lack: there are two files."""
    return fault if str(path) in fault.where else fault._replace(where=f"{path}: {fault.where}")


def _without_words(contract: Any) -> Any:
    """The contract without summaries: an edited sentence changes no call."""
    if isinstance(contract, Mapping):
        return {name: _without_words(value) for name, value in contract.items() if name not in _WORDS}
    return [_without_words(item) for item in contract] if isinstance(contract, list) else contract


def _evidence_of(documents: Mapping[str, Any], id: str) -> tuple[dict[str, str], dict[str, Mapping[str, int]]]:
    """Level -> verdict, and level -> mnemonic -> executed instructions, of one variant."""
    verdicts: dict[str, str] = {}
    executed: dict[str, Mapping[str, int]] = {}
    for document in documents.values():
        level = document.get("level") if isinstance(document, dict) else None
        variants = document.get("variants") if isinstance(level, str) else None
        said = variants.get(id) if isinstance(variants, dict) else None
        if isinstance(said, dict) and isinstance(said.get(level), str):
            verdicts[level] = said[level]
            if _are_counts(counts := said.get("executed_instructions")):
                executed[level] = counts
    return verdicts, executed


def _are_counts(counts: Any) -> bool:
    return isinstance(counts, dict) and all(type(count) is int for count in counts.values())
