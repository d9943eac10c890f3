"""What is wrong: in /diagnostics while it is true, logged once in a while."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence

from stereo_bp_ros.errors import printable
from stereo_bp_ros.issues import Issue, IssueCode, IssueLevel

#: Seconds from one entry of a source in the log to the next, whatever its texts.
LOG_INTERVAL = 10.0

#: Characters of a sentence, and of the detail that goes into the log with it.
SENTENCE_LIMIT, DETAIL_LIMIT = 1000, 4000

#: What is logged at once: issues of one source, each with its detail.
Entry = Sequence[tuple[Issue, str]]


class IssueLog:
    """Keeps issues by their sources; for any number of threads.

    An event (``add``, ``replace``) is in one report: what goes on happening is raised again,
    and what has ended is gone with the report after. A state (``hold``) is in every report until
    whoever holds it says otherwise.

    A source is the code of its issues, with their place where they have one, or a name of several
    codes. There are few, and they are never made of texts that a camera chooses: each has a log
    entry at most once in ``LOG_INTERVAL``. What comes in between waits, and the newest is logged
    then.

    :param log: is called with a level and a text for what is to be logged.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(self, log: Callable[[IssueLevel, str], None],
                 now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._lock = threading.Lock()
        self._states: dict[str, list[Issue]] = {}
        self._events: dict[str, list[Issue]] = {}
        #: By source: when it was last logged, and what is to be logged next.
        self._logged: dict[str, float] = {}
        self._waiting: dict[str, Entry] = {}

    def add(self, code: IssueCode, text: str, *, detail: str = '') -> None:
        """Something happened that should not have; ``detail`` goes into the log only."""
        self._add_event(code, [code.issue(text)], detail)

    def replace(self, source: str, issues: Sequence[Issue]) -> None:
        """As ``add`` with any number of issues, instead of what the source raised before."""
        self._add_event(source, issues)

    def hold(self, code: IssueCode, *texts: str, place: str = '', level: IssueLevel | None = None
             ) -> None:
        """This is so from now on; without a text nothing is.

        :param place: a topic, where each has issues of its own.
        :param level: None: that of the code.
        """
        source = f'{code} {place}'.strip()
        held_now = [_limited(Issue(code, code.level if level is None else level, text))
                    for text in texts]
        with self._lock:
            held = self._states.pop(source, [])
            if held_now:
                self._states[source] = held_now
            elif held:
                self._waiting.pop(source, None)
            entry = () if held_now == held else self._due(source, [(one, '') for one in held_now])
        self._write(entry)

    def clear(self, source: str) -> None:
        """It is over."""
        with self._lock:
            self._states.pop(source, None)
            self._events.pop(source, None)
            self._waiting.pop(source, None)

    def active(self, *sources: str) -> list[Issue]:
        """What is wrong by these sources (all where none is given), worst first."""
        with self._lock:
            return self._collect(sources)

    def report(self) -> list[Issue]:
        """All that is wrong, worst first. Events are reported once, and forgotten."""
        with self._lock:
            issues = self._collect()
            self._events.clear()
            entries = [self._due(source, entry) for source, entry in list(self._waiting.items())]
        for entry in entries:
            self._write(entry)
        return issues

    def _collect(self, sources: Sequence[str] = ()) -> list[Issue]:
        active = [issue for kept in (self._states, self._events)
                  for source, issues in kept.items()
                  if not sources or source in sources for issue in issues]
        return sorted(active, key=lambda issue: -issue.level)

    def _add_event(self, source: str, issues: Sequence[Issue], detail: str = '') -> None:
        kept = [_limited(one) for one in issues]
        with self._lock:
            self._events.pop(source, None)
            if kept:
                self._events[source] = kept
            entry = self._due(source, [(one, detail) for one in kept])
        self._write(entry)

    def _due(self, source: str, entry: Entry) -> Entry:
        """What is logged now of an entry; nothing where it has to wait."""
        now = self._now()
        if not entry:
            return ()
        if now - self._logged.get(source, -math.inf) < LOG_INTERVAL:
            self._waiting[source] = entry
            return ()
        self._logged[source] = now
        self._waiting.pop(source, None)
        return entry

    def _write(self, entry: Entry) -> None:
        for issue, detail in entry:
            self._log(issue.level, '\n'.join(filter(None, (str(issue), detail[-DETAIL_LIMIT:]))))


def _limited(issue: Issue) -> Issue:
    # Texts from outside were cut where they came in. This is for what nobody thought of.
    if len(issue.text) > SENTENCE_LIMIT or not issue.text.isprintable():
        return dataclasses.replace(issue, text=printable(issue.text, SENTENCE_LIMIT))
    return issue
