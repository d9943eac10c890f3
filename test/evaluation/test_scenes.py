"""The synthetic drive: its ground truth is exact, its pictures are repeatable and matchable."""

import dataclasses

import cv2
import numpy as np
import pytest

from stereo_bp_ros.sources.scenes import meshes, renderer
from stereo_bp_ros.sources.scenes.sequence import CAMERA_HEIGHT_M, HARD, RoadSequence, render
from test.evaluation.streets import TRUTH, assert_same, away_from_depth_edges, error_of_truth

SMALL = RoadSequence(width=320, height=240, frames=40)
CLEAN = dataclasses.replace(SMALL, noise_sigma=0.0)

@pytest.fixture(scope='module')
def clean_frame():
    return RoadSequence(noise_sigma=0.0).frame(17)


def test_the_truth_brings_the_right_image_into_the_left_one_and_fits_best(clean_frame):
    error, seen = error_of_truth(clean_frame), ~clean_frame.occluded
    use = seen & away_from_depth_edges(clean_frame)
    assert error[use].mean() < 1.2
    assert error[seen].mean() < 1.5
    for offset in (-0.5, -0.2, 0.2, 0.5):
        beside = error_of_truth(clean_frame, offset)[use]
        assert beside.mean() > (1 + abs(offset)) * error[use].mean()


def test_occluded_pixels_lie_outside_the_right_image_or_do_not_look_alike_there(clean_frame):
    error = error_of_truth(clean_frame)
    outside = np.arange(clean_frame.left.shape[1]) - clean_frame.disparity < 0
    hidden = clean_frame.occluded & ~outside
    assert outside.any()
    assert clean_frame.occluded[outside].all()
    assert hidden.any()
    assert error[hidden].mean() > 10 * error[~clean_frame.occluded].mean()


def test_the_road_has_the_disparity_of_a_plane_below_the_camera():
    frame = CLEAN.frame(0)
    rows = np.arange(225, 240)
    expected = CLEAN.baseline_m * (rows - CLEAN.cy) / CAMERA_HEIGHT_M
    np.testing.assert_allclose(frame.disparity[rows, 150], expected, rtol=1e-5)


@pytest.mark.parametrize('options', [
    {}, {'width': 200, 'height': 500}, {'width': 64, 'height': 48, 'max_disparity': 8},
    {'focal_px': 1500.0, 'max_disparity': 90}, {'baseline_m': 0.1}, HARD,
    {**HARD, 'side_slope': -0.2, 'width': 200, 'height': 90}], ids=str)
def test_the_truth_stays_within_the_range_asked_for(options):
    sequence = RoadSequence(**{'width': 320, 'height': 240, **options})
    largest = 0.0
    for index in (0, 33):
        frame = sequence.frame(index)
        assert frame.disparity.dtype == np.float32
        assert frame.disparity.min() == 0.0
        largest = max(largest, float(frame.disparity.max()))
    assert largest <= sequence.max_disparity
    if 'baseline_m' not in options and 'poles' not in options:
        assert largest > 0.45 * sequence.max_disparity


#: Means of blocks of 60 x 80 pixels of frame 7 of SMALL, by image.
STREET = {
    'left': [[130.138, 201.207, 201.574, 160.777], [118.026, 148.209, 146.426, 114.230],
             [108.760, 108.702, 120.060, 120.940], [125.772, 111.727, 118.288, 117.076]],
    'right': [[131.876, 202.991, 199.344, 156.925], [115.526, 149.683, 144.122, 110.774],
              [106.029, 110.642, 120.746, 132.502], [117.132, 116.489, 121.884, 97.579]],
    'disparity': [[5.825, 0.405, 1.068, 9.186], [8.012, 3.889, 5.629, 21.145],
                  [19.052, 19.692, 20.308, 32.801], [44.398, 44.398, 44.398, 44.818]]}


def test_the_street_without_options_stays_the_one_that_figures_were_measured_on():
    frame = SMALL.frame(7)
    for name, means in STREET.items():
        blocks = getattr(frame, name).astype(float).reshape(4, 60, 4, 80)
        np.testing.assert_allclose(blocks.mean(axis=(1, 3)), means, atol=0.01)


def test_noise_exposure_and_blur_have_their_size_and_leave_the_truth():
    clean, noisy, exposed, soft = (dataclasses.replace(CLEAN, **options).frame(3) for options in (
        {}, {'noise_sigma': 3.0}, {'exposure_gain': 0.8, 'exposure_offset': 6.0},
        {'blur_sigma': 1.5}))
    use = (clean.left > 20) & (clean.left < 235) & (clean.right > 20) & (clean.right < 235)
    added = [(getattr(noisy, side).astype(float) - getattr(clean, side))[use]
             for side in ('left', 'right')]
    assert [values.std() for values in added] == pytest.approx([3.0, 3.0], rel=0.05)
    assert abs(np.corrcoef(*added)[0, 1]) < 0.03
    np.testing.assert_array_equal(exposed.left, clean.left)
    np.testing.assert_allclose(exposed.right, 0.8 * clean.right.astype(float) + 6.0, atol=1.0)
    for side in ('left', 'right'):
        detail = [np.abs(np.diff(getattr(frame, side).astype(float))).mean()
                  for frame in (clean, soft)]
        assert detail[1] < 0.7 * detail[0]
    for frame in (noisy, exposed, soft):
        assert_same(frame, clean, *TRUTH)


