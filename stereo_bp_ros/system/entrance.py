"""One thread at a time in a matcher, and none once it is closed."""

from __future__ import annotations

import threading


class Entrance:
    """Context in which one thread has a matcher to itself.

    A second thread is rejected, or waits until the first one leaves; every thread is rejected once
    the matcher is closed. ``lock`` is held by whoever is inside.
    """

    def __init__(self, waits: bool = False) -> None:
        self.lock = threading.Lock()
        self._waits = waits
        self._owner = 0
        self._is_closed = False

    def __enter__(self) -> None:
        self.check_open()
        try:
            self.acquire()
        except RuntimeError:
            self.check_open()       # ``close`` holds the lock since the check
            raise
        if self._is_closed:         # since the check
            self.release()
            self.check_open()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Enter, even after ``close``: for a frame that was accepted before."""
        # Whoever is inside already, as a signal handler is, would wait for itself.
        waits = self._waits and self._owner != threading.get_ident()
        if not self.lock.acquire(blocking=waits):
            raise RuntimeError('this matcher was entered from two threads at once; use one '
                               "matcher per thread, or concurrent='wait'")
        self._owner = threading.get_ident()

    def release(self) -> None:
        """Leave."""
        self._owner = 0
        self.lock.release()

    def check_open(self) -> None:
        """Reject the caller once the matcher is closed."""
        if self._is_closed:
            raise RuntimeError('this matcher is closed')

    def close(self) -> None:
        """Reject whoever comes from now on."""
        if self._owner == threading.get_ident():
            raise RuntimeError('close() was called by a thread that is inside this matcher')
        self._is_closed = True
