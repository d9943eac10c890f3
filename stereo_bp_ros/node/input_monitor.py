"""Whether the subscribed topics are alive."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any


@dataclasses.dataclass(frozen=True)
class TopicReport:
    """One topic at the moment of the report.

    rate:   messages per second since the report before.
    silent: seconds since the last message, or since the subscription; never below 0.
    seen:   whether any message has come since the subscription.
    detail: what the last message was, e.g. '640 x 480 mono8'.
    """

    topic: str
    rate: float
    silent: float
    seen: bool
    detail: str


class TopicMonitor:
    """Counts the messages of one topic.

    Times are seconds of one clock of the caller's choice; 0 means that it is not known yet.
    """

    def __init__(self, topic: str, now: float) -> None:
        self.topic = topic
        self._lock = threading.Lock()
        self._last = self._reported = now
        self._count = 0
        self._seen = False
        self._what: tuple[Any, ...] = ()

    def tick(self, now: float, message: Any) -> None:
        """A message has come."""
        with self._lock:
            self._last = now
            self._count += 1
            self._seen = True
            self._what = content(message)

    def report(self, now: float) -> TopicReport:
        """What came since the report before."""
        with self._lock:
            # What came before the clock was known came just now.
            self._last, self._reported = self._last or now, self._reported or now
            elapsed = now - self._reported
            rate = self._count / elapsed if elapsed > 0 else 0.0
            self._count, self._reported = 0, now
            # A clock that went back must not make a live topic look silent, nor a silent one
            # look alive for longer than it takes to notice.
            self._last = min(self._last, now)
            return TopicReport(self.topic, rate, now - self._last, self._seen,
                               describe(self._what))


def content(message: Any) -> tuple[Any, ...]:
    """What is to be told of a message, so that the message itself need not be kept."""
    if hasattr(message, 'format'):
        return len(message.data), message.format
    if hasattr(message, 'encoding'):
        return message.width, message.height, message.encoding
    return message.width, message.height, ''


def describe(what: tuple[Any, ...]) -> str:
    """Size and encoding of an image, size of a camera_info, for people."""
    if len(what) == 2:
        return f'{what[0]} bytes, {what[1]}'
    return f'{what[0]} x {what[1]} {what[2]}'.strip() if what else ''
