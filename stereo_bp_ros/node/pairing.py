"""Finds the right image of each left one. Pure Python: knows messages by their fields alone."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.images.stamps import DUPLICATE, NO_STAMP, REMEMBERED, SIDES, find_partner
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.camera_infos import WAIT, CameraInfos
from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, Ledger, PairDrop

#: Ended generations whose reason is remembered: no result is ever older than that.
GENERATIONS = 16


class Generation:
    """Which results may still be published: every activation and clock jump begins a generation.

    Results pass a gate on their way out. ``advance`` returns only when nobody is inside the gate:
    after it, nothing of an older generation is published.
    """

    def __init__(self) -> None:
        self.number = 0
        self._gate = threading.Lock()
        self._ended: dict[int, PairDrop] = {}

    def advance(self, reason: PairDrop) -> None:
        """End the current generation for a reason."""
        with self._gate:
            self._ended[self.number] = reason
            while len(self._ended) > GENERATIONS:
                del self._ended[next(iter(self._ended))]
            self.number += 1

    def ended(self, number: int) -> PairDrop | None:
        """Why a generation ended; None for the current one."""
        return None if number == self.number else self._ended.get(number, PairDrop.DEACTIVATED)

    @contextlib.contextmanager
    def gate(self, number: int) -> Iterator[PairDrop | None]:
        """Hold the gate open for one result; yields why it must not pass, or None."""
        with self._gate:
            yield self.ended(number)


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One image, and when its callback began and it came here, ``time.perf_counter``."""

    message: Any
    stamp_ns: int
    received: float
    entered: float


@dataclasses.dataclass(frozen=True)
class StereoPair:
    """Two images of one moment and the camera_info that belongs to each.

    ``generation`` is the number of the activation (or clock epoch) that it belongs to. Times
    are seconds of ``time.perf_counter``: ``received`` when the callback of the later image
    began, ``entered`` when it reached the pairing, ``complete`` when the pair left it.
    """

    left: Any
    right: Any
    left_info: Any
    right_info: Any
    stamp_ns: int
    right_stamp_ns: int
    generation: int
    received: float
    entered: float
    complete: float


@dataclasses.dataclass(frozen=True, eq=False)
class _Waiting:
    """Two images that wait for their camera_infos, and until when."""

    left: Arrival
    right: Arrival
    until: float


class _Side:
    """What came on one side in this round, and waits in the order of arrival."""

    def __init__(self) -> None:
        self.waiting: dict[int, Arrival] = {}
        self.paired: collections.deque[int] = collections.deque(maxlen=REMEMBERED)
        self.newest: int | None = None


