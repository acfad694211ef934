"""What a person sees of a launch that takes long: how many workgroups have ended and how many steps were made."""

from __future__ import annotations

import threading
import time

from assay.emulator.progress import Progress
from assay.qualify import terminal

# Seconds between looks, on a terminal and in a log; a launch that is over before the first look says nothing.
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 10.0


class Watch:
    """Prints progress on standard error while it is open.  A context manager; `progress` goes to the launch."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._out = terminal.console(error=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._started = time.perf_counter()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        if not self._out.is_terminal:
            while not self._over.wait(LOG_SECONDS):
                self._out.print(self._said(), markup=False)
            return
        if self._over.wait(TERMINAL_SECONDS):
            return
        with self._out.status(self._said()) as shown:
            while not self._over.wait(TERMINAL_SECONDS):
                shown.update(self._said())

    def _said(self) -> str:
        progress, seconds = self.progress, time.perf_counter() - self._started
        done = f"{progress.done:,} of {progress.workgroups:,} workgroups ended"
        return f"{done}, {progress.steps:,} steps, {seconds:.0f} s"
