"""Bundles that differ in one thing, and small git repositories of specs."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.bundle import Bundle, Contents, write_bundle
from tests.specs import TOY


def contents_of(path) -> Contents:
    """All that is in a bundle."""
    with Bundle.open(path) as bundle:
        return Contents(
            bundle.manifest,
            tuple(row for family in bundle.families() for row in bundle.rows(family)),
            tuple(map(bundle.variant, bundle.variant_ids())),
            {sha256: bundle.object_bytes(sha256) for sha256 in bundle.object_hashes()},
        )


def with_first(contents, row=lambda row: row, record=lambda record: record):
    """The contents with the first row, and its record, replaced; what the record says of the row follows it."""
    first = row(contents.rows[0])
    said = {"launch": first.launch, "specialisation": first.specialisation}
    records = tuple(
        record(item._replace(**said)) if item.id == contents.rows[0].id else item for item in contents.variants
    )
    return contents._replace(rows=(first, *contents.rows[1:]), variants=records)


def with_code(contents, change):
    """The contents with the first row's code object replaced by what `change` makes of it."""
    code = change(contents.objects[contents.rows[0].object])
    sha256 = hashlib.sha256(code).hexdigest()
    changed = with_first(
        contents, lambda row: row._replace(object=sha256), lambda record: record._replace(code_sha256=sha256)
    )
    used = {row.object for row in changed.rows}
    objects = {**contents.objects, sha256: code}
    return changed._replace(objects={name: data for name, data in objects.items() if name in used})


@pytest.fixture
def toy(built):
    """gfx1201's toy bundle; it is shared."""
    return built("gfx1201").bundle


@pytest.fixture
def other(toy, tmp_path):
    """Writes a bundle of the toy's contents as `change` returns them."""

    def write(change, name="other.assay"):
        write_bundle(tmp_path / name, change(contents_of(toy)))
        return tmp_path / name

    return write


@dataclass(frozen=True)
class SpecRepository:
    """A git repository with specs in one of its folders."""

    top: Path
    folder: str = "specs"

    @property
    def specs(self) -> Path:
        return self.top / self.folder

    def git(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        command = ["git", *identity, "-C", str(self.top), *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def worktrees(self) -> int:
        return self.git("worktree", "list", "--porcelain").count("worktree ")


@pytest.fixture
def repository(tmp_path, monkeypatch) -> SpecRepository:
    """The toy specs under specs/: one commit, tagged `first`; the current folder is inside."""
    made = SpecRepository(tmp_path / "repository")
    shutil.copytree(TOY, made.specs)
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit("specs")
    made.git("tag", "first")
    monkeypatch.chdir(made.top)
    # Where worktrees and what is built from them go: all of it must be gone afterwards.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return made
