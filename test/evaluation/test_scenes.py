"""The synthetic drive: its ground truth is exact, its pictures are repeatable and matchable."""

import dataclasses

import cv2
import numpy as np
import pytest

from stereo_bp_ros.evaluation.metrics import score
from stereo_bp_ros.evaluation.scenes import meshes, renderer, street
from stereo_bp_ros.evaluation.scenes.sequence import CAMERA_HEIGHT_M, RoadSequence, render
from test.evaluation.streets import TRUTH, assert_same, away_from_depth_edges, error_of_truth

SMALL = RoadSequence(width=320, height=240, frames=40)
CLEAN = dataclasses.replace(SMALL, noise_sigma=0.0)


@pytest.fixture(scope='module')
def clean_frame():
    return RoadSequence(noise_sigma=0.0).frame(17)


def test_the_right_image_warped_by_the_truth_is_the_left_image(clean_frame):
    error, seen = error_of_truth(clean_frame), ~clean_frame.occluded
    assert error[seen & away_from_depth_edges(clean_frame)].mean() < 1.2
    assert error[seen].mean() < 1.5


@pytest.mark.parametrize('offset', [-0.5, -0.2, 0.2, 0.5])
def test_the_truth_fits_better_than_a_fraction_of_a_pixel_beside_it(clean_frame, offset):
    use = ~clean_frame.occluded & away_from_depth_edges(clean_frame)
    at_truth, beside = (error_of_truth(clean_frame, shift)[use] for shift in (0.0, offset))
    assert beside.mean() > (1 + abs(offset)) * at_truth.mean()


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
    {}, {'width': 1226, 'height': 370, 'max_disparity': 128}, {'width': 200, 'height': 500},
    {'width': 64, 'height': 48, 'max_disparity': 8}, {'focal_px': 1500.0, 'max_disparity': 90},
    {'focal_px': 150.0}, {'baseline_m': 0.1}], ids=str)
def test_the_truth_stays_within_the_range_asked_for(options):
    sequence = RoadSequence(**options)
    largest = 0.0
    for index in (0, 33, 66):
        frame = sequence.frame(index)
        assert frame.disparity.dtype == np.float32
        assert frame.disparity.min() == 0.0
        largest = max(largest, float(frame.disparity.max()))
    assert largest <= sequence.max_disparity
    if 'baseline_m' not in options:
        assert largest > 0.45 * sequence.max_disparity


def test_frames_are_the_same_every_time_and_another_seed_is_another_street():
    hard = RoadSequence.hard(width=240, height=120, frames=9)
    alone = hard.frame(3)
    for cache in (street.street, street.surroundings):
        cache.cache_clear()
    again = list(dataclasses.replace(hard, frames=4))[3]
    assert_same(again, alone)
    assert again.stamp_ns == alone.stamp_ns
    other = dataclasses.replace(hard, seed=2).frame(3)
    assert np.mean(other.disparity != alone.disparity) > 0.1
    assert np.mean(other.labels != alone.labels) > 0.05


#: Means of blocks of 60 x 80 pixels of frame 7 of SMALL, by image.
STREET = {
    'left': [[130.138, 201.207, 201.574, 160.777], [118.026, 148.209, 146.426, 114.230],
             [108.760, 108.702, 120.060, 120.940], [125.772, 111.727, 118.288, 117.076]],
    'right': [[131.876, 202.991, 199.344, 156.925], [115.526, 149.683, 144.122, 110.774],
              [106.029, 110.642, 120.746, 132.502], [117.132, 116.489, 121.884, 97.579]],
    'disparity': [[5.825, 0.405, 1.068, 9.186], [8.012, 3.889, 5.629, 21.145],
                  [19.052, 19.692, 20.308, 32.801], [44.398, 44.398, 44.398, 44.818]]}


@pytest.mark.parametrize('image', STREET)
def test_the_street_without_options_stays_the_one_that_figures_were_measured_on(image):
    blocks = getattr(SMALL.frame(7), image).astype(float).reshape(4, 60, 4, 80)
    np.testing.assert_allclose(blocks.mean(axis=(1, 3)), STREET[image], atol=0.01)


