"""Fog, darkness, drops and dirt: each has the size that its unit says, and the truth stays."""

import dataclasses
import functools

import numpy as np
import pytest

from stereo_bp_ros.evaluation.scenes import weather
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from test.evaluation.streets import TRUTH, assert_same

CLEAR = RoadSequence(width=320, height=160, max_disparity=32, noise_sigma=0.0, frames=20)
INDEX = 3
EFFECTS = {'visibility_m': 40.0, 'daylight': 0.2, 'drops': 20, 'dirt': 0.15}


@functools.cache
def drawn(**options):
    return dataclasses.replace(CLEAR, **options).frame(INDEX)


def test_weather_leaves_truth_and_masks_and_changes_both_images():
    clear = drawn()
    for name, value in EFFECTS.items():
        frame = drawn(**{name: value})
        assert_same(frame, clear, *TRUTH)
        changed = [np.abs(getattr(frame, side).astype(float) - getattr(clear, side))
                   for side in ('left', 'right')]
        assert min(change.mean() for change in changed) > 0.5
        if name in ('drops', 'dirt'):           # the two cameras have other glass
            left, right = (change > 4 for change in changed)
            assert min(left.mean(), right.mean()) > 0.02
            assert (left & right).mean() < 2.5 * left.mean() * right.mean()


def distances(frame):
    """Of surfaces from the left camera along the ray, metres; infinite in the sky."""
    x, y = np.meshgrid(np.arange(CLEAR.width) - CLEAR.cx, np.arange(CLEAR.height) - CLEAR.cy)
    with np.errstate(divide='ignore'):
        z = CLEAR.focal_px * CLEAR.baseline_m / frame.disparity
    return z * np.sqrt(x ** 2 + y ** 2 + CLEAR.focal_px ** 2) / CLEAR.focal_px


@pytest.mark.parametrize('visibility', [20.0, 300.0])
def test_fog_takes_the_contrast_by_the_law_of_koschmieder(visibility):
    clear, foggy = drawn(), drawn(visibility_m=visibility)
    share = np.exp(-np.log(20) * distances(clear) / visibility)
    expected = weather.FOG_GREY + share * (clear.left - weather.FOG_GREY)
    np.testing.assert_allclose(foggy.left, expected, atol=1.02)     # both images are rounded
    assert (foggy.left[foggy.sky] == weather.FOG_GREY).mean() > 0.9


@pytest.mark.parametrize('daylight', [0.04, 0.25])
def test_a_dark_day_darkens_by_its_root_and_strengthens_the_noise_by_it(daylight):
    clean, dark = drawn(), drawn(daylight=daylight)
    root = np.sqrt(daylight)
    for side in ('left', 'right'):
        seen = getattr(clean, side)
        use = seen < 255
        np.testing.assert_allclose(getattr(dark, side)[use], root * seen[use], atol=1)
    noisy = drawn(daylight=daylight, noise_sigma=1.0)
    use = (dark.left > 5 / root) & (dark.left < 250)
    difference = (noisy.left.astype(float) - dark.left)[use]
    # Rounding both images adds 1 / 6 to the variance.
    assert difference.std() == pytest.approx(np.sqrt(1 / daylight + 1 / 6), rel=0.05)


def test_drops_lie_where_they_are_and_show_other_things():
    clear = drawn()
    changes = [np.abs(drawn(drops=drops).left.astype(int) - clear.left) > 8 for drops in (5, 40)]
    few, many = (change.mean() for change in changes)
    assert 0.001 < few < 0.25 * many < 0.05
    later = dataclasses.replace(CLEAR, drops=40)
    moved = np.abs(later.frame(9).left.astype(int) - CLEAR.frame(9).left) > 8
    # The glass does not move: what changes lies in the same drops.
    assert (moved & changes[1]).sum() > 0.4 * moved.sum()
