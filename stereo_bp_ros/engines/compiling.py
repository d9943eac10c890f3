"""Says that kernels are being compiled: half a minute without a word looks like a hang."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import sys
import threading
import time

#: Seconds of compiling before the first line, between lines, and without a word from a compiler
#: after which compiling has ended.
FIRST, AGAIN, PAUSE = 1.0, 5.0, 60.0

log = logging.getLogger(__name__)


class Progress:
    """Of one compiler, which reports every kernel that is begun or done.

    :param usually: how long compiling takes, for people.
    """

    def __init__(self, usually: str) -> None:
        self._usually = usually
        self._lock = threading.Lock()
        self._began = self._heard = self._said = float('-inf')
        self._done = 0

    def begin(self, place: pathlib.Path | None) -> None:
        """A kernel is begun.

        :param place: the directory that it will be kept in, if any.
        """
        self._hear(place, 0)

    def end(self, place: pathlib.Path | None) -> None:
        """A kernel is done; ``place`` as for ``begin``."""
        self._hear(place, 1)

    def _hear(self, place: pathlib.Path | None, done: int) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._heard > PAUSE:
                self._began, self._said, self._done = now, float('-inf'), 0
            self._heard = now
            self._done += done
            is_first = self._said < self._began
            if now - (self._began if is_first else self._said) < (FIRST if is_first else AGAIN):
                return
            self._said = now
            seconds, count = now - self._began, self._done
        if not is_first:
            _say(f'still compiling kernels: {count} after {seconds:.0f} s')
        elif place is None:
            _say(f'compiling kernels, which takes {self._usually}; they cannot be kept')
        else:
            _say(f'compiling kernels, which takes {self._usually} once; later processes read '
                 f'them from {place}')


def _say(text: str) -> None:
    # As Python's handler of last resort does with warnings: where nobody has set up logging,
    # somebody waits all the same.
    if log.hasHandlers():
        log.info(text)
    elif sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):      # closed, or nobody reads it
            print(f'stereo_bp_ros: {text}', file=sys.stderr)
