"""Fixtures: stand-ins that are compiled once a session, with the drivers pointed at them."""

import pytest

from .device import Bench
from .library import Standin, compile_standin

MODULES = {"cuda": "assay.runtime.drivers.cuda", "hip": "assay.runtime.drivers.hip"}


@pytest.fixture(scope="session")
def standins(tmp_path_factory):
    """Both stand-ins, loaded."""
    folder = tmp_path_factory.mktemp("standins")
    return {vendor: Standin(vendor, compile_standin(vendor, folder / f"standin_{vendor}.so")) for vendor in MODULES}


def _bench(standins, vendor, factory, folder, monkeypatch):
    monkeypatch.setattr(f"{MODULES[vendor]}.LIBRARY_NAMES", (str(standins[vendor].path),))
    return Bench(standins[vendor], factory, folder)


@pytest.fixture
def hip(standins, factory, tmp_path, monkeypatch):
    """Two stand-in gfx1201."""
    return _bench(standins, "hip", factory, tmp_path, monkeypatch)


@pytest.fixture
def cuda(standins, factory, tmp_path, monkeypatch):
    """Two stand-in sm_120."""
    return _bench(standins, "cuda", factory, tmp_path, monkeypatch)


@pytest.fixture(params=("cuda", "hip"))
def bench(request, standins, factory, tmp_path, monkeypatch):
    """Each vendor's two devices."""
    return _bench(standins, request.param, factory, tmp_path, monkeypatch)
