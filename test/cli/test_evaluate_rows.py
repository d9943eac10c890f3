"""stereo_bp evaluate of sequences with vertical disparity."""

from __future__ import annotations

import json
import logging
import pathlib
from typing import Any

import pytest

pytest.importorskip('numba')
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.cases import every
from test.drives import write_drive

#: What comes nearer than the small range is no matter of rows.
OPTIONS = ['--backend', 'cpu', '--repeat', '1', '--set', 'stereo_algorithm=sad', '--set',
           'disparity_range=32', '--set', 'ignored_checks=largest disparity']
PAIRS = 8


@pytest.fixture(scope='module')
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[float, float], pathlib.Path]:
    """Pairs whose right image is so many rows lower, and so many seconds apart; 0 = no stamps."""
    found = {}
    for lower, apart_s in ((1.5, 0.2), (1.5, 0), (1.5, 20), (5.5, 0.2)):
        folder = tmp_path_factory.mktemp(f'rows_{lower}_{apart_s}')
        scene = RoadSequence(width=320, height=160, max_disparity=30, rate_hz=5, frames=PAIRS,
                             misalignment=Misalignment(vertical_offset_px=lower))
        for number in range(PAIRS):
            frame = scene.frame(number)
            name = f'{10**18 + int(number * apart_s * 1e9)}' if apart_s else f'pair{number}'
            for side, image in (('left', frame.left), ('right', frame.right)):
                (folder / side).mkdir(exist_ok=True)
                files.write_image(folder / side / f'{name}.png', image)
        found[lower, apart_s] = folder
    return found


def evaluate(folder: pathlib.Path, mode: str, capsys: pytest.CaptureFixture[str],
             *more: str) -> dict[str, Any]:
    assert main(['evaluate', str(folder), *more, *OPTIONS, '--set', f'row_correction={mode}',
                 '--json']) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    found['codes'] = [one['code'] for one in found['issues']]
    return found


def test_a_sequence_is_measured_or_corrected_and_that_is_said_in_place_of_a_warning(
        folders: dict[tuple[float, float], pathlib.Path], capsys: pytest.CaptureFixture[str]
        ) -> None:
    off, measured, corrected = (evaluate(folders[1.5, 0.2], mode, capsys)
                                for mode in ('off', 'measure', 'correct'))
    assert off['rows'] == []
    assert off['codes'] == measured['codes'] == ['vertical offset']
    assert corrected['codes'] == []
    (one,), (other,) = measured['rows'], corrected['rows']
    assert one['pairs'] == other['pairs'] == PAIRS
    assert one['max_px'] == other['max_px'] == pytest.approx(1.5, abs=0.15)
    assert (one['corrected'], other['corrected']) == (None, PAIRS)
    assert 'px lower' in one['text']
    assert one['text'].endswith('not corrected (row_correction is measure)')
    assert other['text'].endswith(f'px in {PAIRS}')
    assert every(pair['row_correction_px'] is None for pair in measured['pairs'])
    # What is measured changes no disparity.
    assert [pair['score'] for pair in measured['pairs']] == [
        pair['score'] for pair in off['pairs']]


