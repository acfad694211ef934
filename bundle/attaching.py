"""Adding evidence to a bundle that exists, without changing what it is."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import evidence
from .atomic import replace_file
from .faults import BundleError
from .reader import Bundle


def attach_evidence(path: str | os.PathLike[str], documents: Mapping[str, bytes | None]) -> None:
    """Add these documents to the bundle at `path`, replacing any of the same name; None removes one.

    Atomic: the file is written anew beside the old one and put in its place. On failure (BundleError: not JSON, no
    such bundle, a damaged one, a full disk) the old file is untouched. Of two at once the later wins and the other's
    documents are lost: attach them one after the other.
    """
    given = {name: data for name, data in documents.items() if data is not None}
    if faults := evidence.document_faults(given):
        raise BundleError(faults)
    with Bundle.open(path) as bundle:
        store, end = bundle._store, bundle._header.identity_end
        kept = evidence.read_index(store, end, bundle.identity)
        merged = {name: evidence.read_raw(store, entry) for name, entry in kept.items() if name not in documents}
        front = store.read(0, end, "identity-bearing part")
        back = evidence.pack(merged | given, bundle.identity)
    replace_file(path, [front, back])
