"""Bags of every storage, compression and image type through ``stereo_bp evaluate``."""

from __future__ import annotations

import json
import logging
import shutil
import types

import cv2
import numpy as np
import pytest
import yaml
from rosbags import rosbag1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.rectification import Rectification

CALIBRATION = Calibration(400.0, 0.25, 47.5, 47.5, 24.0)
DISPARITY, COUNT, WIDTH, HEIGHT = 6, 4, 96, 48
STORE = get_typestore(Stores.ROS2_KILTED)
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def scene(index):
    """A textured wall in front of both cameras: mono8 images of one disparity."""
    wall = np.random.default_rng(index).integers(0, 255, (HEIGHT, WIDTH + DISPARITY), np.uint8)
    return {'left': wall[:, :WIDTH], 'right': wall[:, DISPARITY:]}


def stamp(index):
    return 10**18 + index * 10**8


def coded(stamp_ns, side, image, kind):
    """A CompressedImage as image_transport writes it: JPEG or PNG of mono8."""
    _, data = cv2.imencode(f'.{kind}', image)
    message = STORE.types[bags.COMPRESSED_IMAGE](
        header=STORE.types['std_msgs/msg/Header'](
            stamp=STORE.types['builtin_interfaces/msg/Time'](*divmod(stamp_ns, 10**9)),
            frame_id=side), format=f'mono8; {kind} compressed ', data=data.reshape(-1))
    return STORE.serialize_cdr(message, bags.COMPRESSED_IMAGE)


def record(path, *, plugin=StoragePlugin.MCAP, mode=None, indices=range(COUNT), kind=''):
    """A rosbag2 folder as ``ros2 bag record`` leaves it, with a truth."""
    writer = Writer(path, version=9, storage_plugin=plugin)
    if mode:
        writer.set_compression(mode, CompressionFormat.ZSTD)
    suffix, image_type = ('/compressed', bags.COMPRESSED_IMAGE) if kind else ('', bags.IMAGE)
    with writer:
        add = {topic: writer.add_connection(topic, type_, typestore=STORE)
               for side in ('left', 'right')
               for topic, type_ in ((f'/{side}/image_rect{suffix}', image_type),
                                    (f'/{side}/camera_info', bags.CAMERA_INFO))}
        truth = writer.add_connection(f'/{bags.TRUTH_TOPIC}', bags.COMPRESSED_IMAGE,
                                      typestore=STORE)
        for index in indices:
            stamp_ns = stamp(index)
            for side, image in scene(index).items():
                writer.write(add[f'/{side}/camera_info'], stamp_ns, bags.serialize_camera_info(
                    stamp_ns, side, CALIBRATION, WIDTH, HEIGHT))
                writer.write(add[f'/{side}/image_rect{suffix}'], stamp_ns,
                             coded(stamp_ns, side, image, kind) if kind else
                             bags.serialize_image(stamp_ns, side, image, 'mono8'))
            writer.write(truth, stamp_ns, bags.serialize_truth(
                stamp_ns, np.full((HEIGHT, WIDTH), DISPARITY, np.float32)))
    return path


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
    ('SQLITE3', None, ['recording.db3']),
    ('MCAP', None, ['recording.mcap']),
    ('SQLITE3', 'FILE', ['recording.db3.zstd']),
    ('MCAP', 'FILE', ['recording.mcap.zstd']),
    ('SQLITE3', 'MESSAGE', ['recording.db3']),
    ('MCAP', 'MESSAGE', ['recording.mcap']),
    ('MCAP', 'STORAGE', ['recording.mcap'])])
def test_every_storage_and_compression_of_rosbag2_is_evaluated(
        tmp_path, capsys, plugin, mode, files):
    path = record(tmp_path / 'recording', plugin=StoragePlugin[plugin],
                  mode=mode and CompressionMode[mode])
    assert sorted(file.name for file in path.iterdir()) == ['metadata.yaml', *files]
    assert_whole(evaluated(path, capsys))


@pytest.mark.parametrize('plugin', ['SQLITE3', 'MCAP'])
def test_a_recording_that_was_split_is_evaluated_in_the_order_of_its_files(
        tmp_path, capsys, plugin):
    whole = tmp_path / 'split'
    whole.mkdir()
    merged = None
    for number, indices in enumerate((range(2), range(2, COUNT))):
        part = record(tmp_path / f'part{number}', plugin=StoragePlugin[plugin], indices=indices)
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


