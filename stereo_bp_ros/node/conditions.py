"""What is wrong right now: shown in /diagnostics until it is over, logged once in a while."""

from __future__ import annotations

import dataclasses
import enum
import re
import threading
import time
from collections.abc import Callable, Sequence

#: Seconds before the same sentence, whatever its numbers, is logged again.
LOG_INTERVAL = 10.0

#: Different sentences whose last time is remembered.
REMEMBERED = 256


class Level(enum.IntEnum):
    """Severity; the values are those of ``diagnostic_msgs/DiagnosticStatus``."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclasses.dataclass(frozen=True)
class Condition:
    """One thing that is wrong."""

    key: str
    level: Level
    text: str


class Conditions:
    """Keeps what is wrong, by key; for any number of threads.

    :param log: is called with a level and a text for what is to be logged.
    """

    def __init__(self, log: Callable[[Level, str], None]) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._active: dict[str, list[Condition]] = {}
        self._logged: dict[str, float] = {}

    def warn(self, key: str, text: str) -> None:
        """Something is not as it should be, until ``clear`` or another text under this key."""
        self._set(key, [Condition(key, Level.WARN, text)])

    def error(self, key: str, text: str, *, detail: str = '') -> None:
        """Something does not work; ``detail`` goes into the log only."""
        self._set(key, [Condition(key, Level.ERROR, text)], detail)

    def replace(self, key: str, texts: Sequence[str]) -> None:
        """Warnings that hold from now on; none clears the key."""
        self._set(key, [Condition(key, Level.WARN, text) for text in texts])

    def clear(self, key: str) -> None:
        """It is over."""
        if key in self._active:
            with self._lock:
                self._active.pop(key, None)

    def active(self, *keys: str) -> list[Condition]:
        """What is wrong under these keys (all where none is given), worst first."""
        with self._lock:
            found = [condition for key, conditions in self._active.items()
                     if not keys or key in keys for condition in conditions]
        return sorted(found, key=lambda condition: -condition.level)

    def _set(self, key: str, conditions: list[Condition], detail: str = '') -> None:
        with self._lock:
            if conditions:
                self._active[key] = conditions
            else:
                self._active.pop(key, None)
            due = [condition for condition in conditions if self._is_due(condition.text)]
        for condition in due:
            self._log(condition.level, '\n'.join(filter(None, (condition.text, detail))))

    def _is_due(self, text: str) -> bool:
        now = time.monotonic()
        sentence = re.sub(r'[\d.]+', '#', text)
        if now - self._logged.get(sentence, -LOG_INTERVAL) < LOG_INTERVAL:
            return False
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[sentence] = now
        return True
