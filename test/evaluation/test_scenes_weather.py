"""Fog, darkness, drops and dirt: each has the size that its unit says, and the truth stays."""

import dataclasses
import functools

import numpy as np
import pytest

from stereo_bp_ros.evaluation.scenes import weather
from stereo_bp_ros.evaluation.scenes.renderer import Camera
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from test.evaluation.streets import TRUTH, assert_same

CLEAR = RoadSequence(width=480, height=240, max_disparity=48, noise_sigma=0.0, frames=20)
INDEX = 3
EFFECTS = {'visibility_m': 40.0, 'daylight': 0.2, 'drops': 20, 'dirt': 0.15}


@functools.cache
def drawn(**options):
    return dataclasses.replace(CLEAR, **options).frame(INDEX)


@pytest.mark.parametrize('name', EFFECTS)
def test_weather_leaves_truth_and_masks_and_changes_both_images(name):
    frame, clear = drawn(**{name: EFFECTS[name]}), drawn()
    assert_same(frame, clear, *TRUTH)
    for side in ('left', 'right'):
        assert np.abs(getattr(frame, side).astype(float) - getattr(clear, side)).mean() > 0.5


def distances(frame):
    """Of surfaces from the left camera along the ray, metres; infinite in the sky."""
    x, y = np.meshgrid(np.arange(CLEAR.width) - CLEAR.cx, np.arange(CLEAR.height) - CLEAR.cy)
    with np.errstate(divide='ignore'):
        z = CLEAR.focal_px * CLEAR.baseline_m / frame.disparity
    return z * np.sqrt(x ** 2 + y ** 2 + CLEAR.focal_px ** 2) / CLEAR.focal_px


@pytest.mark.parametrize('visibility', [20.0, 60.0, 300.0])
def test_fog_takes_the_contrast_by_the_law_of_koschmieder(visibility):
    clear, foggy = drawn(), drawn(visibility_m=visibility)
    share = np.exp(-np.log(20) * distances(clear) / visibility)
    expected = weather.FOG_GREY + share * (clear.left - weather.FOG_GREY)
    np.testing.assert_allclose(foggy.left, expected, atol=1.02)     # both images are rounded


def test_at_the_visibility_a_twentieth_of_the_contrast_is_left():
    camera = Camera(41, 31, 50.0, 20.0, 15.0, 0.5)
    disparity = np.full((31, 41), 50 * 0.5 / 80, np.float32)
    passing = weather.transmission(disparity, camera, visibility_m=80.0)
    assert passing[15, 20] == pytest.approx(0.05)
    # Towards the corner the way through the fog is longer than the depth.
    assert passing[0, 0] == pytest.approx(0.05 ** np.sqrt(1 + 0.4 ** 2 + 0.3 ** 2))
    light = np.where(np.arange(41) % 2, 180, 40).astype(np.float32) * np.ones((31, 1), np.float32)
    seen = weather.add_fog(light, passing)
    assert seen[15, 21] - seen[15, 20] == pytest.approx(0.05 * 140, rel=0.01)


def test_the_sky_is_fog_where_there_is_fog():
    frame = drawn(visibility_m=100.0)
    assert (frame.left[frame.sky] == weather.FOG_GREY).mean() > 0.9


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


@pytest.mark.parametrize('part', [0.05, 0.3])
def test_dirt_lies_before_its_part_of_the_picture(part):
    opacity = weather.draw_dirt(part, 1, 0, 480, 240)
    assert (opacity > 0.5).mean() == pytest.approx(part, rel=0.01)
    clear, dirty = drawn(), drawn(dirt=part)
    np.testing.assert_array_equal(dirty.left[opacity == 0], clear.left[opacity == 0])
    thick = opacity > 0.98
    assert dirty.left[thick].std() < 0.2 * clear.left[thick].std()


def test_drops_lie_where_they_are_and_show_other_things():
    clear = drawn()
    changes = [np.abs(drawn(drops=drops).left.astype(int) - clear.left) > 8 for drops in (5, 40)]
    few, many = (change.mean() for change in changes)
    assert 0.001 < few < 0.25 * many < 0.05
    later = dataclasses.replace(CLEAR, drops=40)
    moved = np.abs(later.frame(9).left.astype(int) - CLEAR.frame(9).left) > 8
    # The glass does not move: what changes lies in the same drops.
    assert (moved & changes[1]).sum() > 0.4 * moved.sum()


@pytest.mark.parametrize('options', [{'drops': 30}, {'dirt': 0.2}], ids=str)
def test_the_two_cameras_have_other_glass(options):
    clear, frame = drawn(), drawn(**options)
    left, right = (np.abs(getattr(frame, side).astype(int) - getattr(clear, side)) > 4
                   for side in ('left', 'right'))
    shared = (left & right).mean()
    assert min(left.mean(), right.mean()) > 0.02
    assert shared < 2.5 * left.mean() * right.mean()
