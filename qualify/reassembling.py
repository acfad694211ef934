"""A bundle's variants one by one: compiled again, PTX rewritten, assembled for another GPU, judged."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import objects
from assay.bundle import Fault, Row, VariantRecord
from assay.codegen.assembling import Assembler
from assay.codegen.cached_work import FAILURE
from assay.codegen.ptx import PtxReader
from assay.codegen.ptx_rewriting import RewritingError, rewrite
from assay.codegen.spec_models import TargetFile
from assay.codegen.toolchain import Toolchain
from assay.codegen.workers import Workers

from .bundle_contents import target_record
from .finding import Found
from .verification import object_faults


@dataclass(slots=True)
class Retargeted:
    """One variant on its way.  row, record: of the bundle.  code: of the companion, b'' where there is none."""

    row: Row
    record: VariantRecord
    found: Found
    code: bytes = b""
    kernel: objects.Kernel | None = None
    rewritten: Mapping[str, int] = field(default_factory=dict)
    refused: list[Fault] = field(default_factory=list)
    unproven: list[Fault] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The variant, for messages."""
        return f"variant {self.record.id} ({self.found})"

    def moved_row(self) -> Row:
        """The row with the companion's code object."""
        return self.row._replace(object=hashlib.sha256(self.code).hexdigest())


# Takes a variant and what a worker made for it, and gives the PTX to assemble next, '' where nothing is to be.
_Step = Callable[[Retargeted, Mapping[str, Any], TargetFile], str]


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done in worker processes."""

    reader: PtxReader
    assembler: Assembler

    @classmethod
    def of(cls, cache: Path, toolchain: Toolchain, workers: Workers, time_limit: float) -> Steps:
        """time_limit: seconds of each.  Raises CacheError, and ToolchainError where there is no assembler."""
        made = (cache, toolchain, workers, time_limit)
        return cls(PtxReader(*made), Assembler(*made))


def reassemble(
    items: Sequence[Retargeted], other: TargetFile, steps: Steps, at_once: int, report: Callable[[str], None]
) -> None:
    """Every variant to its end; what is wrong with one is in it and stops no other.

    at_once: how many are begun and not finished, so that the first is finished long before the last is begun.
    """
    left = iter(items)
    running: dict[Future[dict[str, Any]], tuple[Retargeted, _Step]] = {}
    while True:
        for item in itertools.islice(left, at_once - len(running)):
            running[steps.reader.submit(item.found.variant.request)] = (item, _rewritten)
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            item, step = running.pop(future)
            if ptx := step(item, future.result(), other):
                contraction = item.found.variant.request.enable_fp_fusion
                running[steps.assembler.submit(ptx, other.arch, contraction=contraction)] = (item, _judge)
            else:
                report(_line(item))


def _rewritten(item: Retargeted, read: Mapping[str, Any], other: TargetFile) -> str:
    """The other target's PTX, '' where there is none; then the item says why."""
    if read[FAILURE]:
        item.unproven.append(Fault(item.where, f"does not compile again: {read[FAILURE]}", "its code object"))
        return ""
    if read["code_sha256"] != item.record.code_sha256:
        given = f"compiled again, its code object has SHA-256 {read['code_sha256'][:16]}"
        hint = "this compiler or machine makes other code: retarget where the bundle was built"
        item.unproven.append(Fault(item.where, given, f"{item.record.code_sha256[:16]}, as the bundle says", hint))
        return ""
    try:
        rewritten = rewrite(read["ptx"], item.found.target.arch, other.arch, item.where)
    except RewritingError as error:
        item.refused += error.faults
        return ""
    item.rewritten = rewritten.instructions
    return rewritten.text


def _judge(item: Retargeted, assembled: Mapping[str, Any], other: TargetFile) -> str:
    """The code object is that kernel with those arguments for that GPU, and fits it.  Nothing comes after it."""
    if assembled[FAILURE]:
        item.refused.append(Fault(item.where, f"cannot be assembled for {other.arch}: {assembled[FAILURE]}"))
        return ""
    item.code = assembled["code"]
    row = item.moved_row()
    faults = object_faults(item.code, row, target_record(other))
    if not faults:
        kernels = objects.read_object(item.code, where=item.where).kernels
        item.kernel = next(kernel for kernel in kernels if kernel.name == row.symbol)
        needed = row.lds_bytes + (item.kernel.resources.lds_static_bytes or 0)
        if needed > other.limits.lds_bytes:
            given = f"needs {needed:,} bytes of shared memory"
            faults.append(Fault(item.where, given, f"at most {other.limits.lds_bytes:,} on {other.target}"))
    item.refused += faults
    return ""


def _line(item: Retargeted) -> str:
    verdict = "FAILED" if item.refused or item.unproven else "ok"
    said = ", ".join(f"{count} {name}" for name, count in item.rewritten.items()) or "nothing"
    problem = item.found.variant.candidate.problem
    return f"{verdict} {problem.family} {problem.label} ({said} rewritten)"
