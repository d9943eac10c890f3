"""stereo_bp calibrate-check: what has moved in the right camera of a recording."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.drives import write_drive

SETTINGS = ['--backend', 'cpu', '--set', 'disparity_range=64']
SCENE = RoadSequence(width=640, height=240, frames=70, misalignment=Misalignment(
    vertical_offset_px=1.0, roll_deg=0.3, yaw_deg=0.2))


@pytest.fixture(scope='module')
def drive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Of seven seconds."""
    folder = tmp_path_factory.mktemp('drive')
    write_drive(folder, SCENE)
    return folder


def report_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_a_drive_tells_offset_roll_and_yaw_and_the_rotation_that_they_make(
        drive: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['calibrate-check', str(drive), *SETTINGS, '--json', '--output',
                 str(tmp_path / 'out')]) == 0
    report = report_of(capsys)
    assert json.loads((tmp_path / 'out/calibration.json').read_text()) == report
    assert report['terms']['offset']['px'] == pytest.approx(1.0, abs=0.1)
    degrees = np.degrees(np.arcsin(report['right']['r'][3]))
    assert degrees == pytest.approx(0.3, abs=0.03)
    assert '1.0' in report['explained']
    assert 'rolled by -0.3' in report['explained']
    assert report['yaw_degrees'] == pytest.approx(0.2, abs=0.03)
    issue, = report['issues']
    assert issue['code'] == 'yaw'
    assert 'degrees of the right camera to the right explains it' in issue['text']
    assert report['rows']['residual_px'] < 0.15
    assert [one['time_s'] for one in report['track']] == pytest.approx(np.arange(14) / 2)
    pytest.importorskip('matplotlib')
    drawn = (tmp_path / 'out/calibration.svg').read_text()
    assert 'roll at the right edge' in drawn
    assert main(['calibrate-check', str(drive), *SETTINGS]) == 0
    printed = capsys.readouterr().out
    assert 'What explains the rows: the right camera shows things 1.0' in printed
    assert 'Yaw: 0.' in printed


def test_one_pair_without_texture_or_calibration_tells_nothing(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ('left', 'right'):
        files.write_image(tmp_path / f'{side}.png', np.full((60, 80), 90, np.uint8))
    assert main(['calibrate-check', str(tmp_path), *SETTINGS]) == 0
    printed = capsys.readouterr().out
    assert 'nothing is known: too little texture' in printed
    assert 'Yaw: not known, 0 motions show it' in printed
    assert main(['calibrate-check', str(tmp_path), *SETTINGS, '--json']) == 0
    report = report_of(capsys)
    assert (report['terms'], report['right'], report['yaw_degrees']) == ({}, None, None)


def test_without_a_calibration_no_rotation_is_made_up(
        drive: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ('left', 'right'):
        (tmp_path / side).symlink_to(drive / side)
    assert main(['calibrate-check', str(tmp_path), *SETTINGS, '--json']) == 0
    report = report_of(capsys)
    assert (report['rows']['estimates'], report['right']) == (14, None)
    assert main(['calibrate-check', str(tmp_path), *SETTINGS]) == 0
    assert 'Without a calibration beside the images there are no R and K.' in (
        printed := capsys.readouterr().out)
    assert 'right R' not in printed


def test_pairs_are_measured_as_often_as_is_asked_for(
        drive: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, pairs in ((['--every', '1'], 7), (['--every', '0', '--limit', '3'], 3)):
        assert main(['calibrate-check', str(drive), *SETTINGS, '--json', *options]) == 0
        assert report_of(capsys)['pairs'] == pairs


@pytest.mark.parametrize('name', ['kitti2012', 'driving', 'sequence'])
def test_nothing_is_said_of_the_yaw_of_real_cameras(
        name: str, data: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [data / name] if name != 'driving' else sorted((data / name).iterdir())
    for path in paths:
        assert main(['calibrate-check', str(path), '--backend', 'cpu', '--json']) == 0
        assert report_of(capsys)['issues'] == []
