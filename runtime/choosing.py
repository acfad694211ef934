"""Which kernel serves a call, decided on shapes alone. Nothing here touches a driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from assay.bundle.conditions import NOT_GIVEN
from assay.bundle.faults import BundleError, Fault, did_you_mean
from assay.bundle.reader import Bundle, UnknownName
from assay.bundle.records import Row, TargetRecord, VariantRecord
from assay.bundle.table import OrderedRows, Selection, UnknownRow, known_fields, select, with_products

from .errors import (
    ArgumentError,
    AssayRuntimeError,
    MissingFieldError,
    NoMatchError,
    ObjectError,
    UnknownFamilyError,
    UnknownFieldError,
    UnknownRowError,
)

if TYPE_CHECKING:
    from assay.bundle.verdicts import Verdict


class Chooser:
    """Picks rows of one bundle for one architecture. Safe to use from several threads.

    A request is the call's own facts as keywords: `head_dim=128, gqa=8, kv_format="bf16"`. Typing is strict ('128' is
    not 128, True is not 1), and `fields` says which facts there are: a row that needs one that is left out is passed
    over. `force_row` considers one row alone, whose conditions must hold all the same; `forbid_rows` leaves rows out.
    Every method raises AssayRuntimeError: UnknownFamilyError, UnknownFieldError, UnknownRowError, NoMatchError,
    ObjectError, or the root where the table itself is damaged or the bundle closed.
    """

    def __init__(self, bundle: Bundle, targets: tuple[TargetRecord, ...]):
        self._bundle = bundle
        self.targets = targets
        self._rows: dict[str, OrderedRows] = {}
        self._fields: dict[str, frozenset[str]] = {}
        self._verified: set[str] = set()
        # Rows that are never taken, whoever asks.
        self.switched_off: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """The bundle's identity, hexadecimal."""
        return self._bundle.identity

    def families(self) -> tuple[str, ...]:
        """The families that have rows, sorted."""
        return self._bundle.families()

    def fields(self, family: str) -> tuple[str, ...]:
        """The request fields that rows of the family ask for, those of all the bundle's targets, sorted."""
        with _translated():
            return tuple(sorted(self._known_fields(family)))

    def rows(self, family: str) -> OrderedRows:
        """The family's rows for this architecture, in the order in which they are tried."""
        with _translated():
            return self._family(family)

    def rows_if_any(self, family: str) -> OrderedRows:
        """The same; none where the bundle has the family for other devices only."""
        try:
            return self.rows(family)
        except UnknownFamilyError:
            return OrderedRows()

    def contract(self, family: str) -> dict[str, Any]:
        """What the family's calls must bring, as the bundle's manifest states it."""
        with _translated():
            self._family(family)
        return self._bundle.manifest.families[family]

    def variant(self, row_id: str) -> VariantRecord:
        """What was built for the row of that id: its problem, resources and rendered source."""
        with _translated(UnknownRowError):
            return self._bundle.variant(row_id)

    def code(self, row: Row) -> bytes:
        """The row's code object, read and hashed anew at each call. Raises ObjectError where it is damaged."""
        try:
            return self._bundle.object_bytes(row.object)
        except BundleError as error:
            raise ObjectError(f"row {row.family}/{row.id} ({row.target}), kernel {row.symbol}: {error}") from error

    def select(
        self, family: str, /, *, force_row: str | None = None, forbid_rows: Collection[str] = (), **request: Any
    ) -> Selection:
        """The row that serves the request. Reads the family's table and nothing else."""
        with _translated():
            rows = self._family(family)
            request = self._completed(family, request)
            self._check_fields(family, request)
            self._check_steering(force_row, forbid_rows)
            return select(rows, request, force=force_row, forbid=self._forbidden(forbid_rows))

    def explain(
        self, family: str, /, *, force_row: str | None = None, forbid_rows: Collection[str] = (), **request: Any
    ) -> tuple[Verdict, ...]:
        """A verdict on every row of the family, in the order in which they are tried."""
        from assay.bundle.verdicts import explain  # Here and below, and not above: a call that is served needs none.

        with _translated():
            rows = self._family(family)
            request = self._completed(family, request)
            self._check_fields(family, request)
            self._check_steering(force_row, forbid_rows)
            return explain(rows, request, force=force_row, forbid=self._forbidden(forbid_rows))

    def require(
        self, family: str, /, *, force_row: str | None = None, forbid_rows: Collection[str] = (), **request: Any
    ) -> Selection:
        """`select`, and the row's code object is whole: for configuration time, so that no call fails later."""
        selection = self.select(family, force_row=force_row, forbid_rows=forbid_rows, **request)
        self._verify(selection.row)
        return selection

    def supports(
        self, family: str, /, *, force_row: str | None = None, forbid_rows: Collection[str] = (), **request: Any
    ) -> bool:
        """Whether `require` would succeed, whatever the fields left out are. A damaged code object is logged besides.

        A family that the bundle has for other devices only is a no. Raises MissingFieldError where the answer depends
        on fields left out, and AssayRuntimeError where there is no telling: a damaged table, a closed bundle, a family,
        field or row id that the bundle does not know.
        """
        try:
            self.require(family, force_row=force_row, forbid_rows=forbid_rows, **request)
        except NoMatchError as error:
            self._check_complete(family, error.verdicts)
            return False
        except UnknownFamilyError:
            if family not in self.families():
                raise
            return False
        except ObjectError as error:
            import logging  # Rarely needed, and it would be a third of what importing this package costs.

            logging.getLogger("assay.runtime").error("%s", error)
            return False
        return True

    def close(self) -> None:
        """Close the bundle. Selections made stay valid; what was not read yet cannot be read any more."""
        self._bundle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _family(self, family: str) -> OrderedRows:
        if family not in self._rows:
            names = {target.name for target in self.targets}
            # Filtering keeps the order, so the rows need no sorting again.
            rows = OrderedRows(row for row in self._bundle.rows(family) if row.target in names)
            if not rows:
                held = ", ".join(sorted(names))
                raise UnknownName(Fault(str(self._bundle.path), f"family {family} has no row for {held}"))
            self._rows.setdefault(family, rows)
        return self._rows[family]

    def _known_fields(self, family: str) -> frozenset[str]:
        # Of all targets: an engine makes the same request on every device, and a target may lack the rows that ask.
        if family not in self._fields:
            self._fields.setdefault(family, known_fields(self._bundle.rows(family)))
        return self._fields[family]

    def _completed(self, family: str, request: dict[str, Any]) -> dict[str, Any]:
        """The request with the fields that are products of the dimensions it names instead."""
        return with_products(
            request, self._bundle.manifest.families[family].get("products", {}), self._known_fields(family)
        )

    def _check_fields(self, family: str, request: Mapping[str, Any]) -> None:
        """A misspelt fact that silently counts as left out would pass the fast rows over."""
        known = self._known_fields(family)
        if request.keys() <= known:
            return
        from assay.bundle.verdicts import unknown_fields

        unknown = unknown_fields(self._bundle.rows(family), request)
        fields = tuple(sorted(known))
        said = [
            str(Fault(f"{name!r} is a condition of no row of {family}", "", ", ".join(fields), hint))
            for name, hint in sorted(unknown.items())
        ]
        raise UnknownFieldError("\n".join(said), tuple(sorted(unknown)), fields)

    def _check_complete(self, family: str, verdicts: Collection[Verdict]) -> None:
        """No row answers; one that fails by fields left out alone might have, had they been given."""
        missing: set[str] = set()
        for verdict in verdicts:
            if not verdict.excluded and all(failure.requested == NOT_GIVEN for failure in verdict.failed):
                missing.update(failure.field for failure in verdict.failed)
        if missing:
            names, known = tuple(sorted(missing)), tuple(sorted(self._known_fields(family)))
            fault = Fault(f"supports({family!r})", f"{', '.join(names)} left out", f"all of {', '.join(known)}")
            raise MissingFieldError(str(fault), names, known)

    def _forbidden(self, forbid_rows: Collection[str]) -> Collection[str]:
        if not self.switched_off:
            return forbid_rows
        return (*row_ids(forbid_rows), *self.switched_off)

    def check_forbidden(self, forbid_rows: Collection[str]) -> None:
        """Whether all of these are rows' ids.  Raises ArgumentError, UnknownRowError."""
        with _translated():
            self._check_steering(None, forbid_rows)

    def _check_steering(self, force_row: str | None, forbid_rows: Collection[str]) -> None:
        """A misspelt kill switch that silently does nothing would leave the bad kernel running."""
        if faults := steering_faults(force_row, forbid_rows):
            raise ArgumentError(faults)
        forbidden = row_ids(forbid_rows)
        if not forbidden:
            return
        known = {row.id for name in self.families() for row in self._bundle.rows(name)}
        for id in sorted(set(forbidden) - known):
            raise UnknownRow(
                Fault("forbid_rows", f"no row {id!r}", f"one of {len(known)} rows", did_you_mean(id, known))
            )

    def _verify(self, row: Row) -> None:
        if row.object not in self._verified:
            self.code(row)
            self._verified.add(row.object)


