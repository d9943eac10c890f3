"""Whether the images of a bag are rectified already: said, or measured."""

from __future__ import annotations

import logging
import pathlib
import types

import numpy as np
import pytest

from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.evaluation.sources import Pair
from test import raw_cameras
from test.cli.test_bag_formats import evaluated, record_raw

SIZE, DISPARITY = (320, 240), 12.0

#: Cameras that distort, that are only turned, and that are fisheyes.
CAMERAS = {
    'distorted': {'model': 'plumb_bob', 'd': (-0.2, 0.05, 0.001, -0.002, 0.0)},
    'turned': {'model': 'plumb_bob', 'd': (0.0,) * 5},
    'fisheye': {'model': 'equidistant', 'd': (0.0,) * 4}}


def camera(side: str, name: str) -> types.SimpleNamespace:
    offset = 0.0 if side == 'left' else -52.0
    return raw_cameras.camera_info(
        side, **CAMERAS[name], size=SIZE, k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
        p=(260, 0, 158.5, offset, 0, 260, 121.5, 0, 0, 0, 1, 0))


def record(folder: pathlib.Path, name: str, *, is_raw: bool) -> pathlib.Path:
    """A bag on image_raw, with the pictures of the raw cameras or rectified ones."""
    images = dict(zip(('left', 'right'), raw_cameras.scene(*SIZE, DISPARITY), strict=True))
    if is_raw:
        images = {side: raw_cameras.raw_image(image, camera(side, name))
                  for side, image in images.items()}
    return record_raw(folder / 'bag', images, 'mono8', info=lambda side: camera(side, name))


@pytest.mark.parametrize('name', list(CAMERAS))
@pytest.mark.parametrize('is_raw', [False, True])
def test_images_are_rectified_if_their_rows_match_better_then(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture, name: str, is_raw: bool) -> None:
    path = record(tmp_path, name, is_raw=is_raw)
    with caplog.at_level(logging.WARNING):
        report = evaluated(path, capsys)
    assert report['pairs'][0]['score']['coverage'] > 60
    expected = 'Both images are rectified with it' if is_raw else 'rectified already'
    assert expected in caplog.text
    assert caplog.text.count('corners have their partner in the same row as they come') == 1
    with bags.StereoBag(path) as bag:
        pair, = bag.read()
    found = bags_disparity(pair)
    assert np.median(found) == pytest.approx(DISPARITY, abs=0.5)


def bags_disparity(pair: Pair) -> np.ndarray:
    from stereo_bp_ros.alignment import corner_disparities
    return corner_disparities(pair.left.pixels, pair.right.pixels, -40, 40)


@pytest.mark.parametrize(('rectified', 'as_they_come'), [('yes', True), ('no', False)])
@pytest.mark.parametrize('is_raw', [False, True])
def test_who_knows_says_it_and_nothing_is_measured(
        tmp_path: pathlib.Path, rectified: str, as_they_come: bool, is_raw: bool) -> None:
    path = record(tmp_path, 'distorted', is_raw=is_raw)
    with (bags.StereoBag(path) as plain,
          bags.StereoBag(path, bags.StereoTopics(rectified=rectified)) as bag):
        pair, = bag.read()
        images = {topic: data for topic, _, data in plain.raw()}
        assert bag.warnings() == []
    recorded = bags.STORE.deserialize_cdr(images['left/image_rect'], bags.IMAGE)
    assert np.array_equal(pair.left.pixels.reshape(-1), recorded.data) is as_they_come


def test_a_player_says_what_the_node_has_to_do(tmp_path: pathlib.Path) -> None:
    for is_raw, words in ((True, 'Have the node rectify it (rectify)'),
                          (False, 'leave rectify of the node off')):
        with bags.StereoBag(record(tmp_path / str(is_raw), 'distorted', is_raw=is_raw)) as bag:
            warning, = bag.warnings(played=True)
        assert words in warning


def test_images_that_tell_nothing_are_rectified_as_their_camera_info_says(
        tmp_path: pathlib.Path) -> None:
    ramp = np.tile(np.linspace(20, 220, SIZE[0]).astype(np.uint8), (SIZE[1], 1))
    path = record_raw(tmp_path / 'bag', {'left': ramp, 'right': ramp}, 'mono8',
                      info=lambda side: camera(side, 'distorted'))
    with bags.StereoBag(path) as bag:
        warning, = bag.warnings()
        pair, = bag.read()
    assert 'cannot be told from the pictures' in warning
    assert not np.array_equal(pair.left.pixels, ramp)
