"""Which camera_infos a pair is matched with: never the new one of one side and the old of the
other, and never an old one for ever."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from stereo_bp_ros.node.camera_infos import SILENCE, SINCE, WAIT, SideInfos
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from test.cases import every
from test.node.stand_ins import make_info, make_stamped
from test.node.test_pairing import Bench

SECOND = 1_000_000_000
START = 1_000_000 * SECOND
HOUR = 3600 * SECOND

#: The four messages of a frame, in every order that they may come in.
ORDERS = list(itertools.permutations(itertools.product(('left', 'right'), ('image', 'info'))))

FRAMES_PER_CALIBRATION, RATE = 5, 20.0

#: Of a recording: each order comes 36 times, and a 'slower' side tells of the last calibration.
FRAMES = 864


@pytest.fixture
def cameras() -> Bench:
    return Bench(infos=False)


def focals(cameras: Bench) -> list[tuple[float, float]]:
    """Focal lengths of the camera_infos that each pair left with."""
    return [(pair.left_info.p[0], pair.right_info.p[0]) for pair in cameras.pairs]


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


def play(cameras: Bench, kinds: dict[str, str], late: float = 0.0) -> None:
    """Publish frames whose calibration, of both sides, changes every five; drops nothing.

    Messages arrive in the order of ``ORDERS``, or up to ``late`` seconds late: frames overlap.
    """
    draw, pairing = random.Random(FRAMES), cameras.pairing
    messages = sorted(
        (frame / RATE + (draw.uniform(0, late) if late else place * 0.001), frame, *message)
        for frame in range(FRAMES) for place, message in enumerate(ORDERS[frame % len(ORDERS)]))

    def wait_until(seconds: float) -> None:
        cameras.seconds = seconds
        cameras.pairs += pairing.release()

    for arrival, frame, side, what in messages:
        while cameras.seconds + 0.02 < 1 + arrival:                 # the node's timer
            wait_until(cameras.seconds + 0.02)
        wait_until(1 + arrival)
        stamp_ns = START + frame * round(SECOND / RATE)
        stamp = info_stamp(kinds[side], frame, stamp_ns)
        if what == 'image':
            cameras.pairs += pairing.add_image(side, make_stamped(stamp_ns), stamp_ns, 0.0)
        elif stamp is not None:
            info = make_info(stamp, side=side, focal=calibration_of(frame))
            cameras.pairs += pairing.add_camera_info(side, info, stamp)
    cameras.wait(1.0)


def calibration_of(frame: int) -> float:
    """The focal length that both sides have in a frame."""
    return 100.0 + frame // FRAMES_PER_CALIBRATION


def frames_of(cameras: Bench) -> list[int]:
    return [round((pair.stamp_ns - START) * RATE / SECOND) for pair in cameras.pairs]


def test_each_pair_has_the_stamped_camera_infos_of_its_own(cameras: Bench) -> None:
    play(cameras, {'left': 'stamped', 'right': 'stamped'})
    assert frames_of(cameras) == list(range(FRAMES))
    assert focals(cameras) == [(calibration_of(k),) * 2 for k in range(FRAMES)]
    assert cameras.ledger.counts().camera_infos_missed == 0


@pytest.mark.parametrize('kind', ['another clock', 'once', 'slower'])
@pytest.mark.parametrize('stamped', ['left', 'neither'])
def test_no_pair_has_the_new_calibration_of_one_side_and_the_old_of_the_other(
        cameras: Bench, kind: str, stamped: str) -> None:
    play(cameras, {'left': kind, 'right': kind, stamped: 'stamped'})
    found = focals(cameras)
    assert [pair for pair in found if pair[0] != pair[1]] == []
    counts = cameras.ledger.counts()
    assert len(found) + counts.pair_drops[PairDrop.NO_CAMERA_INFO] == FRAMES
    if kind != 'slower':
        # What both sides say at the change applies to the frame after it at the latest.
        assert len(found) == FRAMES
        expected = [calibration_of(frame) for frame in frames_of(cameras)]
        assert sum(left == k for (left, _), k in zip(found, expected, strict=True)) > 0.75 * FRAMES
    else:
        # Changes faster than a side tells of them: some apply, the rest is silence.
        assert len({left for left, _ in found}) > 0.03 * FRAMES


@pytest.mark.parametrize('right', ['stamped', 'another clock'])
def test_messages_that_overtake_those_of_earlier_frames_mix_no_calibrations(
        cameras: Bench, right: str) -> None:
    play(cameras, {'left': 'stamped', 'right': right}, late=0.045)
    assert [pair for pair in focals(cameras) if pair[0] != pair[1]] == []
    assert len(cameras.pairs) > (0.95 * FRAMES if right == 'another clock' else FRAMES - 1)


def stamped(cameras: Bench, stamp_ns: int, left: float = 100.0, right: float = 100.0) -> None:
    """camera_infos with the stamp of a frame, and the frame."""
    cameras.info('left', stamp_ns, focal=left)
    cameras.info('right', stamp_ns, focal=right)
    cameras.pair(stamp_ns)


def test_a_pair_waits_for_the_camera_info_of_its_stamp_and_is_counted(cameras: Bench) -> None:
    stamped(cameras, START)
    cameras.pair(START + 1)
    cameras.info('left', START + 1, focal=200.0)
    assert len(cameras.pairs) == 1
    assert cameras.pairing.is_timed
    cameras.info('right', START + 1, focal=200.0)
    assert focals(cameras) == [(100.0, 100.0), (200.0, 200.0)]
    counts = cameras.ledger.counts()
    assert (counts.camera_info_waits, counts.camera_infos_missed) == (1, 0)


def test_a_side_that_stops_to_stamp_is_used_as_it_was_and_waited_for_no_longer(
        cameras: Bench) -> None:
    for k in range(5):
        stamped(cameras, START + k)
    for k in range(5, 10):
        cameras.info('right', START + k, focal=100.0)
        cameras.pair(START + k)
        cameras.wait(WAIT)
        assert len(cameras.pairs) == k + 1
    assert not cameras.pairing.stamps_camera_infos('left')
    cameras.pair(START + 10)
    cameras.info('right', START + 10, focal=100.0)
    assert len(cameras.pairs) == 11
    assert cameras.ledger.counts().camera_infos_missed == 3


def test_a_camera_info_later_than_the_wait_is_not_that_of_its_image() -> None:
    for late, is_own in ((WAIT / 2, True), (WAIT, False)):
        side = SideInfos()
        side.expect(START, 10.0)
        assert side.stamped                     # nothing is known yet
        side.add(make_info(START), START, 10.0 + late)
        assert side.stamped == is_own


def test_half_a_change_that_lost_its_other_half_drops_the_pair(cameras: Bench) -> None:
    for k in range(3):
        cameras.info('left', START + k, focal=100.0 + 100 * (k == 2))
        if k < 2:
            cameras.info('right', START + k, focal=100.0)
        cameras.pair(START + k)
        cameras.wait(WAIT)
    assert focals(cameras) == [(100.0, 100.0)] * 2
    assert cameras.ledger.counts().pair_drops[PairDrop.NO_CAMERA_INFO] == 1


def test_a_change_of_one_stamped_side_applies_to_the_image_of_its_stamp(cameras: Bench) -> None:
    for k, focal in enumerate((100.0, 100.0, 200.0, 200.0)):
        stamped(cameras, START + k, left=focal)
    assert focals(cameras) == [(100.0, 100.0)] * 2 + [(200.0, 100.0)] * 2
    # One that is unchanged is the same object: a calibration is read once.
    assert cameras.pairs[0].left_info is cameras.pairs[1].left_info
    assert cameras.pairs[0].right_info is cameras.pairs[3].right_info


@pytest.mark.parametrize('is_silent', [False, True])
def test_a_change_of_one_side_applies_when_the_other_has_sent_one_since_or_is_silent(
        cameras: Bench, is_silent: bool) -> None:
    published_once(cameras)
    cameras.info('left', 1, focal=200.0)
    cameras.wait(0.99 * SILENCE if is_silent else SINCE)
    cameras.pair(START + 1)
    if is_silent:
        cameras.wait(0.011 * SILENCE)
    else:
        cameras.info('right', 1, focal=100.0)
    cameras.pair(START + 2)
    assert focals(cameras)[-2:] == [(100.0, 100.0), (200.0, 100.0)]


def test_stamps_of_another_clock_keep_no_later_calibration_out(cameras: Bench) -> None:
    for k, focal in enumerate((300.0, 300.0, 400.0, 400.0)):
        stamp = START + k * SECOND
        for side in ('left', 'right'):
            cameras.info(side, stamp + 20 * 365 * 24 * HOUR, focal=focal)
        cameras.pair(stamp)
        cameras.wait(WAIT)
    assert focals(cameras) == [(300.0, 300.0)] * 2 + [(400.0, 400.0)] * 2


def test_a_right_stamp_after_wrong_ones_brings_its_calibration(cameras: Bench) -> None:
    """Equal content must be taken in again under its right stamp."""
    for stamp, focal in ((START + HOUR, 300.0), (START + 2 * HOUR, 400.0), (START, 400.0)):
        for side in ('left', 'right'):
            cameras.info(side, stamp, focal=focal)
    cameras.pair(START)
    assert focals(cameras) == [(400.0, 400.0)]


@pytest.mark.parametrize(('field', 'value'), [
    ('distortion_model', 'equidistant'), ('d', [0.1] * 4), ('k', [90.0] * 9), ('r', [0.0] * 9)])
def test_a_change_of_what_raw_images_are_rectified_by_is_a_new_calibration(
        cameras: Bench, field: str, value: Any) -> None:
    stamped(cameras, START)
    for side in ('left', 'right'):
        info = make_info(START + 1, side=side)
        setattr(info, field, value)
        cameras.pairing.add_camera_info(side, info, START + 1)
    cameras.pair(START + 1)
    first, second = (getattr(pair.left_info, field) for pair in cameras.pairs)
    assert first != value
    assert second == value


def test_a_calibration_of_nan_is_no_change_with_every_message(cameras: Bench) -> None:
    published_once(cameras)
    for _ in range(3):
        for side in ('left', 'right'):
            cameras.info(side, 1, focal=float('nan'))
        cameras.wait(SINCE)
    cameras.pair(START + 1)
    assert every(math.isnan(focal) for focal in focals(cameras)[-1])


def test_pairs_that_wait_are_bounded_by_the_queue() -> None:
    cameras = Bench(infos=False, queue_size=3)
    stamped(cameras, START)
    for k in range(1, 20):
        cameras.pair(START + k)
        assert cameras.pairing.awaiting_camera_info <= 3


def published_once(cameras: Bench) -> None:
    """camera_infos that came once, before the first of the images, which have shown it."""
    cameras.info('left', 1, focal=100.0)
    cameras.info('right', 1, focal=100.0)
    cameras.pair(START)
    cameras.wait(WAIT)
    cameras.pair(START + 10**8)                 # the next image finds that none came
    assert not cameras.pairing.stamps_camera_infos('left')
