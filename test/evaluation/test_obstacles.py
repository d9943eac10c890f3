"""Obstacles in a corridor whose every point is known."""

import dataclasses

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import obstacles
from stereo_bp_ros.evaluation.frame_scores import Means
from stereo_bp_ros.evaluation.obstacles import Corridor, Detection, Obstacles, count_obstacles

CALIBRATION = Calibration(100, 0.5, 60, 60, 40)         # 50 metres over a pixel
CORRIDOR = Corridor(2.0, 20.0, camera_height_m=1.5)
ROW, COLUMN = np.mgrid[:100, :120].astype(float)


def street(calibration=CALIBRATION, height=1.5):
    """Disparities, H x W, of a level ground below the camera, and of the sky above."""
    depth_1 = (ROW - calibration.cy) / calibration.focal_y_px / height
    return np.maximum(depth_1 * 50, 0) + calibration.shift


def box(disparity, distance, left, width, top, bottom=0.0, height=1.5):
    """Put a board upright: metres to its left edge, wide, and from bottom to top high."""
    columns = 60 + 100 / distance * np.array([left, left + width])
    rows = 40 + 100 / distance * (height - np.array([top, bottom]))
    hit = ((columns[0] <= COLUMN) & (columns[1] >= COLUMN) & (rows[0] <= ROW) & (rows[1] >= ROW))
    disparity = disparity.copy()
    disparity[hit] = np.maximum(disparity, 50 / distance)[hit]
    return disparity


def count(disparity, truth=None, corridor=CORRIDOR, calibration=CALIBRATION, valid=None):
    ground = corridor.ground(calibration, truth)
    everywhere = np.ones(disparity.shape, bool)
    found = count_obstacles(disparity, everywhere if valid is None else valid, truth, calibration,
                            corridor, ground)
    return dataclasses.replace(found, by_distance={})


def detections(disparity, truth, corridor=CORRIDOR):
    return count_obstacles(disparity, np.isfinite(disparity), truth, CALIBRATION, corridor,
                           corridor.ground(CALIBRATION, truth)).by_distance


def test_an_obstacle_is_false_where_the_truth_has_none_and_knows_it():
    free, there = street(), box(street(), 10, -0.5, 1, 1)
    assert count(free, free) == Obstacles(1, 0, 1, 0, 0)
    assert count(there, there) == Obstacles(1, 1, 1, 0, 0)
    false = count(there, free)
    assert false == Obstacles(1, 1, 1, 1, 1)
    assert (false + count(free, free)).as_dict() == {
        'found_per_frame': 0.5, 'false_per_frame': 0.5, 'false_frames': 50, 'by_distance': {}}
    truth = np.where(there == free, free, np.nan)
    assert count(there, truth) == Obstacles(1, 1, 1, 0, 0)
    truth[there != free] = np.inf
    assert count(there, truth).false == 0
    # Without a truth obstacles are only counted.
    found = count(there)
    assert found == Obstacles(1, 1)
    assert found.as_dict() == {'found_per_frame': 1, 'false_per_frame': None,
                               'false_frames': None, 'by_distance': {}}
    assert {value for key, value in Obstacles().as_dict().items() if key != 'by_distance'} == {
        None}
    # Pixels without a disparity are none.
    assert count(there, valid=there < 0).found == 0
    there[there == 5] = np.nan
    assert count(there).found == 0


@pytest.mark.parametrize(('board', 'found'), [
    ((10, -0.5, 1, 0.25), 0),               # too low to count
    ((10, -0.5, 1.4, 0.65), 1),
    ((19, -0.9, 1.8, 1.5), 1),
    ((21, -0.9, 1.8, 1.5), 0),              # behind the corridor
    ((10, 1.1, 1, 1), 0),                   # beside it
    ((10, 0.4, 2, 1), 1),                   # half in it
    ((8, -0.5, 1, 4.4, 3.1), 0),            # above it
    ((10, -0.1, 0.2, 0.7), 0)], ids=str)    # 3 columns of 4 rows: fewer than 30 pixels
def test_only_what_stands_in_the_corridor_counts(board, found):
    assert count(box(street(), *board)).found == found


def test_every_cluster_is_an_obstacle_and_a_diagonal_connects():
    two = box(box(street(), 5, -0.8, 0.5, 1), 5, 0.3, 0.5, 1)
    assert count(two, street()) == Obstacles(1, 2, 1, 2, 1)
    corner = street()
    corner[50:56, 54:60] = corner[56:62, 60:66] = 50 / 5
    assert count(corner).found == 1


@pytest.mark.parametrize(('board', 'true', 'false'), [
    ((10, 0.4, 1, 1), (10, 0.8, 1, 1), 0),
    ((10, 0.4, 2, 1), (10, 1.2, 1, 1), 1),              # 4 columns of the corridor beside it
    ((18, -0.9, 1.8, 1.5), (23, -0.9, 1.8, 1.5), 0),
    ((18, -0.9, 1.8, 1.5), (26, -0.9, 1.8, 1.5), 1),    # a fifth behind the corridor is too far
    ((8, -0.64, 1.36, 0.46, 0.28), (10, -0.8, 1.6, 0.25), 0),   # a kerb, put nearer than it is
    ((8, -0.64, 1.36, 0.46, 0.28), (10, -0.8, 1.6, 0.14), 1),
    ((10, -0.5, 1, 1), (10, -0.5, 1, 0.1), 1)], ids=str)
