"""What became of every image and every pair: counters that always add up.

At any moment, for each side::

    received = pairs + images dropped + images waiting

and, for pairs::

    pairs = published + pairs dropped + pairs held

where ``pairs held`` are waiting for a camera_info, in the mailbox or being matched. Once nothing
is on its way and the node is deactivated, nothing waits and nothing is held, so that every image
received was published or dropped for a reason that has a name.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import threading

from stereo_bp_ros.errors import InputReason

SIDES = ('left', 'right')


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


@dataclasses.dataclass(frozen=True)
class Counts:
    """A consistent copy of all counters.

    camera_info_waits:   pairs that waited for the camera_infos of their own stamps.
    camera_infos_missed: those among them that left with the camera_infos in force.
    """

    received: dict[str, int]
    image_drops: dict[str, dict[ImageDrop, int]]
    pairs: int
    pair_drops: dict[PairDrop, int]
    bad_inputs: dict[InputReason, int]
    published: int
    clock_jumps: int
    camera_info_waits: int
    camera_infos_missed: int

    def images_waiting(self, side: str) -> int:
        """Images of a side that are neither paired nor dropped."""
        return self.received[side] - self.pairs - sum(self.image_drops[side].values())

    @property
    def pairs_held(self) -> int:
        """Pairs that are neither published nor dropped."""
        return self.pairs - self.published - sum(self.pair_drops.values())

    @property
    def lost(self) -> int:
        """Images and pairs dropped by a node that somebody listens to."""
        return (sum(sum(drops.values()) for drops in self.image_drops.values())
                - sum(drops[ImageDrop.DEACTIVATED] for drops in self.image_drops.values())
                + sum(count for reason, count in self.pair_drops.items()
                      if reason not in QUIET_DROPS))


class Ledger:
    """Counts images and pairs; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received = dict.fromkeys(SIDES, 0)
        self._image_drops = {side: dict.fromkeys(ImageDrop, 0) for side in SIDES}
        self._pairs = 0
        self._pair_drops = dict.fromkeys(PairDrop, 0)
        self._bad_inputs: collections.Counter[InputReason] = collections.Counter()
        self._published = 0
        self._clock_jumps = 0
        self._camera_info_waits = 0
        self._camera_infos_missed = 0

    def receive(self, side: str) -> None:
        """An image arrived."""
        with self._lock:
            self._received[side] += 1

    def drop_image(self, side: str, reason: ImageDrop, count: int = 1,
                   input_reason: InputReason | None = None) -> None:
        """Images are given up before they found a partner."""
        with self._lock:
            self._image_drops[side][reason] += count
            if input_reason is not None:
                self._bad_inputs[input_reason] += count

    def pair(self) -> None:
        """Two images became a pair."""
        with self._lock:
            self._pairs += 1

    def drop_pair(self, reason: PairDrop, input_reason: InputReason | None = None) -> None:
        """A pair is given up."""
        with self._lock:
            self._pair_drops[reason] += 1
            if input_reason is not None:
                self._bad_inputs[input_reason] += 1

    def publish(self) -> None:
        """The result of a pair was published."""
        with self._lock:
            self._published += 1

    def clock_jump(self) -> None:
        """Stamps went back by more than the threshold."""
        with self._lock:
            self._clock_jumps += 1

    def await_camera_info(self) -> None:
        """A pair waits for the camera_infos of its own stamps."""
        with self._lock:
            self._camera_info_waits += 1

    def miss_camera_info(self) -> None:
        """They did not come in time: the pair leaves with those that were in force."""
        with self._lock:
            self._camera_infos_missed += 1

    def counts(self) -> Counts:
        """All counters at one moment."""
        with self._lock:
            return Counts(
                received=dict(self._received),
                image_drops={side: dict(drops) for side, drops in self._image_drops.items()},
                pairs=self._pairs, pair_drops=dict(self._pair_drops),
                bad_inputs=dict(self._bad_inputs), published=self._published,
                clock_jumps=self._clock_jumps, camera_info_waits=self._camera_info_waits,
                camera_infos_missed=self._camera_infos_missed)
