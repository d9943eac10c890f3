"""Bags and folders without a calibration, or with another one: --calibration and --rectify."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, Rectification, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.pairs import open_pairs
from test.cli import recordings

CALIBRATION = Calibration(100.0, 0.25, 48.0, 48.0, 24.0)
SIZE, START, PERIOD = (96, 48), 10**18, 10**8
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu']
K = np.array([[100.0, 0, 48], [0, 100, 24], [0, 0, 1]])
D = np.array([-0.2, 0.05, 0.0, 0.0, 0.0])


def walls(count: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    found = [cv2.GaussianBlur(np.random.default_rng(index).integers(0, 255, (48, 102), np.uint8),
                              (0, 0), 1) for index in range(count)]
    return [(wall[:, :96].copy(), wall[:, 6:].copy()) for wall in found]


@pytest.fixture
def bag(tmp_path: pathlib.Path) -> pathlib.Path:
    """Raw topics without camera_info, as public data sets have them."""
    return recordings.write(tmp_path / 'bag', [
        (topic.replace('/left/image_rect', '/cam0/image_raw')
         .replace('/right/image_rect', '/cam1/image_raw'), time_ns, message)
        for number, (left, right) in enumerate(walls())
        for topic, time_ns, message in recordings.pair(
            START + number * PERIOD, left, right, CALIBRATION) if 'camera_info' not in topic])


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for number, pair in enumerate(walls()):
        for side, pixels in zip(('left', 'right'), pair, strict=True):
            path = tmp_path / 'folder' / side / f'{number:06}.png'
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_image(path, pixels)
    return tmp_path / 'folder'


@pytest.fixture
def calibration(tmp_path: pathlib.Path) -> pathlib.Path:
    for side, offset in (('left', 0), ('right', -25)):
        (tmp_path / f'P_{side}.txt').write_text(f'100 0 48 {offset} 0 100 24 0 0 0 1 0')
    return tmp_path / 'P_left.txt'


@pytest.fixture
def rectification(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / 'rig.yaml'
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for number, offset in ((1, 0.0), (2, -25.0)):
        p = np.column_stack([K, [offset, 0, 0]])
        for name, value in (('K', K), ('D', D[None]), ('R', np.eye(3)), ('P', p)):
            storage.write(f'{name}{number}', value)
    storage.release()
    return path


def evaluated(capsys: pytest.CaptureFixture[str], path: pathlib.Path, *options: str
              ) -> dict[str, Any]:
    capsys.readouterr()
    assert main(['evaluate', str(path), *OPTIONS, '--json', *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize('kind', ['bag', 'folder'])
def test_a_given_calibration_is_that_of_every_pair(
        kind: str, calibration: pathlib.Path, request: pytest.FixtureRequest,
        capsys: pytest.CaptureFixture[str]) -> None:
    path = request.getfixturevalue(kind)
    topics = StereoTopics(calibration=str(calibration))
    pairs = list(open_pairs(path, topics)[1])
    assert [pair.calibration and pair.calibration.baseline_m for pair in pairs] == [0.25] * 3
    np.testing.assert_array_equal(pairs[2].images[0].pixels, walls()[2][0])
    assert len(evaluated(capsys, path, '--calibration', str(calibration))['pairs']) == 3
    assert main(['calibrate-check', str(path), '--calibration', str(calibration)]) == 0


@pytest.mark.parametrize('kind', ['bag', 'folder'])
def test_raw_images_are_rectified_with_a_given_file_as_match_does(
        kind: str, rectification: pathlib.Path, request: pytest.FixtureRequest,
        capsys: pytest.CaptureFixture[str]) -> None:
    path = request.getfixturevalue(kind)
    known = Rectification.from_file(rectification, SIZE)
    for pair, raw in zip(open_pairs(path, StereoTopics(rectification=str(rectification)))[1],
                         walls(), strict=True):
        assert pair.calibration == known.calibration
        for side, image, pixels in zip(('left', 'right'), pair.images, raw, strict=True):
            expected = cv2.remap(pixels, *known.maps(side), cv2.INTER_LINEAR)
            np.testing.assert_array_equal(image.pixels, expected)
    assert len(evaluated(capsys, path, '--rectify', str(rectification))['pairs']) == 3


def test_a_given_calibration_wins_over_that_of_a_bag(
        tmp_path: pathlib.Path, calibration: pathlib.Path) -> None:
    left, right = walls(1)[0]
    other = Calibration(300.0, 0.5, 40.0, 40.0, 20.0)
    path = recordings.write(tmp_path / 'own', recordings.pair(START, left, right, other))
    pair, = open_pairs(path, StereoTopics(calibration=str(calibration)))[1]
    assert pair.calibration
    assert pair.calibration.focal_px == 100.0


@pytest.mark.parametrize('kind', ['bag', 'folder'])
@pytest.mark.parametrize('is_raw', [False, True])
def test_a_replay_sends_a_given_calibration_with_every_image(
        kind: str, is_raw: bool, calibration: pathlib.Path, rectification: pathlib.Path,
        request: pytest.FixtureRequest) -> None:
    topics = StereoTopics(rectification=str(rectification)) if is_raw else StereoTopics(
        calibration=str(calibration))
    source = open_source(request.getfixturevalue(kind), topics=topics)
    events = list(source.events())
    assert [one.topic for one in events] == [
        'left/camera_info', 'left/image_rect', 'right/camera_info', 'right/image_rect'] * 3
    assert set(source.types) == {one.topic for one in events}
    infos = {one.topic: bags.STORE.deserialize_cdr(bytes(one.data), bags.CAMERA_INFO)
             for one in events if one.topic.endswith('camera_info')}
    images = {one.topic: bags.stamp_of(bytes(one.data)) for one in events}
    assert images['left/camera_info'] == images['left/image_rect']
    left, right = infos['left/camera_info'], infos['right/camera_info']
    assert (left.width, left.height) == SIZE
    assert Calibration.from_camera_info(left, right).baseline_m == pytest.approx(0.25)
    np.testing.assert_allclose(left.d, D if is_raw else np.zeros(5))
    assert any('have the node rectify them' in text for text in source.warnings) is is_raw


def test_a_focal_length_says_that_images_of_a_bag_are_rectified(
        bag: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['evaluate', str(bag), *OPTIONS]) == 2
    error = capsys.readouterr().err
    for option in ('--rectify FILE', '--calibration FILE', '--focal', '--rectified yes'):
        assert option in error
    for options in (['--rectified', 'yes'], ['--focal', '100', '--baseline', '0.25']):
        assert len(evaluated(capsys, bag, *options)['pairs']) == 3
    with pytest.raises(StereoError, match='without which a node publishes nothing: give --calib'):
        open_source(bag, topics=StereoTopics(rectified='yes'))
    topics = StereoTopics(assumed=CALIBRATION)
    assert sum(one.topic.endswith('camera_info') for one in open_source(
        bag, topics=topics).events()) == 6


@pytest.mark.parametrize(('options', 'words'), [
    (['--calibration', 'a', '--rectify', 'b'], 'leave --calibration out'),
    (['--calibration', 'a', '--left-info', '/b'], '--left-info and --calibration'),
    (['--rectify', 'a', '--rectified', 'yes'], '--rectified and --calibration'),
    (['--calibration', '/nowhere/left.yaml'], 'nowhere/left.yaml')])
@pytest.mark.parametrize('kind', ['bag', 'folder'])
def test_options_that_contradict_each_other_are_an_error(
        kind: str, options: list[str], words: str, request: pytest.FixtureRequest,
        capsys: pytest.CaptureFixture[str]) -> None:
    path = request.getfixturevalue(kind)
    assert main(['evaluate', str(path), *OPTIONS, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_file_of_images_of_another_size_is_an_error(
        folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, offset in (('left', 0), ('right', -25)):
        (tmp_path / f'{side}.yaml').write_text(
            'image_width: 640\nimage_height: 480\ndistortion_model: plumb_bob\n'
            'camera_matrix: {rows: 3, cols: 3, data: [100, 0, 48, 0, 100, 24, 0, 0, 1]}\n'
            'distortion_coefficients: {rows: 1, cols: 5, data: [0, 0, 0, 0, 0]}\n'
            'rectification_matrix: {rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}\n'
            f'projection_matrix: {{rows: 3, cols: 4, data: [100, 0, 48, {offset}, 0, 100, 24, 0, '
            '0, 0, 1, 0]}\n')
    assert main(['evaluate', str(folder), *OPTIONS, '--rectify', str(tmp_path / 'left.yaml')]) == 2
    assert 'rectifies images of 640 x 480, and these are 96 x 48' in capsys.readouterr().err
    assert main(['evaluate', str(folder), *OPTIONS, '--calibration', str(tmp_path / 'left.yaml')]
                ) == 2
    assert 'calibration is of images of 640 x 480' in capsys.readouterr().err


def test_the_player_of_a_run_gets_the_files(calibration: pathlib.Path) -> None:
    assert StereoTopics(calibration=str(calibration), rectification='rig.yaml').options() == [
        '--calibration', str(calibration), '--rectify', 'rig.yaml']
