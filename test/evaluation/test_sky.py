"""Skies without texture: what the preset for driving makes of them, on both back ends."""


import cv2
import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation.metrics import score
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.scenes.sequence import RoadSequence


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
    {'sky': 'saturated', 'noise_sigma': 3.0, 'exposure_gain': 0.8},
    {'sky': 'textureless', 'noise_sigma': 0.5}], ids=str)
def test_road_leaves_a_sky_without_texture_out_and_keeps_the_street(options, backend):
    frame = RoadSequence(width=480, height=360, max_disparity=44, **options).frame(40)
    config = MatcherConfig.preset('road_full', disparity_range=48, backend=backend)
    scores = []
    for threshold in (0, config.contrast_threshold):
        (disparity, valid), = matched(config.replace(contrast_threshold=threshold),
                                      [(frame.left, frame.right)])
        scores.append([score(disparity, frame.disparity, valid, mask=mask)
                       for mask in (frame.sky, ~frame.sky)])
    (sky_before, street_before), (sky, street) = scores
    assert sky_before.coverage > 40
    assert sky.coverage <= 10
    assert street.density > street_before.density - 0.5
    assert street.bad_estimated(3.0) < street_before.bad_estimated(3.0) + 0.1


def test_road_keeps_its_promise_on_every_real_frame_and_leaves_their_sky_out(data, backend):
    """Of each at least 85 % of the truth, of that at most 3 % wrong; on average 1.5 %."""
    pairs = list(open_dataset(data / 'kitti2012'))
    answers = matched(MatcherConfig.preset('road', backend=backend),
                      [(pair.left, pair.right) for pair in pairs])
    found = [score(disparity, pair.truth, valid)
             for (disparity, valid), pair in zip(answers, pairs, strict=True)]
    assert len(found) == 5
    assert min(one.density for one in found) >= 85
    assert max(one.bad_estimated(3.0) for one in found) <= 3
    assert np.mean([one.bad_estimated(3.0) for one in found]) <= 1.5
    first = pairs[0]
    assert first.name == '000000_10'
    white = np.zeros(first.left.shape, np.uint8)
    white[:120, 440:660] = first.left[:120, 440:660] >= 250
    _, regions, sizes, _ = cv2.connectedComponentsWithStats(white)
    sky = regions == 1 + np.argmax(sizes[1:, cv2.CC_STAT_AREA])
    assert np.count_nonzero(sky) == 14711
    assert score(answers[0][0], first.truth, answers[0][1], mask=sky).coverage <= 10
    assert found[0].density >= 88
    assert found[0].bad_estimated(3.0) <= 0.4
