import pytest


@pytest.fixture(autouse=True)
def _kernels_are_compiled_once(compile_cache):
    """Every test here runs shipped kernels, or might."""
