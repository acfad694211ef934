"""A companion's code is launched on the GPU that it was assembled for, and there only where it is asked for."""

import pytest

from assay.bundle import TargetRecord, write_bundle
from assay.bundle.records import COMPANION_SCHEMA
from assay.runtime import ArchitectureError, BundleLoadError, load
from tests.runtime.standin.device import CONTRACT, announce, copy_row

# sm120's rows with sm90's code and limits.
TARGET = TargetRecord("sm120", "cuda", "sm_90a", 232_448, 32, runs_on=("sm_90",))
LDS_BYTES = 150_000


@pytest.fixture
def companion(cuda, factory, tmp_path):
    """One copy kernel that takes more shared memory than its own target has; the stand-in is an sm_90."""
    cuda.standin.reset("sm_90", shared_limit=TARGET.lds_limit)
    row, code = copy_row(factory, "cuda", "a", [("pick", "eq", "a")], arch="sm_90a", lds_bytes=LDS_BYTES)
    announce(cuda.standin, row, code, arch="sm_90")
    contents = factory.make_contents([row], {row.object: code})
    variants = {"a": {"code_sha256": "ab" * 32, "rewritten": {"max.f32 of three": 2}}}
    manifest = contents.manifest._replace(
        targets=(TARGET,),
        families={"copy": CONTRACT},
        schema=COMPANION_SCHEMA,
        companion={"of": "cd" * 32, "target": "sm90", "arch": "sm_90a", "variants": variants},
    )
    write_bundle(tmp_path / "x.companion", contents._replace(manifest=manifest))
    return tmp_path / "x.companion"


def test_it_is_launched_on_the_gpu_that_it_was_assembled_for(cuda, companion):
    tensors = cuda.tensors()
    with load(companion, device="cuda:0", companion=True) as kernels:
        cuda.launch(kernels, "a", tensors)
    (launch,) = cuda.standin.launches
    assert (launch.symbol, launch.shared) == ("copy_a", LDS_BYTES)


def test_it_is_refused_where_nobody_asks_for_it_before_a_device_is_touched(cuda, companion):
    with pytest.raises(BundleLoadError, match="is a companion"):
        load(companion, device="cuda:0")
    assert cuda.standin.calls == []


def test_it_is_refused_on_the_gpu_that_its_bundle_is_for(cuda, companion):
    cuda.standin.reset("sm_120")
    with pytest.raises(ArchitectureError, match="holds no code for it"):
        load(companion, device="cuda:0", companion=True)
