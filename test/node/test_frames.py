"""What the worker does with one pair: match and publish it, or drop it for the right reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import DeviceLostError, OutOfDeviceMemory, StereoError
from stereo_bp_ros.issues import IssueCode, IssueLevel
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.diagnostics.monitors import STAGES
from test.node.stand_ins import (
    NOW,
    SECOND,
    Bench,
    FakeMatcher,
    make_image,
    make_info,
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


@pytest.mark.parametrize(('age', 'outcome'), [
    (0.49, 'published'), (0.51, PairDrop.STALE), (-0.09, 'published'), (-0.11, PairDrop.FUTURE)])
def test_age_decides_when_the_pair_is_taken(age: float, outcome: Any) -> None:
    bench = Bench(max_input_age=0.5)
    bench.process(NOW - int(age * SECOND))
    assert bench.outcome() == {outcome: 1}


def test_no_age_is_too_old_when_the_check_is_off_or_the_clock_is_not_known_yet() -> None:
    bench = Bench(max_input_age=0.0)
    bench.process(1)
    assert bench.outcome() == {'published': 1}
    bench = Bench(max_latency=0.001)
    bench.now = 0
    bench.process()
    assert bench.outcome() == {'published': 1}
    assert bench.outputs.latencies[0].age == 0.0


def test_the_stale_warning_names_the_remedy_for_bags_and_ends_with_a_fresh_pair() -> None:
    bench = Bench()
    bench.process(NOW - 5 * SECOND)
    assert 'use_sim_time' in bench.texts('age')
    bench.issues.report()
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


def test_a_pair_not_newer_than_the_last_is_dropped_but_in_a_new_generation() -> None:
    bench = Bench(max_input_age=0)
    for stamp in (NOW - 2, NOW - 3, NOW - 2, NOW):
        bench.process(stamp)
    assert bench.outcome() == {'published': 2, PairDrop.NOT_NEWER: 2}
    for published, reason in ((3, PairDrop.DEACTIVATED), (4, PairDrop.CLOCK_JUMP)):
        bench.generation.advance(reason)
        bench.process(NOW - 60 * SECOND)
        assert bench.outcome() == {'published': published, PairDrop.NOT_NEWER: 2}


def test_the_result_of_an_ended_generation_is_discarded() -> None:
    bench = Bench()
    bench.matcher.before_compute = lambda: bench.generation.advance(PairDrop.DEACTIVATED)
    bench.process()
    assert bench.outputs.published == []
    assert bench.outcome() == {PairDrop.DEACTIVATED: 1}
    bench.matcher.before_compute = lambda: bench.generation.advance(PairDrop.CLOCK_JUMP)
    bench.process()
    assert bench.outcome() == {PairDrop.DEACTIVATED: 1, PairDrop.CLOCK_JUMP: 1}


#: What spoils a pair, of which the left image is given, by the reason.
SPOILED: dict[str, Callable[[Bench, Any], object]] = {
    'unknown encoding': lambda bench, image: vars(image).update(encoding='rgb9'),
    'short data': lambda bench, image: image.data.pop(),
    'bad step': lambda bench, image: vars(image).update(step=31),
    'bad size': lambda bench, image: vars(image).update(height=0),
    'too large': lambda bench, image: vars(image).update(width=100000, step=100000),
    'size mismatch': lambda bench, image: vars(image).update(height=12),
    'camera_info size': lambda bench, image: vars(bench.left_info).update(width=64),
    'bad calibration': lambda bench, image: bench.left_info.p.__setitem__(0, float('nan')),
    'zero baseline': lambda bench, image: bench.right_info.p.__setitem__(3, 0.0),
    'swapped cameras': lambda bench, image: bench.right_info.p.__setitem__(3, 10.0),
    'vertical pair': lambda bench, image: bench.right_info.p.__setitem__(
        slice(3, 8), [0, 0, 100.0, 12, -10.0]),
    'exchanged images': lambda bench, image: vars(bench.observer).update(rejections=lambda: [
        IssueCode.EXCHANGED_IMAGES.issue('so')]),
    'bad compression': lambda bench, image: vars(image).update(data=b'no image', format='jpeg'),
}


@pytest.mark.parametrize('name', [
    code.value for code in IssueCode if code.scope == 'pair' and code.level is IssueLevel.ERROR
    and code not in (IssueCode.ZERO_STAMP, IssueCode.BAD_ARRAY)])
def test_bad_input_is_counted_by_its_reason_and_the_next_good_pair_is_published(name: str) -> None:
    bench = Bench()
    image = make_image(NOW, np.zeros((24, 32), np.uint8))
    SPOILED[name](bench, image)
    bench.process(left=image)
    assert bench.outcome() == {PairDrop.BAD_INPUT: 1, IssueCode(name): 1}
    assert name in bench.rejections
    assert bench.matcher.computed == 0
    bench.issues.report()
    bench.left_info, bench.right_info = make_info(side='left'), make_info(side='right')
    bench.observer.rejections = list
    bench.process()
    assert bench.outcome()['published'] == 1
    assert bench.rejections == ''


def test_a_drop_is_counted_before_it_is_told() -> None:
    bench = Bench(max_input_age=0.5)
    counted: list[int] = []
    bench.issues._log = lambda level, text: counted.append(sum(bench.outcome().values()))
    bench.process(NOW - SECOND)
    thermal = make_image(NOW, np.zeros((24, 32), np.uint8))
    thermal.encoding = 'thermal'
    bench.process(left=thermal)
    bench.matcher.fail.append(RuntimeError('a bug'))
    bench.process(NOW + 1)
    # Of bad input there is its reason, too.
    assert counted == [1, 3, 4]


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
    assert 'the device was lost (it fell off the bus), cpu goes on' in bench.texts('device')
    bench.matcher_host.reconfigure(MatcherConfig(disparity_range=16, backend='auto'))
    assert bench.matcher.config.backend == 'cpu'


@pytest.mark.parametrize('step', ['factory', 'prepare', 'close'])
def test_a_device_that_is_lost_in_the_rebuild_after_out_of_memory_is_replaced_too(
        step: str) -> None:
    made: list[FakeMatcher] = []

    def lose(*_: object, **__: object) -> Any:
        raise DeviceLostError('it fell off the bus')

    def factory(config: MatcherConfig) -> FakeMatcher:
        matcher = FakeMatcher(config)
        made.append(matcher)
        if config.backend != 'cpu':
            if len(made) == 2 and step == 'factory':
                lose()
            if step == 'close' or len(made) == 2:
                setattr(matcher, step, lose)
        return matcher

    bench = Bench(factory=factory, on_device_loss='cpu')
    bench.matcher.fail.append(OutOfDeviceMemory('full'))
    bench.process()
    bench.process(NOW + 1)
    assert bench.lost == []
    assert bench.outcome() == {PairDrop.ENGINE_ERROR: 1, 'published': 1}
    assert 'the device was lost (it fell off the bus), cpu goes on' in bench.texts('device')
    assert not made[-2].closed          # nothing touches its device again
    assert bench.matcher.config == MatcherConfig(disparity_range=8, backend='cpu')


@pytest.mark.parametrize('failure', [AssertionError(), MemoryError(), StereoError('')])
def test_where_the_cpu_cannot_go_on_it_is_said_why(failure: Exception) -> None:
    def factory(config: MatcherConfig) -> FakeMatcher:
        if config.backend == 'cpu':
            raise failure
        return FakeMatcher(config)

    bench = Bench(factory=factory, on_device_loss='cpu')
    bench.matcher.fail.append(DeviceLostError(''))
    bench.process()
    why = ("device lost: DeviceLostError(''); the CPU cannot go on: "
           f"{type(failure).__name__}('')")
    assert bench.lost == [why]
    assert bench.texts('device') == why


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
    rectification = Rectification.from_camera_info(bench.left_info, bench.right_info, 16, 12)
    assert bench.matcher.rectifications == [rectification, rectification]
    assert bench.matcher.rectifications[0] is bench.matcher.rectifications[1]
    result = bench.outputs.published[0][1]
    assert result.calibration == rectification.calibration == Calibration(50.0, 0.1, 8.0, 8.0, 6.0)
    assert result.frame.disparity.shape == (12, 16)
    info = result.camera_info
    assert (info.width, info.height, info.header) == (16, 12, bench.left_info.header)
    assert (info.p[0], info.p[2], info.p[6], info.k[4]) == (50.0, 8.0, 6.0, 50.0)
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
    # Cameras that cannot be rectified are a bad calibration, however often they come.
    bench.left_info = make_info(side='left')
    bench.left_info.k = [0.0] * 9
    for stamp in (NOW + 4, NOW + 5):
        bench.process(stamp)
    assert bench.outcome() == {PairDrop.BAD_INPUT: 2, IssueCode.BAD_CALIBRATION: 2,
                               'published': 4}
    assert 'left K[0] is 0' in bench.rejections