def test_cameras_and_other_vehicles_move():
    first, later = CLEAN.frame(0), CLEAN.frame(5)
    assert np.mean(np.abs(first.left.astype(int) - later.left)) > 5
    # In the ego lane ahead only the vehicle moves relative to the camera.
    ahead = (slice(100, 120), slice(150, 170))
    assert np.median(first.disparity[ahead]) > np.median(later.disparity[ahead])


def test_stamps_follow_the_rate_from_the_start_stamp():
    sequence = RoadSequence(rate_hz=30.0, start_stamp_ns=5_000)
    assert [sequence.stamp_ns(index) for index in range(4)] == [
        5_000, 33_338_333, 66_671_667, 100_005_000]
    assert SMALL.frame(3).stamp_ns == SMALL.stamp_ns(3)


def test_noise_has_its_strength_and_is_independent_in_the_two_cameras():
    clean = CLEAN.frame(3)
    noisy = dataclasses.replace(SMALL, noise_sigma=3.0).frame(3)
    use = (clean.left > 20) & (clean.left < 235) & (clean.right > 20) & (clean.right < 235)
    left = (noisy.left.astype(float) - clean.left)[use]
    right = (noisy.right.astype(float) - clean.right)[use]
    assert left.std() == pytest.approx(3.0, rel=0.05)
    assert right.std() == pytest.approx(3.0, rel=0.05)
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.03
    np.testing.assert_array_equal(noisy.disparity, clean.disparity)


def test_another_exposure_changes_the_right_image_only():
    plain = CLEAN.frame(3)
    changed = dataclasses.replace(CLEAN, exposure_gain=0.8, exposure_offset=6.0).frame(3)
    np.testing.assert_array_equal(changed.left, plain.left)
    np.testing.assert_allclose(changed.right, 0.8 * plain.right.astype(float) + 6.0, atol=1.0)


def test_blur_softens_both_images_and_leaves_the_truth():
    plain = CLEAN.frame(3)
    soft = dataclasses.replace(CLEAN, blur_sigma=1.5).frame(3)
    for name in ('left', 'right'):
        detail = [np.abs(np.diff(getattr(frame, name).astype(float))).mean()
                  for frame in (plain, soft)]
        assert detail[1] < 0.7 * detail[0]
    np.testing.assert_array_equal(soft.disparity, plain.disparity)


def test_surfaces_have_texture_that_a_matcher_can_use(clean_frame):
    image = clean_frame.left.astype(np.float32)
    spread = cv2.blur(image ** 2, (9, 9)) - cv2.blur(image, (9, 9)) ** 2
    assert (spread > 1.5 ** 2)[clean_frame.disparity > 0].mean() > 0.97


def test_a_common_matcher_finds_the_truth():
    frame = RoadSequence().frame(20)
    matcher = cv2.StereoSGBM_create(0, 64, 5, 200, 800, 1, uniquenessRatio=10)
    disparity = matcher.compute(frame.left, frame.right).astype(np.float32) / 16
    result = score(disparity, frame.disparity, disparity >= 0, mask=~frame.occluded)
    assert result.density > 80
    assert result.bad_estimated(3.0) < 3
    assert result.mae < 0.5


def inside(mask):
    """Pixels of a mask whose neighbours belong to it, too: at its edge pixels mix two surfaces."""
    return cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0


def test_the_sky_is_drawn_exactly_where_its_mask_says():
    clouds = CLEAN.frame(17)
    dark, bright = (dataclasses.replace(CLEAN, sky=sky).frame(17)
                    for sky in ('textureless', 'saturated'))
    assert clouds.sky.dtype == bool
    assert 0.05 < clouds.sky.mean() < 0.5
    assert (bright.left > dark.left)[clouds.sky].all()
    for frame in (dark, bright):
        street = inside(~clouds.sky)
        np.testing.assert_array_equal(frame.left[street], clouds.left[street])
        assert_same(frame, clouds, *TRUTH)


@pytest.mark.parametrize('options', [
    {'noise_sigma': 3.0}, {'noise_sigma': 2.0, 'exposure_gain': 0.7, 'exposure_offset': -10.0},
    {'blur_sigma': 0.8}], ids=str)
