"""What is judged: results of frames, messages, waits for a core, and what grows.

Knows no ROS. Each frame that is sent has a place in the order of sending; results must come in
this order, whatever their stamps do.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stereo_bp_ros.images.stamps import SIDES

#: Sent frames that are remembered; a result of an older one is unknown, and a violation.
REMEMBERED = 20_000

#: Pixels by which a disparity may differ from that of its pair: between two whole ones.
TOLERANCE = 0.5

#: Part of the valid pixels that must have it, and of all pixels that must be valid.
AGREEMENT, MIN_VALID = 0.9, 0.25

#: Samples of waits that are remembered; there is one with each report, which is one a second.
SAMPLES = 240

#: Of the confidence interval of a trend.
SHARE = 0.95

#: Resamples, and the least number of values that tell a slope.
DRAWS, MIN_VALUES = 4000, 8

_SEED = 20100702


class Shown(NamedTuple):
    """What a pair shows: its disparity, of all pixels, and the focal length of camera_info.

    disparity: None = of large vertical disparity: no pixel is judged.
    """

    disparity: int | None
    width: int
    height: int
    focal: float


class Found(NamedTuple):
    """What a result says.

    disparity: median of its valid pixels; agreement: part of these within ``TOLERANCE`` of it.
    valid:     part of all pixels.
    """

    disparity: float
    agreement: float
    valid: float
    width: int
    height: int
    focal: float


class _Sent(NamedTuple):
    place: int
    at: float
    shown: Shown


class Ledger:
    """Frames of one camera and the results of one node; for any number of threads.

    Times are seconds of a steady clock.

    :param longest_age: seconds from sending to the result, beyond which it is stale.
    :param excused: seconds more that the machine took since a time, asked of older ones alone.
    """

    def __init__(self, longest_age: float,
                 excused: Callable[[float], float] = lambda at: 0.0) -> None:
        self._longest_age, self._excused = longest_age, excused
        self._lock = threading.Lock()
        self._sent: collections.OrderedDict[int, _Sent] = collections.OrderedDict()
        self._violations: list[str] = []
        self._forbidden: dict[int, str] = {}
        self._results: collections.deque[_Sent] = collections.deque(maxlen=REMEMBERED)
        self._times: collections.deque[tuple[int, float]] = collections.deque(maxlen=REMEMBERED)
        #: Frames sent, results received, and the place of the latest frame that has one.
        self.sent = self.delivered = self.last = 0
        #: Images sent on each side.
        self.images = dict.fromkeys(SIDES, 0)

    def send(self, stamp_ns: int, shown: Shown, now: float, sides: tuple[str, ...] = SIDES
             ) -> int:
        """A frame is sent; returns its place, counted from 1."""
        with self._lock:
            self.sent += 1
            self._times.append((self.sent, now))
            for side in sides:
                self.images[side] += 1
            # Of stamps that stand still the first image is the one that counts.
            if stamp_ns not in self._sent:
                self._sent[stamp_ns] = _Sent(self.sent, now, shown)
            while len(self._sent) > REMEMBERED:
                self._sent.popitem(last=False)
            return self.sent

    def forbid(self, after: int, until: float, why: str) -> int:
        """No frame behind this place that was sent until a time may have a result any more.

        Whatever the machine does beside, a result of one of them is a violation; returns their
        number.
        """
        with self._lock:
            places = [place for place, at in self._times if place > after and at <= until]
            self._forbidden |= dict.fromkeys(places, why)
            return len(places)

    def receive(self, stamp_ns: int, found: Found, now: float) -> None:
        """A result has come."""
        with self._lock:
            self.delivered += 1
            sent = self._sent.get(stamp_ns)
            if sent is None:
                self._violations.append(f'a result has the stamp {stamp_ns}, which was not sent')
                return
            self._violations += self._wrong(sent, found, now)
            self.last = max(self.last, sent.place)
            self._results.append(sent)

    def _wrong(self, sent: _Sent, found: Found, now: float) -> list[str]:
        shown, age = sent.shown, now - sent.at
        wrong = []
        if sent.place == self.last:
            wrong.append('published twice')
        elif sent.place < self.last:
            wrong.append(f'stale, published after frame {self.last}')
        if age > self._longest_age and age > self._longest_age + self._excused(sent.at):
            wrong.append(f'stale, published {age:.1f} s after it was sent')
        if sent.place in self._forbidden:
            wrong.append(f'stale, published although {self._forbidden[sent.place]}')
        if (found.width, found.height) != (shown.width, shown.height):
            wrong.append(f'{found.width} x {found.height}, sent were '
                         f'{shown.width} x {shown.height}')
        if found.focal != shown.focal:
            wrong.append(f'mixed, f is {found.focal:g}, sent was {shown.focal:g}')
        if shown.disparity is None:
            pass
        elif found.valid < MIN_VALID:
            wrong.append(f'{100 * found.valid:.0f} % of its pixels are valid')
        elif abs(found.disparity - shown.disparity) > TOLERANCE or found.agreement < AGREEMENT:
            wrong.append(f'mixed, its disparity is {found.disparity:.1f} in '
                         f'{100 * found.agreement:.0f} % of the pixels, shown was '
                         f'{shown.disparity}')
        return [f'frame {sent.place}: {text}' for text in wrong]

    def shown_between(self, first: int, last: int) -> list[Shown]:
        """What the frames at these places show that have a result."""
        with self._lock:
            return [sent.shown for sent in self._results if first <= sent.place <= last]

    def rate_between(self, first: int, last: int) -> float:
        """Frames a second by the median time from one at these places to the next; 0 of one."""
        with self._lock:
            times = [at for place, at in self._times if first <= place <= last]
        return 1 / float(np.median(np.diff(times))) if len(times) > 1 else 0.0

    def take_violations(self) -> list[str]:
        """What was wrong since this was last asked."""
        with self._lock:
            taken, self._violations = self._violations, []
            return taken


class Totals(NamedTuple):
    """Counts of one moment: what the node says, and what this end has sent and received."""

    node: Mapping[str, int]
    images: Mapping[str, int]
    delivered: int


def transport_losses(before: Totals, after: Totals) -> tuple[list[str], dict[str, int]]:
    """Between two moments at rest: what cannot be, in words, and messages lost on the way."""
    impossible, lost = [], {}
    for name, here, there in (
            *((f'{side} images', after.images[side] - before.images[side],
               after.node[f'received {side}'] - before.node[f'received {side}'])
              for side in SIDES),
            ('results', after.node['published'] - before.node['published'],
             after.delivered - before.delivered)):
        if there > here:
            impossible.append(f'{there} {name} have arrived, but {here} were sent')
        elif there < here:
            lost[name] = here - there
    return impossible, lost


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
            maxlen=SAMPLES)

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


@dataclasses.dataclass(frozen=True)
class Trend:
    """A slope, per hour, over all runs of a process.

    interval: of the slope, both ends per hour, with the confidence ``share``.
    change:   slope times the time that was watched.
    allowed:  change that counts as none: pages and threads come in grains.
    grows:    the whole interval is above 0, and the change more than the grain.
    """

    values: int
    hours: float
    slope: float
    interval: tuple[float, float]
    change: float
    allowed: float
    share: float
    grows: bool


def trend(runs: Sequence[Sequence[tuple[float, float]]], allowed: float) -> Trend | None:
    """The common slope of runs of (hours, value), each with a level of its own.

    The interval is by resampling blocks of residuals, as a neighbour in time resembles its
    neighbours. None with fewer than ``MIN_VALUES`` values.
    """
    arrays = [np.array(run) for run in runs if len(run) > 2]
    count, hours = sum(map(len, arrays)), sum(float(np.ptp(run[:, 0])) for run in arrays)
    if count < MIN_VALUES or not hours:
        return None
    t, y = np.concatenate([run - run.mean(axis=0) for run in arrays]).T
    spread = t @ t
    slope = float(t @ y / spread)
    residuals = y - slope * t
    block = max(2, round(count ** (1 / 3)))
    starts = np.random.default_rng(_SEED).integers(0, count, (DRAWS, -(-count // block)))
    places = (starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, :count] % count
    # Two degrees of freedom, and one for each further run, are in the fit.
    free = max(1, count - 1 - len(arrays))
    slopes = slope + (residuals[places] @ t / spread) * np.sqrt(count / free)
    low, high = map(float, np.quantile(slopes, ((1 - SHARE) / 2, (1 + SHARE) / 2)))
    change = slope * hours
    return Trend(count, hours, slope, (low, high), change, allowed, SHARE,
                 grows=low > 0 and change > allowed)


def settled(run: Sequence[tuple[float, float]], warm_up: float) -> list[tuple[float, float]]:
    """The second half of a run's values, and none of its first ``warm_up`` hours.

    Buffers fill until then, and what a fault is the first to need is loaded: such a step is no
    growth.
    """
    if not run:
        return []
    begin = run[0][0] + max(warm_up, (run[-1][0] - run[0][0]) / 2)
    return [(hours, value) for hours, value in run if hours >= begin]
