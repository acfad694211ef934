"""What the runtime's dispatch says of calls, on one device of a bundle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.bundle import Row, Verdict
from assay.bundle.table import known_fields
from assay.bundle.verdicts import covered
from assay.runtime import Kernels, NoMatchError, ObjectError
from assay.runtime.contract import LARGEST_ALIGNMENT, Contract

from .calls import ENGINE_FACTS, EXTENTS, Call

# What else may be in a contract where a fact is known without being a condition: a window by its length.
_ARGUMENTS = {"window": "window_length"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request to one family.

    row: the row that answers; behind: further rows that would, in the order in which they are tried.  Where none does:
    nearest, the row that failed the fewest conditions, what the bundle covers in its place, and why it may not answer.
    """

    family: str
    request: Mapping[str, Any]
    row: Row | None
    behind: tuple[str, ...] = ()
    nearest: Verdict | None = None
    covers: tuple[str, ...] = ()
    reason: str = ""

    @property
    def specialised(self) -> bool:
        """Whether a wider row stands behind the one that answers."""
        return bool(self.behind)


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """answers: one for each family and different request.  unknown: facts that no row or argument knows; then none."""

    call: Call
    answers: tuple[Answer, ...]
    unknown: tuple[str, ...]

    @property
    def missing(self) -> bool:
        return bool(self.unknown) or any(answer.row is None for answer in self.answers)

    @property
    def verdict(self) -> str:
        """`missing`, or of the first family's rows: `specialised` where all of them have a wider one behind."""
        if self.missing:
            return "missing"
        first = [answer for answer in self.answers if answer.family == self.answers[0].family]
        return "specialised" if all(answer.specialised for answer in first) else "generic"


class Judge:
    """Judges calls against the rows that `kernels` has for its device.

    families: all of them must answer a call.  engine: values to try of facts that no model tells.
    """

    def __init__(self, kernels: Kernels, families: Sequence[str], engine: Mapping[str, tuple[Any, ...]]):
        self._kernels = kernels
        self._families = families
        self._engine = {**ENGINE_FACTS, **engine}
        self._stated = engine
        self._fields = {family: known_fields(kernels.rows_if_any(family)) for family in families}
        held = [family for family in families if self._fields[family]]
        self._contracts = {family: Contract(family, kernels.contract(family)) for family in held}
        self._known = frozenset().union(*map(self._known_to, held))
        self._absent = [Answer(f, {}, None, reason="no row for this device") for f in families if f not in held]
        self._answers: dict[str, Answer] = {}

    def judge(self, call: Call) -> JudgedCall:
        """What becomes of a call with all variations that the families tell apart."""
        decisive = {**call.decisive(), **self._decisive_of_engine()}
        unknown = tuple(name for name in decisive if name not in self._known)
        if unknown or self._absent:
            return JudgedCall(call, tuple(self._absent), unknown)
        answers = [self._answer(f, request) for f in self._families for request in self._requests(f, call)]
        return JudgedCall(call, tuple(answers), ())

    def answers(self) -> tuple[Answer, ...]:
        """Every different answer so far, in the order in which they were asked for."""
        return (*self._absent, *self._answers.values())

    def _decisive_of_engine(self) -> dict[str, Any]:
        """Facts that were stated on purpose and differ from what is said anyway."""
        return {name: values for name, values in self._stated.items() if values != ENGINE_FACTS.get(name)}

    def _known_to(self, family: str) -> frozenset[str]:
        """Names that decide something in a family: conditions, arguments and dimensions."""
        contract = self._contracts[family]
        dimensions = itertools.chain.from_iterable(pointer.shape for pointer in contract.pointers.values())
        names = {*self._fields[family], *contract.pointers, *contract.scalars, *dimensions}
        return frozenset(names | {fact for fact, argument in _ARGUMENTS.items() if argument in names})

    def _requests(self, family: str, call: Call) -> Iterator[dict[str, Any]]:
        """The call as the family is asked: every combination of values of the fields that its rows have."""
        contract = self._contracts[family]
        aligned = {pointer.alignment_axis for pointer in contract.pointers.values()} - {None}
        facts = {
            **dict.fromkeys(aligned, (LARGEST_ALIGNMENT,)),
            **dict.fromkeys(contract.extents, EXTENTS),
            **self._engine,
            **{name: (value,) for name, value in call.facts.items()},
        }
        fields = self._fields[family]
        asked_for = fields.union(*(dims for field, dims in contract.products.items() if field in fields))
        asked = [name for name in facts if name in asked_for]
        for values in itertools.product(*(facts[name] for name in asked)):
            yield dict(zip(asked, values, strict=True))

    def _answer(self, family: str, request: dict[str, Any]) -> Answer:
        key = f"{family} {sorted(request.items())!r}"
        if key not in self._answers:
            self._answers[key] = self._ask(family, request)
        return self._answers[key]

    def _ask(self, family: str, request: dict[str, Any]) -> Answer:
        try:
            row = self._kernels.require(family, **request).row
        except NoMatchError as error:
            nearest = error.verdicts[0]
            return Answer(family, request, None, (), nearest, tuple(covered(error.verdicts)), nearest.excluded)
        except ObjectError as error:
            return Answer(family, request, None, reason=str(error))
        holding = [verdict.row.id for verdict in self._kernels.explain(family, **request) if verdict.holds]
        return Answer(family, request, row, tuple(id for id in holding if id != row.id))
