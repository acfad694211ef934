"""What the writer takes. Apart from `records.py`, because a runtime has no use for it."""

from collections.abc import Mapping
from typing import NamedTuple

from .records import Manifest, Row, VariantRecord


class Contents(NamedTuple):
    """All that goes into one bundle. The order of anything in it makes no difference to the file."""

    manifest: Manifest
    rows: tuple[Row, ...]
    variants: tuple[VariantRecord, ...]
    objects: Mapping[str, bytes]
    """SHA-256 of each raw code object -> its bytes."""
    evidence: Mapping[str, bytes] = {}
    """Name -> a JSON document, appended behind the identity-bearing part."""
