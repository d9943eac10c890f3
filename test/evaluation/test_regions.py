"""Parts of a frame: edges of the truth, distances in metres, masks of vehicles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import regions

nan = np.nan
truths = hnp.arrays(np.float32, (9, 12), elements=st.sampled_from(
    [np.float32(value) for value in (5, 6, 7, 8, 14, nan, nan, nan)]))


def naive_near(truth, distance):
    """The definition, pixel by pixel."""
    near = np.zeros(truth.shape, bool)
    for y, x in zip(*np.nonzero(np.isfinite(truth)), strict=True):
        for dy, dx in ((0, 1), (1, 0)):
            for gap in range(1, regions.EDGE_GAP + 1):
                v, u = y + gap * dy, x + gap * dx
                if v >= truth.shape[0] or u >= truth.shape[1]:
                    break
                if np.isfinite(truth[v, u]):
                    if abs(float(truth[v, u]) - float(truth[y, x])) > max(2, gap):
                        for b, a in ((y, x), (v, u)):
                            near[max(0, b - distance):b + distance + 1,
                                 max(0, a - distance):a + distance + 1] = True
                    break
    return near


@pytest.mark.parametrize(('row', 'edges'), [
    ([5, 5, 5, 9, 9, 9], [2, 3]),               # both sides of a step
    ([5, nan, nan, nan, 9, nan, nan, nan, 13], []),         # a slanted surface
    ([5, nan, nan, nan, 9.5], [0, 4]), ([5, *[nan] * 7, 50], [0, 8]),
    ([5, *[nan] * 8, 50], [])])                 # too far apart
def test_edges_are_steps_between_known_pixels(row, edges):
    truth = np.array([row] * 2, np.float32)
    assert np.argwhere(regions.depth_edges(truth)).tolist() == [
        [y, x] for y in (0, 1) for x in edges]
    # The ends of a row and the beginning of the next are no neighbours.
    assert not regions.depth_edges(np.array([[5, nan], [nan, 50]], np.float32)).any()


@given(truths, st.integers(0, 3))
def test_near_an_edge_is_the_naive_definition(truth, distance):
    np.testing.assert_array_equal(regions.near_depth_edges(truth, distance),
                                  naive_near(truth, distance))


def test_distances_are_focal_length_times_baseline_over_disparity():
    calibration = Calibration(700, 0.5, 600, 600, 180)          # 350 metres over a pixel
    truth = np.array([[350, 175, 87.5, 21.875, 5, 0, nan]], np.float32)
    bins = regions.by_distance(truth, calibration)
    places = [next((name for name, mask in bins.items() if mask[0, x]), None) for x in range(7)]
    assert places == ['1_2_m', '2_4_m', '4_8_m', '16_32_m', '64_inf_m', '64_inf_m', None]
    assert sum(mask.sum() for mask in bins.values()) == 6


def test_principal_points_that_differ_shift_the_distance():
    # 100 px focal length, 1 m: a disparity of 5 between the images is 5 + 20 of the same axes.
    bins = regions.by_distance(np.array([[5.0, -25.0]]), Calibration(100, 1, 40, 60, 24))
    assert bins['4_8_m'].tolist() == [[True, False]]
    assert bins['64_inf_m'].tolist() == [[False, True]]


def test_further_windows_are_masks_beside_the_bins():
    truth = np.array([[100, 50, 40, 20, 10, 5, 2.5, 2, 1, 0, nan]], np.float32)
    calibration = Calibration(100, 1, 0, 0, 0)      # 1, 2, 2.5, 5, 10, 20, 40, 50, 100 m, far
    found = regions.by_distance(truth, calibration, [(2, 16), (2.5, 50.0), (20.0, np.inf)])
    assert found.keys() - regions.by_distance(truth, calibration).keys() == {
        '2_16_m', '2.5_50_m', '20_inf_m'}
    np.testing.assert_array_equal(
        found['2_16_m'], found['2_4_m'] | found['4_8_m'] | found['8_16_m'])
    assert np.flatnonzero(found['2.5_50_m']).tolist() == [2, 3, 4, 5, 6]
    assert np.flatnonzero(found['20_inf_m']).tolist() == [5, 6, 7, 8, 9]


def test_masks_part_a_frame_into_regions():
    truth = np.full((2, 3), 9, np.float32)
    mask = np.array([[0, 3, 0], [0, 0, 1]], np.uint8)
    found = regions.find_regions(truth, mask, occluded=mask > 0, classes={
        'pole': mask, 'thin': mask < 2})
    assert set(found) == {'near_edges', 'away_from_edges', 'vehicles', 'background', 'occluded',
                          'not_occluded', 'class_pole', 'class_thin'}
    for name in ('vehicles', 'occluded', 'class_pole'):
        assert found[name].tolist() == [[False, True, False], [False, False, True]]
    assert found['class_thin'].tolist() == [[True, False, True], [True, True, True]]
    for name, other in (('background', 'vehicles'), ('near_edges', 'away_from_edges'),
                        ('not_occluded', 'occluded')):
        assert (found[name] == ~found[other]).all()
    assert set(regions.find_regions(truth)) == {'near_edges', 'away_from_edges'}
    for options, words in (({'vehicles': mask[:1]}, 'mask of vehicles'),
                           ({'occluded': mask[:1] > 0}, 'mask of occluded pixels'),
                           ({'classes': {'pole': mask[:1]}}, 'mask of the class pole has shape')):
        with pytest.raises(ValueError, match=words):
            regions.find_regions(truth, **options)
