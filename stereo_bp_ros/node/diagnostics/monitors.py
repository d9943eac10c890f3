"""What is measured between two reports: topics, outputs and latencies."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.errors import printable
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES
from stereo_bp_ros.node.diagnostics.ledger import Counts

#: Stamps that are kept from one report to the next, and for longer to look for gaps.
REMEMBERED, LATEST = 1024, 16

#: A gap is longer than so many of the usual distances between stamps.
GAP = 2.5

#: A side misses images where so many, and this part of them, did not arrive between two reports.
MIN_MISSING, MISSING_PART = 2, 0.1

#: Seconds after an image in which images count as coming, at least: two reports.
ALIVE = 2.5

#: Every stage of a frame between the receipt of its later image and the return of publish.
STAGES = ('receive', 'pair', 'wait', *ENGINE_STAGES, 'publish')

#: Frames that the latency distribution is taken over: ten seconds at 30 Hz.
WINDOW = 300


# Topics

@dataclasses.dataclass(frozen=True)
class TopicReport:
    """One topic: Hz since the report before, seconds of silence, what the last message was.

    stamps: nanoseconds, of what came since the report before; None where the first message came
            since then.
    ahead:  seconds by which the stamp of the last message was ahead of its arrival.
    gaps:   whether the last stamps have gaps among them.
    publishers: how many there are of the topic; None where nobody has looked.
    instead: what is published in its place and how to take it, in words; '' = nothing.
    """

    topic: str
    rate: float
    silent: float
    seen: bool
    detail: str
    stamps: tuple[int, ...] | None = None
    ahead: float = 0.0
    gaps: bool = False
    publishers: int | None = None
    instead: str = ''


class TopicMonitor:
    """Counts the messages of one topic.

    Times are seconds of one clock of the caller's choice; 0 means that it is not known yet.
    Silence lasts no longer than by a steady clock: one that is set ahead makes no topic silent.

    :param steady: seconds of a clock that nobody sets.
    """

    def __init__(self, topic: str, now: float,
                 steady: Callable[[], float] = time.monotonic) -> None:
        self.topic = topic
        self._steady = steady
        self._last_steady = steady()
        self._lock = threading.Lock()
        self._last = self._reported = now
        self._count = 0
        self._detail: str | None = None
        self._settled = False
        self._stamps: collections.deque[int] = collections.deque(maxlen=REMEMBERED)
        self._latest: collections.deque[int] = collections.deque(maxlen=LATEST)
        self._ahead = 0.0

    def tick(self, now: float, message: Any, stamp_ns: int = 0) -> None:
        """A message has come."""
        with self._lock:
            self._last, self._last_steady = now, self._steady()
            self._count += 1
            self._detail = describe(message)
            self._stamps.append(stamp_ns)
            self._latest.append(stamp_ns)
            self._ahead = stamp_ns * 1e-9 - now

    def report(self, now: float, publishers: int | None = None, instead: str = '') -> TopicReport:
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
            stamps = tuple(self._stamps) if self._settled else None
            self._stamps.clear()
            seen = self._settled = self._detail is not None
            silent = min(now - self._last, self._steady() - self._last_steady)
            return TopicReport(self.topic, rate, silent, seen, self._detail or '',
                               stamps, self._ahead, _have_gaps(self._latest), publishers,
                               instead)


def describe(message: Any) -> str:
    """Size and encoding of an image, size of a camera_info, for people."""
    if hasattr(message, 'format'):
        return f'{len(message.data)} bytes, {printable(message.format)}'
    encoding = printable(getattr(message, 'encoding', ''))
    return f'{message.width} x {message.height} {encoding}'.strip()


def missing_images(left: TopicReport, right: TopicReport, tolerance_ns: int = 0
                   ) -> Mapping[str, tuple[int, int]]:
    """The sides whose images do not all arrive: how many are missing, of how many.

    An image that only one side has was sent by the other, too, where the cameras take pictures
    at one time; where they do not, the side with more images counts.

    :param tolerance_ns: between the stamps of one pair.
    """
    if left.stamps is None or right.stamps is None:
        return {}
    sides = {'left': sorted(set(left.stamps)), 'right': sorted(set(right.stamps))}
    of = max(map(len, sides.values()))
    arrived = {side: len(stamps) for side, stamps in sides.items()}
    if all(sides.values()):
        # Of what comes just now, one side may be here and the other on its way.
        first = max(stamps[0] for stamps in sides.values()) - tolerance_ns
        last = min(stamps[-1] for stamps in sides.values()) + tolerance_ns
        within = {side: [stamp for stamp in stamps if first <= stamp <= last]
                  for side, stamps in sides.items()}
        common = _common(within['left'], within['right'], tolerance_ns)
        together = sum(map(len, within.values())) - common
        if common and 2 * together >= of:
            of = together
            arrived = {side: len(stamps) for side, stamps in within.items()}
    return {side: (of - count, of) for side, count in arrived.items()
            if of - count >= max(MIN_MISSING, MISSING_PART * of)}


def _have_gaps(stamps: Sequence[int]) -> bool:
    steps = sorted(abs(after - before) for before, after in itertools.pairwise(stamps))
    return len(steps) >= 3 and steps[-1] > GAP * steps[len(steps) // 2]


def _common(left: list[int], right: list[int], tolerance_ns: int) -> int:
    """Number of pairs within the tolerance in two ascending lists."""
    common = i = j = 0
    while i < len(left) and j < len(right):
        difference = left[i] - right[j]
        if abs(difference) <= tolerance_ns:
            common += 1
        i += difference <= tolerance_ns
        j += difference >= -tolerance_ns
    return common


# Outputs

@dataclasses.dataclass(frozen=True)
class OutputStall:
    """Images came and nothing was published for some seconds, ``since`` counters were so.

    building: seconds for which a new engine has been in the making; None = none is.
    """

    seconds: float
    since: Counts
    building: float | None = None


class OutputMonitor:
    """Compares the counters of every report with those when something was published last.

    Times are seconds of real time, which a paused simulation does not stop.
    """

    def __init__(self) -> None:
        self._since: Counts | None = None
        self._before: Counts | None = None
        self._at = 0.0
        self._arrived = 0.0

    def report(self, now: float, counts: Counts, *, wanted: bool, timeout: float,
               building: float | None = None, built: float = -math.inf) -> OutputStall | None:
        """Take in the counters; returns what is wrong by now.

        :param wanted: whether the node is active and somebody subscribes to what it publishes.
        :param timeout: seconds without a result that are no fault.
        :param building: since when a new engine has been in the making; None = none is.
        :param built: when the last one was ready, since when a result may be expected.
        """
        since, before = self._since, self._before
        self._before = counts
        if not wanted or since is None or before is None or counts.published > since.published:
            self._since, self._at = counts, now
            return None
        arrived, arrived_before, arrived_since = (
            sum(one.received.values()) for one in (counts, before, since))
        if arrived > arrived_before:
            self._arrived = now
        expected = self._at if building is not None else max(self._at, built)
        if now - expected < timeout or now - self._arrived > max(timeout, ALIVE):
            return None
        # What has only just come is on its way.
        if counts.lost == since.lost and arrived_before == arrived_since:
            return None
        return OutputStall(now - self._at, since, None if building is None else now - building)


# Latencies

@dataclasses.dataclass(frozen=True)
class FrameLatency:
    """Milliseconds of one frame.

    stages: one entry per name of ``STAGES``; they add up to the total.
    total:  from the receipt of the later image to the return of publish.
    age:    node clock at publish minus stamp; in another time base, and not part of the total.
    """

    stages: Mapping[str, float]
    total: float
    age: float

    def items(self) -> list[tuple[str, float]]:
        """Names and values in the order in which they are reported."""
        return [*((name, self.stages.get(name, 0.0)) for name in STAGES),
                ('total', self.total), ('age', self.age)]


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Milliseconds of the total over the window."""

    frames: int
    p50: float
    p95: float
    p99: float
    maximum: float

    @classmethod
    def of(cls, totals: Collection[float]) -> Distribution | None:
        """That of some frames; None of none."""
        if not totals:
            return None
        p50, p95, p99 = np.percentile(list(totals), (50, 95, 99))
        return cls(len(totals), float(p50), float(p95), float(p99), max(totals))


class LatencyWindow:
    """The total latency of the last frames; for any number of threads."""

    def __init__(self, size: int = WINDOW) -> None:
        self._lock = threading.Lock()
        self._totals: collections.deque[float] = collections.deque(maxlen=size)
        self._recent: collections.deque[float] = collections.deque(maxlen=size)

    def add(self, total: float) -> None:
        """Take in the total of one frame, ms."""
        with self._lock:
            self._totals.append(total)
            self._recent.append(total)

    def clear(self) -> None:
        """Forget all frames."""
        with self._lock:
            self._totals.clear()
            self._recent.clear()

    def report(self) -> tuple[Distribution | None, Distribution | None]:
        """Over the window, and over the frames since this was last asked."""
        with self._lock:
            found = Distribution.of(self._totals), Distribution.of(self._recent)
            self._recent.clear()
            return found