def test_the_sky_is_drawn_exactly_where_its_mask_says():
    clouds = CLEAN.frame(3)
    dark, bright = (dataclasses.replace(CLEAN, sky=sky).frame(3)
                    for sky in ('textureless', 'saturated'))
    assert clouds.sky.dtype == bool
    assert 0.05 < clouds.sky.mean() < 0.5
    assert (bright.left > dark.left)[clouds.sky].all()
    street = cv2.erode((~clouds.sky).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    for frame in (dark, bright):
        np.testing.assert_array_equal(frame.left[street], clouds.left[street])
        assert_same(frame, clouds, *TRUTH)
    # At its edges pixels mix two surfaces.
    inside = cv2.erode((clouds.sky & ~clouds.occluded).astype(np.uint8), np.ones((9, 9))) > 0
    assert {int(grey) for image in (dark.left, dark.right) for grey in image[inside]} == {215}


@pytest.mark.parametrize('options', [
    {'noise_sigma': 2.0, 'exposure_gain': 0.7, 'exposure_offset': -10.0}, {'blur_sigma': 0.8}],
    ids=str)
def test_a_saturated_sky_is_white_without_noise_in_both_images(options):
    frame = dataclasses.replace(SMALL, sky='saturated', **options).frame(3)
    seen_by_both = cv2.erode((frame.sky & ~frame.occluded).astype(np.uint8),
                             np.ones((9, 9), np.uint8)) > 0
    assert seen_by_both.any()
    assert frame.left[seen_by_both].min() == 255
    assert frame.right[seen_by_both].min() == 255


@pytest.mark.parametrize(('options', 'words'), [
    ({'width': 3}, 'width is 3'), ({'rate_hz': 0.0}, 'rate_hz'), ({'noise_sigma': -1.0}, 'noise'),
    ({'baseline_m': 2.0}, r'at most 0\.\d+ fits'), ({'focal_px': float('nan')}, 'focal_px'),
    ({'sky': 'blue'}, "sky is 'blue', but must be one of clouds, textureless, saturated"),
    ({'side_slope': 0.3}, 'side_slope is 0.3, but must be at most 0.2'),
    ({'side_slope': -0.3}, 'side_slope is -0.3, but must be at least -0.2'),
    ({'blur_sigma': float('nan')}, 'blur_sigma is nan')])
def test_a_drive_that_cannot_be_drawn_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        RoadSequence(**options)


GREY = meshes.Texture(np.full((16, 16), 100, np.uint8))
CAMERA = renderer.Camera(width=40, height=30, focal_px=50.0, cx=19.5, cy=14.5, baseline_m=0.2)
SKY = np.zeros((61, 81), np.uint8)


def test_the_nearer_of_two_surfaces_is_seen_whatever_the_order():
    near = meshes.patch(GREY, (0, -9, 2.0), (9, 0, 0), (0, 18, 0))
    far = meshes.patch(GREY, (-9, -9, 5.0), (18, 0, 0), (0, 18, 0)).marked(meshes.VEHICLE)
    for order in ([near, far], [far, near]):
        view = CAMERA.view(meshes.join(order), SKY)
        np.testing.assert_allclose(view.truth()[:, :20], 2.0)
        np.testing.assert_allclose(view.truth()[:, 20:], 5.0)
        assert (view.labels()[:, :20] == meshes.VEHICLE).all()
        assert (view.labels()[:, 20:] == meshes.OTHER).all()


def test_neighbouring_patches_leave_no_gap_and_do_not_overlap():
    halves = ([(0, 0), (0.437, 0), (0.61, 1), (0, 1)], [(0.437, 0), (1, 0), (1, 1), (0.61, 1)])
    mesh = meshes.join([meshes.patch(GREY, (-4, -3, 3.0), (8, 0.7, 0), (0, 6, 0), outline=half)
                         for half in halves])
    whole = meshes.patch(GREY, (-4, -3, 3.0), (8, 0.7, 0), (0, 6, 0))
    np.testing.assert_array_equal(CAMERA.view(mesh, SKY).disparity,
                                  CAMERA.view(whole, SKY).disparity)


def test_another_process_draws_the_same_frames_in_order_and_another_seed_another_street():
    sequence = RoadSequence(width=64, height=48, max_disparity=8, frames=9, rate_hz=30.0, seed=2)
    drawing = render(sequence, workers=1)
    expected = [sequence.frame(index) for index in range(3)]
    for number, frame in enumerate(expected):
        assert_same(next(drawing), frame)
        assert frame.stamp_ns == (1_000_000_000, 1_033_333_333, 1_066_666_667)[number]
    drawing.close()                         # before its end
    assert np.mean(expected[0].left != expected[2].left) > 0.5
    other = dataclasses.replace(sequence, seed=1).frame(0)
    assert np.mean(other.disparity != expected[0].disparity) > 0.1
    assert np.mean(other.labels != expected[0].labels) > 0.05
    for index in (-1, 9):
        with pytest.raises(IndexError):
            sequence.frame(index)
