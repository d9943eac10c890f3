"""Finds the right image of each left one. Pure Python: knows messages by their fields alone."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from stereo_bp_ros.config import NodeConfig
from stereo_bp_ros.errors import InputReason
from stereo_bp_ros.node.accounting import SIDES, ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.camera_infos import CameraInfoLatch

#: Stamps of paired images that are remembered to recognise duplicates.
REMEMBERED = 64


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One image as it came in: the message, its stamp and when its callback began (seconds of
    ``time.perf_counter``)."""

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


class _Side:
    """What waits on one side, in the order of arrival."""

    def __init__(self) -> None:
        self.waiting: dict[int, Arrival] = {}
        self.paired: collections.deque[int] = collections.deque(maxlen=REMEMBERED)
        self.infos = CameraInfoLatch()
        self.newest: int | None = None
        self.epoch = 0


class Pairing:
    """Pairs images by stamp; every method may be called from any thread.

    Images pair while the pairing is open. A stamp that goes back by more than
    ``jump_threshold`` against the newest of its own side means that the clock or a bag started
    over: what waits is dropped, and ``on_clock_jump`` is called (under the pairing's lock; it
    returns the number of the generation that begins).

    :param ledger: is told of everything that happens.
    :param on_clock_jump: starts a new generation and returns its number.
    """

    def __init__(self, *, ledger: Ledger, settings: NodeConfig,
                 on_clock_jump: Callable[[], int],
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self._ledger = ledger
        self._settings = settings
        self._on_clock_jump = on_clock_jump
        self._clock = clock
        self._lock = threading.Lock()
        self._sides = {side: _Side() for side in SIDES}
        self._awaiting: tuple[Arrival, Arrival] | None = None
        self._epoch = 0
        self._generation: int | None = None
        self._closest_miss_ns: int | None = None

    @property
    def settings(self) -> NodeConfig:
        """Tolerance, queue size and jump threshold; may be replaced at any time."""
        return self._settings

    @settings.setter
    def settings(self, settings: NodeConfig) -> None:
        self._settings = settings

    def open(self, generation: int) -> None:
        """Start pairing; pairs carry this generation's number."""
        with self._lock:
            self._generation = generation

    def close(self) -> None:
        """Stop pairing: what waits and what arrives from now on is dropped as deactivated."""
        with self._lock:
            self._generation = None
            self._flush(ImageDrop.DEACTIVATED, PairDrop.DEACTIVATED)

    def waiting(self, side: str) -> int:
        """Number of images that wait for their partner."""
        with self._lock:
            return len(self._sides[side].waiting)

    @property
    def awaiting_camera_info(self) -> bool:
        """Whether a pair waits for its camera_info."""
        return self._awaiting is not None

    def missing_camera_infos(self) -> list[str]:
        """The sides that no camera_info has arrived for."""
        with self._lock:
            return [name for name, side in self._sides.items() if not side.infos.known]

    def latest_camera_info(self, side: str) -> Any:
        """The side's latest camera_info, or None."""
        with self._lock:
            return self._sides[side].infos.latest

    def take_closest_miss(self) -> float | None:
        """Seconds between the two stamps that came closest without pairing, since it was last
        asked; None where nothing missed."""
        with self._lock:
            miss, self._closest_miss_ns = self._closest_miss_ns, None
        return None if miss is None else miss * 1e-9

    def add_image(self, name: str, message: Any, stamp_ns: int,
                  received: float) -> StereoPair | None:
        """Take an image in; returns the pair that it completes.

        :param received: when the callback began, seconds of ``time.perf_counter``.
        """
        entered = self._clock()
        with self._lock:
            self._ledger.receive(name)
            if self._generation is None:
                self._ledger.drop_image(name, ImageDrop.DEACTIVATED)
                return None
            if stamp_ns <= 0:
                self._ledger.drop_image(name, ImageDrop.BAD_INPUT,
                                        input_reason=InputReason.ZERO_STAMP)
                return None
            side = self._sides[name]
            other = self._sides['right' if name == 'left' else 'left']
            if not self._belongs_to_this_epoch(side, other, stamp_ns):
                self._ledger.drop_image(name, ImageDrop.CLOCK_JUMP)
                return None
            if stamp_ns in side.waiting or stamp_ns in side.paired:
                self._ledger.drop_image(name, ImageDrop.DUPLICATE)
                return None
            arrival = Arrival(message, stamp_ns, received, entered)
            partner = self._partner(other, stamp_ns)
            if partner is None:
                side.waiting[stamp_ns] = arrival
                self._trim(name, side)
                return None
            del other.waiting[partner.stamp_ns]
            side.paired.append(stamp_ns)
            other.paired.append(partner.stamp_ns)
            self._ledger.pair()
            return self._complete(*((arrival, partner) if name == 'left'
                                    else (partner, arrival)))

    def add_camera_info(self, name: str, info: Any, stamp_ns: int) -> StereoPair | None:
        """Take a camera_info in; returns the pair that waited for it, if one did."""
        with self._lock:
            self._sides[name].infos.add(info, stamp_ns)
            if self._awaiting is None:
                return None
            left, right = self._awaiting
            self._awaiting = None
            return self._complete(left, right)

    def refresh(self, pair: StereoPair) -> StereoPair:
        """The pair with the camera_info that applies to it by now.

        A changed camera_info often arrives just after the image that it belongs to.
        """
        with self._lock:
            left = self._sides['left'].infos.at(pair.stamp_ns)
            right = self._sides['right'].infos.at(pair.right_stamp_ns)
        if left is pair.left_info and right is pair.right_info:
            return pair
        return dataclasses.replace(pair, left_info=left, right_info=right)

    def _belongs_to_this_epoch(self, side: _Side, other: _Side, stamp_ns: int) -> bool:
        threshold = self._settings.jump_threshold * 1e9
        if side.newest is not None and side.newest - stamp_ns > threshold:
            side.epoch += 1
            side.newest = None
            if side.epoch > self._epoch:
                self._epoch = side.epoch
                self._start_over()
        if side.epoch < self._epoch:
            # The other side has jumped. This image either is still from before the jump, or
            # the first one after it where this side had too little to jump back from.
            if (side.newest is not None and other.newest is not None
                    and abs(stamp_ns - other.newest) >= abs(stamp_ns - side.newest)):
                return False
            side.epoch = self._epoch
            side.newest = None
        side.newest = stamp_ns if side.newest is None else max(side.newest, stamp_ns)
        return True

    def _start_over(self) -> None:
        self._ledger.clock_jump()
        self._flush(ImageDrop.CLOCK_JUMP, PairDrop.CLOCK_JUMP)
        for side in self._sides.values():
            side.paired.clear()
            side.infos.restart()
        self._generation = self._on_clock_jump()

    def _flush(self, image_reason: ImageDrop, pair_reason: PairDrop) -> None:
        for name, side in self._sides.items():
            self._ledger.drop_image(name, image_reason, len(side.waiting))
            side.waiting.clear()
        if self._awaiting is not None:
            self._awaiting = None
            self._ledger.drop_pair(pair_reason)

    def _partner(self, other: _Side, stamp_ns: int) -> Arrival | None:
        closest = other.waiting.get(stamp_ns) or min(
            other.waiting.values(), key=lambda a: abs(a.stamp_ns - stamp_ns), default=None)
        if closest is None:
            return None
        difference = abs(closest.stamp_ns - stamp_ns)
        tolerance = (self._settings.approximate_sync_tolerance_seconds * 1e9
                     if self._settings.approximate_sync else 0)
        if difference <= tolerance:
            return closest
        if self._closest_miss_ns is None or difference < self._closest_miss_ns:
            self._closest_miss_ns = difference
        return None

    def _trim(self, name: str, side: _Side) -> None:
        # The first to arrive goes first: dropping by smallest stamp would starve a short loop.
        while len(side.waiting) > self._settings.queue_size:
            del side.waiting[next(iter(side.waiting))]
            self._ledger.drop_image(name, ImageDrop.UNMATCHED)

    def _complete(self, left: Arrival, right: Arrival) -> StereoPair | None:
        left_info = self._sides['left'].infos.at(left.stamp_ns)
        right_info = self._sides['right'].infos.at(right.stamp_ns)
        if left_info is None or right_info is None:
            if self._awaiting is not None:
                self._ledger.drop_pair(PairDrop.NO_CAMERA_INFO)
            self._awaiting = (left, right)
            return None
        later = left if left.received > right.received else right
        assert self._generation is not None
        return StereoPair(
            left.message, right.message, left_info, right_info, left.stamp_ns, right.stamp_ns,
            self._generation, later.received, later.entered, self._clock())