@pytest.mark.parametrize('plugin', ['SQLITE3', 'MCAP'])
def test_a_file_of_a_recording_alone_is_evaluated(tmp_path, capsys, plugin):
    path = record(tmp_path / 'recording', plugin=StoragePlugin[plugin])
    file, = (file for file in path.iterdir() if file.suffix != '.yaml')
    assert_whole(evaluated(file.rename(tmp_path / f'alone{file.suffix}'), capsys))


@pytest.mark.parametrize('kind', ['png', 'jpg'])
def test_images_that_were_compressed_by_image_transport_are_evaluated(tmp_path, capsys, kind):
    path = record(tmp_path / 'recording', kind=kind)
    with bags.StereoBag(path) as bag:
        assert bag.compressed
    assert_whole(evaluated(path, capsys))


@pytest.mark.parametrize('chunks', [None, 'BZ2', 'LZ4'])
@pytest.mark.parametrize('compressed', [False, True])
def test_a_ros_1_bag_is_evaluated_raw_and_compressed(tmp_path, capsys, chunks, compressed):
    store = get_typestore(Stores.ROS1_NOETIC)
    known = store.types
    image_type = bags.COMPRESSED_IMAGE if compressed else bags.IMAGE
    writer = rosbag1.Writer(tmp_path / 'old.bag')
    if chunks:
        writer.set_compression(rosbag1.Writer.CompressionFormat[chunks])
    p = np.array([400.0, 0, 47.5, 0, 0, 400, 24, 0, 0, 0, 1, 0])
    with writer:
        add = {(side, kind): writer.add_connection(f'/{side}/{name}', kind, typestore=store)
               for side in ('left', 'right')
               for name, kind in (('camera_info', bags.CAMERA_INFO), (
                   'image_rect/compressed' if compressed else 'image_rect', image_type))}
        for index in range(COUNT):
            for side, pixels in scene(index).items():
                header = known['std_msgs/msg/Header'](
                    index, known['builtin_interfaces/msg/Time'](*divmod(stamp(index), 10**9)),
                    side)
                p[3] = -100 if side == 'right' else 0
                info = known[bags.CAMERA_INFO](
                    header, HEIGHT, WIDTH, 'plumb_bob', np.zeros(5),
                    p[[0, 1, 2, 4, 5, 6, 8, 9, 10]], np.eye(3).reshape(-1), p.copy(), 0, 0,
                    known['sensor_msgs/msg/RegionOfInterest'](0, 0, 0, 0, False))
                if compressed:
                    image = known[image_type](header, 'mono8; png compressed ',
                                              cv2.imencode('.png', pixels)[1].reshape(-1))
                else:
                    image = known[image_type](header, HEIGHT, WIDTH, 'mono8', 0, WIDTH,
                                              pixels.reshape(-1))
                for kind, message in ((bags.CAMERA_INFO, info), (image_type, image)):
                    writer.write(add[side, kind], stamp(index),
                                 store.serialize_ros1(message, kind))
    report = evaluated(tmp_path / 'old.bag', capsys)
    assert [pair['name'] for pair in report['pairs']] == [
        str(stamp(index)) for index in range(COUNT)]
    with bags.StereoBag(tmp_path / 'old.bag') as bag:
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
    stamp_ns = stamp(0)
    suffix, image_type = (('/compressed', bags.COMPRESSED_IMAGE) if compressed
                          else ('', bags.IMAGE))
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for side in ('left', 'right'):
            about = vars(info(side)) | {
                'header': STORE.types['std_msgs/msg/Header'](
                    STORE.types['builtin_interfaces/msg/Time'](*divmod(stamp_ns, 10**9)), side),
                'roi': STORE.types['sensor_msgs/msg/RegionOfInterest'](0, 0, 0, 0, False)}
            for name in 'dkrp':
                about[name] = np.array(about[name], float)
            writer.write(
                writer.add_connection(f'/{side}/camera_info', bags.CAMERA_INFO, typestore=STORE),
                stamp_ns, STORE.serialize_cdr(STORE.types[bags.CAMERA_INFO](**about),
                                              bags.CAMERA_INFO))
            writer.write(
                writer.add_connection(f'/{side}/image_raw{suffix}', image_type, typestore=STORE),
                stamp_ns, coded(stamp_ns, side, pixels[side], 'png') if compressed
                else bags.serialize_image(stamp_ns, side, pixels[side], encoding))
    return path


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
    np.testing.assert_array_equal(found.truth, expected.truth)
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
