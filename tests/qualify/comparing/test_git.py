"""What git leaves behind when it is interrupted: nothing; and what is said of revisions that are none."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from assay.qualify.comparing.errors import CompareError
from assay.qualify.comparing.git import Repository


@pytest.fixture
def checking_out(repository, tmp_path) -> Path:
    """A file that appears in the middle of a checkout, which then takes ten seconds more."""
    begun = tmp_path / "begun"
    repository.git("config", "filter.slow.smudge", f"touch '{begun}'; sleep 10; cat")
    (repository.top / ".gitattributes").write_text("*.slow filter=slow\n")
    (repository.top / "a.slow").write_text("a\n")
    repository.commit("a file whose checkout is slow")
    return begun


def test_an_interrupt_while_git_makes_a_worktree_leaves_none(repository, checking_out, tmp_path):
    """Git locks a worktree while making it: killed, it leaves that, and what it started goes on writing files."""

    def interrupt():
        while not checking_out.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    # A run in the background ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    opened = Repository(repository.top)
    with pytest.raises(KeyboardInterrupt), opened.worktree(opened.commit_of("HEAD")):
        pytest.fail("git was to be interrupted")
    signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 9, "the checkout was waited for"
    assert repository.worktrees() == 1
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_worktree_that_git_has_locked_goes_too(repository):
    opened = Repository(repository.top)
    with opened.worktree(opened.commit_of("HEAD")) as tree:
        repository.git("worktree", "lock", str(tree))
    assert repository.worktrees() == 1


def test_a_repository_without_a_commit_says_so(repository):
    repository.git("update-ref", "-d", "refs/heads/main")
    repository.git("tag", "-d", "first")
    with pytest.raises(CompareError, match="which has no commit") as caught:
        Repository(repository.top).commit_of("HEAD")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_named_by_its_quotes(repository, name):
    with pytest.raises(CompareError) as caught:
        Repository(repository.top).commit_of(name)
    assert str(caught.value).startswith(f"{name!r}: is no file")
