import importlib.util
import shutil
from pathlib import Path

import pytest

from assay.bundle import write_bundle
from tests.runtime.standin.fixtures import bench, cuda, hip, standins  # noqa: F401 - fixtures of driver tests

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


@pytest.fixture(scope="session")
def make_decode_bundle(tmp_path_factory, compile_cache):  # noqa: ARG001 - what is compiled is kept for the session
    """Builds a gfx1201 bundle of a part of the shipped kernels: the axes of each family, as a profile has them."""
    from assay.qualify import entry
    from tests.specs import SHIPPED

    def make(decode: str, merge: str, unsplit: str = "") -> Path:
        folder = tmp_path_factory.mktemp("decode-bundle")
        specs = shutil.copytree(SHIPPED, folder / "specs")
        (specs / "profiles" / "core.yaml").write_text(
            "schema: assay.profile/1\nprofile: core\nsummary: a part for tests\n"
            f"families:\n  decode_attention: {decode}\n  merge_splits: {merge}\n"
            + (f"  decode_attention_unsplit: {unsplit}\n" if unsplit else "")
        )
        arguments = ["--target", "gfx1201", "--evidence", "static", "--specs", str(specs), "--out", str(folder / "out")]
        assert entry.run(["qualify", *arguments, "--update-lock"]) == 0
        return folder / "out" / "gfx1201" / "gfx1201.assay"

    return make


@pytest.fixture(scope="session")
def decode_bundle(make_decode_bundle):
    """A real gfx1201 bundle: the core rows of head_dim 64 for two query heads a KV head, and their merges."""
    decode = "{head_dim: [64], rows: [1], block_m: [2], kv_format: [bf16, fp8_per_token_head], soft_cap: [false]}"
    return make_decode_bundle(decode, "{out_dtype: [bf16], head_dim: [64]}")


@pytest.fixture(scope="session")
def unsplit_bundle(make_decode_bundle):
    """The same, and the kernels for calls that are not split."""
    decode = "{head_dim: [64], rows: [1], block_m: [2], kv_format: [bf16, fp8_per_token_head], soft_cap: [false]}"
    return make_decode_bundle(decode, "{out_dtype: [bf16], head_dim: [64]}", "{head_dim: [64], block_m: [8]}")