def test_an_obstacle_a_little_beside_its_place_in_the_truth_is_not_false(board, true, false):
    found = count(box(street(), *board), box(street(), *true))
    assert (found.found, found.false) == (1, false)


def test_half_of_its_pixels_show_an_obstacle_and_the_road_behind_it_does_not():
    true = box(street(), 10, -0.5, 1, 1)            # 11 columns
    for columns, seen in ((6, 1), (5, 0)):
        disparity = true.copy()
        disparity[:, 55 + columns:] = np.nan
        assert detections(disparity, true)['8_16_m'].seen == seen
    true = box(street(), 5, -0.8, 1.6, 0.25)        # the road is up to 6 m away there
    found = detections(street(), true)['4_8_m']
    assert (found.there, found.seen) == (1, 0)


def test_the_ground_is_found_in_the_truth():
    # A camera at 1.2 m that looks down and leans sideways: a plane in the image all the same.
    tilted = 0.05 * COLUMN + 50 / 120 * ROW - 10
    corridor = Corridor(2.0, 20.0)
    assert count(tilted, tilted, corridor).found == 0
    raised = tilted.copy()
    raised[60:80, 50:70] = 40               # 1.25 m ahead, 0.41 to 0.64 m above the plane
    assert count(raised, tilted, corridor) == Obstacles(1, 1, 1, 1, 1)


def test_a_height_above_the_ground_does_not_depend_on_how_the_ground_is_given():
    for corridor in (CORRIDOR, Corridor(2.0, 20.0)):
        true = box(street(), 10, -0.5, 1, 0.9)      # the truth's rows are 0.1 m high there
        found = detections(street(), true, corridor)['8_16_m']
        assert found.largest_missed_m == pytest.approx(0.9, abs=0.02)


def test_principal_points_that_differ_and_pixels_that_are_not_square_are_known():
    calibration = Calibration(100, 0.5, 60, 80, 40, focal_y_px=100)
    assert calibration.shift == -20
    found = box(street(), 10, -0.5, 1, 1) - 20
    assert count(found, street() - 20, calibration=calibration) == Obstacles(1, 1, 1, 1, 1)
    wide = Calibration(100, 0.5, 60, 60, 40, focal_y_px=200)
    ground = CORRIDOR.ground(wide, None)
    assert ground.at(COLUMN, ROW)[45:] == pytest.approx(street(wide)[45:])
    assert count(street(wide), street(wide), calibration=wide).found == 0


def test_a_ground_needs_a_height_or_a_truth_with_a_road():
    with pytest.raises(ValueError, match='--camera-height'):
        Corridor(2, 20).ground(CALIBRATION, None)
    assert Corridor(2, 20).ground(CALIBRATION, np.full(ROW.shape, 9.0)) is None


def test_obstacles_of_the_truth_are_seen_or_missed_by_distance():
    near, far = (5, -0.8, 0.6, 0.5), (10, 0.2, 0.7, 0.7)
    true = box(box(street(), *near), *far)
    found = detections(box(street(), *far), true)
    assert found.keys() == {'4_8_m', '8_16_m'}
    assert (found['4_8_m'].there, found['4_8_m'].seen) == (1, 0)
    assert found['4_8_m'].largest_missed_m == pytest.approx(0.5, abs=0.051)
    assert (found['8_16_m'].there, found['8_16_m'].seen) == (1, 1)
    assert found['8_16_m'].smallest_seen_m == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(('change', 'seen'), [(1.19, 1), (1.3, 0), (-0.7, 1), (-0.9, 0)])
def test_an_obstacle_is_seen_where_distance_and_height_agree(change, seen):
    # 1.4 m high, on a ground 1.5 m below: 50 / 5 = 10 metres away, and wrong by some disparity.
    true = box(street(), 10, -0.5, 1, 1.4)
    disparity = true + np.where(true == street(), 0, change)
    assert detections(disparity, true)['8_16_m'].seen == seen


def test_extremes_add_up_and_have_no_mean():
    seen, missed = Detection(1, 1, smallest_seen_m=0.5), Detection(2, 0, largest_missed_m=0.4)
    first, second = (Obstacles(1, 1, 1, by_distance={'4_8_m': one})
                     for one in (seen, missed))
    total = (first + second + Obstacles(1)).as_dict()['by_distance']['4_8_m']
    assert total == {'there': 3, 'seen': pytest.approx(100 / 3), 'smallest_seen_m': 0.5,
                     'largest_missed_m': 0.4}
    means = Means()
    means.add(first.as_dict())
    means.add(second.as_dict())
    assert means.result()['by_distance'] == {'4_8_m': {'seen': 50}}


def test_the_page_of_metrics_has_every_key_and_limit(repository):
    page = (repository / 'docs/reference/metrics.md').read_text()
    assert {*obstacles.MEANINGS, 'by_distance'} == Obstacles().as_dict().keys()
    keys = [*Obstacles().as_dict(), *Detection().as_dict()]
    assert [key for key in keys if f'`{key}`' not in page] == []
    for text in (f'at least {obstacles.MIN_PIXELS} pixels', f'more than {obstacles.LOW_M:g} m',
                 f'{obstacles.HIGH_M:g} m above', f'{obstacles.WIDER_M:g} m wider',
                 f'{obstacles.LONGER:g} times as long',
                 f'more than {obstacles.LOW_M * obstacles.LOWER:g} m'):
        assert text in page
