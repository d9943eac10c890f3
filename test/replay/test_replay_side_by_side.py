"""Side-by-side recordings, folders and videos through the node: what evaluate finds."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
pytest.importorskip('numba', reason='the CPU engine needs Numba')
from stereo_bp_ros.cli.main import main
from test.cli import side_by_side as recorded

OPTIONS = ['--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16', '--backend', 'cpu',
           '--json']
LAYOUT = ['--side-by-side', 'right_left']


def video(path: pathlib.Path) -> list[str]:
    calibration = recorded.write_calibration(path)
    file = recorded.write_video(path / 'street.avi', (
        recorded.joined(*pair, 'right_left') for pair in recorded.images()))
    return [str(file), *LAYOUT, '--calibration', str(calibration)]


def videos(path: pathlib.Path) -> list[str]:
    recorded.write_calibration(path)
    for place, side in enumerate(('left', 'right')):
        recorded.write_video(path / f'{side}.avi', (pair[place] for pair in recorded.images()))
    return [str(path)]


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize('source', [
    lambda path: [str(recorded.write_bag(path, 'right_left')), *LAYOUT],
    lambda path: [str(recorded.write_images(path, 'right_left')), *LAYOUT], video, videos],
    ids=['bag', 'folder', 'video', 'two videos'])
def test_the_node_answers_what_evaluate_finds(
        source: Callable[[pathlib.Path], list[str]], tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str], alone: None) -> None:
    arguments = source(tmp_path / 'source')

    def pairs(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        status = main([*words, *arguments, *OPTIONS])
        out, err = capsys.readouterr()
        assert status == 0, err
        return {pair['name']: [pair[name] for name in ('width', 'height', 'score')]
                for pair in json.loads(out)['pairs']}

    expected = pairs('evaluate', '--repeat', '1')
    found = pairs('replay', '--output', str(tmp_path / 'out'), '--rate', '0.5')
    assert len(expected) == 4
    assert found
    assert found.items() <= expected.items()        # a busy machine may not come to all
