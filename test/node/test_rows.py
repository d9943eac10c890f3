"""What a node says and does about vertical disparity: warnings, reports, corrections."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.cameras.row_correction import RowCorrection, corrected_info
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.rows import OVER_TIME, camera_report, measure
from stereo_bp_ros.stream import observer
from stereo_bp_ros.stream.observer import SETTLED_PAIRS, Pair, PairObserver
from test.node.stand_ins import NOW, Bench, make_image, make_info
from test.raw_cameras import camera_info, raw_image, scene

W, H = 640, 480
IMAGE = RawImage.from_array(np.zeros((H, W), np.uint8))
CALIBRATION = Calibration(focal_px=640.0, baseline_m=0.1, cx_left=319.5, cx_right=319.5, cy=239.5)
CONFIG = MatcherConfig(disparity_range=64)
CORRECT = CONFIG.replace(row_correction='correct')
LIMIT = 0.75
SECOND = 10**9


class Rows:
    """A monitor whose points are given, a pair a second."""

    def __init__(self, config: MatcherConfig = CONFIG) -> None:
        self.issues = IssueLog(lambda level, text: None)
        self.monitor = PairObserver(LIMIT)
        self.config = config
        self.random = np.random.default_rng(0)
        self.next: tuple[float, float] | None = None
        self.measured = 0
        self.time_s = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def points(self, *_: object) -> np.ndarray:
        """What is measured next: an offset and a tilt, or nothing."""
        self.measured += 1
        self.meanwhile()
        if self.next is None:
            return np.zeros((0, 3))
        offset, tilt = self.next
        x, y = self.random.uniform(0, (W, H), (200, 2)).T
        return np.stack([x, y, offset + tilt * (x - 319.5) / 639
                         + self.random.normal(0, 0.1, 200)], axis=1)

    def see(self, *offsets: float | None, tilt: float = 0.0, limit: float = LIMIT,
            calibration: Calibration = CALIBRATION, apart_s: float = 0.0) -> None:
        for offset in offsets:
            self.next = None if offset is None else (offset, tilt)
            self.monitor.max_vertical_offset = limit
            self.monitor.offer(Pair(IMAGE, IMAGE, self.config, calibration, None, self.time_s,
                                    apart_s))
            self.measure()
            self.time_s += 1

    @property
    def wants_pair(self) -> bool:
        """Whether a pair that comes at once would be measured."""
        return self.monitor.is_due(Pair(IMAGE, IMAGE, self.config, CALIBRATION, None,
                                        self.time_s - 0.9))

    def measure(self) -> None:
        measure(self.monitor, self.issues)

    def correction(self, config: MatcherConfig | None = None,
                   calibration: Calibration = CALIBRATION) -> RowCorrection | None:
        return self.monitor.correction(Pair(IMAGE, IMAGE, config or self.config, calibration,
                                            None, self.time_s + 10))

    def report(self) -> dict[str, str]:
        """Without what motion shows."""
        return {key: text for key, text in camera_report(
            self.monitor, self.config.row_correction).items()
            if key.startswith(('vertical', 'row correction'))}

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.issues.active(*OVER_TIME) if one.code != IssueCode.YAW]


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Callable[[MatcherConfig], Rows]:
    """Makes monitors whose points are given."""
    def make(config: MatcherConfig) -> Rows:
        found = Rows(config)
        monkeypatch.setattr(observer, 'row_points', found.points)
        monkeypatch.setattr(observer.checks, 'check_exchanged', lambda *_: [])
        return found
    return make


def test_estimates_are_reported_and_no_pair_is_measured_twice(of: Any) -> None:
    bench = of(CONFIG)
    bench.measure()
    assert bench.report() == {}
    bench.see(0.25, 0.25, 0.25, tilt=1.0)
    bench.measure()
    assert bench.measured == 3
    values = bench.report()
    assert float(values['vertical offset px']) == pytest.approx(0.25, abs=0.03)
    assert float(values['vertical tilt px']) == pytest.approx(1, abs=0.1)
    assert float(values['vertical error px']) == pytest.approx(0.75, abs=0.1)
    assert 0 < float(values['vertical error sigma px']) < 0.1
    assert float(values['vertical spread px']) == pytest.approx(0.1, abs=0.03)
    assert int(values['vertical points']) > 190
    assert values['vertical terms px'].startswith('offset 0.2')
    assert ', roll ' in values['vertical terms px']
    assert 'row correction' not in values
    bench.see(None, None, None, None)
    assert bench.report()['vertical offset px'] == 'unknown'


@pytest.mark.parametrize('mode', ['off', 'measure'])
@pytest.mark.parametrize(('offset', 'tilt', 'warned'), [
    (0.6, 0.0, False), (-0.9, 0.0, True), (0.0, 2.6, False), (0.0, 3.6, True),
    (-0.6, 1.2, False), (-1.0, 1.2, True)])
def test_rows_that_half_of_the_points_miss_are_a_warning_where_nothing_is_corrected(
        of: Any, mode: str, offset: float, tilt: float, warned: bool) -> None:
    bench = of(CONFIG.replace(row_correction=mode))
    bench.see(offset, tilt=tilt)
    assert ['vertical disparity is up to' in text for text in bench.texts] == [True] * warned
    bench.see(*[offset] * SETTLED_PAIRS, tilt=tilt)
    assert ['vertical disparity is up to' in text for text in bench.texts] == [True] * warned
    assert bench.correction() is None
    bench.see(None, None, None, None)           # what is not known is no warning
    assert bench.texts == []


def test_rows_that_are_corrected_are_no_warning_and_those_beyond_the_limit_are(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(*[2.0] * SETTLED_PAIRS)
    found = bench.correction()
    assert found is not None
    assert found.terms == pytest.approx((2, 0, 0, 0, 0), abs=0.1)
    assert found.focal_px == 640
    assert bench.texts == []
    values = bench.report()
    assert values['row correction'].startswith('up to 2.0')
    assert float(values['row correction since s']) == pytest.approx(0)
    assert float(values['row correction remaining px']) < 0.1
    bench.see(*[6.0] * SETTLED_PAIRS)
    assert bench.correction() == found
    (text,) = bench.texts
    assert 'is up to 4.0' in text
    assert 'beyond the limit of 4 px' in text
    assert 'beyond the limit' in bench.report()['row correction']
    bench.config = CORRECT.replace(row_correction_limit=8.0)
    bench.see(6.0)
    corrected = bench.correction()
    assert corrected is not None
    assert corrected.terms[0] == pytest.approx(6, abs=0.1)


def test_a_camera_that_moves_is_told_with_how_far(of: Any) -> None:
    bench = of(CONFIG)
    bench.see(*[-0.4] * SETTLED_PAIRS)
    assert bench.report()['vertical offset drift px'] == '0.00'
    bench.see(*[0.6] * (SETTLED_PAIRS + 1))
    assert float(bench.report()['vertical offset drift px']) == pytest.approx(1, abs=0.05)
    (text,) = bench.texts
    assert 'changed by up to 1.0' in text
    assert 'since the first pairs' in text


def test_a_warning_ends_with_its_cause_its_activation_or_the_limit_0(of: Any) -> None:
    bench = of(CONFIG)
    bench.see(*[2.0] * SETTLED_PAIRS)
    assert bench.texts
    bench.see(*[0.0] * (SETTLED_PAIRS + 1))
    assert not any('vertical disparity is' in text for text in bench.texts)
    bench.monitor.clear()
    assert bench.report() == {}
    bench.see(*[2.0] * (SETTLED_PAIRS - 1))
    bench.meanwhile = bench.monitor.clear
    bench.see(2.0)                          # ends after its activation
    bench.meanwhile = lambda: None
    assert bench.report() == {}
    bench.see(*[2.0] * SETTLED_PAIRS)
    assert bench.texts
    measured = bench.measured
    bench.see(2.0, limit=0.0)
    assert bench.measured == measured
    assert bench.texts == []
    assert bench.report() == {}


def test_what_is_corrected_is_measured_without_a_warning_too(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(*[2.0] * 3, limit=0.0)
    assert bench.correction() is not None
    bench.see(*[6.0] * SETTLED_PAIRS, limit=0.0)
    assert bench.texts == []


def test_another_calibration_begins_anew(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(1.0, 1.0, 1.0)
    assert bench.correction() is not None
    assert bench.correction(config=CONFIG) is None
    same, other = (dataclasses.replace(CALIBRATION, cy=cy) for cy in (239.5, 240.0))
    assert bench.correction(calibration=same) is not None
    assert bench.correction(calibration=other) is None      # from the first frame on
    bench.see(0.0, 0.0, 0.0, calibration=other)
    assert bench.correction(calibration=other) is None
    assert bench.correction() is None
    assert bench.monitor.target is None


def test_a_pair_that_contradicts_the_others_asks_for_one_more(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(0.0)
    assert bench.wants_pair
    bench.see(0.0)
    assert not bench.wants_pair
    bench.see(1.5)
    assert bench.wants_pair
    bench.see(1.5)
    assert not bench.wants_pair
    assert bench.correction() is not None


def test_scenes_that_show_nothing_keep_the_correction_and_say_why(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(None)
    assert bench.report() == {'vertical offset px': 'unknown',
                              'row correction': 'none: too little texture'}
    bench.see(1.0, 1.0, *[None] * 20)
    found = bench.correction()
    assert found is not None
    assert found.terms[0] == pytest.approx(1, abs=0.05)
    assert bench.report()['row correction'].endswith(' px (too little texture)')


# In the loop of frames

def test_the_matcher_is_given_the_correction_of_the_moment_of_each_pair(of: Any) -> None:
    bench = Bench(config=CORRECT.replace(stereo_algorithm='sad'))
    bench.left_info, bench.right_info = (
        make_info(side=side, width=W, height=H) for side in ('left', 'right'))
    given = of(CORRECT)
    given.next = (1.5, 0.0)

    def process(number: int) -> Any:
        bench.now = stamp = NOW + number * SECOND // 10
        bench.process(stamp, left=make_image(stamp, np.zeros((H, W), np.uint8)),
                      right=make_image(stamp, np.zeros((H, W), np.uint8)))
        return bench.matcher.homography

    homographies = []
    for number in range(12):
        homographies.append(process(number))
        if number < 3:
            measure(bench.observer, bench.issues)
    assert homographies[0] is None
    rows = [h[5] for h in homographies if h is not None]
    assert rows == sorted(rows)
    assert rows[-1] == pytest.approx(1.5, abs=0.1)
    assert len(rows) > 8
    # The numbers for whoever calibrates, once.
    (info,) = bench.outputs.corrected_infos
    np.testing.assert_allclose(info.r[7], 1.5 / bench.right_info.p[0], rtol=0.1)
    bench.observer.clear()
    assert process(12) is None
    assert bench.outputs.corrected_infos[-1] is bench.right_info


def test_nothing_is_published_of_rows_where_they_are_off(of: Any) -> None:
    bench = Bench(config=CONFIG)
    given = of(CONFIG)
    given.next = (1.5, 0.0)
    for number in range(4):
        bench.now = NOW + number * SECOND
        bench.process(bench.now)
        measure(bench.observer, bench.issues)
    assert bench.matcher.homography is None
    assert bench.outputs.corrected_infos == []


@pytest.mark.parametrize('terms', [(2.0, 0, 0, 0, 2.0), (0, 3.0, 0, 0, 0), (0, 0, 4.0, 0, 0)])
def test_a_corrected_camera_info_rectifies_as_the_correction_does(terms: tuple[float, ...]
                                                                  ) -> None:
    info = camera_info('right', size=(320, 240), d=(-0.1, 0.02, 0, 0),
                       k=(265, 0, 163, 0, 262, 118, 0, 0, 1), r=turned(0.02),
                       p=(260, 0, 158.5, -26, 0, 260, 121.5, 0, 0, 0, 1, 0))
    left = camera_info('left', size=(320, 240), k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                       p=(260, 0, 158.5, 0, 0, 260, 121.5, 0, 0, 0, 1, 0))
    correction = RowCorrection(tuple(map(float, terms)), 260.0, 158.5, 121.5, terms[2])
    as_it_is, corrected = (places(Rectification.from_camera_info(left, one))
                           for one in (info, corrected_info(info, correction)))
    h = np.reshape(correction.homography(), (3, 3))
    for x, y in ((60, 50), (160, 120), (250, 200)):
        u, v, w = h @ (x, y, 1)
        np.testing.assert_allclose(corrected[y, x], interpolated(as_it_is, u / w, v / w),
                                   atol=0.2)
    assert np.abs(corrected - as_it_is).max() > 1


def places(found: Rectification) -> np.ndarray:
    """Columns and rows of the raw right image, float H x W x 2."""
    whole, part = found.maps('right')
    return whole + np.stack([part % 32, part // 32], axis=2) / 32


def interpolated(field: np.ndarray, x: float, y: float) -> np.ndarray:
    i, j = int(y), int(x)
    return (field[i, j] + (x - j) * (field[i, j + 1] - field[i, j])
            + (y - i) * (field[i + 1, j] - field[i, j]))


def turned(angle: float) -> tuple[float, ...]:
    c, s = np.cos(angle), np.sin(angle)
    return (c, 0, s, 0, 1, 0, -s, 0, c)


# Raw images

def test_the_maps_of_a_rectification_are_computed_once_for_all_its_estimates(
        monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Rows()
    computed: list[str] = []
    maps = Rectification.maps
    monkeypatch.setattr(Rectification, 'maps', lambda rectification, side: (
        computed.append(side), maps(rectification, side))[1])

    def estimates(bend: float) -> list[str]:
        """The sides computed for three estimates with equal camera_infos."""
        computed.clear()
        for _ in range(3):
            found = Rectification.from_camera_info(*(
                camera_info(side, d=(bend, 0, 0, 0)) for side in ('left', 'right')))
            image = RawImage.from_array(np.zeros((found.height, found.width), np.uint8))
            bench.monitor.offer(Pair(image, image, CONFIG.replace(rectify=True), None, found))
            bench.measure()
        return list(computed)

    assert [estimates(bend) for bend in (-0.2, -0.2, -0.1)] == [
        ['left', 'right'], [], ['left', 'right']]
    bench.monitor.clear()               # holds no memory while nothing is measured
    assert estimates(-0.1) == ['left', 'right']


def test_raw_images_are_measured_once_they_are_rectified() -> None:
    bench = Rows()
    infos = [camera_info(side, size=(400, 300), k=(330, 0, 206, 0, 324, 146, 0, 0, 1),
                         p=(320, 0, 197, shift, 0, 320, 153, 0, 0, 0, 1, 0))
             for side, shift in (('left', 0.0), ('right', -64.0))]
    pair = [RawImage.from_array(raw_image(image, info))
            for image, info in zip(scene(400, 300, 16.0), infos, strict=True)]
    for number in range(SETTLED_PAIRS):
        bench.monitor.offer(Pair(*pair, CONFIG.replace(rectify=True), None,
                                 Rectification.from_camera_info(*infos), float(number)))
        bench.measure()
    assert abs(float(bench.report()['vertical offset px'])) < 0.1
    assert bench.texts == []


def test_images_of_different_moments_show_no_rows(of: Any) -> None:
    bench = of(CORRECT)
    bench.see(1.5, 1.5, 1.5, apart_s=0.0005)
    before = bench.correction()
    assert before is not None
    bench.see(-1.5, -1.5, -1.5, -1.5, apart_s=0.005)
    assert bench.correction() == before
    values = bench.report()
    assert values['vertical offset px'] == 'unknown'
    assert values['row correction'].endswith('(the images of a pair are 5.0 ms apart)')


def test_exchanged_images_whose_far_things_match_are_rejected_and_show_no_rows() -> None:
    random = np.random.default_rng(2).normal(128, 60, (248, 720))
    texture = np.clip(cv2.GaussianBlur(random, (0, 0), 1.5) * 3 - 256, 0, 255).astype(np.uint8)
    right = np.ascontiguousarray(texture[4:244, 60:700])
    left = np.concatenate([texture[5:41, 60:700], texture[41:245, 40:680]])
    bench = Rows(CORRECT)
    for number in range(3):
        bench.monitor.offer(Pair(RawImage.from_array(right), RawImage.from_array(left), CORRECT,
                                 time_s=float(number)))
        bench.measure()
    assert bench.monitor.target is None
    assert [one.code for one in bench.monitor.rejections()] == [IssueCode.EXCHANGED_IMAGES]
    assert bench.report() == {'vertical offset px': 'unknown',
                              'row correction': 'none: the images seem to be exchanged'}
