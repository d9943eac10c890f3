"""Rows between corners of a pair, and what is estimated from them: streets, and real pairs."""

from __future__ import annotations

import dataclasses
import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.alignment import MAX_WIDTH, row_points
from stereo_bp_ros.cameras.row_correction import RowCorrection
from stereo_bp_ros.cameras.row_estimator import RowEstimator
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence

STREET = RoadSequence(width=640, height=240, max_disparity=64, frames=40)


def estimator_of(scene: RoadSequence) -> RowEstimator:
    return RowEstimator(scene.width, scene.height, focal_px=scene.focal_px, cx=scene.cx,
                        cy=scene.cy)


@pytest.mark.parametrize(('errors', 'terms'), [
    ({'vertical_offset_px': 2.0}, (2, 0, 0, 0)),
    ({'pitch_deg': 0.2}, (2.01, 0, 0, 2.01)),
    ({'roll_deg': -0.3}, (0, 3.02, 0, 0)),
    ({'focal_error_percent': 1.0}, (0, 0, 5.76, 0))])
def test_errors_of_the_right_camera_of_a_street_are_found_to_a_tenth_of_a_pixel(
        errors: dict[str, float], terms: tuple[float, ...]) -> None:
    scene = dataclasses.replace(STREET, misalignment=Misalignment(**errors))
    estimator = estimator_of(scene)
    for number in range(4):
        frame = scene.frame(5 * number)
        estimator.add(row_points(frame.left, frame.right, 0, 63), number)
    found = estimator.correction(100)
    assert found is not None
    x, y = np.meshgrid((0, 319.5, 639), (0, 119.5, 239))
    true = dataclasses.replace(found, terms=(*terms[:3], 0.0, terms[3]))
    rows = [one.rows(x.reshape(-1), y.reshape(-1)) for one in (found, true)]
    np.testing.assert_allclose(rows[0], rows[1], atol=0.15)
    assert abs(rows[0][4] - rows[1][4]) < 0.05


def test_an_unmoved_street_is_not_corrected() -> None:
    estimator = estimator_of(STREET)
    for number in range(6):
        frame = STREET.frame(5 * number)
        estimator.add(row_points(frame.left, frame.right, 0, 63), number)
        assert estimator.correction(number) is None
    assert estimator.state.max_px < 0.15


@pytest.mark.parametrize(('contrast', 'grey', 'noise', 'reason'), [
    (0.4, 120, 0.0, ''), (0.45, 0, 2.2, ''), (0.14, 0, 7.1, 'too little texture')],
    ids=['fog', 'dusk', 'night'])
def test_fog_and_night_leave_a_correction_as_it_is_and_say_so(
        contrast: float, grey: float, noise: float, reason: str) -> None:
    scene = dataclasses.replace(STREET, misalignment=Misalignment(vertical_offset_px=1.5))
    estimator = estimator_of(scene)
    random = np.random.default_rng(0)
    for number in range(6):
        frame = scene.frame(5 * number)
        pair = [frame.left, frame.right]
        if number >= 3:
            pair = [np.clip(contrast * image + random.normal(grey, noise, image.shape), 0,
                            255).astype(np.uint8) for image in pair]
        state = estimator.add(row_points(*pair, 0, 63), number)
    assert state.reason == reason
    found = estimator.correction(100)
    assert found is not None
    np.testing.assert_allclose(found.rows_of_image(640, 240), 1.5, atol=0.05)


@pytest.mark.parametrize('folder', ['kitti2012', 'sequence'])
@pytest.mark.parametrize('terms', [(1.3, 0, 0, 0, 0), (0.27, 0, 0, 0, 0), (0, 2, 0, 0, 0),
                                   (0, 0, 5, 0, 0)])
