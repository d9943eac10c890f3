"""stereo_bp evaluate --scenario: conditions, JSON lines and the status for a CI."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import files
from test.cases import every

SMALL = """
inputs: {rendered: {width: 96, height: 64, max_disparity: 12, frames: 2}}
settings: {disparity_range: 16, levels: 3, iterations: 4, backend: cpu}
repeat: 1
"""


@pytest.fixture
def small(tmp_path):
    """Writes a scenario of two small frames with these conditions."""
    pytest.importorskip('numba')

    def write(*conditions: str, more: str = ''):
        path = tmp_path / 'small.yaml'
        path.write_text(SMALL + more + 'conditions:\n'
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
    assert len(conditions) == 10
    assert every(one['passed'] and one['frames'] == 3 for one in conditions)
    assert (last['type'], last['passed'], last['failed'], last['frames']) == (
        'scenario', True, 0, 3)


def test_a_condition_that_does_not_hold_is_status_1(small, capsys):
    path = small('mean.score.bad_3_estimated <= 99', 'mean.score.density >= 99.99',
                 'mean.score.mae <= 1e-6')
    assert main(['evaluate', '--scenario', str(path), '--json-lines']) == 1
    first, second, third, last = lines(capsys)
    assert (first['passed'], second['passed'], third['passed']) == (True, False, False)
    assert (second['type'], second['condition'], second['path'], second['limit']) == (
        'condition', 'mean.score.density >= 99.99', 'mean.score.density', 99.99)
    assert 0 < second['value'] < 99.99
    assert (last['passed'], last['conditions'], last['failed']) == (False, 3, 2)
    assert last['settings']['disparity_range'] == 16
    assert {'stereo_bp_ros', 'numpy'} <= last['versions'].keys()


def test_rate_and_latency_have_the_keys_of_isaac_ros_benchmark(small, capsys):
    path = small('BasicPerformanceMetrics.MEAN_FRAME_RATE >= 0.001',
                 'BasicPerformanceMetrics.MAX_LATENCY <= 100000', more='limit: 2\n')
    assert main(['evaluate', '--scenario', str(path), '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['method']['limit'] == 2
    times = [ms for pair in report['pairs'] for ms in pair['times_ms']]
    prefix = 'BasicPerformanceMetrics.'
    assert {key.removeprefix(prefix): value for key, value in report.items()
            if key.startswith(prefix)} == pytest.approx({
        'NUM_FRAMES_SENT': 2, 'MEAN_FRAME_RATE': 2e3 / sum(times), 'MIN_LATENCY': min(times),
        'FIRST_INPUT_LATENCY': times[0], 'LAST_INPUT_LATENCY': times[-1],
        'MEAN_LATENCY': sum(times) / 2, 'MAX_LATENCY': max(times)})
    assert report['passed'] is True
    assert [one['value'] for one in report['conditions']] == pytest.approx(
        [2e3 / sum(times), max(times)])


def test_the_table_says_which_condition_fails_and_why(small, capsys):
    path = small('latency_ms.refine.p98 <= 1')
    assert main(['evaluate', '--scenario', str(path)]) == 2
    assert 'did you mean latency_ms.refine.p99?' in capsys.readouterr().err
    good, bad = 'mean.score.mae <= 99', 'mean.regions.0_0.1_m.score.mae <= 99'
    path = small(good, bad)
    assert main(['evaluate', '--scenario', str(path)]) == 1
    printed = capsys.readouterr().out
    rows = {line.split('│')[1].strip(): line for line in printed.splitlines() if ' <= ' in line
            and '│' in line}
    assert 'pass' in rows[good]
    assert 'FAIL' in rows[bad]
    assert f'{bad}: no data of mean.regions.0_0.1_m.score.mae: needs truth at' in printed
    assert '1 of 2 conditions fail' in printed


def test_distances_are_scored_exactly_between_the_two(small, tmp_path, capsys):
    path = small('mean.regions.3_9.5_m.score.bad_1_estimated <= 99')
    assert main(['evaluate', '--scenario', str(path), '--output', str(tmp_path / 'out')]) == 0
    page = (tmp_path / 'out/report.html').read_text(encoding='utf-8')
    assert ' conditions hold' in page
    report = json.loads((tmp_path / 'out/report.json').read_text())
    window = report['regions']['3_9.5_m']['score']['known']
    bins = {name: one['score']['known'] for name, one in report['regions'].items()}
    assert bins['4_8_m'] < window < bins['2_4_m'] + bins['4_8_m'] + bins['8_16_m']
    assert '3-9.5 m' in capsys.readouterr().out


def test_what_conditions_need_is_computed_without_an_option(small, capsys):
    path = small('mean.consistency.confirmed >= 1', 'mean.sparsification.bad_3.ause <= 99',
                 'mean.obstacles.false_per_frame <= 99', 'mean.regions.2_9_m.depth.mean_m <= 999',
                 'engine_bytes <= 1e9', 'process_bytes <= 1e11',
                 more='corridor: {width: 9, length: 40}\n')
    assert main(['evaluate', '--scenario', str(path), '--json-lines']) == 0
    *conditions, _ = lines(capsys)
    assert [one['frames'] for one in conditions] == [2] * 6
    assert every(one['passed'] for one in conditions)
    assert conditions[4]['value'] > 0
    assert conditions[5]['value'] > conditions[4]['value']


def test_obstacles_need_a_corridor_of_the_file_or_of_the_command_line(small, capsys):
    path = small('mean.obstacles.found_per_frame <= 99')
    assert main(['evaluate', '--scenario', str(path)]) == 2
    assert "'mean.obstacles.found_per_frame <= 99' needs a corridor" in capsys.readouterr().err
    assert main(['evaluate', '--scenario', str(path), '--corridor', '9x40', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['conditions'][0]['value'] == report['mean']['obstacles']['found_per_frame']
    path = small('mean.score.mae <= 99', more='corridor: {width: 9, length: 40}\n')
    assert main(['evaluate', '--scenario', str(path), '--corridor', '9x40']) == 2
    assert 'exclude each other' in capsys.readouterr().err


def test_set_and_backend_win_over_the_file(small, capsys):
    path = small('mean.score.mae <= 99', more='against: [sgbm]\n')
    assert main(['evaluate', '--scenario', str(path), '--set', 'iterations=2', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report['settings']['iterations'], report['settings']['levels']) == (2, 3)
    assert list(report['against']) == ['sgbm']


@pytest.mark.parametrize(('arguments', 'words'), [
    (['.'], 'a path and --scenario exclude'), (['--preset', 'road'], '--preset and --scenario'),
    (['--repeat', '1'], '--repeat and --scenario'), (['--json', '--json-lines'], 'in place of'),
    (['--set', 'x=1'], 'no setting of this name')])
def test_what_the_scenario_chooses_is_not_chosen_twice(small, capsys, arguments, words):
    assert main(['evaluate', '--scenario', str(small('mean.score.mae <= 9')), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count('\n') == 1


def test_an_evaluation_without_any_input_is_one_line(capsys):
    for arguments in ([], ['--json-lines'], ['--scenario', 'none.yaml'], ['.', '--json-lines']):
        assert main(['evaluate', *arguments]) == 2
        assert capsys.readouterr().err.count('\n') == 1


def test_a_bag_and_a_folder_are_judged_together_by_distance(tmp_path, textured_pair, capsys):
    pytest.importorskip('numba')
    bags = pytest.importorskip('stereo_bp_ros.evaluation.bags')
    left, right = textured_pair(96, 48, 6)
    truth = np.full((48, 96), 6, np.float32)
    # 120 px metres: the bag is 20 m away; the folder has no calibration.
    bags.write_bag(tmp_path / 'drive', Calibration(120, 1, 48, 48, 24),
                   [(10**18 + i, left, right, truth) for i in range(3)])
    (tmp_path / 'pair').mkdir()
    for name, image in (('left', left), ('right', right)):
        files.write_image(tmp_path / 'pair' / f'{name}.png', image)
    files.write_pfm(tmp_path / 'pair' / 'disparity.pfm', truth)
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
