"""The plane of a road: found among walls, holes and noise, and refused where there is none."""

import numpy as np
import pytest

from stereo_bp_ros import road_plane
from stereo_bp_ros.road_plane import Plane, fit_road

ROW, COLUMN = np.mgrid[:120, :160].astype(float)
ROAD = Plane(0.02, 0.4, -20)            # infinitely far in row 46 at the middle column
EVERYWHERE = np.ones(ROW.shape, bool)


def test_a_larger_wall_in_front_of_the_road_is_no_road():
    disparity = ROAD.at(COLUMN, ROW)
    disparity[:, 60:] = 55                          # 100 of 160 columns, nearer than the road
    found = fit_road(disparity, EVERYWHERE)
    assert found.plane.b == pytest.approx(0.4, abs=1e-6)
    assert found.inliers == pytest.approx(60 * 60, rel=0.1)
    assert found.pixels == 60 * 160


@pytest.mark.parametrize('wall', [Plane(0, 0, 9), Plane(0.5, 0.1, 0), Plane(0, -0.4, 90),
                                  Plane(0.5, 0.1, -43),
                                  Plane(0, 0.01, 9)], ids=str)
def test_a_wall_or_a_ceiling_is_no_road(wall):
    assert fit_road(wall.at(COLUMN, ROW), EVERYWHERE) is None


def test_the_horizon_is_where_the_disparity_is_that_of_infinity():
    # With principal points that differ by 60 px the same plane in space has 60 px less.
    shifted = ROAD.at(COLUMN, ROW) - 60
    assert fit_road(shifted, EVERYWHERE) is None
    assert fit_road(shifted, EVERYWHERE, -60).plane.c == pytest.approx(-80)


def test_a_plane_is_found_exactly_in_the_lower_half_where_there_is_a_disparity():
    disparity = ROAD.at(COLUMN, ROW)
    disparity[:60] = 90
    valid = EVERYWHERE.copy()
    valid[:, 100:] = False
    disparity[:, 100:] = 3
    disparity[:, 99] = np.nan
    found = fit_road(disparity, valid)
    assert (found.plane.a, found.plane.b, found.plane.c) == pytest.approx((0.02, 0.4, -20))
    assert (found.pixels, found.inliers) == (60 * 99, 60 * 99)
    assert found.squared == pytest.approx(0, abs=1e-9)
    few = np.zeros(ROW.shape, bool)
    few[100, :road_plane.MIN_PIXELS - 1] = True
    assert fit_road(ROAD.at(COLUMN, ROW), few) is None


def test_the_residual_is_that_of_the_inliers_every_time():
    random = np.random.default_rng(1)
    disparity = ROAD.at(COLUMN, ROW) + random.normal(0, 0.2, ROW.shape)
    disparity[:, ::4] += 7
    found = fit_road(disparity, EVERYWHERE)
    assert np.sqrt(found.squared / found.inliers) == pytest.approx(0.2, rel=0.05)
    assert found.inliers / found.pixels == pytest.approx(0.75, abs=0.01)
    assert fit_road(disparity, EVERYWHERE) == found
