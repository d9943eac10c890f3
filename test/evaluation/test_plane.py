"""The slanted plane: exact enough to judge thousandths of a pixel on."""

import dataclasses

import cv2
import numpy as np
import pytest

from test.slanted_plane import SlantedPlane

PLANE = SlantedPlane(width=320, height=240)
CLEAN = dataclasses.replace(PLANE, noise_sigma=0.0)


def offset(frame):
    """Least-squares shift of the right image, brought to the left by the truth, pixels."""
    height, width = frame.disparity.shape
    x = np.arange(width, dtype=np.float32) - frame.disparity
    y = np.repeat(np.arange(height, dtype=np.float32)[:, None], width, axis=1)
    there = cv2.remap(frame.right.astype(np.float32), x, y, cv2.INTER_CUBIC)
    slope = np.gradient(frame.left.astype(float), axis=1)
    error = there - frame.left
    use = ~frame.occluded
    use[:, :4] = use[:, -4:] = False
    return float((error * slope)[use].sum() / (slope ** 2)[use].sum())


@pytest.mark.parametrize('plane', [
    PLANE, dataclasses.replace(CLEAN, slope_x=-0.05, slope_y=0.0),
    dataclasses.replace(CLEAN, slope_x=0.1, slope_y=0.01, disparity=40.0)], ids=str)
def test_truth_and_pictures_agree_to_hundredths_of_a_pixel(plane):
    assert abs(offset(plane.frame())) < 0.01


def test_a_wrong_truth_of_a_twentieth_of_a_pixel_would_be_seen():
    frame = CLEAN.frame()
    beside = dataclasses.replace(frame, disparity=frame.disparity + np.float32(0.05))
    assert offset(beside) - offset(frame) == pytest.approx(-0.05, abs=0.01)


def test_disparities_are_those_of_the_plane_and_the_border_is_occluded():
    frame = PLANE.frame()
    truth = frame.disparity
    assert truth.dtype == np.float32
    assert truth.mean() == pytest.approx(20, abs=1e-4)
    np.testing.assert_allclose(np.diff(truth, axis=1), 0.0125, atol=1e-5)
    np.testing.assert_allclose(np.diff(truth, axis=0), 0.02, atol=1e-5)
    # Every fraction of a pixel is as frequent as any other.
    counts = np.histogram(truth % 1, bins=10, range=(0, 1))[0]
    assert counts.max() < 1.3 * counts.min()
    np.testing.assert_array_equal(frame.occluded, np.arange(320) - truth < 0)
    assert not (frame.sky | frame.vehicles | frame.thin | frame.fence).any()


def test_noise_has_its_strength_in_both_images_and_differs_between_frames():
    clean, noisy, other = CLEAN.frame(), PLANE.frame(), PLANE.frame(1)
    for name in ('left', 'right'):
        values = [getattr(frame, name).astype(float) for frame in (clean, noisy, other)]
        assert (values[1] - values[0]).std() == pytest.approx(2.0, rel=0.05)
        assert np.mean(values[1] != values[2]) > 0.5
    np.testing.assert_array_equal(noisy.disparity, other.disparity)
    again = PLANE.frame(1)
    np.testing.assert_array_equal(again.left, other.left)


@pytest.mark.parametrize(('options', 'words'), [
    ({'width': 0}, 'width is 0'), ({'noise_sigma': -1.0}, 'noise_sigma'),
    ({'slope_x': 0.5}, 'slope_x is 0.5'), ({'disparity': 5.0}, 'smallest disparity is -3')])
def test_a_plane_that_cannot_be_drawn_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        SlantedPlane(**options)
