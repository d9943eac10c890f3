"""stereo_bp evaluate --compare: the reports of two runs beside each other."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from stereo_bp_ros.cli import options
from stereo_bp_ros.cli.main import main


@pytest.fixture(scope='module')
def reports(tmp_path_factory, street):
    """Reports of a good and of a poor configuration over the same seven frames."""
    folder = tmp_path_factory.mktemp('reports')
    for name, iterations, levels in (('a', 5, 3), ('b', 1, 1)):
        assert main(['evaluate', str(street), '--set', 'disparity_range=16', '--set',
                     f'iterations={iterations}', '--set', f'levels={levels}', '--backend', 'cpu',
                     '--repeat', '1', '--output', str(folder / name)]) == 0
    return [folder / name / 'report.json' for name in 'ab']


def test_a_poorer_configuration_is_worse_in_every_figure_of_json_and_table(reports, capsys,
                                                                           monkeypatch):
    command = ['evaluate', '--compare', *map(str, reports)]
    assert main([*command, '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    first, second = (json.loads(path.read_text()) for path in reports)
    figures = {one['figure']: one for one in found['figures']}
    bad = figures['filled bad-3']
    assert bad['a'] == pytest.approx(first['mean']['filled']['bad_3_all'])
    assert bad['b'] == pytest.approx(second['mean']['filled']['bad_3_all'])
    low, high = bad['interval']
    assert 0 < low < bad['difference'] < high
    assert (bad['p'], bad['change'], bad['frames']) == (2 / 2**7, 'worse', 7)
    assert {'settings.iterations', 'settings.levels'} <= found['changed'].keys()
    assert found['frames'] == 7
    monkeypatch.setattr(options, '_console', lambda: Console(width=80, markup=False))
    assert main(command) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index('┏'):printed.index('Interval of')]
    assert max(map(len, table.splitlines())) <= 80
    assert '…' not in printed
    for text in ('7 frames', 'filled bad-3', 'worse', 'BCa',
                 'settings.iterations: 5 in A, 1 in B'):
        assert text in printed
    assert 'too few' not in printed


def test_few_frames_are_said_to_be_too_few(reports, tmp_path, capsys):
    few = []
    for path in reports:
        report = json.loads(path.read_text())
        few.append(tmp_path / f'{path.parent.name}.json')
        few[-1].write_text(json.dumps({**report, 'pairs': report['pairs'][:3]}))
    assert main(['evaluate', '--compare', *map(str, few)]) == 0
    assert '3 frames are too few for a change: p is at least 0.25' in capsys.readouterr().out
    assert main(['evaluate', '--compare', str(few[0]), str(reports[1])]) == 2
    error = capsys.readouterr().err
    assert "4 are in one of them only, the first is '000003'" in error
    assert error.count('\n') == 1


def test_reports_say_where_they_differ(reports, tmp_path, capsys):
    first = json.loads(reports[0].read_text())
    device, = first['devices']['bp']
    other = tmp_path / 'other.json'
    other.write_text(json.dumps({
        **first, 'devices': {'bp': [{**device, 'device': 'NVIDIA H100', 'pci bus': '7'}]},
        'workers': 2,
        'pairs': [pair | {'disparity_range': 32} for pair in first['pairs']]}))
    command = ['evaluate', '--compare', str(reports[0]), str(other)]
    assert main(command) == 0
    told = ' '.join(capsys.readouterr().out.split())
    for words in ("'device': 'NVIDIA H100'", 'workers: 0 in A, 2 in B',
                  'filled: holes filled from the',
                  "disparities searched: {'16': 7} in A, {'32': 7} in B"):
        assert words in told


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--preset', 'road'], '--preset'), (['--output', 'x'], '--output'),
    (['--json-lines'], '--json-lines'), (['--limit', '3'], '--limit')])
def test_options_that_match_something_do_not_go_with_it(arguments, words, capsys):
    assert main(['evaluate', '--compare', 'a.json', 'b.json', *arguments]) == 2
    error = capsys.readouterr().err
    assert f'--compare matches nothing: {words} does not go with it' in error
    assert error.count('\n') == 1