def test_a_saturated_sky_is_white_without_noise_in_both_images(options):
    frame = dataclasses.replace(SMALL, sky='saturated', **options).frame(3)
    seen_by_both = cv2.erode((frame.sky & ~frame.occluded).astype(np.uint8),
                             np.ones((9, 9), np.uint8)) > 0
    assert seen_by_both.any()
    assert frame.left[seen_by_both].min() == 255
    assert frame.right[seen_by_both].min() == 255


def test_a_textureless_sky_has_nothing_but_the_noise_of_each_sensor():
    frame = dataclasses.replace(SMALL, sky='textureless', noise_sigma=2.0).frame(3)
    seen_by_both = inside(frame.sky & ~frame.occluded)
    left, right = (image[seen_by_both].astype(float) for image in (frame.left, frame.right))
    for values in (left, right):
        assert values.mean() == pytest.approx(215, abs=0.2)
        assert values.std() == pytest.approx(2.0, rel=0.05)
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.05


def test_processes_draw_the_same_frames_in_order():
    sequence = dataclasses.replace(SMALL, frames=5)
    frames = list(render(sequence, workers=2))
    assert [frame.index for frame in frames] == [0, 1, 2, 3, 4]
    for frame, expected in zip(frames, render(sequence), strict=True):
        assert_same(frame, expected)


def test_drawing_may_be_left_early():
    frames = render(SMALL, workers=1)
    assert next(frames).index == 0
    frames.close()


@pytest.mark.parametrize('index', [-1, 40])
def test_a_frame_outside_the_sequence_is_refused(index):
    with pytest.raises(IndexError):
        SMALL.frame(index)


@pytest.mark.parametrize(('options', 'words'), [
    ({'width': 3}, 'width is 3'), ({'rate_hz': 0.0}, 'rate_hz'), ({'noise_sigma': -1.0}, 'noise'),
    ({'max_disparity': 0}, 'max_disparity'), ({'baseline_m': 2.0}, r'at most 0\.\d+ fits'),
    ({'focal_px': float('nan')}, 'focal_px'), ({'seed': -1}, 'seed'),
    ({'sky': 'blue'}, "sky is 'blue', but must be one of clouds, textureless, saturated"),
    ({'wetness': 1.5}, 'wetness is 1.5, but must be at most 1'), ({'wetness': -0.1}, 'wetness'),
    ({'reflections': 2.0}, 'reflections'), ({'glare': -1.0}, 'glare'),
    ({'side_slope': 0.3}, 'side_slope is 0.3, but must be at most 0.2'),
    ({'side_slope': -0.3}, 'side_slope is -0.3, but must be at least -0.2'),
    ({'side_slope': float('nan')}, 'side_slope'), ({'visibility_m': -1.0}, 'visibility_m is -1'),
    ({'daylight': 0.0}, 'daylight is 0'), ({'daylight': 1.5}, 'daylight is 1.5'),
    ({'drops': -1}, 'drops is -1'), ({'dirt': 1.1}, 'dirt is 1.1'),
    ({'dirt': float('nan')}, 'dirt is nan')])
def test_a_drive_that_cannot_be_drawn_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        RoadSequence(**options)


GREY = meshes.Texture(np.full((16, 16), 100, np.uint8))
CAMERA = renderer.Camera(width=40, height=30, focal_px=50.0, cx=19.5, cy=14.5, baseline_m=0.2)
SKY = np.zeros((61, 81), np.uint8)


def test_a_slanted_plane_has_the_disparity_of_its_rays():
    origin, u, v = np.array([-9.0, -8.0, 3.0]), np.array([16.0, 0.0, 9.0]), np.array([0, 18.0, 0])
    mesh = meshes.split_by_depth(meshes.patch(GREY, origin, u, v))
    found = CAMERA.view(mesh, SKY).truth()
    for x, y in ((0, 0), (7, 29), (20, 14), (39, 3)):
        ray = np.array([(x - 19.5) / 50, (y - 14.5) / 50, 1.0])
        depth = np.linalg.solve(np.stack([ray, -u, -v], axis=1), origin)[0]
        assert found[y, x] == pytest.approx(50 * 0.2 / depth, rel=1e-5)


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
