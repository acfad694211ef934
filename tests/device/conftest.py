"""Tests on an NVIDIA GPU: they run where `ASSAY_TEST_BUNDLE` names a bundle for it, and are skipped elsewhere.

ASSAY_TEST_BUNDLE=artifacts/sm90/sm90.assay python -m pytest tests/device
"""

import os

import pytest


def pytest_collection_modifyitems(items):
    here = [item for item in items if "tests/device/" in item.nodeid.replace("\\", "/")]
    if "ASSAY_TEST_BUNDLE" not in os.environ:
        for item in here:
            item.add_marker(pytest.mark.skip(reason="needs a GPU: ASSAY_TEST_BUNDLE names a bundle for it"))


@pytest.fixture(scope="session")
def bundle():
    return os.environ["ASSAY_TEST_BUNDLE"]


@pytest.fixture
def kernels(bundle):
    import assay.runtime

    with assay.runtime.load(bundle, device="cuda:0") as loaded:
        yield loaded