def test_a_real_pair_that_is_moved_differs_by_that_from_the_pair(
        data: pathlib.Path, folder: str, terms: tuple[float, ...]) -> None:
    pair = open_dataset(data / folder)[1]
    left, right = (to_8_bits(RawImage.from_array(image), 1) for image in (pair.left, pair.right))
    height, width = left.shape
    move = RowCorrection(tuple(map(float, terms)), width, width / 2, height / 2)
    moved = cv2.warpPerspective(right, np.reshape(move.homography(), (3, 3)), (width, height),
                                flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE)
    last = (pair.disparities or 128) - 1
    rows = []
    for image in (right, moved):
        estimator = RowEstimator(width, height)
        estimator.add(row_points(left, image, 0, last), 0)
        estimate = estimator.state.estimate
        assert estimate is not None
        # Where there are points, not in the corners.
        x, y = np.meshgrid(np.linspace(0.2, 0.8, 4) * width, np.linspace(0.2, 0.8, 4) * height)
        rows.append(estimate.rows(x.reshape(-1), y.reshape(-1)))
    np.testing.assert_allclose(rows[1] - rows[0], move.rows(x.reshape(-1), y.reshape(-1)),
                               atol=0.12)


def random_image(height: int = 240, width: int = 320, seed: int = 0) -> np.ndarray:
    image = np.random.default_rng(seed).normal(128, 160, (height, width))
    return np.clip(cv2.GaussianBlur(image, (0, 0), 1.2), 0, 255).astype(np.uint8)


def test_rows_of_a_shift_are_unbiased_at_every_fraction_and_brightness() -> None:
    left = random_image()
    for rows in (0.0, 0.25, 0.5, -0.3, 2.1):
        move = np.array([[1, 0, -7.4], [0, 1, rows]])
        right = cv2.warpAffine(left, move, left.shape[::-1], flags=cv2.INTER_LANCZOS4)
        points = row_points(left, np.clip(0.6 * right + 20.0, 0, 255).astype(np.uint8), 0, 20)
        assert len(points) > 40
        assert np.median(points[:, 2]) == pytest.approx(rows, abs=0.02)


def test_places_are_those_of_the_right_image_and_of_the_left_row() -> None:
    left = np.zeros((240, 320), np.uint8)
    rng = np.random.default_rng(0)
    left[60:120, 200:260] = cv2.GaussianBlur(rng.integers(0, 256, (60, 60), np.uint8), (0, 0), 1)
    points = row_points(left, np.roll(left, (1, -12), (0, 1)), 0, 20)
    assert len(points)
    assert np.all((points[:, 0] >= 188 - 2) & (points[:, 0] < 248 + 2))
    assert np.all((points[:, 1] >= 60 - 2) & (points[:, 1] < 120 + 2))
    np.testing.assert_allclose(points[:, 2], 1, atol=0.02)


def test_images_that_are_made_smaller_have_rows_and_places_of_their_own_pixels() -> None:
    left = cv2.resize(random_image(), (2560, 480), interpolation=cv2.INTER_CUBIC)
    assert left.shape[1] > MAX_WIDTH
    points = row_points(left, np.roll(left, (3, -20), (0, 1)), 0, 40)
    assert np.median(points[:, 2]) == pytest.approx(3, abs=0.05)
    assert points[:, 0].max() > 2000
    assert points[:, 1].max() > 350


def test_nothing_is_believed_of_pairs_that_show_no_rows() -> None:
    left = random_image()
    flat = np.full_like(left, 90)
    # A lattice: each place of the image has partners in many rows.
    mesh = np.pad(np.full((5, 9), 200, np.uint8), ((0, 3), (0, 3)))
    fence = np.tile(mesh, (40, 40))[:240, :320]
    noise = np.random.default_rng(1).normal(0, 4, left.shape)
    noisy = np.clip(fence + noise, 0, 255).astype(np.uint8)
    pairs = {'flat': (flat, flat), 'other images': (left, random_image(seed=5)),
             'fence': (noisy, np.roll(noisy, 2, axis=0)),
             'exchanged': (np.roll(left, (1, -12), (0, 1)), left)}
    for name, (one, other) in pairs.items():
        estimator = RowEstimator(320, 240)
        for second in range(5):
            estimator.add(row_points(one, other, 0, 40), second)
        assert estimator.correction(10) is None, name
        assert estimator.state.estimate is None, name
        assert estimator.state.reason in ('too little texture',
                                          'the points of a pair contradict each other'), name
