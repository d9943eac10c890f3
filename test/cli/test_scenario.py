"""stereo_bp evaluate --scenario: conditions, JSON lines and the status for a CI."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import main
from test.cases import every

SMALL = """
limit: 2
settings: {disparity_range: 16, levels: 3, iterations: 4, backend: cpu}
repeat: 1
"""


@pytest.fixture
def small(tmp_path, street):
    """Writes a scenario of two small frames with these conditions."""
    def write(*conditions: str, more: str = ''):
        path = tmp_path / 'small.yaml'
        path.write_text(f'inputs: {street}' + SMALL + more + 'conditions:\n'
                        + ''.join(f'  - {text}\n' for text in conditions))
        return path
    return write


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_matcher_holds_what_the_street_holds_it_to(repository, capsys):
    pytest.importorskip('numba')
    assert main(['evaluate', '--scenario', str(repository / 'test/scenarios/street.yaml'),
                 '--backend', 'cpu', '--json-lines']) == 0, capsys.readouterr().out
    *conditions, last = lines(capsys)
    assert len(conditions) == 9
    assert every(one['passed'] and one['frames'] == 3 for one in conditions)
    assert (last['type'], last['passed'], last['failed'], last['frames']) == (
        'scenario', True, 0, 3)


def test_a_condition_that_does_not_hold_is_status_1(small, capsys):
    good, bad = 'mean.score.mae <= 99', 'mean.regions.0_0.1_m.score.mae <= 99'
    path = small(good, 'mean.score.density >= 99.99', bad)
    assert main(['evaluate', '--scenario', str(path), '--json-lines']) == 1
    first, second, third, last = lines(capsys)
    assert (first['passed'], second['passed'], third['passed']) == (True, False, False)
    assert (second['type'], second['condition'], second['path'], second['limit']) == (
        'condition', 'mean.score.density >= 99.99', 'mean.score.density', 99.99)
    assert 0 < second['value'] < 99.99
    assert (last['passed'], last['conditions'], last['failed']) == (False, 3, 2)
    assert last['settings']['disparity_range'] == 16
    assert {'stereo_bp_ros', 'numpy'} <= last['versions'].keys()
    assert main(['evaluate', '--scenario', str(path)]) == 1
    printed = capsys.readouterr().out
    rows = {line.split('│')[1].strip(): line for line in printed.splitlines() if ' <= ' in line
            and '│' in line}
    assert 'pass' in rows[good]
    assert 'FAIL' in rows[bad]
    assert f'{bad}: no frame has data of mean.regions.0_0.1_m.score.mae' in printed
    assert '2 of 3 conditions fail' in printed


def test_a_report_has_what_conditions_need_and_the_keys_of_isaac_ros_benchmark(
        small, tmp_path, capsys):
    path = small('BasicPerformanceMetrics.MEAN_FRAME_RATE >= 0.001',
                 'BasicPerformanceMetrics.MAX_LATENCY <= 100000',
                 'mean.sparsification.bad_3.ause <= 99', 'mean.regions.2_9_m.depth.mean_m <= 999',
                 'engine_bytes <= 1e9', 'process_bytes <= 1e11',
                 'mean.regions.3_9.5_m.score.bad_1_estimated <= 99',
                 more='against: [sgbm]\n')
    # --set wins over the file.
    assert main(['evaluate', '--scenario', str(path), '--set', 'iterations=2', '--output',
                 str(tmp_path / 'out')]) == 0
    assert '3-9.5 m' in capsys.readouterr().out
    assert ' conditions hold' in (tmp_path / 'out/report.html').read_text(encoding='utf-8')
    report = json.loads((tmp_path / 'out/report.json').read_text())
    assert report['passed'] is True
    assert [one['frames'] for one in report['conditions'][2:]] == [2] * 5
    frame_rate, latency, *_, engine, process, _ = (one['value'] for one in report['conditions'])
    assert process > engine > 0
    assert report['method']['limit'] == 2
    assert (report['settings']['iterations'], report['settings']['levels']) == (2, 3)
    assert list(report['against']) == ['sgbm']
    times = [ms for pair in report['pairs'] for ms in pair['times_ms']]
    assert [frame_rate, latency] == pytest.approx([2e3 / sum(times), max(times)])
    prefix = 'BasicPerformanceMetrics.'
    assert {key.removeprefix(prefix): value for key, value in report.items()
            if key.startswith(prefix)} == pytest.approx({
        'NUM_FRAMES_SENT': 2, 'NUM_MISSED_FRAMES': 0, 'MEAN_FRAME_RATE': 2e3 / sum(times),
        'MIN_LATENCY': min(times),
        'FIRST_INPUT_LATENCY': times[0], 'LAST_INPUT_LATENCY': times[-1],
        'MEAN_LATENCY': sum(times) / 2, 'MAX_LATENCY': max(times)})
    # Distances are scored exactly between the two.
    window = report['regions']['3_9.5_m']['score']['known']
    bins = {name: one['score']['known'] for name, one in report['regions'].items()}
    assert bins['4_8_m'] < window < bins['2_4_m'] + bins['4_8_m'] + bins['8_16_m']


@pytest.mark.parametrize(('arguments', 'words'), [
    (['.'], 'a path and --scenario exclude'),
    (['--preset', 'road'], '--preset and --scenario'),
    (['--repeat', '1'], '--repeat and --scenario'),
    (['--json', '--json-lines'], 'in place of'),
    (['--set', 'x=1'], 'no setting of this name')])
def test_what_the_scenario_chooses_is_not_chosen_twice(small, capsys, arguments, words):
    path = small('mean.score.mae <= 9')
    assert main(['evaluate', '--scenario', str(path), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count('\n') == 1


def test_an_evaluation_without_any_input_is_one_line(capsys):
    for arguments in ([], ['--json-lines'], ['--scenario', 'none.yaml'], ['.', '--json-lines']):
        assert main(['evaluate', *arguments]) == 2
        assert capsys.readouterr().err.count('\n') == 1


def test_a_bag_and_a_folder_are_judged_together_by_distance(
        tmp_path, textured_pair, write_pair, capsys):
    pytest.importorskip('numba')
    bags = pytest.importorskip('stereo_bp_ros.sources.bags')
    left, right = textured_pair(96, 48, 6)
    truth = np.full((48, 96), 6, np.float32)
    # 120 px metres: the bag is 20 m away; the folder has no calibration.
    bags.write_bag(tmp_path / 'drive', Calibration(120, 1, 48, 48, 24),
                   [(10**18 + i, left, right, truth) for i in range(3)])
    write_pair(tmp_path / 'pair')
    path = tmp_path / 'both.yaml'
    path.write_text("""
inputs: [drive, pair]
settings: {disparity_range: 16, backend: cpu}
repeat: 1
limit: 2
conditions:
  - mean.regions.15_25_m.score.bad_1_estimated <= 1
  - mean.score.bad_1_estimated <= 1
""")
    assert main(['evaluate', '--scenario', str(path), '--json-lines']) == 0
    near, everywhere, last = lines(capsys)
    assert (near['frames'], everywhere['frames'], last['frames']) == (2, 3, 3)
    assert last['inputs'] == ['drive', 'pair']


def test_the_scenario_of_readme_is_there_and_holds_as_written(repository, monkeypatch, capsys):
    page = (repository / 'README.md').read_text()
    lines = re.findall(r'^stereo_bp (evaluate --scenario \S+)', page, re.MULTILINE)
    monkeypatch.chdir(repository)
    for line in lines:
        assert main(line.split()) == 0, capsys.readouterr().out
    assert lines
    assert 'mean.regions.10_30_m.depth.mean_m <= 2' in capsys.readouterr().out
