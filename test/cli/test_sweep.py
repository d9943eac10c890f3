"""stereo_bp evaluate --sweep: measured once, resumed, tabled, drawn, and a preset chosen."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rich.console import Console

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.cli import options
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.config import load_parameter_file
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from test.cases import every

BASE = ['--set', 'disparity_range=16', '--backend', 'cpu', '--repeat', '1']


@pytest.fixture
def folder(tmp_path, write_pair):
    """Two pairs of one disparity with truth."""
    pytest.importorskip('numba')
    pytest.importorskip('matplotlib')
    write_pair(tmp_path / 'sets/one', 6)
    write_pair(tmp_path / 'sets/two', 9)
    return tmp_path / 'sets'


def swept(capsys, folder, *arguments: str) -> dict:
    assert main(['evaluate', str(folder), *BASE, '--output', str(folder.parent / 'sweep'),
                 '--json', *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def cost(point: dict) -> tuple[float, float]:
    figures = point['figures']
    return figures['latency_ms']['total']['p50'], figures['mean']['filled']['bad_3_known']


def test_every_point_of_the_grid_is_measured_once(folder, capsys, monkeypatch):
    axes = ['--sweep', 'levels=1:2:1', '--sweep', 'iterations=1,4']
    report = swept(capsys, folder, *axes)
    assert [one['changes'] for one in report['points']] == [
        {'levels': a, 'iterations': b} for a in (1, 2) for b in (1, 4)]
    assert report['measured'] == 4
    assert every(one['frames'] == 2 and cost(one)[0] > 0 for one in report['points'])
    again = swept(capsys, folder, *axes)
    assert (again['measured'], again['points']) == (0, report['points'])
    wider = swept(capsys, folder, '--sweep', 'levels=1:3:1', '--sweep', 'iterations=1,4')
    assert wider['measured'] == 2
    assert wider['points'][:4] == [one | {'pareto': wider['points'][i]['pareto']}
                                   for i, one in enumerate(report['points'])]
    for other in (['--set', 'subpixel=false'], ['--limit', '1'], ['--repeat', '2']):
        assert swept(capsys, folder, '--sweep', 'levels=1', *other)['measured'] == 1
    describe = CpuBackend.describe
    monkeypatch.setattr(CpuBackend, 'describe', lambda self, config: {
        **describe(self, config), 'device': 'another'})
    assert swept(capsys, folder, '--sweep', 'levels=1')['measured'] == 1


def test_the_chosen_point_is_a_preset_beside_a_plot(folder, capsys):
    report = swept(capsys, folder, '--sweep', 'levels=1:3:1', '--choose', 'levels=2')
    assert report['chosen']['changes'] == {'levels': 2}
    values = load_parameter_file(report['preset'])
    assert MatcherConfig.from_mapping(values) == MatcherConfig(
        disparity_range=16, levels=2, backend='cpu')
    text = (folder.parent / 'sweep/chosen.yaml').read_text()
    assert '--set disparity_range=16 --set levels=2' in text
    assert '2 frames, searched 16 disparities.' in text
    assert main(['evaluate', str(folder), '--params-file', report['preset'], '--repeat', '1',
                 '--json']) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (alone['matcher'], alone['settings']['levels']) == ('chosen', 2)
    assert alone['mean']['filled'] == report['chosen']['figures']['mean']['filled']
    plot = (folder.parent / 'sweep/sweep.svg').read_text()
    assert '</svg>' in plot
    best = swept(capsys, folder, '--sweep', 'levels=1:3:1', '--choose',
                 'latency_ms.total.p50 <= 100000')
    assert best['chosen']['figures']['mean']['filled']['bad_3_known'] == min(
        one['figures']['mean']['filled']['bad_3_known'] for one in best['points'])


def test_settings_that_do_not_go_together_are_named_and_left_out(folder, capsys):
    report = swept(capsys, folder, '--sweep', 'message_type=int16', '--sweep',
                   'exact=false,true')
    assert [one['changes']['exact'] for one in report['points']] == [False]
    refused, = report['refused']
    assert refused['changes'] == {'message_type': 'int16', 'exact': True}
    assert 'exact is True, but' in refused['reason']
    assert main(['evaluate', str(folder), *BASE, '--output', str(folder.parent / 'sweep'),
                 '--sweep', 'exact=true', '--set', 'message_type=int16']) == 2
    assert capsys.readouterr().err.count('\n') == 1


def test_the_table_fits_marks_the_chosen_point_and_says_how_far_was_searched(
        folder, capsys, monkeypatch):
    monkeypatch.setattr(options, '_console', lambda: Console(width=80, markup=False))
    axes = ['--sweep', 'disparity_range=8,16', '--sweep', 'iterations=2,3']
    report = swept(capsys, folder, *axes)
    assert [one['disparities'] for one in report['points']] == [[8], [8], [16], [16]]
    assert report['points'][0]['figures']['mean']['filled']['bad_3_known'] > 40     # 9 is too far
    assert (report['repeat'], report['settings']['backend']) == (1, 'cpu')
    assert report['method']['own_range']
    assert report['versions']['numpy'] == np.__version__
    device, = report['devices']
    assert int(device['threads']) > 0
    assert main(['evaluate', str(folder), *BASE, '--output', str(folder.parent / 'sweep'), *axes,
                 ]) == 0
    printed = capsys.readouterr().out
    table = printed[:printed.index('Chosen: ')]
    assert max(map(len, table.splitlines())) <= 80
    assert '…' not in table
    assert table.count(' chosen ') == 1
    assert '4 points of sets, 0 measured now' in table
    assert 'bad_3_known' in table
    told = ' '.join(printed.split())
    for words in ('Disparities searched: 8, 16 (as the settings say).', device['device'],
                  'filled: every hole has got', report['machine']['processor']):
        assert words in told


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--sweep', 'levels=1:2:1'], 'needs --output'),
    (['--sweep', 'levels=1:2', '--output', 'x'], 'is not written'),
    (['--sweep', 'levels=1', '--output', 'x', '--against', 'bm'], '--against exclude'),
    (['--sweep', 'levels=1', '--output', 'x', '--choose', 'p98 <= 3'], "the path 'p98'"),
    (['--sweep', 'levels=1', '--output', 'x', '--choose', 'pairs.*.score.mae <= 3'],
     'all frames'),
    (['--sweep', 'levels=1', '--output', 'x', '--by', 'mean.score.mea'],
     'did you mean mean.score.mae?'),
    (['--choose', 'frames <= 3'], '--choose is for --sweep')])
def test_a_mistake_is_one_line_before_anything_is_matched(folder, capsys, arguments, words):
    assert main(['evaluate', str(folder), *BASE, *arguments]) == 2
    out, error = capsys.readouterr()
    assert words in error
    assert (out, error.count('\n')) == ('', 1)
