import contextlib
import importlib.util
import io
from pathlib import Path

import pytest

from assay.bundle import Bundle, BundleError, write_bundle
from assay.bundle.opening import open_whole

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


@pytest.fixture(autouse=True)
def the_short_way_admits_nothing_that_is_refused(monkeypatch):
    """Every bundle that a test of this folder opens is opened the short way too, and read the same."""
    long_way = Bundle.open.__func__

    def both(cls, path, *, companion=False):
        with contextlib.closing(open_whole(path) or io.BytesIO()) as opened:
            try:
                bundle = long_way(cls, path, companion=companion)
            except BundleError:
                assert isinstance(opened, io.BytesIO), "opened the short way, refused the long way"
                raise
            if not isinstance(opened, io.BytesIO):
                told = Bundle.of(opened)
                assert (told.identity, told.manifest, told._sections) == (
                    bundle.identity, bundle.manifest, bundle._sections
                )  # fmt: skip
            return bundle

    monkeypatch.setattr(Bundle, "open", classmethod(both))
