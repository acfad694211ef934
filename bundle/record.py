"""Frozen records: tuples whose items have names.

Not `typing.NamedTuple`, which compiles code for each class: 0.1 ms a class each time that a runtime starts, and a first
call needs twenty of them. These take a fifth of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar, Self, dataclass_transform

_new = tuple.__new__


@dataclass_transform(frozen_default=True)
class Record(tuple[Any, ...]):
    """Base of records. A subclass annotates its fields in order, gives some a default, and has `__slots__ = ()`.

    A record compares, hashes and unpacks as the tuple of its values, and no field can be set.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _field_defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        names = tuple(cls.__annotations__)
        cls._fields = cls.__match_args__ = names
        cls._field_defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        for index, name in enumerate(names):
            setattr(cls, name, property(itemgetter(index)))

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Raises TypeError where a field is missing, unknown or given twice."""
        if named or len(values) != len(cls._fields):
            values = _completed(cls, values, named)
        return _new(cls, values)

    def _replace(self, **changes: Any) -> Self:
        """The same with other values of some fields. Raises TypeError for a field that there is not."""
        made = _new(type(self), map(changes.pop, self._fields, self))
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(changes))}")
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _completed(cls: type[Record], values: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    """The values of all fields: those by position, then those by name and the defaults."""
    given = {**cls._field_defaults, **named}
    rest = cls._fields[len(values) :]
    twice, missing = named.keys() - set(rest), [name for name in rest if name not in given]
    if twice or missing or len(values) > len(cls._fields):
        wrong = f"unknown or twice: {sorted(twice)}, missing: {missing}, by position: {len(values)}"
        raise TypeError(f"{cls.__name__}({', '.join(cls._fields)}) was called with {wrong}")
    return [*values, *(given[name] for name in rest)]
