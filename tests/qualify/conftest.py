import functools
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.bundle import Bundle
from assay.qualify import entry
from tests.specs import TOY, run


@pytest.fixture
def assay(capsys, compile_cache):  # noqa: ARG001 - what command lines compile is kept for the session
    """Runs one command line in this process: `assay("verify", path).status`."""
    return functools.partial(run, capsys)


@dataclass(frozen=True)
class Built:
    """A finished build of the toy specs.  It is shared: copy what is to be changed."""

    out: Path
    target: str

    @property
    def folder(self) -> Path:
        return self.out / self.target

    @property
    def bundle(self) -> Path:
        return self.folder / f"{self.target}.assay"

    @property
    def lock(self) -> Path:
        return self.folder / "qualified.core.lock"

    def code_object(self) -> bytes:
        with Bundle.open(self.bundle) as opened:
            return opened.object_bytes(opened.rows("scale")[0].object)


@pytest.fixture(scope="session")
def built(tmp_path_factory, compile_cache):  # noqa: ARG001
    """The toy bundle of each target, built once a session: `built("gfx1201").bundle`."""

    @functools.cache
    def build(target):
        out = tmp_path_factory.mktemp("toy-artifacts")
        assert entry.run(["qualify", "--target", target, "--specs", str(TOY), "--out", str(out), "--update-lock"]) == 0
        return Built(out, target)

    return build


@pytest.fixture
def out(built, tmp_path):
    """A copy of gfx1201's toy artifacts, to be changed."""
    shutil.copytree(built("gfx1201").out, tmp_path / "out")
    return Built(tmp_path / "out", "gfx1201")


def snapshot_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder: bytes and time of change."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def snapshot():
    return snapshot_of


def _middles(bundle, kind):
    """A byte inside each part of a kind, which opening the bundle does not read, by the name that a message has."""
    if kind == "variants":
        parts = {f"variants {section.name}": section for section in bundle._sections if section.kind == kind}
    else:
        what = kind.removesuffix("s")
        parts = {f"{what} {key}": blob for key, blob in bundle._blob_index(what).items()}
    return {name: part.offset + part.stored_size // 2 for name, part in parts.items()}


@pytest.fixture
def damaged(tmp_path):
    """A copy of a bundle with a bit flipped in every part of a kind, and the parts' names."""

    def damage(path, kind):
        data = bytearray(path.read_bytes())
        with Bundle.open(path) as opened:
            middles = _middles(opened, kind)
        for position in middles.values():
            data[position] ^= 1
        copy = tmp_path / f"damaged-{kind}.assay"
        copy.write_bytes(data)
        return copy, list(middles)

    return damage


@pytest.fixture(scope="session")
def shipped(tmp_path_factory, compile_cache):  # noqa: ARG001
    """A bundle of four shipped kernels for gfx1201: two decode rows, of 32- and of 64-bit offsets, and their merges.

    It is shared: copy it to change it.
    """
    out = tmp_path_factory.mktemp("shipped")
    families = "family=decode_attention,family=merge_splits"
    only = f"{families},head_dim=64,block_m=4,kv_format=bf16,window=true,alignment=16,most_splits=128"
    arguments = ["qualify", "--target", "gfx1201", "--evidence", "static", "--only", only, "--out", str(out)]
    assert entry.run([*arguments, "--update-lock"]) == 0
    return out / "gfx1201" / "gfx1201.only.assay"
