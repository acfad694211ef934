import importlib.util
from pathlib import Path

import pytest

from assay.bundle import write_bundle

# The bundle tests' factory: test files are imported on their own, so it is loaded by its path.
_spec = importlib.util.spec_from_file_location("bundle_factory", Path(__file__).parents[1] / "bundle" / "factory.py")
_factory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_factory)


@pytest.fixture(scope="session")
def factory():
    return _factory


@pytest.fixture
def path(factory, tmp_path):
    """A bundle for both targets."""
    write_bundle(tmp_path / "both.assay", factory.make_contents(factory.small_rows()))
    return tmp_path / "both.assay"
