"""What is wrong: told in /diagnostics while it is true, logged once in a while."""

from __future__ import annotations

import dataclasses
import enum
import math
import threading
import time
from collections.abc import Callable, Sequence

from stereo_bp_ros.errors import printable

#: Seconds from one entry of a key in the log to the next, whatever its texts.
LOG_INTERVAL = 10.0

#: Characters of a sentence, and of the detail that goes into the log with it.
SENTENCE_LIMIT, DETAIL_LIMIT = 1000, 4000



class Severity(enum.IntEnum):
    """How bad it is; the values are those of ``diagnostic_msgs/DiagnosticStatus``."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclasses.dataclass(frozen=True)
class Condition:
    """One thing that is wrong."""

    key: str
    level: Severity
    text: str


#: What is logged at once: conditions of one key, each with its detail.
Entry = Sequence[tuple[Condition, str]]


class Conditions:
    """Keeps what is wrong, by key; for any number of threads.

    An event (``warn``, ``error``, ``replace``) is told in one report: what goes on happening is
    raised again, and what has ended is gone with the report after. A state (``hold``) is told in
    every report until whoever holds it says otherwise.

    Keys are few, and never made of texts that a camera chooses: each has a log entry at most once
    in ``LOG_INTERVAL``. What comes in between waits, and the newest is logged then.

    :param log: is called with a level and a text for what is to be logged.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(self, log: Callable[[Severity, str], None],
                 now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._lock = threading.Lock()
        self._states: dict[str, list[Condition]] = {}
        self._events: dict[str, list[Condition]] = {}
        #: By key: when it was last logged, and what is to be logged next.
        self._logged: dict[str, float] = {}
        self._waiting: dict[str, Entry] = {}

    def warn(self, key: str, text: str) -> None:
        """Something happened that should not have."""
        self._add_condition(key, [_condition(key, Severity.WARN, text)])

    def error(self, key: str, text: str, *, detail: str = '') -> None:
        """Something did not work; ``detail`` goes into the log only."""
        self._add_condition(key, [_condition(key, Severity.ERROR, text)], detail)

    def replace(self, key: str, texts: Sequence[str]) -> None:
        """As ``warn`` with any number of texts, instead of what was raised before."""
        self._add_condition(key, [_condition(key, Severity.WARN, text) for text in texts])

    def hold(self, key: str, level: Severity, *texts: str) -> None:
        """This is so from now on; without a text nothing is."""
        conditions = [_condition(key, level, text) for text in texts]
        with self._lock:
            held = self._states.pop(key, [])
            if conditions:
                self._states[key] = conditions
            elif held:
                self._waiting.pop(key, None)
            entry = () if conditions == held else self._due(key, [(one, '') for one in conditions])
        self._write(entry)

    def clear(self, key: str) -> None:
        """It is over."""
        with self._lock:
            self._states.pop(key, None)
            self._events.pop(key, None)
            self._waiting.pop(key, None)

    def active(self, *keys: str) -> list[Condition]:
        """What is wrong under these keys (all where none is given), worst first."""
        with self._lock:
            return self._collect(keys)

    def report(self) -> list[Condition]:
        """All that is wrong, worst first. Events are told with this, and forgotten."""
        with self._lock:
            conditions = self._collect()
            self._events.clear()
            entries = [self._due(key, entry) for key, entry in list(self._waiting.items())]
        for entry in entries:
            self._write(entry)
        return conditions

    def _collect(self, keys: Sequence[str] = ()) -> list[Condition]:
        active = [condition for kept in (self._states, self._events)
                  for key, conditions in kept.items()
                  if not keys or key in keys for condition in conditions]
        return sorted(active, key=lambda condition: -condition.level)

    def _add_condition(self, key: str, conditions: list[Condition], detail: str = '') -> None:
        with self._lock:
            self._events.pop(key, None)
            if conditions:
                self._events[key] = conditions
            entry = self._due(key, [(condition, detail) for condition in conditions])
        self._write(entry)

    def _due(self, key: str, entry: Entry) -> Entry:
        """What is logged now of an entry; nothing where it has to wait."""
        now = self._now()
        if not entry:
            return ()
        if now - self._logged.get(key, -math.inf) < LOG_INTERVAL:
            self._waiting[key] = entry
            return ()
        self._logged[key] = now
        self._waiting.pop(key, None)
        return entry

    def _write(self, entry: Entry) -> None:
        for condition, detail in entry:
            self._log(condition.level,
                      '\n'.join(filter(None, (condition.text, detail[-DETAIL_LIMIT:]))))


def _condition(key: str, level: Severity, text: str) -> Condition:
    # Texts from outside were cut where they came in. This is for what nobody thought of.
    if len(text) > SENTENCE_LIMIT or not text.isprintable():
        text = printable(text, SENTENCE_LIMIT)
    return Condition(key, level, text)
