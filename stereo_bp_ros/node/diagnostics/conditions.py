"""What is wrong: told in /diagnostics while it is true, logged once in a while with its count."""

from __future__ import annotations

import dataclasses
import enum
import re
import threading
import time
from collections.abc import Callable, Sequence

from stereo_bp_ros.errors import printable

#: Seconds before the same sentence, whatever its numbers, is logged again.
LOG_INTERVAL = 10.0

#: Different sentences of one key that are told apart in the log within ``LOG_INTERVAL``, and how
#: many of them may differ in nothing but what they quote, which a camera may change each time.
SENTENCES, QUOTATIONS = 32, 5

#: Characters of a sentence, and of the detail that goes into the log with it.
SENTENCE_LIMIT, DETAIL_LIMIT = 1000, 4000

_NUMBER = re.compile(r'[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|\bnan\b|\binf\b)')
_QUOTATION = re.compile(r"'(?:[^'\\]|\\.)*'")


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


@dataclasses.dataclass
class _Logged:
    """A sentence in the log: when it was last written, and what came since.

    It is kept under its key and words; ``kind`` is these without what they quote.
    """

    at: float
    kind: tuple[str, str]
    repeated: int = 0
    latest: Condition | None = None


class Conditions:
    """Keeps what is wrong, by key; for any number of threads.

    An event (``warn``, ``error``, ``replace``) is told in one report: what goes on happening is
    raised again, and what has ended is gone with the report after. A state (``hold``) is told in
    every report until whoever holds it says otherwise.

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
        self._logged: dict[tuple[str, str], _Logged] = {}

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
            sentences = {_sentence(condition) for condition in self._states.pop(key, [])}
            if conditions:
                self._states[key] = conditions
            due = [c for c in conditions if _sentence(c) not in sentences and self._is_due(c)]
        self._write(due)

    def clear(self, key: str) -> None:
        """It is over."""
        with self._lock:
            self._states.pop(key, None)
            self._events.pop(key, None)

    def active(self, *keys: str) -> list[Condition]:
        """What is wrong under these keys (all where none is given), worst first."""
        with self._lock:
            return self._collect(keys)

    def report(self) -> list[Condition]:
        """All that is wrong, worst first. Events are told with this, and forgotten."""
        now = self._now()
        with self._lock:
            conditions = self._collect()
            self._events.clear()
            over = {sentence: logged for sentence, logged in self._logged.items()
                    if now - logged.at >= LOG_INTERVAL}
            repeated = []
            for sentence, logged in over.items():
                if logged.latest is None:
                    del self._logged[sentence]
                else:
                    repeated.append((logged.latest, logged.repeated, now - logged.at))
                    self._logged[sentence] = _Logged(now, logged.kind)
        for condition, count, seconds in repeated:
            self._log(condition.level,
                      f'{condition.text} ({count} more in {seconds:.0f} s)')
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
            due = [condition for condition in conditions if self._is_due(condition)]
        self._write(due, detail)

    def _is_due(self, condition: Condition) -> bool:
        """Whether a sentence is logged now; where it was lately, it is counted."""
        sentence, kind = _sentence(condition), _kind(condition)
        if sentence not in self._logged:
            # What is too much to be told apart is counted together.
            if kind in self._logged or sum(
                    logged.kind == kind for logged in self._logged.values()) >= QUOTATIONS:
                sentence = kind
            elif sum(key == condition.key for key, _ in self._logged) >= SENTENCES:
                sentence = condition.key, ''
        logged = self._logged.get(sentence)
        if logged is None:
            self._logged[sentence] = _Logged(self._now(), kind)
            return True
        logged.repeated += 1
        logged.latest = condition
        return False

    def _write(self, conditions: Sequence[Condition], detail: str = '') -> None:
        for condition in conditions:
            self._log(condition.level,
                      '\n'.join(filter(None, (condition.text, detail[-DETAIL_LIMIT:]))))


def _condition(key: str, level: Severity, text: str) -> Condition:
    # Texts from outside were cut where they came in. This is for what nobody thought of.
    if len(text) > SENTENCE_LIMIT or not text.isprintable():
        text = printable(text, SENTENCE_LIMIT)
    return Condition(key, level, text)


def _sentence(condition: Condition) -> tuple[str, str]:
    return condition.key, _NUMBER.sub('#', condition.text)


def _kind(condition: Condition) -> tuple[str, str]:
    return condition.key, _QUOTATION.sub("'...'", _sentence(condition)[1])
