"""The points of a LiDAR become the disparity that the left camera sees, and no other."""

from __future__ import annotations

import types

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.sources import cloud_truth
from test.cli import recordings

CALIBRATION = Calibration(500.0, 0.4, 320, 320, 180)
SHAPE = 360, 640
WALL_M, POLE_M, POLE_HALF_M = 20.0, 8.0, 0.15


def rings(place, lines, columns):
    """Points of a scanner at x, y, z of the camera's frame: a pole in front of a wall."""
    down, right = np.meshgrid(np.deg2rad(np.linspace(-14, 14, lines)),
                              np.deg2rad(np.linspace(-30, 30, columns)), indexing='ij')
    rays = np.stack([np.tan(right), np.tan(down) / np.cos(right), np.ones_like(right)], axis=-1)
    hits = place + rays * (POLE_M - place[2])
    on_pole = np.abs(hits[..., 0]) <= POLE_HALF_M
    return np.where(on_pole[..., None], hits, place + rays * (WALL_M - place[2])).reshape(-1, 3)


def disparity_at(metres):
    return CALIBRATION.focal_px * CALIBRATION.baseline_m / metres


@pytest.mark.parametrize(('lines', 'columns'), [(16, 600), (64, 300), (500, 1200)])
@pytest.mark.parametrize('place', [(0.5, 0.0, -0.2), (-0.3, -0.8, -0.5)])
def test_points_behind_a_pole_are_no_truth_although_a_shifted_scanner_sees_them(
        lines, columns, place):
    points = rings(np.array(place), lines, columns)
    naive = cloud_truth.project(points, CALIBRATION, SHAPE)
    found = cloud_truth.disparity_of(points, CALIBRATION, SHAPE)
    edge = CALIBRATION.focal_px * POLE_HALF_M / POLE_M
    columns_, _ = np.meshgrid(np.arange(SHAPE[1]), np.arange(SHAPE[0]))
    # Rounding to pixels moves a point by at most half of one.
    behind = np.abs(columns_ - CALIBRATION.cx_left) <= edge - 1
    beside = np.abs(columns_ - CALIBRATION.cx_left) >= edge + 1
    wall, pole = disparity_at(WALL_M), disparity_at(POLE_M)
    rows = np.flatnonzero(np.isfinite(naive).any(axis=1))
    # A row of the pole counts where the scanner's lines on it reach.
    reached = np.flatnonzero(np.isclose(naive, pole).any(axis=1))
    behind[:reached.min()] = behind[reached.max() + 1:] = False
    if lines < 500:        # a point in every pixel of the pole hides all by itself
        assert np.isclose(naive[behind], wall).sum() > 0, 'the scene has nothing to remove'
    assert not np.isclose(found[behind], wall).any()
    np.testing.assert_allclose(found[behind & np.isfinite(found)], pole, rtol=1e-6)
    # The wall is kept but for a seam as wide as the gaps of the cloud.
    seam = cloud_truth.spacing(np.isfinite(naive))
    away = np.abs(columns_ - CALIBRATION.cx_left) >= edge + 1 + seam
    np.testing.assert_array_equal(np.isfinite(found)[away], np.isfinite(naive)[away])
    np.testing.assert_allclose(found[beside & np.isfinite(found)], wall, rtol=1e-6)
    assert np.isfinite(found[rows]).sum() > 0.5 * np.isfinite(naive[rows]).sum()


def test_the_spacing_is_half_the_gap_between_rings_and_most_of_a_grid():
    rows = np.zeros((300, 300), bool)
    rows[5::12] = True
    assert 6 <= cloud_truth.spacing(rows) <= 8
    grid = np.zeros((300, 300), bool)
    grid[::10, ::10] = True
    assert 7 <= cloud_truth.spacing(grid) <= 9
    assert cloud_truth.spacing(np.ones((20, 20), bool)) == 1
    assert cloud_truth.spacing(np.zeros((20, 20), bool)) == 1
    # A road and a wall at a slant are kept: 0.9 px a column, 1/4 px a row, every third pixel.
    columns, rows = np.meshgrid(np.arange(100.0), np.arange(80.0))
    for plane in (0.9 * columns + 1, 0.25 * rows + 1):
        truth = np.where((columns % 3 == 0) & (rows % 3 == 0), plane, np.nan)
        assert not cloud_truth.hidden(truth, 6).any()
    # What is behind the camera or outside of the image is left out, and the nearest counts.
    points = np.array([[0, 0, -5.0], [0, 0, 0.0], [100, 0, 5], [0, 0, 10], [0, 0, 20]])
    found = cloud_truth.project(points, CALIBRATION, SHAPE)
    assert np.isfinite(found).sum() == 1
    assert found[180, 320] == disparity_at(10)


def fields(**changed):
    field = types.SimpleNamespace
    data = np.zeros(2, np.dtype('<f4, <f4, <f4')).view(np.uint8)
    return types.SimpleNamespace(**{
        'fields': [field(name=name, offset=4 * k, datatype=7, count=1)
                   for k, name in enumerate('xyz')],
        'is_bigendian': False, 'point_step': 12, 'row_step': 24, 'width': 2, 'height': 1,
        'data': data, **changed})


@pytest.mark.parametrize(('changed', 'words'), [
    ({'fields': [types.SimpleNamespace(name='range', offset=0, datatype=7, count=1)]},
     "no x, y and z, but the fields 'range'"),
    ({'fields': [types.SimpleNamespace(name=name, offset=0, datatype=2, count=1)
                 for name in 'xyz']}, 'datatype 2'),
    ({'point_step': 8}, 'point_step of 8'),
    ({'width': 3}, '24 bytes'),
    ({'height': 2, 'row_step': 20}, 'row_step of 20')])
def test_a_cloud_that_cannot_be_read_is_refused_with_the_reason(changed, words):
    assert cloud_truth.points_of(fields()).shape == (0, 3)      # all at the origin
    with pytest.raises(ValueError, match=words):
        cloud_truth.points_of(fields(**changed))


def test_a_damaged_cloud_is_refused_or_read_and_nothing_else():
    sound = recordings.STORE.serialize_cdr(recordings.cloud(
        10**18, np.random.default_rng(0).uniform(1, 9, (20, 3))), recordings.CLOUD).tobytes()
    ends = {'read': 0, 'refused': 0}
    for seed in range(200):
        random = np.random.default_rng(seed)
        data = bytearray(sound)
        for place in random.integers(12, 180, 2):       # of the header and the fields
            data[place] = random.integers(256)
        try:
            message = recordings.STORE.deserialize_cdr(bytes(data), recordings.CLOUD)
        except Exception:       # the words of the reader for these have tests of their own
            continue
        try:
            points = cloud_truth.points_of(message)
        except ValueError:
            ends['refused'] += 1
        else:
            assert cloud_truth.disparity_of(points, CALIBRATION, SHAPE).shape == SHAPE
            ends['read'] += 1
    assert min(ends.values()) > 10, ends
    empty = recordings.cloud(10**18, np.zeros((0, 3)))
    assert cloud_truth.points_of(empty).shape == (0, 3)
