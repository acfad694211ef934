"""Compile requests to outcomes: cache first, then worker processes; equal work is done once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessPool

from assay.bundle.faults import Fault

from .cache import CompileCache, cache_key
from .records import CompileRequest, Outcome
from .toolchain import Toolchain, ToolchainError
from .worker import PRINTED, compile_in_worker

# Longest compilation seen is about 5 s (compiler-facts); a hang must still end within a coffee.
DEFAULT_TIME_LIMIT = 180.0
_LAST_LINES, _LAST_LETTERS = 3, 500


class Builder:
    """Compiles on `jobs` worker processes, which start at the first request that the cache cannot answer.

    Use as a context manager: leaving it stops the workers.
    """

    def __init__(self, cache: CompileCache, toolchain: Toolchain, *, jobs: int, time_limit: float = DEFAULT_TIME_LIMIT):
        self._cache = cache
        self._toolchain = toolchain
        self._jobs = jobs
        self._time_limit = time_limit
        self._pool: ProcessPool | None = None
        self._futures: dict[str, Future[Outcome]] = {}

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._pool is not None:
            if kind is None:
                self._pool.close()
            else:
                self._pool.stop()
            self._pool.join()
            self._scratch.cleanup()

    def submit(self, request: CompileRequest) -> Future[Outcome]:
        """A future of the outcome, whatever became of the worker; it raises only CacheError and ToolchainError."""
        key = cache_key(request, self._toolchain)
        if key not in self._futures:
            known = self._cache.get(key)
            self._futures[key] = _finished(known) if known else self._start(key, request)
        return self._futures[key]

    def _start(self, key: str, request: CompileRequest) -> Future[Outcome]:
        if self._pool is None:
            # Spawned, not forked: a worker must not inherit threads, descriptors or imports that could change code.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(max_workers=self._jobs, context=context)
            # Ours, not the workers': one that is killed removes nothing.
            self._scratch = tempfile.TemporaryDirectory(prefix="assay-build-", ignore_cleanup_errors=True)
        scratch = Path(self._scratch.name, key)
        work = self._pool.schedule(compile_in_worker, args=[request.to_dict(), str(scratch)], timeout=self._time_limit)
        result: Future[Outcome] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, scratch, result))
        return result

    def _finish(self, key: str, work: Future[dict[str, Any]], scratch: Path, result: Future[Outcome]) -> None:
        try:
            outcome = outcome_of(work, scratch, self._time_limit)
            self._cache.put(key, outcome)
            result.set_result(outcome)
        except BrokenExecutor as error:
            hint = "was a worker killed, or memory exhausted? run again: finished work is in the cache"
            result.set_exception(
                ToolchainError(Fault("compiler processes", f"cannot be kept alive: {error}", "", hint))
            )
        except BaseException as error:
            result.set_exception(error)


def outcome_of(work: Future[dict[str, Any]], scratch: Path, time_limit: float) -> Outcome:
    """What a worker gave, or how it ended: `crashed` or `timed_out`, with what it printed last into `scratch`."""
    try:
        return Outcome(**work.result())
    except TimeoutError:
        return Outcome("timed_out", messages=f"not finished after {time_limit:g} s{_last_words(scratch)}")
    except ProcessExpired as error:
        how = _how_it_died(error.exitcode)
        return Outcome("crashed", messages=f"the compiler process {how}{_last_words(scratch)}")


def _how_it_died(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"ended with status {exitcode}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exitcode, f'signal {-exitcode}')}"


def _last_words(scratch: Path) -> str:
    """The last lines that a worker printed before it died, such as the compiler's failed assertion."""
    try:
        lines = (scratch / PRINTED).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = "; ".join(line.strip() for line in lines[-_LAST_LINES:])
    return f"; it printed last: {said[-_LAST_LETTERS:]}" if said else ""


def _finished(outcome: Outcome) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future


def default_jobs() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0))
