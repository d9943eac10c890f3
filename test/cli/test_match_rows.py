"""stereo_bp match of a pair with vertical disparity."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence

SAD = ['--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'disparity_range=32']


@pytest.fixture(scope='module')
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[float, list[str]]:
    """Files of pairs whose right image is so many rows lower."""
    folder = tmp_path_factory.mktemp('rows')
    found = {}
    for lower in (0.0, 1.5, 5.5):
        frame = RoadSequence(width=320, height=160, max_disparity=30, misalignment=Misalignment(
            vertical_offset_px=lower)).frame(0)
        found[lower] = [str(folder / f'{side}{lower}.png') for side in ('left', 'right')]
        for name, image in zip(found[lower], (frame.left, frame.right), strict=True):
            files.write_image(pathlib.Path(name), image)
    return found


def test_match_undoes_what_the_pair_alone_shows_and_says_so(
        names: dict[float, list[str]], tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    maps = {}

    def rows(lower: float, mode: str) -> dict[str, object]:
        arguments = ['match', *names[lower], *SAD, '-o', str(tmp_path / f'{mode}.pfm')]
        arguments += ['--set', f'row_correction={mode}', '--repeat', '2']
        assert main([*arguments, '--json']) == 0
        printed = json.loads(capsys.readouterr().out)
        report: dict[str, object] = printed['rows']
        # What is undone is no warning.
        assert any(one['code'] == 'vertical offset' for one in printed['issues']) == (
            lower > 1 and not (mode == 'correct' and report['corrected']))
        maps[lower, mode] = files.read_pfm(tmp_path / f'{mode}.pfm')
        if mode == 'correct':
            assert main(arguments) == 0
            assert f'Rows of the two images: {report["text"]}.' in capsys.readouterr().out
        return report

    assert rows(1.5, 'off') is None
    measured, corrected, unmoved, far = (rows(*which) for which in (
        (1.5, 'measure'), (1.5, 'correct'), (0.0, 'correct'), (5.5, 'correct')))
    assert corrected['max_px'] == pytest.approx(1.5, abs=0.15)
    assert 'px lower' in str(corrected['text'])
    assert [one['corrected'] for one in (measured, corrected, unmoved, far)] == [
        False, True, False, False]
    assert str(measured['text']).endswith('not corrected (row_correction is measure)')
    assert ', corrected by up to 1.' in str(corrected['text'])
    assert str(unmoved['text']).endswith('not corrected (not significant)')
    assert 'beyond the limit of 4 px' in str(far['text'])
    assert np.array_equal(maps[1.5, 'measure'], maps[1.5, 'off'])
    assert not np.array_equal(maps[1.5, 'correct'], maps[1.5, 'off'])

def test_rows_of_images_without_texture_are_unknown(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / f'{side}.png') for side in ('left', 'right')]
    for level, name in enumerate(names):
        files.write_image(pathlib.Path(name), np.full((60, 80), 100 + level, np.uint8))
    assert main(['match', *names, *SAD, '-o', str(tmp_path / 'o.pfm'), '--set',
                 'row_correction=correct', '--json']) == 0
    rows = json.loads(capsys.readouterr().out)['rows']
    assert rows['text'] == 'unknown: too little texture'
    assert (rows['corrected'], rows['max_px']) == (False, None)
