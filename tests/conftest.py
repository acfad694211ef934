"""Fixtures of several folders: a compile cache of this test session, so that each kernel is compiled once."""

import os
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # It tells its processes the size of a terminal that they have not.
    for _name in ("COLUMNS", "LINES"):
        os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory) -> Path:
    """One compile cache for the whole session, also of the command lines that tests run.

    It starts empty: what an earlier session compiled proves nothing about this one.  The processes of a parallel run
    (pytest-xdist), whose temporary folders lie beside each other, share it.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compile-cache"
    folder.mkdir(exist_ok=True)
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAY_CACHE_DIR", str(folder))
    for name in list(os.environ):
        if name.startswith(("TRITON_", "AMDGCN_", "HSA_")):
            patch.delenv(name)
    yield folder
    patch.undo()
