"""The vertical offset of a node's pairs over time: medians, drift, warnings, and their end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stereo_bp_ros.alignment import VerticalOffset, vertical_offset
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.scenes.plane import SlantedPlane
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics import quality
from stereo_bp_ros.node.diagnostics.conditions import Conditions
from stereo_bp_ros.node.diagnostics.quality import ESTIMATES, VERTICAL_OFFSET, OffsetMonitor
from stereo_bp_ros.rectification import Rectification
from test.raw_cameras import camera_info, raw_image, scene

IMAGE = RawImage.from_array(np.zeros((8, 8), np.uint8))
CONFIG = MatcherConfig(disparity_range=64)
LIMIT = 0.75


class Bench:
    """A monitor whose estimates are given, but for the tests that restore the real ones."""

    def __init__(self) -> None:
        self.conditions = Conditions(lambda level, text: None)
        self.monitor = OffsetMonitor(self.conditions)
        self.next: VerticalOffset | None = None
        self.estimated = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def estimate(self, *_: object) -> VerticalOffset | None:
        self.estimated += 1
        self.meanwhile()
        return self.next

    def see(self, *offsets: float | None, tilt: float = 0.0, limit: float = LIMIT) -> None:
        for offset in offsets:
            self.next = None if offset is None else VerticalOffset(offset, tilt, 0.1, 100)
            self.monitor.offer(IMAGE, IMAGE, CONFIG)
            self.monitor.measure(limit)

    @property
    def texts(self) -> list[str]:
        return [condition.text for condition in self.conditions.active(VERTICAL_OFFSET)]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(quality, 'vertical_offset', bench.estimate)
    return bench


def test_before_the_first_pair_nothing_is_reported(bench: Bench) -> None:
    bench.monitor.measure(LIMIT)
    assert bench.monitor.report() == {}
    assert bench.estimated == 0


def test_a_pair_is_measured_once(bench: Bench) -> None:
    bench.see(0.1)
    bench.monitor.measure(LIMIT)
    assert bench.estimated == 1


def test_the_median_of_the_last_estimates_is_reported(bench: Bench) -> None:
    bench.see(0.1, 0.2, 9.0, 0.3, None)
    assert bench.monitor.report() == {
        'vertical offset px': '0.25', 'vertical tilt px': '0.00', 'vertical spread px': '0.10',
        'vertical points': '100'}
    assert bench.texts == []


def test_an_offset_that_mostly_cannot_be_told_is_unknown_and_no_warning(bench: Bench) -> None:
    bench.see(5.0, 5.0, None, None, None)
    assert bench.monitor.report() == {'vertical offset px': 'unknown'}
    assert bench.texts == []


@pytest.mark.parametrize(('offset', 'tilt', 'warned'), [
    (0.7, 0.0, False), (0.8, 0.0, True), (-0.8, 0.0, True), (0.0, 1.4, False), (0.0, 1.6, True),
    (-0.5, 0.6, True)])
def test_rows_that_miss_each_other_in_any_column_are_a_warning(
        bench: Bench, offset: float, tilt: float, warned: bool) -> None:
    bench.see(*[offset] * ESTIMATES, tilt=tilt)
    assert [f'{offset:.2f} px lower' in text for text in bench.texts] == [True] * warned


def test_the_warning_ends_with_its_cause(bench: Bench) -> None:
    bench.see(*[2.0] * ESTIMATES)
    assert bench.texts
    bench.see(0.0, 0.0, 0.0)
    assert not any('calibrate' in text for text in bench.texts)


def test_a_camera_that_moves_is_told_with_how_far(bench: Bench) -> None:
    bench.see(*[-0.5] * ESTIMATES)
    assert bench.monitor.report()['vertical offset drift px'] == '0.00'
    bench.see(*[0.5] * ESTIMATES)
    assert bench.monitor.report()['vertical offset drift px'] == '1.00'
    assert len(bench.texts) == 1
    assert 'moved by up to 1.00 px since activation' in bench.texts[0]


def test_the_drift_is_that_from_estimates_that_agree(bench: Bench) -> None:
    bench.see(0.0, 1.0, 0.0, 1.0, 0.0)
    assert 'vertical offset drift px' not in bench.monitor.report()
    bench.see(*[0.2] * ESTIMATES)
    assert bench.monitor.report()['vertical offset drift px'] == '0.00'


def test_an_activation_begins_with_a_reference_of_its_own(bench: Bench) -> None:
    bench.see(*[2.0] * ESTIMATES)
    bench.monitor.clear()
    assert bench.texts == []
    assert bench.monitor.report() == {}
    bench.see(*[0.2] * ESTIMATES)
    assert bench.monitor.report()['vertical offset drift px'] == '0.00'


def test_an_estimate_that_ends_after_its_activation_is_discarded(bench: Bench) -> None:
    bench.see(*[2.0] * (ESTIMATES - 1))
    bench.meanwhile = bench.monitor.clear
    bench.see(2.0)
    assert bench.monitor.report() == {}
    assert bench.texts == []


def test_with_the_limit_0_nothing_is_measured_and_the_warning_ends(bench: Bench) -> None:
    bench.see(*[2.0] * ESTIMATES)
    bench.see(2.0, limit=0.0)
    assert bench.estimated == ESTIMATES
    assert bench.texts == []
    assert bench.monitor.report() == {}


@pytest.mark.parametrize('encoding', ['mono8', 'mono16', 'rgb8', 'bayer_rggb8', 'yuv422'])
def test_images_of_every_kind_of_encoding_are_measured(encoding: str) -> None:
    frame = SlantedPlane(width=320, height=240).frame(0)
    monitor = OffsetMonitor(Conditions(lambda level, text: None))
    for _ in range(ESTIMATES):
        monitor.offer(encoded(frame.left, encoding),
                      encoded(np.roll(frame.right, 2, axis=0), encoding), CONFIG)
        monitor.measure(LIMIT)
    assert float(monitor.report()['vertical offset px']) == pytest.approx(2, abs=0.1)


def encoded(grey: np.ndarray, encoding: str) -> RawImage:
    if encoding == 'mono16':
        return RawImage.from_array(grey.astype(np.uint16) << 8)
    if encoding == 'rgb8':
        return RawImage.from_array(np.repeat(grey[..., None], 3, axis=2))
    if encoding == 'yuv422':
        return RawImage.from_array(np.stack((np.full_like(grey, 128), grey), axis=2))
    return RawImage.from_array(grey, encoding)


def test_the_maps_of_a_rectification_are_computed_once_for_all_its_estimates(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
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
            bench.monitor.offer(image, image, CONFIG.replace(rectify=True), found)
            bench.monitor.measure(LIMIT)
        return list(computed)

    assert [estimates(bend) for bend in (-0.2, -0.2, -0.1)] == [
        ['left', 'right'], [], ['left', 'right']]
    assert bench.estimated == 2 * 9         # and as the images come
    bench.monitor.clear()               # holds no memory while nothing is measured
    assert estimates(-0.1) == ['left', 'right']


@pytest.mark.parametrize('model', ['plumb_bob', 'equidistant'])
def test_raw_images_are_measured_once_they_are_rectified(bench: Bench,
                                                         monkeypatch: pytest.MonkeyPatch,
                                                         model: str) -> None:
    monkeypatch.setattr(quality, 'vertical_offset', vertical_offset)
    d = (-0.2, 0.05, 0.001, -0.002) if model == 'plumb_bob' else (0.02, -0.01, 0.004, -0.001)
    infos = [camera_info(side, model=model, d=d, size=(320, 240),
                         k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                         p=(260, 0, 158.5, shift, 0, 260, 121.5, 0, 0, 0, 1, 0))
             for side, shift in (('left', 0.0), ('right', -52.0))]
    pair = [RawImage.from_array(raw_image(image, info))
            for image, info in zip(scene(320, 240, 12.0), infos, strict=True)]
    config = CONFIG.replace(rectify=True)
    found = Rectification.from_camera_info(*infos)
    for _ in range(ESTIMATES):
        bench.monitor.offer(pair[0], pair[1], config, found)
        bench.monitor.measure(LIMIT)
    assert abs(float(bench.monitor.report()['vertical offset px'])) < 0.1
    assert bench.texts == []
