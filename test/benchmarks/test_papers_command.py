"""python -m benchmarks.papers: measure, write, read again; the walk over occupancies."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
from benchmarks.papers import images
from benchmarks.papers.__main__ import main
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import BackendUnavailable
from stereo_bp_ros.papers.plain_steps import tune
from stereo_bp_ros.papers.plain_steps.search import Result
from stereo_bp_ros.sources.datasets.entries import StereoPair

ROAD = ['--paper', 'ai_2009', '--table', 'times', '--table', 'preprocessing', '--backend', 'cpu',
        '--frames', '1']

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> str:
    """A folder of data without an image in it."""
    monkeypatch.delenv('STEREO_BP_DATA', raising=False)
    (tmp_path / 'data').mkdir()
    return str(tmp_path / 'data')


def test_tables_are_written_as_markdown_and_json_and_read_again(
        no_data: str, tmp_path: pathlib.Path, textured_pair: Callable[..., Any],
        capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = np.full((64, 96), 6, np.float32)
    monkeypatch.setattr(images, '_draw_road', lambda name: StereoPair(
        name, *textured_pair(96, 64, 6), truth))
    first, second = tmp_path / 'first', tmp_path / 'second'
    assert main([no_data, *ROAD, '--output', str(first)]) == 0
    assert (first / 'papers.md').read_text() in capsys.readouterr().out
    report = json.loads((first / 'papers.json').read_text())
    times, preprocessing = report['tables']
    assert times['number'] == 'times'
    tsukuba, road = (row for row in times['rows'] if row['on'])
    assert 'the image tsukuba (384 x 288) is not among the data' in tsukuba['cells'][0]['missing']
    milliseconds, = road['cells'][0]['values']
    assert milliseconds in [one['median_ms'] for one in report['runs']]
    assert road['cells'][1]['missing'] == 'only cpu was asked for'
    assert [row['name'] for row in preprocessing['rows'] if row['on']] == [
        'original', 'Sobel', 'residual']

    files = ['--read', str(first / 'papers.json')] * 2
    assert main([*files, '--paper', 'ai_2009', '--table', 'times', '--output', str(second)]) == 0
    once, twice = ((folder / 'papers.md').read_text() for folder in (first, second))
    row = next(line for line in once.splitlines() if line.startswith('| **road'))
    assert once.count(row) == 1
    assert twice.count(row) == 2
    assert '32.42 s' in twice
    assert '(1) the image tsukuba (384 x 288) is not among the data' in twice
    assert 'Preprocessing' not in twice


@pytest.mark.parametrize(('content', 'reason'), [
    ('{}', 'is no report of the papers'), ('{"tables": {"a": 1}}', 'is no report of the papers'),
    ('{"tables": [{}]}', 'is no report of the papers'), ('x', 'is no report of the papers'),
    ('{"tables": []}', 'none of the files has one of the chosen tables')])
def test_a_file_without_the_tables_is_refused_in_one_line(
        content: str, reason: str, tmp_path: pathlib.Path, capsys: Capture) -> None:
    (tmp_path / 'x.json').write_text(content)
    assert main(['--read', str(tmp_path / 'x.json')]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count('\n') == 1


def test_the_walk_prints_settings_that_a_matcher_takes(
        capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    best = tune.settings_of(tune.candidates(tune.TYPICAL, 65)[3][1])
    asked = []

    def walked(config: MatcherConfig, width: int, height: int, _: Any) -> Result:
        asked.append((config.plain_steps.storage, config.disparity_range, width, height))
        return Result(best, 2.0, 1.5)
    monkeypatch.setattr(tune, 'tune', walked)
    assert main(['--walk', '450x375x65']) == 0
    times, line = capsys.readouterr().out.splitlines()
    assert asked == [('hybrid', 65, 450, 375)]
    assert times.startswith('450x375x65: 2.0000 ms')
    words = line.split()
    assert words[:2] == ['--preset', 'cones_2010']
    assert set(words[2::2]) == {'--set'}
    config = MatcherConfig.preset('cones_2010', **parse_assignments(words[3::2]))
    assert (config.program, config.disparity_range) == ('plain_steps', 65)
    assert best.items() <= config.to_mapping().items()


def test_without_a_device_the_walk_says_so(
        capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise BackendUnavailable('no device here', 'buy one')
    monkeypatch.setattr(tune.device, 'require', refuse)
    assert main(['--walk', '450x375x65']) == 2
    assert 'no device here' in capsys.readouterr().err
