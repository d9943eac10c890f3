"""What the worker does with one pair: match and publish it, or drop it for the right reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import findings
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import DeviceLostError, InputReason, OutOfDeviceMemory
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.diagnostics.monitors import STAGES
from stereo_bp_ros.rectification import Rectification
from test.node.stand_ins import (
    NOW,
    SECOND,
    Bench,
    FakeMatcher,
    make_image,
    make_info,
    make_stamped,
)


def test_a_good_pair_is_published_with_the_left_stamp_and_frame() -> None:
    bench = Bench()
    bench.left_info.header.frame_id = 'left_camera'
    bench.process()
    (topics, result), = bench.outputs.published
    assert topics == ('disparity',)
    assert result.camera_info is bench.left_info
    assert result.stamp.sec * SECOND + result.stamp.nanosec == NOW
    assert result.frame_id == 'left_camera'
    assert (result.calibration.focal_px, result.calibration.baseline_m) == (100.0, 0.1)
    assert result.frame.disparity is not None
    assert result.camera_x == 0
    assert bench.outcome() == {'published': 1}


def test_with_the_right_reference_the_frame_is_the_right_cameras() -> None:
    bench = Bench(config=MatcherConfig(disparity_range=8, reference_image='right'))
    bench.right_info.header.frame_id = 'right_camera'
    bench.process()
    assert bench.outputs.published[0][1].frame_id == 'right_camera'


def test_without_subscribers_nothing_is_computed() -> None:
    bench = Bench()
    bench.outputs.topics = ()
    bench.process()
    assert bench.matcher.computed == 0
    assert bench.outcome() == {PairDrop.NO_SUBSCRIBERS: 1}
    bench.outputs.topics = ('depth',)
    bench.process()
    assert bench.outputs.published[0][1].frame.disparity is None


@pytest.mark.parametrize(('age', 'outcome'), [
    (0.0, 'published'), (0.49, 'published'), (0.51, PairDrop.STALE), (1e6, PairDrop.STALE),
    (-0.09, 'published'), (-0.11, PairDrop.FUTURE)])
def test_age_decides_when_the_pair_is_taken(age: float, outcome: Any) -> None:
    bench = Bench(max_input_age=0.5)
    bench.process(NOW - int(age * SECOND))
    assert bench.outcome() == {outcome: 1}


def test_no_age_is_too_old_when_the_check_is_off() -> None:
    bench = Bench(max_input_age=0.0)
    bench.process(1)
    assert bench.outcome() == {'published': 1}


def test_a_clock_that_is_not_known_yet_makes_nothing_stale_or_future() -> None:
    bench = Bench(max_latency=0.001)
    bench.now = 0
    bench.process()
    assert bench.outcome() == {'published': 1}
    assert bench.outputs.latencies[0].age == 0.0


def test_the_stale_warning_names_the_remedy_for_bags_and_ends_with_a_fresh_pair() -> None:
    bench = Bench()
    bench.process(NOW - 5 * SECOND)
    assert 'use_sim_time' in bench.texts('age')
    bench.conditions.report()
    bench.process(NOW)
    assert bench.texts('age') == ''


def test_a_result_that_comes_too_late_is_not_published() -> None:
    bench = Bench(max_latency=0.2)

    def take_time() -> None:
        bench.now += 3 * SECOND // 10

    bench.process(NOW)
    bench.matcher.before_compute = take_time
    bench.process(NOW + 1)
    assert bench.outcome() == {'published': 1, PairDrop.LATE: 1}


def test_a_pair_not_newer_than_the_last_published_is_dropped() -> None:
    bench = Bench()
    for stamp in (NOW - 2, NOW - 3, NOW - 2, NOW):
        bench.process(stamp)
    assert bench.outcome() == {'published': 2, PairDrop.NOT_NEWER: 2}


def test_after_a_backward_jump_of_the_clock_older_stamps_are_published_again() -> None:
    bench = Bench(max_input_age=0)
    bench.process(NOW)
    bench.generation.advance(PairDrop.CLOCK_JUMP)
    bench.process(NOW - 60 * SECOND)
    assert bench.outcome() == {'published': 2}


def test_deactivating_is_no_reason_to_publish_older_stamps() -> None:
    bench = Bench()
    bench.process(NOW)
    bench.generation.advance(PairDrop.DEACTIVATED)
    bench.process(NOW - 1)
    assert bench.outcome() == {'published': 1, PairDrop.NOT_NEWER: 1}


def test_the_result_of_an_ended_generation_is_discarded() -> None:
    bench = Bench()
    bench.matcher.before_compute = lambda: bench.generation.advance(PairDrop.DEACTIVATED)
    bench.process()
    assert bench.outputs.published == []
    assert bench.outcome() == {PairDrop.DEACTIVATED: 1}
    bench.matcher.before_compute = lambda: bench.generation.advance(PairDrop.CLOCK_JUMP)
    bench.process()
    assert bench.outcome() == {PairDrop.DEACTIVATED: 1, PairDrop.CLOCK_JUMP: 1}


def _spoil(bench: Bench, name: str) -> dict[str, Any]:
    image = make_image(NOW, np.zeros((24, 32), np.uint8))
    small = make_image(NOW, np.zeros((12, 16), np.uint8))
    if name == 'unknown encoding':
        image.encoding = 'rgb9'
    elif name == 'short data':
        image.data = image.data[:-1]
    elif name == 'bad step':
        image.step = 31
    elif name == 'bad size':
        image.height = 0
    elif name == 'too large':
        image.width, image.step = 100000, 100000
    elif name == 'size mismatch':
        image = small
    elif name == 'camera_info size':
        return {'left': small, 'right': small}
    elif name == 'bad calibration':
        bench.left_info.p[0] = float('nan')
    elif name == 'zero baseline':
        bench.right_info.p[3] = 0.0
    elif name == 'swapped cameras':
        bench.right_info.p[3] = 10.0
    elif name == 'vertical pair':
        bench.right_info.p[3], bench.right_info.p[7] = 0.0, -10.0
    elif name == 'exchanged images':
        bench.offsets.rejections = lambda: [findings.Finding(findings.CHECKS[name], 'so; so')]
    elif name == 'bad compression':
        image = make_stamped(NOW, data=b'not an image', format='jpeg')
    return {'left': image}


@pytest.mark.parametrize('name', [
    r.value for r in InputReason if r not in (InputReason.ZERO_STAMP, InputReason.BAD_ARRAY)])
def test_bad_input_is_counted_by_its_reason_and_the_next_good_pair_is_published(name: str) -> None:
    bench = Bench()
    infos = make_info(side='left'), make_info(side='right')
    bench.process(**_spoil(bench, name))
    assert bench.outcome() == {PairDrop.BAD_INPUT: 1, InputReason(name): 1}
    assert name in bench.texts('input')
    assert bench.matcher.computed == 0
    bench.conditions.report()
    bench.left_info, bench.right_info = infos
    bench.offsets.rejections = list
    bench.process()
    assert bench.outcome()['published'] == 1
    assert bench.texts('input') == ''


def test_an_unknown_encoding_is_answered_with_the_known_ones() -> None:
    bench = Bench()
    bench.process(**_spoil(bench, 'unknown encoding'))
    assert 'bayer_rggb8' in bench.texts('input')


def test_an_unexpected_exception_is_counted_logged_and_survived() -> None:
    bench = Bench()
    bench.matcher.fail.append(RuntimeError('a bug'))
    bench.process()
    bench.process()
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 1, 'published': 1}
    assert any('Traceback' in text for _, text in bench.logged)


def test_the_stages_after_receipt_add_up_to_the_total() -> None:
    bench = Bench()
    for k in range(3):
        bench.process(NOW + k)
    for latency in bench.outputs.latencies:
        assert [name for name, _ in latency.items()] == [*STAGES, 'total', 'age']
        assert sum(latency.stages.values()) == pytest.approx(latency.total, rel=0.05, abs=0.2)
    found, _ = bench.latencies.report()
    assert found is not None
    assert found.frames == 3
    assert found.p50 <= found.p95 <= found.p99 <= found.maximum


def test_a_lost_device_ends_the_node_by_default() -> None:
    bench = Bench()
    bench.matcher.fail.append(DeviceLostError('it fell off the bus'))
    bench.process()
    assert bench.lost == ['it fell off the bus']
    bench.process()                     # on its way out: the device is not tried again
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 2}
    assert bench.matcher is None


def test_a_lost_device_is_replaced_by_the_cpu_where_asked_for() -> None:
    bench = Bench(on_device_loss='cpu')
    lost = bench.matcher
    lost.fail.append(DeviceLostError('it fell off the bus'))
    bench.process()
    bench.process()
    assert bench.lost == []
    assert not lost.closed              # nothing may touch its device again
    assert bench.matcher.backend == 'cpu'
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 1, 'published': 1}
    assert 'fake was lost' in bench.texts('device')
    assert 'cpu goes on' in bench.texts('device')
    bench.matcher_host.reconfigure(MatcherConfig(disparity_range=16, backend='auto'))
    assert bench.matcher.config.backend == 'cpu'


def test_out_of_device_memory_rebuilds_once_and_then_backs_off() -> None:
    made: list[Any] = []
    failures = [1, 1, 0]

    def factory(config: MatcherConfig) -> Any:
        matcher = FakeMatcher(config)
        matcher.fail += [OutOfDeviceMemory('full')] * failures[len(made)]
        made.append(matcher)
        return matcher

    bench = Bench(factory=factory)
    bench.process()                     # fails, is rebuilt, fails again
    assert len(made) == 2
    bench.process()                     # within the back-off: not even tried
    assert [m.computed for m in made] == [0, 0]
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 2}
    assert 'trying again in' in bench.texts('engine')
    bench.matcher_host._retry_at = 0.0
    bench.process()
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 2, 'published': 1}
    assert made[0].closed


def test_raw_images_are_matched_with_the_rectification_of_their_camera_info() -> None:
    bench = Bench(config=MatcherConfig(disparity_range=8, rectify=True, rectified_width=16,
                                      rectified_height=12))
    bench.process()
    bench.process(NOW + 1)
    found = Rectification.from_camera_info(bench.left_info, bench.right_info, 16, 12)
    assert bench.matcher.rectifications == [found, found]
    assert bench.matcher.rectifications[0] is bench.matcher.rectifications[1]
    calibration, frame = bench.outputs.published[0][1][2:4]
    assert calibration == found.calibration == Calibration(50.0, 0.1, 8.0, 8.0, 6.0)
    assert frame.disparity.shape == (12, 16)
    info = bench.outputs.published[0][1].camera_info
    assert (info.width, info.height, info.header) == (16, 12, bench.left_info.header)
    assert (info.p[0], info.p[2], info.p[6], info.k[4]) == (50.0, 8.0, 6.0, 50.0)
    assert not any(info.d)
    assert bench.left_info.width == 32      # what came is as it was
    # Another calibration, or another size, is another rectification.
    bench.left_info = make_info(side='left')
    bench.left_info.d[0] = 0.1
    bench.process(NOW + 2)
    host = bench.matcher_host
    host.reconfigure(host.config.replace(rectified_width=0, rectified_height=0))
    bench.process(NOW + 3)
    distorted, whole = bench.matcher.rectifications[2:]
    assert distorted.left.d[0] == 0.1
    assert (whole.rectified_width, whole.left) == (32, distorted.left)


@pytest.mark.parametrize(('field', 'value', 'words'), [
    ('distortion_model', '', "left distortion model is ''"), ('k', [0.0] * 9, r'left K[0] is 0')])
def test_cameras_that_cannot_be_rectified_are_a_bad_calibration_in_words(
        field: str, value: Any, words: str) -> None:
    bench = Bench(config=MatcherConfig(disparity_range=8, rectify=True))
    good, bad = bench.left_info, make_info(side='left')
    setattr(bad, field, value)
    bench.left_info = bad
    for stamp in (NOW, NOW + 1):
        bench.process(stamp)
    assert bench.outcome() == {PairDrop.BAD_INPUT: 2, InputReason.BAD_CALIBRATION: 2}
    assert words in bench.texts('input')
    bench.left_info = good
    bench.process(NOW + 2)
    assert bench.outcome()['published'] == 1
