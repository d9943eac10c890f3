"""Bags of every storage, compression and image type through ``stereo_bp evaluate``."""

from __future__ import annotations

import json
import logging
import pathlib
import shutil
import types

import cv2
import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher
from stereo_bp_ros.alignment import corner_disparities
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.rectification import Rectification
from test import raw_cameras
from test.cli import recordings

CALIBRATION = Calibration(400.0, 0.25, 47.5, 47.5, 24.0)
DISPARITY, COUNT, WIDTH, HEIGHT = 6, 4, 96, 48
STORE = recordings.STORE
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def scene(index):
    """A textured wall in front of both cameras: mono8 images of one disparity."""
    wall = np.random.default_rng(index).integers(0, 255, (HEIGHT, WIDTH + DISPARITY), np.uint8)
    return {'left': wall[:, :WIDTH], 'right': wall[:, DISPARITY:]}


def stamp(index):
    return 10**18 + index * 10**8


def record(path, *, plugin='mcap', mode='', indices=range(COUNT), kind=''):
    """A bag as it is recorded, with a truth."""
    truth = np.full((HEIGHT, WIDTH), DISPARITY, np.float32)
    return recordings.write(path, [one for index in indices for one in (
        *recordings.pair(stamp(index), *scene(index).values(), CALIBRATION, coded=kind),
        recordings.truth(stamp(index), truth))], plugin, mode)


def evaluated(path, capsys, *options):
    """What ``stereo_bp evaluate`` reports of a bag."""
    capsys.readouterr()
    assert main(['evaluate', str(path), *OPTIONS, *options]) == 0
    return json.loads(capsys.readouterr().out)


def assert_whole(report, names=range(COUNT)):
    assert [pair['name'] for pair in report['pairs']] == [str(stamp(index)) for index in names]
    for pair in report['pairs']:
        assert pair['score']['density'] > 40
        assert pair['score']['bad_1_estimated'] < 5
        assert pair['score']['known'] == WIDTH * HEIGHT


@pytest.mark.parametrize(('plugin', 'mode', 'files'), [
    ('sqlite3', '', ['recording.db3']),
    ('mcap', '', ['recording.mcap']),
    ('sqlite3', 'FILE', ['recording.db3.zstd']),
    ('mcap', 'FILE', ['recording.mcap.zstd']),
    ('sqlite3', 'MESSAGE', ['recording.db3']),
    ('mcap', 'MESSAGE', ['recording.mcap']),
    ('mcap', 'STORAGE', ['recording.mcap'])])
def test_every_storage_and_compression_of_rosbag2_is_evaluated(
        tmp_path, capsys, plugin, mode, files):
    path = record(tmp_path / 'recording', plugin=plugin, mode=mode)
    assert sorted(file.name for file in path.iterdir()) == ['metadata.yaml', *files]
    assert_whole(evaluated(path, capsys))


@pytest.mark.parametrize('plugin', ['sqlite3', 'mcap'])
def test_a_recording_that_was_split_is_evaluated_in_the_order_of_its_files(
        tmp_path, capsys, plugin):
    whole = tmp_path / 'split'
    whole.mkdir()
    merged = None
    for number, indices in enumerate((range(2), range(2, COUNT))):
        part = record(tmp_path / f'part{number}', plugin=plugin, indices=indices)
        content = yaml.safe_load((part / 'metadata.yaml').read_text())
        about = content['rosbag2_bagfile_information']
        name, = about['relative_file_paths']
        renamed = f'split_{number}.{name.rpartition(".")[2]}'
        shutil.move(part / name, whole / renamed)
        about['relative_file_paths'] = [renamed]
        for file in about['files']:
            file['path'] = renamed
        if merged is None:
            merged = content
            continue
        first = merged['rosbag2_bagfile_information']
        for key in ('relative_file_paths', 'files'):
            first[key] += about[key]
        first['message_count'] += about['message_count']
        first['duration']['nanoseconds'] = (COUNT - 1) * 10**8
        for own, other in zip(first['topics_with_message_count'],
                              about['topics_with_message_count'], strict=True):
            own['message_count'] += other['message_count']
    (whole / 'metadata.yaml').write_text(yaml.safe_dump(merged))
    assert_whole(evaluated(whole, capsys))


@pytest.mark.parametrize('plugin', ['sqlite3', 'mcap'])
def test_a_file_of_a_recording_alone_is_evaluated(tmp_path, capsys, plugin):
    path = record(tmp_path / 'recording', plugin=plugin)
    file, = (file for file in path.iterdir() if file.suffix != '.yaml')
    assert_whole(evaluated(file.rename(tmp_path / f'alone{file.suffix}'), capsys))


