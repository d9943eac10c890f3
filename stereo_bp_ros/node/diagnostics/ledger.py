"""What became of every image and every pair: counters that always add up.

At any moment, for each side::

    received = pairs + images dropped + images waiting

and, for pairs::

    pairs = published + pairs dropped + pairs held

where ``pairs held`` are waiting for a camera_info, in the mailbox or being matched.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import IssueCode


class ImageDrop(str, enum.Enum):
    """Why a single image never became part of a pair."""

    UNMATCHED = 'unmatched'
    DUPLICATE = 'duplicate stamp'
    BAD_INPUT = 'bad input'
    CLOCK_JUMP = 'clock jump'
    DEACTIVATED = 'deactivated'

    def __str__(self) -> str:
        return self.value


class PairDrop(str, enum.Enum):
    """Why a pair was not published."""

    NO_CAMERA_INFO = 'no camera_info'
    SUPERSEDED = 'superseded'
    NO_SUBSCRIBERS = 'no subscribers'
    STALE = 'stale'
    FUTURE = 'future'
    NOT_NEWER = 'not newer'
    LATE = 'late'
    RECONFIGURING = 'reconfiguring'
    BAD_INPUT = 'bad input'
    CLOCK_JUMP = 'clock jump'
    DEACTIVATED = 'deactivated'
    ENGINE_ERROR = 'engine error'

    def __str__(self) -> str:
        return self.value


#: Reasons that belong to a node at rest, and are no loss.
QUIET_DROPS = (PairDrop.NO_SUBSCRIBERS, PairDrop.DEACTIVATED)

#: How often, and every how many seconds, counters are read until they are of one moment.
ATTEMPTS, ATTEMPT_PERIOD_S = 20, 0.001

Counter = Literal['pairs', 'published', 'clock_jumps', 'camera_info_waits', 'camera_infos_missed']


@dataclasses.dataclass
class Counts:
    """All counters.

    camera_info_waits:   pairs that waited for the camera_infos of their own stamps.
    camera_infos_missed: those among them that left with the camera_infos in effect.
    """

    received: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    image_drops: dict[str, dict[ImageDrop, int]] = dataclasses.field(
        default_factory=lambda: {side: dict.fromkeys(ImageDrop, 0) for side in SIDES})
    pairs: int = 0
    pair_drops: dict[PairDrop, int] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(PairDrop, 0))
    bad_inputs: collections.Counter[IssueCode] = dataclasses.field(
        default_factory=collections.Counter)
    published: int = 0
    clock_jumps: int = 0
    camera_info_waits: int = 0
    camera_infos_missed: int = 0

    @property
    def lost(self) -> int:
        """Images and pairs dropped by a node that somebody listens to."""
        images = sum(count for drops in self.image_drops.values()
                     for reason, count in drops.items() if reason is not ImageDrop.DEACTIVATED)
        return images + sum(count for reason, count in self.pair_drops.items()
                            if reason not in QUIET_DROPS)


class Ledger:
    """Counts images and pairs; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts()

    def receive(self, side: str) -> None:
        """An image arrived."""
        with self._lock:
            self._counts.received[side] += 1

    def count(self, counter: Counter) -> None:
        """Raise one of the plain counters."""
        with self._lock:
            setattr(self._counts, counter, getattr(self._counts, counter) + 1)

    def drop_image(self, side: str, reason: ImageDrop, count: int = 1,
                   code: IssueCode | None = None) -> None:
        """Images are given up before they found a partner."""
        with self._lock:
            self._counts.image_drops[side][reason] += count
            if code is not None:
                self._counts.bad_inputs[code] += count

    def drop_pair(self, reason: PairDrop, code: IssueCode | None = None) -> None:
        """A pair is given up."""
        with self._lock:
            self._counts.pair_drops[reason] += 1
            if code is not None:
                self._counts.bad_inputs[code] += 1

    def counts(self) -> Counts:
        """A copy of all counters at one moment."""
        with self._lock:
            return copy.deepcopy(self._counts)


@dataclasses.dataclass(frozen=True)
class CounterSnapshot:
    """All counters and what is on its way.

    waiting: images per side that wait for a partner.
    held:    pairs that are on their way. Both are looked up where they are, so that they check
             the counters instead of following them.
    """

    counts: Counts
    waiting: Mapping[str, int]
    held: int

    @property
    def adds_up(self) -> bool:
        """Whether the identities of this module hold."""
        counts = self.counts
        return counts.pairs == (
            counts.published + sum(counts.pair_drops.values()) + self.held) and all(
            counts.received[side] == counts.pairs + sum(counts.image_drops[side].values())
            + self.waiting[side] for side in SIDES)


def take_snapshot(ledger: Ledger, waiting: Callable[[str], int], held: Callable[[], int]
                  ) -> CounterSnapshot:
    """Read the counters, and what waits and is held beside them, at one moment.

    They belong to several threads, which are not to wait for each other: what is read is of one
    moment where it adds up. A difference that stays is a defect, and is returned.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(ATTEMPT_PERIOD_S)
        snapshot = CounterSnapshot(
            ledger.counts(), {side: waiting(side) for side in SIDES}, held())
        if snapshot.adds_up:
            break
    return snapshot
