"""What the worker does with a pair of raw images and what their camera_info says."""

from __future__ import annotations

from typing import Any

import pytest

from stereo_bp_ros import Calibration, InputReason, MatcherConfig, Rectification
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from test.node.stand_ins import NOW, Bench, make_info


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
