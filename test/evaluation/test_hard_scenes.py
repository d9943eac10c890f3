"""What makes the street hard: masks and truth stay exact, pictures differ as real ones do."""

import dataclasses
import functools

import cv2
import numpy as np

from stereo_bp_ros.evaluation.metrics import score
from stereo_bp_ros.sources.scenes import meshes
from stereo_bp_ros.sources.scenes.sequence import CAMERA_HEIGHT_M, HARD, RoadSequence
from test.cases import every
from test.evaluation.streets import (
    TRUTH,
    assert_same,
    away_from_depth_edges,
    error_of_truth,
)

HARD_STREET = RoadSequence.hard(width=480, height=200, max_disparity=48)
#: All that stands on the hard street, under a plain light and on ideal sensors.
MATT = dataclasses.replace(HARD_STREET, sky='clouds', noise_sigma=0.0, exposure_gain=1.0,
                           exposure_offset=0.0)
INDEX = 52


@functools.cache
def drawn(**options):
    return dataclasses.replace(MATT, **options).frame(INDEX)


def road_disparity(sequence):
    """Of a plane below the camera that falls to the right, at every pixel."""
    x, y = np.meshgrid(np.arange(sequence.width) - sequence.cx,
                       np.arange(sequence.height) - sequence.cy)
    return sequence.baseline_m * (y - sequence.side_slope * x) / CAMERA_HEIGHT_M


def is_road(sequence, frame):
    return (np.abs(frame.disparity - road_disparity(sequence)) < 1e-3) & (frame.labels == 0)


def cast(sequence, mesh, pixels):
    """Naive rays: (label, disparity, certain) of what the left camera sees at some (x, y).

    A ray that passes a cutout's edge closely is uncertain: textures are drawn reduced.
    """
    rays = np.column_stack([(pixels - (sequence.cx, sequence.cy)) / sequence.focal_px,
                            np.ones(len(pixels))])
    label, nearest = np.zeros(len(pixels), int), np.zeros(len(pixels))
    ground = np.zeros(len(pixels))
    certain = np.ones(len(pixels), bool)
    for n, texture in enumerate(mesh.textures):
        u, v, origin = mesh.u[n], mesh.v[n], mesh.origin[n]
        if mesh.kind[n] == meshes.SHADE or mesh.facing[n] * (np.cross(u, v) @ origin) < 0:
            continue
        s, t, inverse = np.linalg.inv(np.stack([u, v, origin], axis=1)) @ rays.T
        s, t = (np.divide(part, inverse, where=inverse > 0, out=np.full_like(part, 99.0))
                for part in (s, t))
        corners = np.array(list(dict.fromkeys(map(tuple, mesh.outline[n]))))
        ahead = np.roll(corners, -1, axis=0) - corners
        turns = [a * (t - y) - b * (s - x) for (x, y), (a, b) in zip(corners, ahead, strict=True)]
        hit = (inverse > 0) & (np.all(np.array(turns) >= 0, axis=0)
                               | np.all(np.array(turns) <= 0, axis=0))
        if texture.cutout is not None:
            cutout = texture.level(0, 0)[1]
            far = cv2.dilate(cutout, np.ones((33, 33), np.uint8))
            near = cv2.erode(cutout, np.ones((33, 33), np.uint8))
            rows, cols = cutout.shape
            at = (np.clip(t * rows, 0, rows - 1).astype(int),
                  np.clip(s * cols, 0, cols - 1).astype(int))
            certain &= ~hit | (far[at] == near[at])
            hit &= cutout[at] > 0
        if mesh.kind[n] == meshes.GROUND:
            ground[hit] = inverse[hit]
            continue
        closer = hit & (inverse > nearest)
        label[closer], nearest[closer] = mesh.label[n], inverse[closer]
    label[ground >= nearest] = meshes.OTHER
    unit = sequence.focal_px * sequence.baseline_m
    return label, unit * np.maximum(nearest, ground), certain


def test_masks_and_truth_are_those_of_naive_rays():
    frame = HARD_STREET.frame(INDEX)
    masks = [frame.sky, frame.vehicles, frame.thin, frame.fence]
    assert every(mask.any() for mask in masks)
    assert np.sum(masks, axis=0).max() == 1             # they do not overlap
    random = np.random.default_rng(0)
    chosen = [random.choice(np.flatnonzero(mask), 600) for mask in (
        *masks[:3], np.ones_like(frame.sky))]
    pixels = np.column_stack(np.unravel_index(np.concatenate(chosen), frame.sky.shape))[:, ::-1]
    labels, disparity, certain = cast(HARD_STREET, HARD_STREET.surfaces(INDEX), pixels)
    x, y = pixels[certain].T
    assert certain.mean() > 0.6
    np.testing.assert_array_equal(frame.labels[y, x], labels[certain])
    np.testing.assert_array_equal(frame.sky[y, x], disparity[certain] == 0)
    np.testing.assert_allclose(frame.disparity[y, x], disparity[certain], rtol=1e-4, atol=1e-4)
    for mask in (frame.vehicles, frame.thin):
        assert mask.dtype == bool
        assert 200 < np.count_nonzero(mask[y, x]) < 0.6 * x.size


def test_poles_are_few_pixels_wide():
    both = drawn()
    poles = both.thin & (both.disparity != drawn(poles=False).disparity)
    edges = np.diff(np.pad(poles, ((0, 0), (1, 1))).astype(int), axis=1)
    widths = np.nonzero(edges < 0)[1] - np.nonzero(edges > 0)[1]
    assert widths.size > 100
    assert np.mean(widths <= 4) > 0.7


def test_the_truth_fits_on_all_that_stands_on_the_hard_street():
    frame = drawn()
    error = error_of_truth(frame)
    seen = ~frame.occluded
    # So small a picture of the street without options has 1.27 and 1.45.
    assert error[seen & away_from_depth_edges(frame)].mean() < 1.6
    assert error[seen].mean() < 2.4
    for mask in (frame.fence, frame.thin, frame.vehicles, ~frame.sky):
        for beside in (-0.5, -0.3, 0.3, 0.5):
            assert (error_of_truth(frame, beside)[seen & mask].mean()
                    > (1 + 0.5 * abs(beside)) * error[seen & mask].mean())


def test_the_road_falls_to_the_right():
    frame = drawn()
    rows, columns = np.nonzero(is_road(MATT, frame))
    assert rows.size > 0.2 * frame.sky.size
    assert np.ptp(columns) > 0.9 * MATT.width
    flat = drawn(side_slope=0.0)
    assert np.count_nonzero(is_road(MATT, flat)) < 0.1 * rows.size


def test_light_and_sensors_leave_truth_and_masks():
    plain = drawn()
    hard = drawn(**{name: value for name, value in HARD.items()
                    if name not in ('fence', 'poles', 'side_slope')})
    assert_same(hard, plain, *TRUTH)


def test_a_common_matcher_finds_the_hard_street_harder():
    matcher = cv2.StereoSGBM_create(0, 64, 5, 200, 800, 1, uniquenessRatio=10)
    plain = {name: getattr(RoadSequence(), name) for name in HARD}
    assert RoadSequence.hard(**plain) == RoadSequence()     # options can be taken back
    bad = []
    for options in (plain, {}):
        frame = RoadSequence.hard(width=480, height=200, **options).frame(INDEX)
        disparity = matcher.compute(frame.left, frame.right).astype(np.float32) / 16
        result = score(disparity, frame.disparity, disparity >= 0, mask=~frame.occluded)
        bad.append(result.bad_all(3.0))
    assert bad[1] > 1.3 * bad[0]
