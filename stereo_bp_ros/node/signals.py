"""SIGINT and SIGTERM as something that the main thread waits for."""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType
from typing import Any

#: The signals that end the node.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ShutdownSignals:
    """While entered, SIGINT and SIGTERM interrupt nothing and only end ``wait``.

    Whichever thread of the process gets the signal, the interpreter writes its number into a
    pipe at once, so that the answer does not depend on what other threads are doing. To be
    entered in the main thread. Once a signal has asked for the end, further ones are ignored for
    good: a terminal and a launch file may both send one.
    """

    def __enter__(self) -> ShutdownSignals:
        self._asked = False
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous: dict[int, Any] = {
            number: signal.signal(number, _ignore) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._asked else handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def wait(self) -> str:
        """Wait for a signal and return its name, or for ``wake`` and return ''."""
        select.select([self._read], [], [])
        number = os.read(self._read, 1)[0]
        self._asked = bool(number)
        return signal.Signals(number).name if number else ''

    def wake(self) -> None:
        """End ``wait`` from any thread."""
        os.write(self._write, b'\0')


def _ignore(number: int, frame: object) -> None:
    """Python calls this some time after the pipe has told everything."""
