"""Work in worker processes whose results are kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .store import Store
from .workers import WorkerDied, Workers, finished, result_of

# What every result says of itself: '' where the work was done, else why it was not.
FAILURE = "failure"


class CachedWork:
    """Results of one kind, each found by the hash of all that decides it.  Failures are told and not kept."""

    def __init__(self, directory: Path, kind: str, workers: Workers, time_limit: float):
        """time_limit: seconds for each piece of work.  Raises CacheError where the folder cannot be made."""
        self._store = Store(directory, kind)
        self._kind = kind
        self._workers = workers
        self._time_limit = time_limit

    @property
    def damaged(self) -> list[str]:
        """Names of entries that were passed over."""
        return self._store.damaged

    def submit(
        self,
        key: str,
        function: Callable[..., dict[str, Any]],
        arguments: list[Any],
        is_sound: Callable[[dict[str, Any]], bool],
    ) -> Future[dict[str, Any]]:
        """A future of what is kept under `key`, else of `function(*arguments, scratch folder to make)` in a worker.

        is_sound: whether an entry holds what the function would have returned.  The future raises CacheError and
        ToolchainError; a worker that died is a result whose FAILURE says so.
        """
        known = self._store.get(key)
        if known is not None and is_sound(known):
            return finished(known)
        if known is not None:
            self._store.reject(key)
        scratch = str(self._workers.scratch(f"{self._kind}-{key}"))
        work = self._workers.submit(function, [*arguments, scratch], self._time_limit)
        result: Future[dict[str, Any]] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, result))
        return result

    def _finish(self, key: str, work: Future[dict[str, Any]], result: Future[dict[str, Any]]) -> None:
        try:
            made = result_of(work, self._time_limit)
            if not made[FAILURE]:
                self._store.put(key, made)
            result.set_result(made)
        except WorkerDied as death:
            result.set_result({FAILURE: f"the worker process {death}"})
        except BaseException as error:
            result.set_exception(error)
