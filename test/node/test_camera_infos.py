"""Which camera_infos a pair is matched with: never the new one of one side and the old of the
other, and never an old one for ever."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from stereo_bp_ros.config import NodeConfig
from stereo_bp_ros.node.camera_infos import SILENCE, SINCE, WAIT, SideInfos
from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop
from stereo_bp_ros.node.pairing import Generation, Pairing, StereoPair
from test.cases import every, slow
from test.node.stand_ins import make_info, make_stamped

SECOND = 1_000_000_000
START = 1_000_000 * SECOND
HOUR = 3600 * SECOND

#: The four messages of a frame, in every order that they may come in.
ORDERS = list(itertools.permutations(itertools.product(('left', 'right'), ('image', 'info'))))

FRAMES_PER_CALIBRATION = 5

#: Of a recording: each order comes 101 times, and a 'slower' side tells of the last calibration.
FRAMES = 2_424


def info_stamp(kind: str, frame: int, stamp_ns: int) -> int | None:
    """The stamp of the camera_info that goes with a frame; None where none does.

    :param kind: 'stamped' as the image; of 'another clock'; published 'once' a change; 'slower'.
    """
    if kind == 'stamped':
        return stamp_ns
    if kind == 'another clock':
        return stamp_ns - HOUR
    if kind == 'once':
        return 0 if frame % FRAMES_PER_CALIBRATION == 0 else None
    return stamp_ns + 5 if frame % 7 == 0 else None


class Cameras:
    """Two cameras and a pairing, in the time of a clock that only they move."""

    def __init__(self, **options: Any) -> None:
        self.ledger = Ledger()
        self.pairing = Pairing(ledger=self.ledger, generation=Generation(),
                               settings=NodeConfig(**options), on_clock_jump=lambda: None,
                               clock=lambda: self.seconds)
        self.pairing.open()
        self.seconds = 0.0
        self.pairs: list[StereoPair] = []

    def image(self, side: str, stamp_ns: int) -> None:
        self.pairs += self.pairing.add_image(side, make_stamped(stamp_ns), stamp_ns,
                                             self.seconds)

    def info(self, side: str, stamp_ns: int, focal: float) -> None:
        self.pairs += self.pairing.add_camera_info(
            side, make_info(stamp_ns, side=side, focal=focal), stamp_ns)

    def frame(self, stamp_ns: int) -> None:
        self.image('left', stamp_ns)
        self.image('right', stamp_ns)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.pairs += self.pairing.release()

    @property
    def focals(self) -> list[tuple[float, float]]:
        """Focal lengths of the camera_infos that each pair left with."""
        return [(pair.left_info.p[0], pair.right_info.p[0]) for pair in self.pairs]


@pytest.fixture
def cameras() -> Cameras:
    return Cameras()


@dataclasses.dataclass(order=True)
class Message:
    """One message on its way."""

    arrival: float
    number: int
    frame: int = dataclasses.field(compare=False)
    side: str = dataclasses.field(compare=False)
    what: str = dataclasses.field(compare=False)


def traffic(frames: int, rate: float, late: float) -> Iterator[Message]:
    """The messages of a recording in the order of arrival; frames overlap where they are late."""
    draw = random.Random(frames)
    pending: list[Message] = []
    number = 0
    for frame in range(frames):
        for place, (side, what) in enumerate(ORDERS[frame % len(ORDERS)]):
            number += 1
            delay = draw.uniform(0, late) if late else place * 0.001
            heapq.heappush(pending, Message(frame / rate + delay, number, frame, side, what))
        while pending and pending[0].arrival < (frame + 1) / rate:
            yield heapq.heappop(pending)
    while pending:
        yield heapq.heappop(pending)


def play(cameras: Cameras, kinds: dict[str, str], frames: int, rate: float,
         late: float = 0.0) -> None:
    """Publish frames whose calibration, of both sides, changes every five; drops nothing."""
    period = round(SECOND / rate)
    for message in traffic(frames, rate, late):
        while cameras.seconds + 0.02 < message.arrival:     # the node's timer
            cameras.wait(0.02)
        cameras.wait(message.arrival - cameras.seconds)
        stamp_ns = START + message.frame * period
        if message.what == 'image':
            cameras.image(message.side, stamp_ns)
            continue
        stamp = info_stamp(kinds[message.side], message.frame, stamp_ns)
        if stamp is not None:
            cameras.info(message.side, stamp, generation(message.frame))
    cameras.wait(1.0)


def generation(frame: int) -> float:
    """The focal length that both sides have in a frame."""
    return 100.0 + frame // FRAMES_PER_CALIBRATION


@pytest.mark.parametrize('rate', [20.0, 60.0])
def test_each_pair_has_the_stamped_camera_infos_of_its_own(cameras: Cameras, rate: float) -> None:
    play(cameras, {'left': 'stamped', 'right': 'stamped'}, FRAMES, rate)
    frames = [round((pair.stamp_ns - START) * rate / SECOND) for pair in cameras.pairs]
    assert frames == list(range(FRAMES))
    assert cameras.focals == [(generation(k), generation(k)) for k in frames]
    assert cameras.ledger.counts().camera_infos_missed == 0


@pytest.mark.parametrize('rate', [20.0, *slow(60.0)])
@pytest.mark.parametrize('kind', ['another clock', 'once', 'slower'])
@pytest.mark.parametrize('stamped', ['left', 'right', 'neither'])
def test_no_pair_has_the_new_calibration_of_one_side_and_the_old_of_the_other(
        cameras: Cameras, rate: float, kind: str, stamped: str) -> None:
    kinds = dict.fromkeys(('left', 'right'), kind)
    if stamped != 'neither':
        kinds[stamped] = 'stamped'
    play(cameras, kinds, FRAMES, rate)
    assert [focals for focals in cameras.focals if focals[0] != focals[1]] == []
    counts = cameras.ledger.counts()
    assert len(cameras.pairs) + counts.pair_drops[PairDrop.NO_CAMERA_INFO] == FRAMES
    if kind != 'slower':
        # What both sides say at the change is in force for the frame after it at the latest.
        current = [round(f) for f, _ in cameras.focals]
        expected = [round(generation(round((p.stamp_ns - START) * rate / SECOND)))
                    for p in cameras.pairs]
        assert len(cameras.pairs) == FRAMES
        assert sum(map(int.__eq__, current, expected)) > 0.75 * FRAMES
    else:
        # Changes faster than a side tells of them: some are in force, the rest is silence.
        assert len({f for f, _ in cameras.focals}) > 0.03 * FRAMES


@pytest.mark.parametrize('kinds', [('stamped', 'stamped'), ('stamped', 'another clock'),
                                   ('another clock', 'stamped')])
def test_messages_that_overtake_those_of_earlier_frames_mix_no_calibrations(
        cameras: Cameras, kinds: tuple[str, str]) -> None:
    play(cameras, dict(zip(('left', 'right'), kinds, strict=True)), FRAMES, 20.0, late=0.045)
    assert [focals for focals in cameras.focals if focals[0] != focals[1]] == []
    assert len(cameras.pairs) > (0.95 * FRAMES if 'another clock' in kinds else FRAMES - 1)


def test_a_pair_waits_for_the_camera_info_of_its_stamp_and_is_counted(cameras: Cameras) -> None:
    cameras.info('left', START, 100.0)
    cameras.info('right', START, 100.0)
    cameras.frame(START)
    cameras.frame(START + 1)
    cameras.info('left', START + 1, 200.0)
    assert len(cameras.pairs) == 1
    assert cameras.pairing.is_timed
    cameras.info('right', START + 1, 200.0)
    assert cameras.focals == [(100.0, 100.0), (200.0, 200.0)]
    counts = cameras.ledger.counts()
    assert (counts.camera_info_waits, counts.camera_infos_missed) == (1, 0)


def test_a_side_that_stops_to_stamp_is_used_as_it_was_and_waited_for_no_longer(
        cameras: Cameras) -> None:
    for k in range(5):
        cameras.info('left', START + k, 100.0)
        cameras.info('right', START + k, 100.0)
        cameras.frame(START + k)
    for k in range(5, 10):
        cameras.info('right', START + k, 100.0)
        cameras.frame(START + k)
        cameras.wait(WAIT)
        assert len(cameras.pairs) == k + 1
    assert not cameras.pairing.stamps_camera_infos('left')
    cameras.frame(START + 10)
    cameras.info('right', START + 10, 100.0)
    assert len(cameras.pairs) == 11
    assert cameras.ledger.counts().camera_infos_missed == 3


@pytest.mark.parametrize(('late', 'is_own'), [
    (WAIT / 2, True), (WAIT, False), (WAIT + 1.0, False)])
def test_a_camera_info_later_than_the_wait_is_not_that_of_its_image(
        late: float, is_own: bool) -> None:
    side = SideInfos()
    side.expect(START, 10.0)
    assert side.stamped                     # nothing is known yet
    side.add(make_info(START), START, 10.0 + late)
    assert side.stamped == is_own


def test_half_a_change_that_lost_its_other_half_drops_the_pair(cameras: Cameras) -> None:
    for k in range(3):
        cameras.info('left', START + k, 100.0 + 100 * (k == 2))
        if k < 2:
            cameras.info('right', START + k, 100.0)
        cameras.frame(START + k)
        cameras.wait(WAIT)
    assert cameras.focals == [(100.0, 100.0)] * 2
    assert cameras.ledger.counts().pair_drops[PairDrop.NO_CAMERA_INFO] == 1


def test_a_change_of_one_stamped_side_applies_to_the_image_of_its_stamp(cameras: Cameras) -> None:
    for k, focal in enumerate((100.0, 100.0, 200.0, 200.0)):
        cameras.info('left', START + k, focal)
        cameras.info('right', START + k, 100.0)
        cameras.frame(START + k)
    assert cameras.focals == [(100.0, 100.0)] * 2 + [(200.0, 100.0)] * 2


def test_a_change_of_one_side_applies_when_the_other_has_sent_one_since(cameras: Cameras) -> None:
    published_once(cameras)
    cameras.info('left', 1, 200.0)
    cameras.wait(SINCE)
    cameras.frame(START + 1)
    cameras.info('right', 1, 100.0)
    cameras.frame(START + 2)
    assert cameras.focals[-2:] == [(100.0, 100.0), (200.0, 100.0)]


def test_a_change_of_one_side_applies_after_a_second_of_silence_of_the_other(cameras: Cameras
                                                                             ) -> None:
    published_once(cameras)
    cameras.info('left', 1, 200.0)
    cameras.wait(0.99 * SILENCE)
    cameras.frame(START + 1)
    cameras.wait(0.01 * SILENCE)
    cameras.frame(START + 2)
    assert cameras.focals[-2:] == [(100.0, 100.0), (200.0, 100.0)]


@pytest.mark.parametrize('ahead', [HOUR, -HOUR, 20 * 365 * 24 * HOUR])
def test_stamps_of_another_clock_keep_no_later_calibration_out(cameras: Cameras, ahead: int
                                                               ) -> None:
    for k, focal in enumerate((300.0, 300.0, 400.0, 400.0)):
        stamp = START + k * SECOND
        for side in ('left', 'right'):
            cameras.info(side, stamp + ahead, focal)
        cameras.frame(stamp)
        cameras.wait(WAIT)
    assert cameras.focals == [(300.0, 300.0)] * 2 + [(400.0, 400.0)] * 2


def test_a_right_stamp_after_wrong_ones_brings_its_calibration(cameras: Cameras) -> None:
    """Equal content must be taken in again under its right stamp."""
    for stamp, focal in ((START + HOUR, 300.0), (START + 2 * HOUR, 400.0), (START, 400.0)):
        for side in ('left', 'right'):
            cameras.info(side, stamp, focal)
    cameras.frame(START)
    assert cameras.focals == [(400.0, 400.0)]


def test_an_unchanged_camera_info_keeps_the_object(cameras: Cameras) -> None:
    """So that a calibration is read once, not with every frame."""
    for k in range(2):
        cameras.info('left', START + k, 100.0)
        cameras.info('right', START + k, 100.0)
        cameras.frame(START + k)
    first, second = cameras.pairs
    assert first.left_info is second.left_info
    assert first.right_info is second.right_info


@pytest.mark.parametrize(('field', 'value'), [
    ('distortion_model', 'equidistant'), ('d', [0.1] * 4), ('k', [90.0] * 9), ('r', [0.0] * 9)])
def test_a_change_of_what_raw_images_are_rectified_by_is_a_new_calibration(
        cameras: Cameras, field: str, value: object) -> None:
    cameras.info('left', START, 100.0)
    cameras.info('right', START, 100.0)
    cameras.frame(START)
    for side in ('left', 'right'):
        info = make_info(START + 1, side=side)
        setattr(info, field, value)
        cameras.pairing.add_camera_info(side, info, START + 1)
    cameras.frame(START + 1)
    first, second = cameras.pairs
    assert (getattr(first.left_info, field) == value, getattr(second.left_info, field)) == (
        False, value)


def test_a_calibration_of_nan_is_no_change_with_every_message(cameras: Cameras) -> None:
    published_once(cameras)
    for _ in range(3):
        for side in ('left', 'right'):
            cameras.info(side, 1, float('nan'))
        cameras.wait(SINCE)
    cameras.frame(START + 1)
    assert every(math.isnan(focal) for focal in cameras.focals[-1])


def test_pairs_that_wait_are_bounded_by_the_queue() -> None:
    cameras = Cameras(queue_size=3)
    cameras.info('left', START, 100.0)
    cameras.info('right', START, 100.0)
    for k in range(1, 20):
        cameras.frame(START + k)
        assert cameras.pairing.awaiting_camera_info <= 3


def published_once(cameras: Cameras) -> None:
    """Camera_infos that came once, before the first of the images, which have shown it."""
    cameras.info('left', 1, 100.0)
    cameras.info('right', 1, 100.0)
    cameras.frame(START)
    cameras.wait(WAIT)
    cameras.image('left', START + 10**8)        # the next image finds that none came
    cameras.image('right', START + 10**8)
    assert not cameras.pairing.stamps_camera_infos('left')
