import importlib.util
from pathlib import Path

import pytest

from assay.bundle import write_bundle

# Test files are imported on their own (--import-mode=importlib), so a shared helper is a fixture.
_spec = importlib.util.spec_from_file_location("bundle_factory", Path(__file__).with_name("factory.py"))
_factory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_factory)


@pytest.fixture(scope="session")
def factory():
    return _factory


@pytest.fixture(scope="session")
def small(factory):
    return factory.make_contents(factory.small_rows())


@pytest.fixture
def bundle_path(small, tmp_path):
    path = tmp_path / "small.assay"
    write_bundle(path, small)
    return path
