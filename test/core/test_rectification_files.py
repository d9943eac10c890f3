"""D, K, R and P of raw cameras in files of ROS, OpenCV and ORB-SLAM."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, Rectification
from test.raw_cameras import HEIGHT, WIDTH, rectification, write_ros

WANTED = rectification()
MATRICES = {f'{name}{number}': np.reshape(getattr(camera, name.lower()), shape)
            for number, camera in enumerate((WANTED.left, WANTED.right), 1)
            for name, shape in (('D', (1, -1)), ('K', (3, 3)), ('R', (3, 3)), ('P', (3, 4)))}


def write_opencv(path: pathlib.Path, names: dict[str, str] | None = None) -> pathlib.Path:
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, matrix in MATRICES.items():
        storage.write((names or {}).get(name, name), matrix)
    storage.release()
    return path


def write_sample(folder: pathlib.Path) -> pathlib.Path:
    """As OpenCV's sample stereo_calib: two files, and no size of images."""
    for file, letters in (('intrinsics.yml', 'DK'), ('extrinsics.yml', 'RP')):
        storage = cv2.FileStorage(str(folder / file), cv2.FILE_STORAGE_WRITE)
        for name, matrix in MATRICES.items():
            if name[0] in letters:
                storage.write(name.replace('K', 'M'), matrix)
        storage.release()
    return folder / 'extrinsics.yml'


def assert_same(found: Rectification) -> None:
    assert (found.width, found.height) == (WIDTH, HEIGHT)
    for side in ('left', 'right'):
        ours, wanted = found.camera(side), WANTED.camera(side)
        for name in ('d', 'k', 'r', 'p'):
            assert np.allclose(getattr(ours, name), getattr(wanted, name)), (side, name)


def test_a_file_of_ros_is_read_with_that_of_the_other_camera(tmp_path):
    found = Rectification.from_file(write_ros(tmp_path))
    assert_same(found)
    assert found.calibration == Calibration.from_file(tmp_path / 'right.yaml')


def test_files_of_opencv_need_the_size_of_the_images(tmp_path):
    size = (WIDTH, HEIGHT)
    assert_same(Rectification.from_file(write_opencv(tmp_path / 'stereo.yaml'), size))
    assert_same(Rectification.from_file(write_sample(tmp_path), size))
    with pytest.raises(ValueError, match=r'stereo.yaml is of images of unknown size: give it'):
        Rectification.from_file(tmp_path / 'stereo.yaml')


def test_a_file_without_distortion_is_rejected_with_the_names_that_it_may_have(tmp_path):
    path = tmp_path / 'stereo.yaml'
    path.write_text('P1: [1, 2]\nP2: [1, 2]\n')
    with pytest.raises(ValueError, match=r'stereo.yaml has no D1 \(distCoeffs1, .*need D, K, R'):
        Rectification.from_file(path)
    path.write_text('- 1')
    with pytest.raises(ValueError, match='no YAML of a camera'):
        Rectification.from_file(path)


def test_what_makes_no_pair_is_rejected_with_the_name_of_the_file(tmp_path):
    write_ros(tmp_path)
    (tmp_path / 'left.yaml').rename(tmp_path / 'old')
    (tmp_path / 'right.yaml').rename(tmp_path / 'left.yaml')
    (tmp_path / 'old').rename(tmp_path / 'right.yaml')
    with pytest.raises(ValueError, match=r'calibration .*left.yaml: swapped cameras'):
        Rectification.from_file(tmp_path / 'left.yaml')
