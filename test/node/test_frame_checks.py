"""What the node says of pairs that look sound one by one: exchanged, frozen, rectified twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import InputReason
from stereo_bp_ros.evaluation.scenes.plane import SlantedPlane
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.diagnostics.quality import EXCHANGED_PAIRS, OffsetMonitor
from stereo_bp_ros.rectification import Rectification
from test.node.stand_ins import NOW, SECOND, Bench, make_image
from test.raw_cameras import camera_info, scene

LIMIT = 0.75
CONFIG = MatcherConfig(stereo_algorithm='sad', disparity_range=64)


@pytest.fixture
def bench() -> Bench:
    return Bench(config=CONFIG)


def process(bench: Bench, stamp_ns: int, left: np.ndarray, right: np.ndarray) -> None:
    height, width = left.shape
    for info in (bench.left_info, bench.right_info):
        info.width, info.height = width, height
    bench.processor._quality_at = 0.0
    bench.now = stamp_ns
    bench.process(stamp_ns, left=make_image(stamp_ns, left),
                  right=make_image(stamp_ns, right))


def outcomes(bench: Bench, pairs: list[tuple[np.ndarray, np.ndarray]],
             limit: float = LIMIT) -> list[int]:
    """Pairs that were published by then, after each; every one is measured."""
    published = []
    for pair in pairs:
        process(bench, bench.now + SECOND, *pair)
        bench.offsets.measure(limit)
        published.append(bench.ledger.counts().published)
    return published


def plane() -> tuple[np.ndarray, np.ndarray]:
    frame = SlantedPlane(width=320, height=240, slope_x=0.01).frame(0)
    return frame.left, frame.right


@pytest.mark.parametrize('limit', [LIMIT, 0.0])
def test_exchanged_images_are_rejected_until_they_are_right_again(bench: Bench, limit: float
                                                                  ) -> None:
    left, right = plane()
    published = outcomes(bench, [(right, left)] * 4 + [(left, right)] * 2, limit)
    # The first right pair ends the rejection, once it has been measured.
    assert published == [1, EXCHANGED_PAIRS, *[EXCHANGED_PAIRS] * 3, EXCHANGED_PAIRS + 1]
    assert bench.outcome()[InputReason.EXCHANGED_IMAGES] == 3
    assert bench.outcome()[PairDrop.BAD_INPUT] == 3
    assert any('probably exchanged' in text for _, text in bench.logged)


def test_exchanged_images_are_published_if_that_check_is_ignored() -> None:
    bench = Bench(config=CONFIG.replace(ignored_checks='exchanged images'))
    left, right = plane()
    assert outcomes(bench, [(right, left)] * 4) == [1, 2, 3, 4]


@pytest.mark.parametrize(('frozen', 'words'), [
    (('left',), 'the left image repeats'), (('right',), 'the right image repeats'),
    (('left', 'right'), 'both images repeat'), ((), '')])
def test_a_frozen_camera_is_told_with_the_next_look_and_published(
        bench: Bench, frozen: tuple[str, ...], words: str) -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 256, (2, 24, 128), np.uint8)
    later = random.integers(0, 256, (2, 24, 128), np.uint8)
    process(bench, NOW, first[0], first[1])
    process(bench, NOW + SECOND, *(first[side] if name in frozen else later[side]
                                   for side, name in enumerate(('left', 'right'))))
    assert ('under new stamps' in bench.texts('quality')) is bool(frozen)
    assert words in bench.texts('quality')
    assert bench.ledger.counts().published == 2


def test_a_frozen_camera_is_no_news_where_that_check_is_ignored() -> None:
    bench = Bench(config=CONFIG.replace(ignored_checks='frozen_camera'))
    pair = np.random.default_rng(0).integers(0, 256, (2, 24, 128), np.uint8)
    for number in range(3):
        process(bench, NOW + number * SECOND, pair[0], pair[1])
    assert 'under new stamps' not in bench.texts()


def test_a_camera_of_12_bits_is_told_the_scale_that_it_needs(bench: Bench) -> None:
    pair = np.random.default_rng(0).integers(500, 4095, (2, 24, 128)).astype(np.uint16)
    process(bench, NOW, pair[0], pair[1])
    assert 'set mono16_scale to 0.0622711' in bench.texts('quality')


def test_images_that_are_rectified_twice_are_told_so() -> None:
    conditions = Conditions(lambda level, text: None)
    monitor = OffsetMonitor(conditions)
    found = Rectification.from_camera_info(*infos())
    left, right = (RawImage.from_array(image) for image in scene(320, 240, 12.0))
    monitor.offer(left, right, MatcherConfig(disparity_range=64, rectify=True), found)
    monitor.measure(LIMIT)
    texts = [condition.text for condition in conditions.active('vertical offset')]
    assert any('set rectify to false' in text for text in texts)


def infos() -> list[Any]:
    return [camera_info(side, size=(320, 240), k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                        p=(260, 0, 158.5, shift, 0, 260, 121.5, 0, 0, 0, 1, 0))
            for side, shift in (('left', 0.0), ('right', -52.0))]