def test_a_sequence_of_numbered_frames_is_corrected(
        folders: dict[tuple[float, float], pathlib.Path], tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    for side in ('left', 'right'):
        (tmp_path / side).mkdir()
        for number in range(PAIRS):
            (tmp_path / side / f'{number:06}.png').symlink_to(
                folders[1.5, 0] / side / f'pair{number}.png')
    one, = evaluate(tmp_path, 'correct', capsys)['rows']
    assert one['text'].endswith(f'px in {PAIRS}')


def test_a_line_says_what_was_measured(
        folders: dict[tuple[float, float], pathlib.Path], capsys: pytest.CaptureFixture[str]
        ) -> None:
    rows = evaluate(folders[1.5, 0.2], 'measure', capsys)['rows']
    main(['evaluate', str(folders[1.5, 0.2]), *OPTIONS, '--set', 'row_correction=measure'])
    printed = ' '.join(capsys.readouterr().out.split())
    assert f'Rows of {rows[0]["text"]}.' in printed


def test_workers_find_what_one_process_finds_of_sequences_and_of_pairs_that_follow_no_other(
        folders: dict[tuple[float, float], pathlib.Path], tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    # Stamps that go on where those of the other sequence end.
    for source in (folders[1.5, 0.2] / 'left', folders[1.5, 0.2] / 'right'):
        (tmp_path / source.name).mkdir()
        for path in source.iterdir():
            stamp = int(path.stem) + int(PAIRS * 2e8)
            (tmp_path / source.name / f'{stamp}.png').symlink_to(path)
    more = [str(tmp_path), str(folders[1.5, 0])]
    alone, spread = (evaluate(folders[1.5, 0.2], 'correct', capsys, *more, *workers)
                     for workers in (['--workers', '1'], ['--workers', '2']))
    assert [one['corrected'] for one in alone['rows']] == [PAIRS, PAIRS, PAIRS]
    for key in ('rows', 'issues', 'searched', 'by_input', 'pairs'):
        assert figures(spread[key]) == figures(alone[key])
    assert len(alone['pairs']) == 3 * PAIRS


def figures(value: Any) -> Any:
    """The same without times and memory."""
    if isinstance(value, dict):
        return {key: figures(one) for key, one in value.items() if not key.startswith(
            'BasicPerformanceMetrics.') and not key.endswith(('_ms', 'process_bytes'))}
    return [figures(one) for one in value] if isinstance(value, list) else value


def test_rows_beyond_the_limit_stay_and_are_a_warning(
        folders: dict[tuple[float, float], pathlib.Path], capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = evaluate(folders[5.5, 0.2], 'correct', capsys)
    assert found['codes'] == ['vertical offset']
    assert 'not corrected (beyond the limit of 4 px)' in found['rows'][0]['text']
    assert 'beyond the limit' in caplog.text


@pytest.mark.parametrize('yaw', [0.2, 0.0])
def test_a_yaw_is_told_by_the_motion_along_a_sequence(
        yaw: float, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = RoadSequence(width=640, height=240, frames=150, misalignment=Misalignment(yaw_deg=yaw))
    write_drive(tmp_path, scene, first_ns=10**18)
    more = ['--set', 'disparity_range=64']
    found = evaluate(tmp_path, 'measure', capsys, *more)
    assert found['codes'] == (['yaw'] if yaw else [])
    if yaw:
        assert 'a yaw of 0.19 degrees of the right' in found['issues'][0]['text']
        assert evaluate(tmp_path, 'off', capsys, *more)['codes'] == ['yaw']


def test_unrelated_pairs_are_measured_each_by_itself(
        folders: dict[tuple[float, float], pathlib.Path], capsys: pytest.CaptureFixture[str]
        ) -> None:
    measured, corrected = (evaluate(folders[1.5, 0], mode, capsys)
                           for mode in ('measure', 'correct'))
    (one,), (other,) = measured['rows'], corrected['rows']
    assert one['each_by_itself']
    assert one['text'].startswith(
        f'{PAIRS} pairs, no sequence by stamps, each by itself: vertical disparity 1.')
    assert (one['corrected'], other['corrected']) == (None, PAIRS)
    assert (measured['codes'], corrected['codes']) == (['vertical offset'], [])


def test_pairs_that_follow_no_other_are_told_together_and_are_no_sequence(
        folders: dict[tuple[float, float], pathlib.Path], capsys: pytest.CaptureFixture[str]
        ) -> None:
    found = evaluate(folders[1.5, 20], 'correct', capsys)
    one, = found['rows']
    assert one['text'].startswith(
        f'{PAIRS} pairs, no sequence by stamps, each by itself: vertical disparity 1.')
    assert one['text'].endswith(f'px in {PAIRS}')
    assert one['max_px'] == pytest.approx(1.5, abs=0.15)
    assert found['codes'] == []
