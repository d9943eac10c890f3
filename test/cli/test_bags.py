"""Stereo bags: written and read back, and rectified where their camera_info is not enough."""

from __future__ import annotations

import json
import pathlib
import types

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher
from stereo_bp_ros.cameras.alignment import corner_disparities
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_rectification import why_not_rectified
from stereo_bp_ros.sources.pairs import open_pairs
from test import raw_cameras
from test.cases import every
from test.cli import recordings

CALIBRATION = Calibration(400.0, 0.25, 47.5, 47.5, 24.0)
WIDTH, HEIGHT, START = 96, 48, 10**18
STORE = recordings.STORE


def test_pairs_calibration_and_truth_come_back(tmp_path):
    frames = []     # three, the second without truth
    for index in range(3):
        truth = np.full((32, 64), index + 1.5, np.float32)
        truth[0, 0] = np.nan
        truth[1, 1] = 0
        frames.append((START + index * 10**8, np.full((32, 64), 10 + index, np.uint8),
                       np.full((32, 64), 20 + index, np.uint8), None if index == 1 else truth))
    bag = tmp_path / 'bag'
    bags.write_bag(bag, CALIBRATION, frames)
    with bags.StereoBag(bag) as opened:
        assert opened.count == 3
        pairs = sorted(opened.read(), key=lambda pair: pair.stamp_ns)
    assert [p.stamp_ns for p in pairs] == [START + i * 10**8 for i in range(3)]
    assert [int(p.left.pixels[0, 0]) for p in pairs] == [10, 11, 12]
    assert [int(p.right.pixels[0, 0]) for p in pairs] == [20, 21, 22]
    assert every(p.calibration == CALIBRATION for p in pairs)
    assert pairs[1].truth is None
    truth = pairs[2].truth
    assert np.isnan(truth[0, 0])
    assert truth[5, 5] == 3.5
    assert 0 < truth[1, 1] < 0.01       # infinitely far is known, and stays so
    with pytest.raises(StereoError, match='not overwritten'):
        bags.StereoBagWriter(bag, CALIBRATION)
    with pytest.raises(StereoError, match='nothing'):
        bags.StereoBag(tmp_path / 'nothing')


def test_stamps_are_read_and_replaced_in_the_bytes():
    data = bags.serialize_camera_info(5 * 10**9 + 7, 'left', CALIBRATION, 64, 32)
    assert bags.stamp_of(data) == 5 * 10**9 + 7
    changed = bags.with_stamp(data, 123456789012345678)
    assert bags.stamp_of(changed) == 123456789012345678
    assert bytes(changed[12:]) == bytes(data[12:])


def info(d=(0.0,) * 5, k=(400.0, 0, 32, 0, 400, 20, 0, 0, 1), r=(1, 0, 0, 0, 1, 0, 0, 0, 1),
         p=(400.0, 0, 32, 0, 0, 400, 20, 0, 0, 0, 1, 0), model='plumb_bob'):
    return types.SimpleNamespace(distortion_model=model, d=np.array(d), k=np.array(k),
                                 r=np.array(r), p=np.array(p))


