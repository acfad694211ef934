"""Git, as far as a comparison needs it: which commit a revision is, and that commit's files in a folder of their own.

Hooks do not run, and what a hook of the caller's set for its own repository does not reach git here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from assay.bundle import Fault
from assay.bundle.faults import did_you_mean

from .errors import BuildEnvironmentError, CompareError

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
# Set while a hook runs; they would make every command speak of that repository, worktree and index.
# Source: git-rev-parse(1), --local-env-vars.
_LOCAL = frozenset(
    {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"}
    | {"GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX"}
    | {"GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE"}
    | {"GIT_WORK_TREE"}
)


class Repository:
    """The repository that a folder lies in.  Every method raises CompareError or BuildEnvironmentError."""

    def __init__(self, folder: Path):
        done = _run(folder, "rev-parse", "--show-toplevel")
        if done.returncode != 0:
            raise CompareError(Fault(f"{folder}", _last_line(done), "a git repository", "run it inside the checkout"))
        self.top = Path(done.stdout.strip())

    def commit_of(self, revision: str) -> str:
        """The full hash of the commit that `revision` names."""
        done = _run(self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.strip()
        known = _run(self.top, "for-each-ref", "--format=%(refname:short)").stdout.split()
        given = f"is no file, and no revision of {self.top}" + ("" if known else ", which has no commit")
        hint = did_you_mean(revision, [*known, "HEAD"]) if known else ""
        where = revision if revision.strip() else repr(revision)
        raise CompareError(Fault(where, given, "a bundle, a lock, a revision, or . for the working tree", hint))

    def merge_base(self, left: str, right: str) -> str:
        """The last commit that both have: what `left...right` begins with."""
        done = _run(self.top, "merge-base", self.commit_of(left), self.commit_of(right))
        if done.returncode != 0:
            raise CompareError(Fault(f"{left}...{right}", "have no commit in common", f"{left}..{right}"))
        return done.stdout.strip()

    @contextlib.contextmanager
    def worktree(self, commit: str) -> Iterator[Path]:
        """The commit's files in a new folder, which is gone afterwards, whatever happened inside."""
        with temporary_folder() as folder:
            # Git names what it keeps of a worktree after its last folder: one of this name alone.
            tree = folder / f"{folder.name}-{commit[:12]}"
            try:
                done = _run(self.top, *_NO_HOOKS, "worktree", "add", "--detach", "--quiet", str(tree), commit)
                if done.returncode != 0:
                    given = f"git worktree add: {_last_line(done)}"
                    raise BuildEnvironmentError(Fault(commit[:12], given, "room and permission for a worktree"))
                yield tree
            finally:
                # Twice, which also takes one that git has locked, as it does while making it.  Not `prune`, which
                # forgets other people's worktrees as well.
                _run(self.top, "worktree", "remove", "--force", "--force", str(tree))


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of this run's own.  Raises BuildEnvironmentError where there is no room for one."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="assay-compare-", ignore_cleanup_errors=True)
    except OSError as error:
        where = error.filename or tempfile.gettempdir()
        raise BuildEnvironmentError(Fault(str(where), f"cannot be made: {error.strerror}", "a folder to build in",
                                          "TMPDIR names another place")) from None  # fmt: skip
    with folder as name:
        yield Path(name)


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _LOCAL}
    try:
        git = subprocess.Popen(
            ["git", *arguments],
            cwd=folder,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        given = f"cannot be run: {error.strerror or error}"
        raise BuildEnvironmentError(Fault("git", given, "git on PATH: revisions are built from it")) from None
    with git:
        try:
            out, said = git.communicate()
        except BaseException:
            _end(git)
            raise
    return subprocess.CompletedProcess(git.args, git.returncode, out, said)


def _end(git: subprocess.Popen[str]) -> None:
    """Ask git and what it started to end, and wait until none of them writes any more: killed, it leaves a worktree
    half made and locked, and its own processes go on writing into the folder that is being removed.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(git.pid, signal.SIGTERM)
    # Their ends of the pipes close with the last of them.
    git.communicate()


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"git ended with status {done.returncode}"
