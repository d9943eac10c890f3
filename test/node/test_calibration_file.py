"""The camera_infos of a calibration file say what those of a driver with this file say."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros import Calibration, Rectification
from stereo_bp_ros.node.calibration_file import read_camera_infos
from test.raw_cameras import HEIGHT, WIDTH, camera_info, write_ros

pytestmark = pytest.mark.ros


def test_with_rectify_they_have_every_matrix_of_both_cameras(tmp_path: pathlib.Path) -> None:
    infos = read_camera_infos(str(write_ros(tmp_path)), True)
    for side, info in infos.items():
        expected = camera_info(side)
        assert (info.width, info.height) == (WIDTH, HEIGHT)
        assert info.distortion_model == expected.distortion_model
        for name in ('d', 'k', 'r', 'p'):
            np.testing.assert_array_equal(getattr(info, name), getattr(expected, name))
    assert Rectification.from_camera_info(*infos.values()) == Rectification.from_file(
        tmp_path / 'left.yaml')


def test_without_rectify_they_have_p_of_any_format(tmp_path: pathlib.Path) -> None:
    path = tmp_path / 'calib.txt'
    path.write_text('cam0=[500 0 320; 0 500 240; 0 0 1]\ncam1=[500 0 330; 0 500 240; 0 0 1]\n'
                    'doffs=10\nbaseline=100\nwidth=640\nheight=480\n')
    infos = read_camera_infos(str(path), False)
    found, expected = Calibration.from_camera_info(*infos.values()), Calibration.from_file(path)
    assert (found.focal_px, found.baseline_m, found.cx_left, found.cx_right, found.cy) == (
        expected.focal_px, expected.baseline_m, expected.cx_left, expected.cx_right, expected.cy)


def test_a_file_that_is_not_there_keeps_the_node_from_activating_in_words(
        make: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    bench = make(backend='cpu', calibration=str(tmp_path / 'left.yaml'))
    bench.configure()
    assert bench.node.trigger_activate().name == 'FAILURE'
    issue, = bench.node._report().issues
    assert 'activating failed' in issue.text
    assert 'left.yaml' in issue.text
