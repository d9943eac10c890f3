"""What a node says of a calibration whose rows match: a yaw, by motion or by far points."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.yaw import MIN_ESTIMATES, DisparityOffset, FarPoints
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.rows import camera_report, measure
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from stereo_bp_ros.stream import yaw_tracker
from stereo_bp_ros.stream.observer import Pair, PairObserver

CONFIG = MatcherConfig(disparity_range=64)
HALF_SECOND = 500_000_000


@functools.cache
def street(yaw: float) -> RoadSequence:
    return RoadSequence(width=640, height=240, frames=600, misalignment=Misalignment(yaw_deg=yaw))


class Drive:
    """An observer, and pairs of a street."""

    def __init__(self, calibration: Calibration, config: MatcherConfig = CONFIG) -> None:
        self.logged: list[str] = []
        self.issues = IssueLog(lambda level, text: self.logged.append(text))
        self.observer = PairObserver(0.0)
        self.calibration, self.config = calibration, config

    def see(self, stamp_ns: int, left: np.ndarray, right: np.ndarray) -> str:
        """The texts after another pair."""
        self.observer.offer(Pair(RawImage.from_array(left), RawImage.from_array(right),
                                 self.config, self.calibration, None, 1e-9 * stamp_ns))
        measure(self.observer, self.issues)
        return ' '.join(c.text for c in self.issues.active(IssueCode.YAW))

    def report(self) -> dict[str, str]:
        return camera_report(self.observer)


def drive(yaw: float, seconds: int, config: MatcherConfig = CONFIG) -> tuple[Drive, list[str]]:
    """What is said every half second of driving along the street."""
    sequence = street(yaw)
    one, texts = Drive(sequence.calibration, config), []
    for index in range(10, 10 * seconds, 5):
        frame = sequence.frame(index)
        texts.append(one.see(frame.stamp_ns, frame.left, frame.right))
    return one, texts


@pytest.mark.parametrize('yaw', [0.2, -0.2])
def test_a_yaw_of_a_fifth_of_a_degree_is_told_within_a_minute(yaw: float) -> None:
    one, texts = drive(yaw, 20)
    assert any(f'a yaw of {degrees} degrees' in texts[-1] for degrees in ('0.19', '0.20', '0.21'))
    assert ('to the right' if yaw > 0 else 'to the left') in texts[-1]
    assert float(one.report()['yaw degrees']) == pytest.approx(yaw, abs=0.02)
    one.observer.clear()
    assert one.report() == {}


def test_nothing_is_said_of_a_street_that_is_seen_as_calibrated() -> None:
    one, texts = drive(0.0, 20)
    assert set(texts) == {''}
    assert abs(float(one.report()['disparity offset px'])) < 0.2


def test_a_person_may_ignore_a_yaw() -> None:
    _, texts = drive(0.2, 20, CONFIG.replace(ignored_checks='yaw'))
    assert set(texts) == {''}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the images of every pair show, instead of themselves."""
    shown: dict[str, object] = {'far': FarPoints(0, 0, 0.0), 'offset': None}
    monkeypatch.setattr(yaw_tracker, 'match_points', lambda *args: ((), ()))
    monkeypatch.setattr(yaw_tracker, 'far_points', lambda *args: shown['far'])
    monkeypatch.setattr(yaw_tracker, 'disparity_offset', lambda *args: shown['offset'])
    return shown


GREY = np.zeros((240, 640), np.uint8)


def see(one: Drive, looks: int, first_s: float = 0.0) -> list[str]:
    texts = []
    for look in range(looks):
        stamp = int((first_s + 2 * look) * 1e9)
        for stamp_ns in range(stamp, stamp + 4 * HALF_SECOND, HALF_SECOND):
            text = one.see(stamp_ns, GREY, GREY)
        texts.append(text)
    return texts


def test_far_points_behind_infinity_are_told_at_rest(measured: dict[str, object]) -> None:
    one = Drive(street(0.0).calibration)
    measured['far'] = FarPoints(10, 1, -0.9)
    texts = see(one, 8)
    assert texts[1] == ''                       # too few yet
    assert ' far points have negative disparity' in texts[-1]
    assert 'a yaw of at least 0.09 degrees of the right camera to the left' in texts[-1]
    # Motion tells more: nothing is wrong with these, and the points are others.
    measured['offset'] = DisparityOffset(0.1, 0.1)
    assert see(one, 6, 20)[-1] == ''


def test_an_offset_is_told_until_it_is_clearly_smaller(measured: dict[str, object]) -> None:
    one, said = Drive(street(0.0).calibration), []
    for first, offset in enumerate((0.9, 1.1, 0.9, 0.6)):
        measured['offset'] = DisparityOffset(offset, 0.1)
        said.append(bool(see(one, 31, 62.0 * first)[-1]))
    assert said == [False, True, True, False]
    measured['offset'] = DisparityOffset(1.1, 0.1)
    assert not any(see(one, MIN_ESTIMATES - 1, 400.0))
    # Estimates that contradict each other are no yaw.
    one = Drive(street(0.0).calibration)
    for look in range(20):
        measured['offset'] = DisparityOffset((-4.0, 1.5, 6.0)[look % 3], 0.3)
        assert see(one, 1, 2.0 * look) == ['']


def test_another_calibration_or_a_clock_that_goes_back_starts_over(
        measured: dict[str, object]) -> None:
    measured['offset'] = DisparityOffset(3.0, 0.1)
    for change in ('calibration', 'clock'):
        one = Drive(street(0.0).calibration)
        assert see(one, 6, 100.0)[-1]
        if change == 'calibration':
            one.calibration = Calibration(500, 0.3, 320, 320, 120)
        texts = see(one, 3, 112.0 if change == 'calibration' else 0.0)
        assert texts[-1] == '', change
