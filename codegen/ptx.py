"""The PTX that a CUBIN was assembled from: compiled again, with the hash that shows it is the same CUBIN's."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .cache import cache_key
from .cached_work import FAILURE, CachedWork
from .records import CompileRequest
from .texts import stage_texts
from .toolchain import Toolchain
from .worker import compile_in_worker
from .workers import Workers

STAGE = "ptx"


class PtxReader:
    """PTX by compile request, cached: `{"failure", "code_sha256", "ptx"}`."""

    def __init__(self, cache: Path, toolchain: Toolchain, workers: Workers, time_limit: float):
        self._work = CachedWork(cache, STAGE, workers, time_limit)
        self._toolchain = toolchain

    @property
    def damaged(self) -> list[str]:
        """Names of cache entries that were passed over."""
        return self._work.damaged

    def submit(self, request: CompileRequest) -> Future[dict[str, Any]]:
        """A future of the request's PTX and of the SHA-256 of the CUBIN that the compiler made of it."""
        return self._work.submit(cache_key(request, self._toolchain), read_ptx, [request.to_dict()], _is_reading)


def read_ptx(request: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compile in this worker process and keep the PTX.  Never raises for bad source."""
    outcome = compile_in_worker(request, scratch, keep=True)
    text = stage_texts(Path(scratch)).get(STAGE)
    shutil.rmtree(scratch, ignore_errors=True)
    if outcome["status"] != "compiled":
        return {FAILURE: f"{outcome['status'].replace('_', ' ')}: {outcome.get('messages', '')}"}
    if text is None:
        return {FAILURE: "the compiler left no PTX"}
    return {FAILURE: "", "code_sha256": hashlib.sha256(outcome["code"]).hexdigest(), "ptx": text}


def _is_reading(entry: dict[str, Any]) -> bool:
    return set(entry) == {FAILURE, "code_sha256", "ptx"} and all(type(value) is str for value in entry.values())
