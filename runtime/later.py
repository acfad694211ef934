"""Methods of a class that are imported when one of them is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands in a class for a method of another one, `kind` of a module beside this; all of that one's come with it.

    For a class whose usual calls need a few methods of many: making the others would delay the first call.
    """

    __slots__ = ("_kind", "_module", "_name", "_owner")

    def __init__(self, module: str, kind: str):
        self._module = module
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        found = getattr(import_module(f".{self._module}", __package__), self._kind)
        own = vars(self._owner)
        for name, value in list(vars(found).items()):
            if type(own.get(name)) is Later or (name not in own and not name.startswith("__")):
                setattr(self._owner, name, value)
        return getattr(owner if instance is None else instance, self._name)
