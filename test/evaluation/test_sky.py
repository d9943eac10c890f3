"""Skies without texture: what the preset for driving makes of them, on both back ends."""

import cv2
import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation.datasets import open_dataset
from stereo_bp_ros.evaluation.metrics import combine, score
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence


@pytest.fixture(params=['cpu', pytest.param('cuda', marks=pytest.mark.gpu)])
def backend(request):
    if request.param == 'cpu':
        pytest.importorskip('numba')
    return request.param


def matched(config, frames):
    """The preset's answers to pairs, as (disparity, valid)."""
    with StereoMatcher(config) as matcher:
        answers = [matcher.compute(left, right) for left, right in frames]
    return [(answer.disparity, answer.valid) for answer in answers]


@pytest.mark.parametrize('options', [
    {'sky': 'saturated'}, {'sky': 'saturated', 'noise_sigma': 3.0, 'exposure_gain': 0.8},
    {'sky': 'textureless', 'noise_sigma': 0.5}], ids=str)
def test_road_leaves_a_sky_without_texture_out_and_keeps_the_street(options, backend):
    drive = RoadSequence(**options)
    frames = [drive.frame(index) for index in (0, 40)]
    config = MatcherConfig.preset('road', disparity_range=64, backend=backend)
    scores = {}
    for threshold in (0, config.texture_threshold):
        answers = matched(config.replace(texture_threshold=threshold),
                          [(frame.left, frame.right) for frame in frames])
        scores[threshold] = [combine(
            score(disparity, frame.disparity, valid, mask=mask)
            for (disparity, valid), frame, mask in zip(answers, frames, masks, strict=True))
            for masks in ([f.sky for f in frames], [~f.sky for f in frames])]
    (sky_before, street_before), (sky, street) = scores.values()
    assert sky_before.coverage > 80
    assert sky.coverage < 30
    assert street.density > street_before.density - 0.5
    assert street.bad_estimated(3.0) < street_before.bad_estimated(3.0) + 0.1


def test_road_leaves_the_saturated_sky_of_a_real_frame_out(data, backend):
    pair = open_dataset(data / 'kitti2012')[0]
    assert pair.name == '000000_10'
    white = np.zeros(pair.left.shape, np.uint8)
    white[:120, 440:660] = pair.left[:120, 440:660] >= 250
    _, regions, sizes, _ = cv2.connectedComponentsWithStats(white)
    sky = regions == 1 + np.argmax(sizes[1:, cv2.CC_STAT_AREA])
    assert np.count_nonzero(sky) == 14711
    config = MatcherConfig.preset('road', backend=backend)
    (disparity, valid), = matched(config, [(pair.left, pair.right)])
    assert score(disparity, pair.truth, valid, mask=sky).coverage <= 30
    whole = score(disparity, pair.truth, valid)
    assert whole.density > 90.6 - 2.0
    assert whole.bad_estimated(3.0) < 0.45


def test_road_loses_little_of_other_real_frames(data):
    pytest.importorskip('numba')
    pairs = list(open_dataset(data / 'kitti2012'))
    config = MatcherConfig.preset('road', backend='cpu')
    density = {}
    for threshold in (0, config.texture_threshold):
        answers = matched(config.replace(texture_threshold=threshold),
                          [(pair.left, pair.right) for pair in pairs])
        density[threshold] = np.array([score(disparity, pair.truth, valid).density
                                       for (disparity, valid), pair in
                                       zip(answers, pairs, strict=True)])
    before, after = density.values()
    assert (before - after).max() < 2.0


def test_the_threshold_of_road_is_above_what_rounding_alone_can_add_up_to():
    config = MatcherConfig.preset('road')
    # Between two grey levels, the least noise makes rounding choose either at random.
    grey = np.random.default_rng(0).integers(100, 102, (300, 300)).astype(np.float32)
    derivative = np.abs(config.sobel_scale * cv2.Sobel(grey, cv2.CV_32F, 1, 0))
    side = config.correlation_window_size
    texture = cv2.boxFilter(derivative, -1, (side, side), normalize=False)[side:-side, side:-side]
    assert np.mean(texture < config.texture_threshold) > 0.999
