"""What was sent and what came back: nothing unknown, twice, mixed, stale or unaccounted for.

Knows no ROS. Each frame that is sent has a place in the order of sending; results must come in
this order, whatever their stamps do.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
import threading
from collections.abc import Callable, Mapping

SIDES = ('left', 'right')

#: Sent frames that are remembered; a result of an older one is unknown, and a violation.
REMEMBERED = 20_000

#: Pixels by which a disparity may differ from that of its pair: between two whole ones.
TOLERANCE = 0.5

#: Part of the valid pixels that must have it, and of all pixels that must be valid.
AGREEMENT, LEAST_VALID = 0.9, 0.25


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a pair shows.

    disparity: pixels, the same everywhere.
    width, height: of the images.
    focal:     pixels, of the camera_info with the stamp of the images.
    """

    disparity: int
    width: int
    height: int
    focal: float


@dataclasses.dataclass(frozen=True)
class Found:
    """What a result says.

    disparity: median of its valid pixels; agreement: part of these within ``TOLERANCE`` of it.
    valid:     valid pixels, of all.
    """

    disparity: float
    agreement: float
    valid: float
    width: int
    height: int
    focal: float


@dataclasses.dataclass(frozen=True)
class _Sent:
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
        self._last = 0
        self._forbidden: dict[int, str] = {}
        self._results: collections.deque[_Sent] = collections.deque(maxlen=REMEMBERED)
        self._times: collections.deque[tuple[int, float]] = collections.deque(maxlen=REMEMBERED)
        #: Frames sent and results received since the beginning.
        self.sent = self.delivered = 0
        #: Images sent on each side.
        self.images = dict.fromkeys(SIDES, 0)

    @property
    def last(self) -> int:
        """Place of the frame of the latest result; 0 = none yet."""
        return self._last

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
            self._last = max(self._last, sent.place)
            self._results.append(sent)

    def _wrong(self, sent: _Sent, found: Found, now: float) -> list[str]:
        frame, shown = f'frame {sent.place}', sent.shown
        wrong = []
        if sent.place == self._last:
            wrong.append(f'{frame}: published twice')
        elif sent.place < self._last:
            wrong.append(f'{frame}: stale, published after frame {self._last}')
        if now - sent.at > self._longest_age and (
                now - sent.at > self._longest_age + self._excused(sent.at)):
            wrong.append(f'{frame}: stale, published {now - sent.at:.1f} s after it was sent')
        if sent.place in self._forbidden:
            wrong.append(f'{frame}: stale, published although {self._forbidden[sent.place]}')
        if (found.width, found.height) != (shown.width, shown.height):
            wrong.append(f'{frame}: {found.width} x {found.height}, sent were '
                         f'{shown.width} x {shown.height}')
        if found.focal != shown.focal:
            wrong.append(f'{frame}: mixed, f is {found.focal:g}, sent was {shown.focal:g}')
        if found.valid < LEAST_VALID:
            wrong.append(f'{frame}: {100 * found.valid:.0f} % of its pixels are valid')
        elif abs(found.disparity - shown.disparity) > TOLERANCE or found.agreement < AGREEMENT:
            wrong.append(f'{frame}: mixed, its disparity is {found.disparity:.1f} in '
                         f'{100 * found.agreement:.0f} % of the pixels, shown was '
                         f'{shown.disparity}')
        return wrong

    def delivered_between(self, first: int, last: int) -> int:
        """Results of frames at these places, both included."""
        return len(self.shown_between(first, last))

    def shown_between(self, first: int, last: int) -> list[Shown]:
        """What the frames at these places show that have a result."""
        with self._lock:
            return [sent.shown for sent in self._results if first <= sent.place <= last]

    def rate_between(self, first: int, last: int) -> float:
        """Frames a second by the median time from one at these places to the next; 0 of one."""
        with self._lock:
            times = [at for place, at in self._times if first <= place <= last]
        return 1 / statistics.median(
            later - at for at, later in itertools.pairwise(times)) if len(times) > 1 else 0.0

    def take_violations(self) -> list[str]:
        """What was wrong since this was last asked."""
        with self._lock:
            taken, self._violations = self._violations, []
            return taken


def unaccounted(values: Mapping[str, int]) -> list[str]:
    """What does not add up in counters of a status ``pairing`` at rest, in words."""
    pair_drops = sum(count for key, count in values.items() if key.startswith('dropped pairs: '))
    wrong = []
    accounted = values['published'] + pair_drops + values['held']
    if values['pairs'] != accounted:
        wrong.append(f'{values["pairs"]} pairs, but {accounted} published, dropped or held')
    for side in SIDES:
        drops = sum(count for key, count in values.items()
                    if key.startswith(f'dropped {side}: '))
        accounted = values['pairs'] + drops + values[f'waiting {side}']
        if values[f'received {side}'] != accounted:
            wrong.append(f'{values[f"received {side}"]} {side} images received, but {accounted} '
                         'paired, dropped or waiting')
    return wrong


@dataclasses.dataclass(frozen=True)
class Totals:
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
