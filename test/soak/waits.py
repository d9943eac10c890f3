"""How long processes have waited for a core: what a machine does beside is no fault of theirs."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import threading
import time
from collections.abc import Callable

#: Samples that are remembered; there is one with each report, which is one a second.
REMEMBERED = 240


def waited(pid: int, proc: pathlib.Path = pathlib.Path('/proc')) -> dict[str, float]:
    """Seconds that each thread of a process was ready and had no core.

    Empty where the kernel does not tell: then nothing is excused.
    """
    found = {}
    for path in proc.glob(f'{pid}/task/*/schedstat'):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError, IndexError):
            found[path.parent.name] = int(path.read_text(encoding='ascii').split()[1]) * 1e-9
    return found


class Waits:
    """What threads of some processes have waited since a time; for any number of threads.

    :param threads: the seconds of each by now, by name.
    """

    def __init__(self, threads: Callable[[], dict[str, float]]) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._samples: collections.deque[tuple[float, dict[str, float]]] = collections.deque(
            maxlen=REMEMBERED)

    def sample(self) -> None:
        """Remember how much it is by now."""
        found = self._threads()
        with self._lock:
            self._samples.append((time.monotonic(), found))

    def since(self, at: float) -> float:
        """Seconds of all threads together since the last sample before this time, or the first.

        A thread that is new counts from its beginning.
        """
        now = self._threads()
        with self._lock:
            before = next((found for taken, found in reversed(self._samples) if taken <= at),
                          self._samples[0][1] if self._samples else now)
        return sum(max(0.0, seconds - before.get(name, 0.0)) for name, seconds in now.items())
