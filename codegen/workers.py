"""Worker processes, one pool a run, for whatever takes long: compiling and emulating."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from assay.bundle.faults import Fault

from .toolchain import ToolchainError

Result = TypeVar("Result")


class WorkerDied(Exception):
    """A worker process crashed or was stopped at its time limit.  `timed_out` says which; the text how."""

    def __init__(self, how: str, *, timed_out: bool):
        super().__init__(how)
        self.timed_out = timed_out


# Statuses of a process, which the system keeps to a byte: a worker that came to its end, and one that left with 0.
_FINISHED, _LEFT = 97, 256


class _Worker(multiprocessing.context.SpawnProcess):
    """A process that ends with 0 only where something in it called exit.

    The pool takes 0 for a worker that was told to stop, and would wait for the task of one that left by itself.
    """

    def run(self) -> None:
        super().run()
        sys.exit(_FINISHED)

    @property
    def exitcode(self) -> int | None:
        return {0: _LEFT, _FINISHED: 0}.get(code := super().exitcode, code)


class _Context(multiprocessing.context.SpawnContext):
    """Spawned, not forked: a worker must not inherit threads, descriptors or imports that could change code."""

    Process = _Worker


class Workers:
    """`jobs` processes that start at the first task.  Use as a context manager: leaving it stops them."""

    def __init__(self, jobs: int):
        self._jobs = jobs
        self._pool: ProcessPool | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._pool is not None:
            if kind is None:
                self._pool.close()
            else:
                self._pool.stop()
            self._pool.join()
        if self._scratch is not None:
            self._scratch.cleanup()

    def scratch(self, name: str) -> Path:
        """A path for a task's temporary files, removed with the pool: a worker that is killed removes nothing."""
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="assay-build-", ignore_cleanup_errors=True)
        return Path(self._scratch.name, name)

    def submit(self, function: Callable[..., Result], arguments: list[Any], time_limit: float) -> Future[Result]:
        """Run a module-level function; its future raises WorkerDied, or what `result_of` says."""
        if self._pool is None:
            self._pool = ProcessPool(max_workers=self._jobs, context=_Context())
        return self._pool.schedule(function, args=arguments, timeout=time_limit)


def result_of(work: Future[Result], time_limit: float) -> Result:
    """What a worker returned.  Raises WorkerDied when it crashed or timed out, ToolchainError when the pool broke."""
    try:
        return work.result()
    except TimeoutError:
        raise WorkerDied(f"not finished after {time_limit:g} s", timed_out=True) from None
    except ProcessExpired as error:
        raise WorkerDied(_how_it_died(error.exitcode), timed_out=False) from None
    except BrokenExecutor as error:
        hint = "was a worker killed, or memory exhausted? run again: finished work is in the cache"
        raise ToolchainError(Fault("worker processes", f"cannot be kept alive: {error}", "", hint)) from None


def _how_it_died(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"ended with status {0 if exitcode == _LEFT else exitcode}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exitcode, f'signal {-exitcode}')}"


def finished(value: Result) -> Future[Result]:
    """A future that has its result already."""
    future: Future[Result] = Future()
    future.set_result(value)
    return future


def default_jobs() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0))
