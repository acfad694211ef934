"""Compile requests to outcomes: cache first, then worker processes; equal work is done once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .cache import CompileCache, cache_key
from .records import CompileRequest, Outcome
from .toolchain import Toolchain
from .worker import PRINTED, compile_in_worker
from .workers import WorkerDied, Workers, default_jobs, finished, result_of

# Longest compilation seen is about 5 s (compiler-facts); a hang must still end within a coffee.
DEFAULT_TIME_LIMIT = 180.0
_LAST_LINES, _LAST_LETTERS = 3, 500


class Builder:
    """Compiles on `jobs` worker processes, which start at the first request that the cache cannot answer.

    Use as a context manager: leaving it stops the workers, which others may use meanwhile.
    """

    def __init__(self, cache: CompileCache, toolchain: Toolchain, *, jobs: int, time_limit: float = DEFAULT_TIME_LIMIT):
        self.workers = Workers(jobs)
        self._cache = cache
        self._toolchain = toolchain
        self._time_limit = time_limit
        self._futures: dict[str, Future[Outcome]] = {}

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.workers.__exit__(*exception)

    def submit(self, request: CompileRequest) -> Future[Outcome]:
        """A future of the outcome, whatever became of the worker; it raises only CacheError and ToolchainError."""
        key = cache_key(request, self._toolchain)
        if key not in self._futures:
            known = self._cache.get(key)
            self._futures[key] = finished(known) if known else self._start(key, request)
        return self._futures[key]

    def _start(self, key: str, request: CompileRequest) -> Future[Outcome]:
        scratch = self.workers.scratch(key)
        work = self.workers.submit(compile_in_worker, [request.to_dict(), str(scratch)], self._time_limit)
        result: Future[Outcome] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, scratch, result))
        return result

    def _finish(self, key: str, work: Future[dict[str, Any]], scratch: Path, result: Future[Outcome]) -> None:
        try:
            outcome = outcome_of(work, scratch, self._time_limit)
            self._cache.put(key, outcome)
            result.set_result(outcome)
        except BaseException as error:
            result.set_exception(error)


def outcome_of(work: Future[dict[str, Any]], scratch: Path, time_limit: float) -> Outcome:
    """What a worker gave, or how it ended: `crashed` or `timed_out`, with what it printed last into `scratch`.

    Raises ToolchainError when the worker processes cannot be kept alive.
    """
    try:
        return Outcome(**result_of(work, time_limit))
    except WorkerDied as death:
        if death.timed_out:
            return Outcome("timed_out", messages=f"{death}{_last_words(scratch)}")
        return Outcome("crashed", messages=f"the compiler process {death}{_last_words(scratch)}")


def _last_words(scratch: Path) -> str:
    """The last lines that a worker printed before it died, such as the compiler's failed assertion."""
    try:
        lines = (scratch / PRINTED).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = "; ".join(line.strip() for line in lines[-_LAST_LINES:])
    return f"; it printed last: {said[-_LAST_LETTERS:]}" if said else ""


__all__ = ["DEFAULT_TIME_LIMIT", "Builder", "default_jobs", "outcome_of"]
