"""What the writer takes. Apart from `records.py`, because a runtime has no use for it."""

from __future__ import annotations

from collections.abc import Mapping

from .record import Record
from .records import Manifest, Row, VariantRecord


class Contents(Record):
    """All that goes into one bundle. The order of anything in it makes no difference to the file."""

    __slots__ = ()

    manifest: Manifest
    rows: tuple[Row, ...]
    variants: tuple[VariantRecord, ...]
    objects: Mapping[str, bytes]
    """SHA-256 of each raw code object -> its bytes."""
    evidence: Mapping[str, bytes] = {}
    """Name -> a JSON document, appended behind the identity-bearing part."""