DISTORTED = (-0.3, 0.1, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(('topic', 'message', 'reason'), [
    ('/left/image_raw', info(d=DISTORTED), 'distortion'),
    ('/left/image_raw', info(r=(0, 1, 0, -1, 0, 0, 0, 0, 1)), 'a rotation R'),
    ('/left/image', info(k=(390.0, 0, 32, 0, 390, 20, 0, 0, 1)), 'K unlike P'),
    ('/left/image_raw', info(model='equidistant'), 'an equidistant lens'),      # whatever its D
    ('/left/image_raw', info(), ''),                        # rendered, or rectified offline
    ('/left/image_rect', info(d=DISTORTED), ''),            # image_proc keeps the camera_info
    ('/left/image_raw', info(k=(0,) * 9), '')])             # says nothing about the camera
def test_images_that_are_not_rectified_are_told_from_their_camera_info(topic, message, reason):
    warning = why_not_rectified(topic, message)
    if reason:
        assert reason in warning
        assert f'{topic} is not rectified' in warning
    else:
        assert warning == ''


def raw_info(side, name='distorted', size=(WIDTH, HEIGHT)):
    """CameraInfo of a raw camera: both cameras are turned in their own way."""
    width, height = size
    column, row = (width - 1) / 2, (height - 1) / 2
    return raw_cameras.camera_info(
        side, **LENSES[name], size=size, k=(265, 0, column + 3, 0, 262, row - 2, 0, 0, 1),
        p=(260, 0, column, 0.0 if side == 'left' else -52.0, 0, 260, row, 0, 0, 0, 1, 0))


#: Cameras that distort, that are only turned, and that are fisheyes.
LENSES = {
    'distorted': {'model': 'plumb_bob', 'd': (-0.2, 0.05, 0.001, -0.002, 0.0)},
    'turned': {'model': 'plumb_bob', 'd': (0.0,) * 5},
    'fisheye': {'model': 'equidistant', 'd': (0.0,) * 4},
    'unknown': {'model': 'fov', 'd': (0.0,)}}

#: Of bags whose images are as their camera_info says, whatever they show.
RAW = bags.StereoTopics(rectified='no')


def record_raw(path, pixels, encoding, *, info=raw_info, sides=('left', 'right'), kind='mcap'):
    """A bag with one raw pair; returns its path."""
    recorded = []
    for side, name in zip(('left', 'right'), sides, strict=True):
        about = vars(info(side)) | {
            'header': recordings.header(START, side),
            'roi': STORE.types['sensor_msgs/msg/RegionOfInterest'](0, 0, 0, 0, False)}
        for key in 'dkrp':
            about[key] = np.array(about[key], float)
        recorded += [(f'/{name}/camera_info', START, STORE.types[bags.CAMERA_INFO](**about)),
                     (f'/{name}/image_raw', START, recordings.image(START, pixels[side],
                                                                    encoding))]
    return recordings.write(path, recorded, kind)


def pixels_of(encoding):
    shape = {'bgr8': (HEIGHT, WIDTH, 3), 'yuv422': (HEIGHT, WIDTH, 2)}.get(
        encoding, (HEIGHT, WIDTH))
    dtype = np.uint16 if encoding == 'mono16' else np.uint8
    return {side: np.random.default_rng(k).integers(0, np.iinfo(dtype).max, shape, dtype)
            for k, side in enumerate(('left', 'right'))}


@pytest.mark.parametrize('encoding', ['bgr8', 'bayer_rggb8', 'yuv422'])
def test_raw_pairs_of_a_bag_are_rectified_as_the_matcher_itself_does(tmp_path, encoding):
    pixels = pixels_of(encoding)
    with bags.StereoBag(record_raw(tmp_path / 'raw', pixels, encoding), RAW) as bag:
        pair, = bag.read()
    assert pair.left.encoding == 'mono8'
    config = MatcherConfig(stereo_algorithm='sad', disparity_range=16, backend='cpu')
    with StereoMatcher(config) as matcher:
        found = matcher.compute(pair.left, pair.right)
    with StereoMatcher(config.replace(rectify=True)) as matcher:
        expected = matcher.compute(
            *(RawImage.from_array(pixels[side], encoding) for side in ('left', 'right')),
            rectification=Rectification.from_camera_info(raw_info('left'), raw_info('right')))
    np.testing.assert_array_equal(found.valid, expected.valid)
    np.testing.assert_array_equal(found.disparity, expected.disparity)
    assert pair.calibration == Calibration(260.0, 0.2, 47.5, 47.5, 23.5)


def test_raw_pairs_of_16_bits_keep_them(tmp_path):
    pixels = pixels_of('mono16')
    with bags.StereoBag(record_raw(tmp_path / 'raw', pixels, 'mono16'), RAW) as bag:
        pair, = bag.read()
    maps = Rectification.from_camera_info(raw_info('left'), raw_info('right')).maps('right')
    assert pair.right.encoding == 'mono16'
    np.testing.assert_array_equal(pair.right.pixels,
                                  cv2.remap(pixels['right'], *maps, cv2.INTER_LINEAR))


def test_evaluate_names_raw_topics_of_a_bag_once_and_rectifies_their_images(
        tmp_path, capsys, caplog):
    path = record_raw(tmp_path / 'raw', pixels_of('mono8'), 'mono8', sides=('a', 'b'), kind='ros1')
    command = ['evaluate', str(path), '--preset', 'sad_fast', '--set', 'disparity_range=16',
               '--repeat', '1', '--backend', 'cpu', '--json']
    assert main(command) == 2
    assert f'{tmp_path}' in (said := capsys.readouterr().err)
    assert 'no pair of left and right image topics' in said
    assert main([*command, '--left', '/a/image_raw', '--right', '/b/image_raw']) == 0
    assert len(json.loads(capsys.readouterr().out)['pairs']) == 1
    assert caplog.text.count('/a/image_raw is not rectified: its camera_info has distortion, a '
                             'rotation R, K unlike P. ') == 1
    # A report opens a bag again for each loop of a run, and does not say it again.
    caplog.clear()
    topics = bags.StereoTopics('/a/image_raw', '/b/image_raw')
    assert len(list(open_pairs(path, topics)[1])) == 1
    assert caplog.text == ''


def test_a_raw_bag_that_cannot_be_rectified_is_refused_with_the_reason(tmp_path):
    for number, (options, words) in enumerate((
            ({'name': 'unknown'}, "distortion model is 'fov'"),
            ({'size': (WIDTH + 2, HEIGHT)}, 'the left image is 96 x 48.*describes 98 x 48'))):
        path = record_raw(tmp_path / f'raw{number}', pixels_of('mono8'), 'mono8',
                          info=lambda side, options=options: raw_info(side, **options))
        with bags.StereoBag(path, RAW) as bag, pytest.raises(StereoError, match=words):
            list(bag.read())


#: Of the scenes that raw cameras see.
SEEN_SIZE, SEEN_DISPARITY = (320, 240), 12.0


def seen_info(side, name):
    return raw_info(side, name, SEEN_SIZE)


def record_scene(folder: pathlib.Path, name: str, *, is_raw: bool) -> pathlib.Path:
    """A bag on image_raw, with the pictures of the raw cameras or rectified ones."""
    left, right = raw_cameras.scene(*SEEN_SIZE, SEEN_DISPARITY)
    images = {'left': left, 'right': right}
    if is_raw:
        images = {side: raw_cameras.raw_image(image, seen_info(side, name))
                  for side, image in images.items()}
    return record_raw(folder / 'bag', images, 'mono8', info=lambda side: seen_info(side, name))


def test_what_raw_images_and_their_calibration_show_before_they_are_rectified_is_told(
        tmp_path, capsys):
    scene = dict(zip(('left', 'right'), raw_cameras.scene(*SEEN_SIZE, SEEN_DISPARITY),
                     strict=True))
    noise = np.random.default_rng(0).integers(0, 256, SEEN_SIZE[::-1], np.uint16)

    def twice(side):
        found = seen_info(side, 'distorted')
        found.k = [2 * value for value in found.k[:8]] + [1]
        return found

    for name, info, exchange, expected in (
            ('right', lambda side: seen_info(side, 'distorted'), False, set()),
            ('wrong', twice, True, {'pixel bytes', 'principal point'})):
        values = {side: raw_cameras.raw_image(image, seen_info(side, 'distorted')).astype(
            np.uint16) * 256 + noise for side, image in scene.items()}
        path = record_raw(tmp_path / name, {
            side: one.byteswap() if exchange else one for side, one in values.items()}, 'mono16',
            info=info)
        assert main(['evaluate', str(path), '--preset', 'sad_fast', '--set', 'disparity_range=32',
                     '--repeat', '1', '--backend', 'cpu', '--json', '--rectified', 'no']) == 0
        found = {one['code'] for one in json.loads(capsys.readouterr().out)['issues']}
        assert found & {'pixel bytes', 'principal point'} == expected


@pytest.mark.parametrize(('name', 'is_raw'), [
    ('distorted', False), ('distorted', True), ('turned', True), ('fisheye', True)])
def test_images_are_rectified_if_their_rows_match_better_then_unless_the_user_knows_it(
        tmp_path, name, is_raw):
    path = record_scene(tmp_path, name, is_raw=is_raw)
    with bags.StereoBag(path) as bag:
        warning, = bag.warnings()
        told, = bag.warnings(played=True)
        pair, = bag.read()
        images = {topic: data for topic, _, data in bag.raw()}
    assert ('Both images are rectified with it' if is_raw else 'rectified already') in warning
    assert 'corners have their partner in the same row as they come' in warning
    assert ('Have the node rectify it (rectify)' if is_raw
            else 'leave rectify of the node off') in told
    found = corner_disparities(pair.left.pixels, pair.right.pixels, -40, 40)
    assert np.median(found) == pytest.approx(SEEN_DISPARITY, abs=0.5)
    recorded = STORE.deserialize_cdr(images['left/image_rect'], bags.IMAGE)
    for rectified, as_they_come in (('yes', True), ('no', False)):
        with bags.StereoBag(path, bags.StereoTopics(rectified=rectified)) as bag:
            pair, = bag.read()
            assert bag.warnings() == []
        assert np.array_equal(pair.left.pixels.reshape(-1), recorded.data) is as_they_come


def test_images_that_tell_nothing_are_rectified_as_their_camera_info_says(tmp_path):
    ramp = np.tile(np.linspace(20, 220, SEEN_SIZE[0]).astype(np.uint8), (SEEN_SIZE[1], 1))
    path = record_raw(tmp_path / 'bag', {'left': ramp, 'right': ramp}, 'mono8',
                      info=lambda side: seen_info(side, 'distorted'))
    with bags.StereoBag(path) as bag:
        warning, = bag.warnings()
        pair, = bag.read()
    assert 'cannot be seen in the pictures' in warning
    assert not np.array_equal(pair.left.pixels, ramp)
