"""What stereo_bp match writes by the ending of a name, and how it rectifies raw images."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, StereoMatcher
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files, pictures
from test.raw_cameras import HEIGHT, WIDTH, camera_info, raw_image, write_ros

CONFIG = MatcherConfig(backend='cpu', disparity_range=16, levels=3, iterations=4)
FAST = ['--backend', 'cpu', *(word for name in ('disparity_range', 'levels', 'iterations')
                              for word in ('--set', f'{name}={getattr(CONFIG, name)}'))]


def test_match_and_frames_write_the_same_files(
        tmp_path: pathlib.Path, write_pair: Callable[..., pathlib.Path], textured_pair: Any,
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, 6, 64, 48)
    pathlib.Path('calib.txt').write_text(
        'cam0=[100 0 32; 0 100 24; 0 0 1]\ncam1=[100 0 32; 0 100 24; 0 0 1]\nbaseline=600\n')
    left, right = (files.read_image(f'{side}.png') for side in ('left', 'right'))
    with StereoMatcher(CONFIG) as matcher:
        frame = matcher.compute(left, right, calibration=Calibration.from_file('calib.txt'),
                                outputs=('disparity', 'depth', 'points', 'confidence'))
    for output, depth, points, confidence in (
            ('d.npy', 'z.npy', 'c.ply', 's.npy'), ('d.tiff', 'z.png', 'c.pcd', 's.png'),
            ('d.png', 'z.tiff', 'c.ply', 's.pfm')):
        assert main(['match', 'left.png', 'right.png', '-o', output, '--depth', depth, '--points',
                     points, '--confidence', confidence, '--calibration', 'calib.txt', '--json',
                     *FAST]) == 0
        assert json.loads(capsys.readouterr().out)['files'] == {
            'disparity': output, 'depth': depth, 'points': points, 'confidence': confidence,
            'picture': f'{output[0]}_picture.png'}
        for name, file in (('disparity', output), ('depth', depth), ('points', points),
                           ('confidence', confidence)):
            own = pathlib.Path(f'own_{file}')
            frame.save(own, name)
            assert own.read_bytes() == pathlib.Path(file).read_bytes(), file


def test_the_picture_has_the_colours_of_the_disparities_that_are_there(
        tmp_path: pathlib.Path, write_pair: Callable[..., pathlib.Path],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, 6, 64, 48)
    assert main(['match', 'left.png', 'right.png', '-o', 'd.npy', *FAST]) == 0
    disparity = np.load('d.npy')
    left, found = files.read_image('left.png'), (disparity, np.isfinite(disparity))
    low, high = pictures.color_range(found)
    assert high - low < 4 < CONFIG.disparity_range
    expected = pictures.comparison(left, {'match': found}, low=low, high=high).picture
    np.testing.assert_array_equal(cv2.imread('d_picture.png'), expected)


def test_match_rectifies_raw_images_by_d_k_r_and_p(
        tmp_path: pathlib.Path, textured_pair: Any, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for side, image in zip(('left', 'right'), textured_pair(WIDTH, HEIGHT, 6), strict=True):
        files.write_image(f'{side}.png', raw_image(image, camera_info(side)))
    write_ros(tmp_path)
    command = ['match', 'left.png', 'right.png', '-o', 'd.npy', *FAST]
    assert main([*command, '--rectify', 'left.yaml', '--depth', 'z.npy', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['width'] == WIDTH
    disparity, depth = np.load('d.npy'), np.load('z.npy')
    inside = np.isfinite(disparity[10:-10, 25:-10])
    assert inside.mean() > 0.9
    assert np.nanmedian(disparity) == pytest.approx(6, abs=0.3)
    assert np.nanmedian(depth) == pytest.approx(80.0 * 0.2 / 6, rel=0.05)
    files.write_image('left.png', np.zeros((HEIGHT, WIDTH + 1), np.uint8))
    assert main([*command, '--rectify', 'left.yaml']) == 2
    assert 'left.yaml rectifies images of 97 x 61, the left one is 98 x 61' in (
        capsys.readouterr().err)
