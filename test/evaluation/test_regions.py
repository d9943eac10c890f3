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


def test_both_sides_of_a_step_are_edges():
    truth = np.array([[5, 5, 5, 9, 9, 9]] * 2, np.float32)
    assert regions.depth_edges(truth).tolist() == [[False, False, True, True, False, False]] * 2


def test_a_slanted_surface_has_no_edge_across_a_gap_and_a_step_has():
    slanted = np.array([[5, nan, nan, nan, 9, nan, nan, nan, 13]], np.float32)
    assert not regions.depth_edges(slanted).any()
    step = np.array([[5, nan, nan, nan, 9.5]], np.float32)
    assert regions.depth_edges(step).tolist() == [[True, False, False, False, True]]


@pytest.mark.parametrize(('unknown', 'is_edge'), [(7, True), (8, False)])
def test_known_pixels_too_far_apart_have_no_edge_between_them(unknown, is_edge):
    truth = np.array([[5, *[nan] * unknown, 50]], np.float32)
    assert regions.depth_edges(truth).any() == is_edge


def test_the_ends_of_a_row_and_the_beginning_of_the_next_are_no_neighbours():
    truth = np.array([[5, 5, nan, nan], [nan, nan, 50, 50]], np.float32)
    assert not regions.depth_edges(truth).any()


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


@pytest.mark.parametrize('kind', [bool, np.uint8])
def test_a_mask_of_vehicles_parts_them_from_the_background(kind):
    truth = np.full((2, 3), 9, np.float32)
    mask = np.array([[0, 3, 0], [0, 0, 1]]).astype(kind)
    found = regions.find_regions(truth, mask)
    assert found['vehicles'].tolist() == [[False, True, False], [False, False, True]]
    assert (found['background'] == ~found['vehicles']).all()
    assert (found['near_edges'] == ~found['away_from_edges']).all()
    with pytest.raises(ValueError, match='mask of vehicles'):
        regions.find_regions(truth, mask[:1])


def test_every_class_is_a_region_and_classes_may_overlap():
    truth = np.full((1, 3), 9, np.float32)
    found = regions.find_regions(truth, classes={'pole': np.array([[0, 5, 5]], np.uint8),
                                                 'thin': np.array([[True, True, False]])})
    assert found['class_pole'].tolist() == [[False, True, True]]
    assert found['class_thin'].tolist() == [[True, True, False]]
    with pytest.raises(ValueError, match='the mask of the class pole has shape'):
        regions.find_regions(truth, classes={'pole': np.ones((1, 2), bool)})


def test_a_mask_of_occluded_pixels_parts_them_from_the_others():
    truth = np.full((1, 3), 9, np.float32)
    found = regions.find_regions(truth, occluded=np.array([[True, False, False]]))
    assert found['occluded'].tolist() == [[True, False, False]]
    assert (found['not_occluded'] == ~found['occluded']).all()
    with pytest.raises(ValueError, match='mask of occluded pixels'):
        regions.find_regions(truth, occluded=np.zeros((3, 1), bool))


def test_only_what_is_known_is_parted():
    truth = np.full((2, 3), 9, np.float32)
    assert set(regions.find_regions(truth)) == {'near_edges', 'away_from_edges'}
    assert len(regions.find_regions(truth, None, Calibration(1, 1, 0, 0, 0))) == 10


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
