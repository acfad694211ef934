"""The launch path in C, where it was built; `module` is None where it was not, or where ASSAY_PURE_PYTHON=1 says so."""

from __future__ import annotations

import os
from types import ModuleType


def _module() -> ModuleType | None:
    if os.environ.get("ASSAY_PURE_PYTHON") == "1":
        return None
    try:
        from . import _fast
    except ImportError:
        return None
    return _fast


module = _module()