@pytest.mark.parametrize('kind', ['png', 'jpg'])
def test_images_that_were_compressed_by_image_transport_are_evaluated(tmp_path, capsys, kind):
    path = record(tmp_path / 'recording', kind=kind)
    with bags.StereoBag(path) as bag:
        assert bag.compressed
    assert_whole(evaluated(path, capsys))


@pytest.mark.parametrize(('chunks', 'kind'), [('', 'png'), ('BZ2', ''), ('LZ4', '')])
def test_a_ros_1_bag_is_evaluated_raw_and_compressed(tmp_path, capsys, chunks, kind):
    path = record(tmp_path / 'old', plugin='ros1', mode=chunks, kind=kind)
    assert_whole(evaluated(path, capsys))
    with bags.StereoBag(path) as bag:
        for index, pair in enumerate(bag.read()):
            np.testing.assert_array_equal(pair.right.pixels, scene(index)['right'])
            assert pair.calibration == CALIBRATION


# Raw images, which have distortion, a rotation, and K unlike P.

TURNS = {'left': cv2.Rodrigues(np.array([[0.01], [-0.02], [0.015]]))[0],
         'right': cv2.Rodrigues(np.array([[-0.01], [0.01], [-0.02]]))[0]}


def raw_info(side, model='plumb_bob', width=WIDTH):
    """CameraInfo of a raw camera: both cameras are distorted and turned in their own way."""
    p = [400.0, 0, 47.5, -100.0 if side == 'right' else 0, 0, 400, 24, 0, 0, 0, 1, 0]
    return types.SimpleNamespace(
        width=width, height=HEIGHT, distortion_model=model, d=[-0.4, 0.2, 0.001, -0.002, 0.0],
        k=[380.0, 0, 46, 0, 381, 25, 0, 0, 1], r=TURNS[side].reshape(-1).tolist(), p=p,
        binning_x=0, binning_y=0,
        roi=types.SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0, do_rectify=False))


#: Of bags whose images are as their camera_info says, whatever they show.
RAW = bags.StereoTopics(rectified='no')


def record_raw(path, pixels, encoding, *, info=raw_info, compressed=False):
    """A bag with one raw pair; returns its path."""
    recorded = []
    for side in ('left', 'right'):
        about = vars(info(side)) | {
            'header': recordings.header(stamp(0), side),
            'roi': STORE.types['sensor_msgs/msg/RegionOfInterest'](0, 0, 0, 0, False)}
        for name in 'dkrp':
            about[name] = np.array(about[name], float)
        recorded.append((f'/{side}/camera_info', stamp(0), STORE.types[bags.CAMERA_INFO](**about)))
        topic, image = f'/{side}/image_raw', recordings.image(stamp(0), pixels[side], encoding)
        if compressed:
            topic, image = f'{topic}/compressed', recordings.compressed(
                stamp(0), cv2.imencode('.png', pixels[side])[1], 'mono8; png compressed ')
        recorded.append((topic, stamp(0), image))
    return recordings.write(path, recorded)


def pixels_of(encoding):
    shape = {'bgr8': (HEIGHT, WIDTH, 3), 'yuv422': (HEIGHT, WIDTH, 2)}.get(
        encoding, (HEIGHT, WIDTH))
    dtype = np.uint16 if encoding == 'mono16' else np.uint8
    return {side: np.random.default_rng(k).integers(0, np.iinfo(dtype).max, shape, dtype)
            for k, side in enumerate(('left', 'right'))}


@pytest.mark.parametrize('encoding', ['mono8', 'bgr8', 'bayer_rggb8', 'yuv422'])
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
    assert pair.calibration == CALIBRATION


def test_raw_pairs_of_16_bits_keep_them(tmp_path):
    pixels = pixels_of('mono16')
    with bags.StereoBag(record_raw(tmp_path / 'raw', pixels, 'mono16'), RAW) as bag:
        pair, = bag.read()
    maps = Rectification.from_camera_info(raw_info('left'), raw_info('right')).maps('right')
    assert pair.right.encoding == 'mono16'
    np.testing.assert_array_equal(pair.right.pixels,
                                  cv2.remap(pixels['right'], *maps, cv2.INTER_LINEAR))


@pytest.mark.parametrize('compressed', [False, True])
def test_evaluate_says_that_the_images_of_a_bag_are_not_rectified(tmp_path, capsys, caplog,
                                                                  compressed):
    path = record_raw(tmp_path / 'raw', scene(0), 'mono8', compressed=compressed)
    with caplog.at_level(logging.WARNING):
        assert len(evaluated(path, capsys)['pairs']) == 1
    topic = '/left/image_raw/compressed' if compressed else '/left/image_raw'
    assert (f'{topic} is not rectified: its camera_info has distortion, a rotation R, K unlike P. '
            ) in caplog.text


