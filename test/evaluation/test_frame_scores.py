"""All figures of a frame, their sums and their means over frames."""

import json

import numpy as np
import pytest

from stereo_bp_ros.evaluation import frame_scores
from stereo_bp_ros.evaluation.frame_scores import Means, score_frame
from stereo_bp_ros.evaluation.metrics import score

TRUTH = np.array([[10, 10, 10, 10], [20, 20, np.nan, 30]], np.float32)
MAP = np.array([[10, 14, -1, 11], [-1, 20, 5, -1]], np.float32)
VALID = MAP >= 0


def mean_of_frames(frames):
    means = Means()
    for frame in frames:
        means.add(frame)
    return means.result()


def test_published_and_filled_pixels_are_scored_apart():
    # Filled: the holes get 11 (the smaller of 14 and 11), 20 and 5.
    whole = score_frame(MAP, VALID, TRUTH).whole
    assert whole.published.density == pytest.approx(100 * 4 / 7)
    assert whole.published.bad_estimated(3.0) == pytest.approx(100 * 1 / 4)
    assert whole.filled.density == 100
    assert whole.filled.bad_all(3.0) == pytest.approx(100 * 2 / 7)
    assert whole.filled.mae == pytest.approx((0 + 4 + 1 + 1 + 0 + 0 + 25) / 7)


def test_a_confidence_is_judged_at_pixels_with_truth_and_disparity():
    confidence = np.array([[0.9, 0.1, 0, 0.5], [0, 0.9, 1.0, 0]], np.float32)
    found = score_frame(MAP, VALID, TRUTH, confidence=confidence).sparsification
    # Errors 0 and 0 first, then 1, then 4.
    assert found['mae'].ause == pytest.approx(0)
    assert found['mae'].area == pytest.approx((0 + 0 + 1 / 3 + 5 / 4) / 4)
    assert found['bad_3'].area == pytest.approx(100 / 4 / 4)
    assert score_frame(MAP, VALID, TRUTH).sparsification is None
    with pytest.raises(ValueError, match='confidence has shape'):
        score_frame(MAP, VALID, TRUTH, confidence=confidence[:1])


def test_pooled_figures_count_pixels_and_means_count_frames():
    sky = np.ones(TRUTH.shape, bool)
    first = score_frame(MAP, VALID, TRUTH, regions={'all': sky}, sky=sky)
    second = score_frame(MAP[:1], VALID[:1], TRUTH[:1])
    pooled = first + second
    bad = [first.whole.published.bad_all(3.0), second.whole.published.bad_all(3.0)]
    assert bad == [pytest.approx(400 / 7), pytest.approx(200 / 4)]
    assert pooled.whole.published.bad_all(3.0) == pytest.approx(600 / 11)
    # Parts of single frames stay in the sum.
    assert (pooled.sky, pooled.regions) == (first.sky, first.regions)
    assert (second + first).regions == first.regions
    assert (first + first).sky == first.sky + first.sky
    mean = mean_of_frames([first.as_dict(), second.as_dict()])
    assert mean['score']['bad_3_all'] == pytest.approx(sum(bad) / 2)
    assert mean['regions']['all']['score']['bad_3_all'] == pytest.approx(bad[0])
    assert 'known' not in mean['score']


def test_a_mean_leaves_out_frames_without_the_figure():
    unknown = score_frame(MAP, VALID, np.full_like(TRUTH, np.nan))
    known = score_frame(MAP, VALID, TRUTH, confidence=MAP)
    mean = mean_of_frames([unknown.as_dict(), known.as_dict()])
    assert mean['filled']['mae'] == known.whole.filled.mae
    assert mean['sparsification'] == known.as_dict()['sparsification']
    assert mean_of_frames([unknown.as_dict()])['score']['mae'] is None
    json.dumps(mean, allow_nan=False)
    late = [{'a': {'b': 1.0}, 'd': None}, {'a': {'b': None}, 'c': [2.0, 4.0], 'd': {'e': 3.0}},
            {'c': [4.0, 4.0]}]
    assert mean_of_frames(late) == {'a': {'b': 1.0}, 'c': [3.0, 4.0], 'd': {'e': 3.0}}


def test_regions_are_scored_after_the_whole_map_is_filled_and_the_sky_is_infinitely_far():
    mask = np.array([[0, 0, 1, 0], [0, 0, 0, 1]], np.uint8)
    sky = np.array([[1, 1, 1, 1], [0, 0, 0, 0]], np.uint8)
    found = score_frame(MAP, VALID, TRUTH, regions={'holes': mask}, sky=sky, infinity=10)
    part = found.regions['holes']
    assert (part.published.known, part.published.estimated) == (2, 0)
    assert (part.filled.estimated, part.filled.absolute_error) == (2, 26)
    assert found.sky.coverage == pytest.approx(75)
    assert found.sky.bad_estimated(3.0) == pytest.approx(100 / 3)


def test_maps_without_a_valid_pixel_or_without_truth(monkeypatch):
    nowhere, unknown = np.zeros_like(VALID), np.full_like(TRUTH, np.nan)
    found = score_frame(MAP, nowhere, TRUTH, confidence=np.zeros_like(MAP))
    assert (found.sparsification, found.whole.filled.bad_all(3.0)) == (None, 100)
    # Without truth a map counts as filled without being filled.
    expected = [score(frame_scores.fill_background(MAP, valid), unknown)
                for valid in (VALID, nowhere)]
    monkeypatch.delattr(frame_scores, 'fill_background')
    assert [score_frame(MAP, valid, unknown).whole.filled
            for valid in (VALID, nowhere)] == expected