class Pairing:
    """Pairs images by stamp; every method may be called from any thread.

    Images pair while the pairing is open, in rounds. A clock that goes back, or a stamp that goes
    back by more than ``jump_threshold`` against the newest of its own side, means that a bag or a
    simulation started over: a new round begins, of which nothing is known. What waits is dropped,
    and ``on_clock_jump`` is called. No image is rejected for its round: until the round has a
    pair, a side that goes back follows the other side or the clock, and drops what waits of its
    own.

    A pair leaves with the camera_infos that belong to it (``CameraInfos``), and waits for them
    at most ``WAIT`` seconds. Whoever feeds the pairing calls ``release`` while ``is_timed``.

    :param ledger: is notified of everything that happens.
    :param generation: of the pairs.
    :param settings: tolerance, queue size and jump threshold; may be replaced at any time.
    :param on_clock_jump: starts a new generation.
    :param on_reject: is notified why an image was rejected by its own stamp.
    :param clock: seconds of a steady clock.
    """

    def __init__(self, *, ledger: Ledger, generation: Generation, settings: NodeConfig,
                 on_clock_jump: Callable[[], object],
                 on_reject: Callable[[IssueCode, str], object] = lambda code, text: None,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self.settings = settings
        self._ledger = ledger
        self._generation = generation
        self._on_clock_jump = on_clock_jump
        self._on_reject = on_reject
        self._clock = clock
        self._lock = threading.Lock()
        self._sides = {side: _Side() for side in SIDES}
        self._infos = CameraInfos()
        self._awaiting: list[_Waiting] = []
        self._has_pair = False
        #: Number of the generation of pairs; None while pairing is closed.
        self._number: int | None = None
        self._closest_miss_ns: int | None = None

    def open(self) -> None:
        """Start pairing; pairs are of the generation of this moment."""
        with self._lock:
            self._number = self._generation.number

    def close(self) -> None:
        """Stop pairing: what waits and what arrives from now on is dropped as deactivated."""
        with self._lock:
            self._number = None
            self._begin_round(ImageDrop.DEACTIVATED, PairDrop.DEACTIVATED)

    def waiting(self, side: str) -> int:
        """Number of images that wait for their partner."""
        with self._lock:
            return len(self._sides[side].waiting)

    @property
    def awaiting_camera_info(self) -> int:
        """Number of pairs that wait for their camera_infos."""
        return len(self._awaiting)

    @property
    def is_timed(self) -> bool:
        """Whether a pair waits that ``release`` will let go or drop in time."""
        return bool(self._awaiting) and not self._infos.missing()

    def missing_camera_infos(self) -> list[str]:
        """The sides that no camera_info has arrived for."""
        with self._lock:
            return self._infos.missing()

    def latest_camera_info(self, side: str) -> Any:
        """The side's latest camera_info, or None."""
        with self._lock:
            return self._infos.sides[side].latest

    def stamps_camera_infos(self, side: str) -> bool:
        """Whether the side's camera_infos carry the stamps of its images."""
        with self._lock:
            return self._infos.sides[side].stamped

    def take_closest_miss(self) -> float | None:
        """Seconds between the two stamps that came closest without pairing, since it was last
        asked; None where nothing missed."""
        with self._lock:
            miss, self._closest_miss_ns = self._closest_miss_ns, None
        return None if miss is None else miss * 1e-9

    def add_image(self, name: str, message: Any, stamp_ns: int,
                  received: float) -> list[StereoPair]:
        """Take an image in; returns the pairs that are complete by now.

        :param received: when the callback began, seconds of ``time.perf_counter``.
        """
        entered = self._clock()
        with self._lock:
            self._ledger.receive(name)
            if self._number is None:
                self._ledger.drop_image(name, ImageDrop.DEACTIVATED)
                return []
            if is_stamped := stamp_ns > 0:
                has_jumped = self._follow(name, stamp_ns)
                ready = self._add(name, Arrival(message, stamp_ns, received, entered))
            else:
                self._ledger.drop_image(name, ImageDrop.BAD_INPUT, code=IssueCode.ZERO_STAMP)
        # Without the lock: what is told may be logged, and publishing is waited for.
        if not is_stamped:
            self._on_reject(IssueCode.ZERO_STAMP,
                            f'bad input: {IssueCode.ZERO_STAMP}: images have {NO_STAMP}')
            return []
        if ready is None:
            self._on_reject(IssueCode.DUPLICATE_STAMP, f'images have {DUPLICATE}')
        if has_jumped:      # nothing is ready then
            self._begin_generation()
        return ready or []

    def add_camera_info(self, name: str, info: Any, stamp_ns: int) -> list[StereoPair]:
        """Take a camera_info in; returns the pairs that are complete by now."""
        with self._lock:
            self._infos.add(name, info, stamp_ns, self._clock())
            return self._release()

    def release(self) -> list[StereoPair]:
        """The pairs that need not, or may not, wait for a camera_info any longer."""
        with self._lock:
            return self._release()

    def clock_went_back(self, now_ns: int) -> None:
        """The clock that stamps are of went back, by however little: everything starts over."""
        with self._lock:
            # Where an image of the new round came first, it has started over already.
            is_new = any(side.newest is not None and side.newest > now_ns
                         for side in self._sides.values())
            if is_new:
                self._start_over()
        if is_new:
            self._begin_generation()

    def _begin_generation(self) -> None:
        """After a jump; without the lock."""
        self._on_clock_jump()
        with self._lock:
            if self._number is not None:
                self._number = self._generation.number

    def _add(self, name: str, arrival: Arrival) -> list[StereoPair] | None:
        """Pairs that are complete by now; None: the image is a duplicate."""
        stamp_ns = arrival.stamp_ns
        side, other = self._sides[name], self._sides['right' if name == 'left' else 'left']
        if stamp_ns in side.waiting or stamp_ns in side.paired:
            self._ledger.drop_image(name, ImageDrop.DUPLICATE)
            return None
        self._infos.sides[name].expect(stamp_ns, arrival.entered)
        partner = self._partner(other, stamp_ns)
        if partner is None:
            side.waiting[stamp_ns] = arrival
            # The first to arrive goes first: dropping by smallest stamp would starve a short loop.
            while len(side.waiting) > self.settings.queue_size:
                del side.waiting[next(iter(side.waiting))]
                self._ledger.drop_image(name, ImageDrop.UNMATCHED)
            return self._release()
        del other.waiting[partner.stamp_ns]
        side.paired.append(stamp_ns)
        other.paired.append(partner.stamp_ns)
        self._has_pair = True
        self._ledger.count('pairs')
        left, right = (arrival, partner) if name == 'left' else (partner, arrival)
        pair = _Waiting(left, right, arrival.entered + WAIT)
        self._awaiting.append(pair)
        ready = self._release()
        if pair in self._awaiting:
            self._ledger.count('camera_info_waits')
        return ready

    def _follow(self, name: str, stamp_ns: int) -> bool:
        """Note the newest stamp of a side; returns whether everything starts over with it."""
        side = self._sides[name]
        limit_ns = self.settings.jump_threshold * 1e9 if self._has_pair else 0
        goes_back = side.newest is not None and side.newest - stamp_ns > limit_ns
        starts_over = goes_back and self._has_pair
        if starts_over:
            self._start_over()
        elif goes_back:
            self._drop_waiting(name, ImageDrop.CLOCK_JUMP)
            side.newest = None
        side.newest = max(stamp_ns, side.newest or 0)
        return starts_over

    def _start_over(self) -> None:
        self._ledger.count('clock_jumps')
        self._begin_round(ImageDrop.CLOCK_JUMP, PairDrop.CLOCK_JUMP)

    def _begin_round(self, image_reason: ImageDrop, pair_reason: PairDrop) -> None:
        """Drop what waits, and forget which stamps there have been."""
        self._has_pair = False
        for name, side in self._sides.items():
            self._drop_waiting(name, image_reason)
            side.paired.clear()
            side.newest = None
        while self._awaiting:
            self._awaiting.pop()
            self._ledger.drop_pair(pair_reason)

    def _drop_waiting(self, name: str, reason: ImageDrop) -> None:
        waiting = self._sides[name].waiting
        self._ledger.drop_image(name, reason, len(waiting))
        waiting.clear()

    def _partner(self, other: _Side, stamp_ns: int) -> Arrival | None:
        partner_ns, difference = find_partner(other.waiting, stamp_ns,
                                              self.settings.stamp_tolerance_s)
        if partner_ns is not None:
            return other.waiting[partner_ns]
        if difference >= 0 and (self._closest_miss_ns is None
                                or difference < self._closest_miss_ns):
            self._closest_miss_ns = difference
        return None

    def _release(self) -> list[StereoPair]:
        now = self._clock()
        # Before the first camera_infos nothing is late, and only the latest pair is worth keeping.
        has_infos = not self._infos.missing()
        surplus = len(self._awaiting) - (self.settings.queue_size if has_infos else 1)
        ready, waiting = [], []
        for position, pair in enumerate(self._awaiting):
            overdue = position < surplus or (has_infos and pair.until <= now)
            infos = self._infos.of_pair(pair.left.stamp_ns, pair.right.stamp_ns, now,
                                        overdue=overdue)
            if infos is not None:
                ready.append(self._complete(pair, infos, now))
                if overdue:
                    self._ledger.count('camera_infos_missed')
            elif overdue:
                self._ledger.drop_pair(PairDrop.NO_CAMERA_INFO)
            else:
                waiting.append(pair)
        self._awaiting = waiting
        return ready

    def _complete(self, pair: _Waiting, infos: tuple[Any, Any], now: float) -> StereoPair:
        left, right = pair.left, pair.right
        self._infos.sides['left'].forget(left.stamp_ns)
        self._infos.sides['right'].forget(right.stamp_ns)
        later = left if left.received > right.received else right
        assert self._number is not None
        return StereoPair(
            left.message, right.message, *infos, left.stamp_ns, right.stamp_ns,
            self._number, later.received, later.entered, now)