def test_a_raw_bag_that_cannot_be_rectified_is_refused_with_the_reason(tmp_path):
    for number, (options, words) in enumerate((
            ({'model': 'fov'}, "distortion model is 'fov'"),
            ({'width': WIDTH + 2}, 'the left image is 96 x 48.*describes 98 x 48'))):
        path = record_raw(tmp_path / f'raw{number}', scene(0), 'mono8',
                          info=lambda side, options=options: raw_info(side, **options))
        with bags.StereoBag(path, RAW) as bag, pytest.raises(StereoError, match=words):
            list(bag.read())


#: Of the scenes that raw cameras see.
SEEN_SIZE, SEEN_DISPARITY = (320, 240), 12.0

#: Cameras that distort, that are only turned, and that are fisheyes.
LENSES = {
    'distorted': {'model': 'plumb_bob', 'd': (-0.2, 0.05, 0.001, -0.002, 0.0)},
    'turned': {'model': 'plumb_bob', 'd': (0.0,) * 5},
    'fisheye': {'model': 'equidistant', 'd': (0.0,) * 4}}


def raw_camera(side: str, name: str) -> types.SimpleNamespace:
    offset = 0.0 if side == 'left' else -52.0
    return raw_cameras.camera_info(
        side, **LENSES[name], size=SEEN_SIZE, k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
        p=(260, 0, 158.5, offset, 0, 260, 121.5, 0, 0, 0, 1, 0))


def record_scene(folder: pathlib.Path, name: str, *, is_raw: bool) -> pathlib.Path:
    """A bag on image_raw, with the pictures of the raw cameras or rectified ones."""
    left, right = raw_cameras.scene(*SEEN_SIZE, SEEN_DISPARITY)
    images = {'left': left, 'right': right}
    if is_raw:
        images = {side: raw_cameras.raw_image(image, raw_camera(side, name))
                  for side, image in images.items()}
    return record_raw(folder / 'bag', images, 'mono8', info=lambda side: raw_camera(side, name))


@pytest.mark.parametrize('name', list(LENSES))
@pytest.mark.parametrize('is_raw', [False, True])
def test_images_are_rectified_if_their_rows_match_better_then(
        tmp_path, capsys, caplog, name, is_raw):
    path = record_scene(tmp_path, name, is_raw=is_raw)
    with caplog.at_level(logging.WARNING):
        report = evaluated(path, capsys)
    assert report['pairs'][0]['score']['coverage'] > 60
    expected = 'Both images are rectified with it' if is_raw else 'rectified already'
    assert expected in caplog.text
    assert caplog.text.count('corners have their partner in the same row as they come') == 1
    with bags.StereoBag(path) as bag:
        pair, = bag.read()
    found = corner_disparities(pair.left.pixels, pair.right.pixels, -40, 40)
    assert np.median(found) == pytest.approx(SEEN_DISPARITY, abs=0.5)


@pytest.mark.parametrize(('rectified', 'as_they_come'), [('yes', True), ('no', False)])
@pytest.mark.parametrize('is_raw', [False, True])
def test_who_knows_says_it_and_nothing_is_measured(tmp_path, rectified, as_they_come, is_raw):
    path = record_scene(tmp_path, 'distorted', is_raw=is_raw)
    with (bags.StereoBag(path) as plain,
          bags.StereoBag(path, bags.StereoTopics(rectified=rectified)) as bag):
        pair, = bag.read()
        images = {topic: data for topic, _, data in plain.raw()}
        assert bag.warnings() == []
    recorded = bags.STORE.deserialize_cdr(images['left/image_rect'], bags.IMAGE)
    assert np.array_equal(pair.left.pixels.reshape(-1), recorded.data) is as_they_come


def test_a_player_says_what_the_node_has_to_do(tmp_path):
    for is_raw, words in ((True, 'Have the node rectify it (rectify)'),
                          (False, 'leave rectify of the node off')):
        path = record_scene(tmp_path / str(is_raw), 'distorted', is_raw=is_raw)
        with bags.StereoBag(path) as bag:
            warning, = bag.warnings(played=True)
        assert words in warning


def test_images_that_tell_nothing_are_rectified_as_their_camera_info_says(tmp_path):
    ramp = np.tile(np.linspace(20, 220, SEEN_SIZE[0]).astype(np.uint8), (SEEN_SIZE[1], 1))
    path = record_raw(tmp_path / 'bag', {'left': ramp, 'right': ramp}, 'mono8',
                      info=lambda side: raw_camera(side, 'distorted'))
    with bags.StereoBag(path) as bag:
        warning, = bag.warnings()
        pair, = bag.read()
    assert 'cannot be told from the pictures' in warning
    assert not np.array_equal(pair.left.pixels, ramp)
