"""Fixtures of several folders: a compile cache of this test session, so that each kernel is compiled once."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory) -> Path:
    """One compile cache for the whole session, also of the command lines that tests run.

    It starts empty: what an earlier session compiled proves nothing about this one.
    """
    folder = tmp_path_factory.mktemp("compile-cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAY_CACHE_DIR", str(folder))
    for name in list(os.environ):
        if name.startswith(("TRITON_", "AMDGCN_", "HSA_")):
            patch.delenv(name)
    yield folder
    patch.undo()
