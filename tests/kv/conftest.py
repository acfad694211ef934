"""A gfx1201 bundle of the kv families, loaded on the emulator."""

import shutil

import pytest

import assay.runtime


@pytest.fixture(scope="session")
def kv_bundle(tmp_path_factory, compile_cache):  # noqa: ARG001 - what is compiled is kept for the session
    """Every row for head sizes up to 128, without the evidence of cases."""
    from assay.qualify import entry
    from tests.specs import SHIPPED

    folder = tmp_path_factory.mktemp("kv-bundle")
    specs = shutil.copytree(SHIPPED, folder / "specs")
    (specs / "profiles" / "core.yaml").write_text(
        "schema: assay.profile/1\nprofile: core\nsummary: a part for tests\nfamilies:\n"
        "  kv_store: {most_head_dim: [64, 128]}\n  kv_reconstruct: {most_head_dim: [64, 128]}\n"
    )
    arguments = ["--target", "gfx1201", "--evidence", "static", "--specs", str(specs), "--out", str(folder / "out")]
    assert entry.run(["qualify", *arguments, "--update-lock"]) == 0
    return folder / "out" / "gfx1201" / "gfx1201.assay"


@pytest.fixture
def kernels(kv_bundle):
    with assay.runtime.load(kv_bundle, device="emulator") as loaded:
        yield loaded


@pytest.fixture
def debugging(kv_bundle):
    with assay.runtime.load(kv_bundle, device="emulator", debug=True) as loaded:
        yield loaded
