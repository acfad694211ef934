"""Small git repositories of specs."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


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
