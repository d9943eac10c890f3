"""A callback at a steady pace, whatever the executor is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Ticker:
    """Calls a function every ``period_s`` seconds of real time, in a thread of its own.

    :param tick: must not raise.
    """

    def __init__(self, period_s: float, tick: Callable[[], None]) -> None:
        self._period_s = period_s
        self._tick = tick
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='stereo_bp_ticker', daemon=True)

    def start(self) -> None:
        """Start the thread; the first call comes after one period."""
        self._thread.start()

    def stop(self) -> None:
        """No call begins any more; one in progress is waited for."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.wait(self._period_s):
            self._tick()