def row_ids(forbid_rows: Collection[str]) -> tuple[str, ...]:
    """The ids of what a caller forbids; one may be given as it is."""
    return (forbid_rows,) if isinstance(forbid_rows, str) else tuple(forbid_rows)


def steering_faults(force_row: Any, forbid_rows: Any) -> list[Fault]:
    """What is no row's id, of what a caller says of rows. Whether the bundle has those rows is not asked."""
    faults = []
    if force_row is not None and not isinstance(force_row, str):
        faults.append(Fault("force_row", repr(force_row), "a row's id, or None"))
    # An iterator would be spent by this check, and forbid nothing behind it.
    given = forbid_rows if isinstance(forbid_rows, Collection) else (forbid_rows,)
    if wrong := [id for id in given if not isinstance(id, str)]:
        faults.append(Fault("forbid_rows", ", ".join(map(repr, wrong)), "a list of rows' ids"))
    return faults


@contextmanager
def _translated(unknown_name: type[AssayRuntimeError] = UnknownFamilyError) -> Iterator[None]:
    """The bundle's errors as this package's own."""
    try:
        yield
    except BundleError as error:
        raise _translation(error, unknown_name) from error


def _translation(error: BundleError, unknown_name: type[AssayRuntimeError]) -> AssayRuntimeError:
    from assay.bundle.verdicts import NoMatch

    if isinstance(error, NoMatch):
        return NoMatchError(error)
    if isinstance(error, UnknownRow):
        return UnknownRowError(str(error))
    return unknown_name(str(error)) if isinstance(error, UnknownName) else AssayRuntimeError(str(error))
