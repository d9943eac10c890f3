"""What reports of stereo_bp evaluate say of themselves: how far, by what and how was matched."""

from __future__ import annotations

import json
import os
import re

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.cli import evaluate_report
from stereo_bp_ros.cli.main import main
from test.evaluation import pages

FAST = ('--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'num_threads=1', '--repeat',
        '2')


@pytest.fixture(scope='module')
def folders(tmp_path_factory, write_pair):
    """Two data sets: of 24 and of 40 disparities."""
    pytest.importorskip('numba')
    tmp_path, found = tmp_path_factory.mktemp('origin'), []
    for name, disparities in (('near', 40), ('far', 24)):
        write_pair(tmp_path / name / 'street')
        (tmp_path / name / 'sets.yaml').write_text(
            f'street: {{disparities: {disparities}, disparity_scale: 8}}')
        found.append(str(tmp_path / name))
    return found


def told(capsys, monkeypatch, *arguments) -> str:
    """The text of a wide terminal, in one line."""
    monkeypatch.setenv('COLUMNS', '300')
    assert main(['evaluate', *map(str, arguments), *FAST]) == 0
    return ' '.join(capsys.readouterr().out.split())


def test_a_report_says_what_has_matched_how_far_and_how_often(folders, tmp_path, capsys,
                                                              monkeypatch):
    """OpenCV's search multiples of 16."""
    arguments = (*folders, '--against', 'bm', '--limit', '5')
    text = told(capsys, monkeypatch, *arguments, '--output', tmp_path / 'report')
    report = json.loads((tmp_path / 'report/report.json').read_text())
    near, far = report['pairs']
    assert (near['disparity_range'], far['disparity_range']) == (40, 24)
    assert [pair['against']['bm']['disparity_range'] for pair in (near, far)] == [48, 32]
    assert 'disparity_range' not in report['mean']
    assert re.search(r'near/street │ bm │ (96 x 48 │ )?48 │', text)
    assert report['devices']['sad'][0]['threads'] == '1'
    assert report['devices']['bm'][0]['device'].startswith('OpenCV ')
    assert 'kernel cache' not in report['devices']['sad'][0]
    assert report['searched'] == [
        {'matcher': 'sad', 'input': 'near', 'disparities': 40, 'pairs': 1},
        {'matcher': 'bm', 'input': 'near', 'disparities': 48, 'pairs': 1},
        {'matcher': 'sad', 'input': 'far', 'disparities': 24, 'pairs': 1},
        {'matcher': 'bm', 'input': 'far', 'disparities': 32, 'pairs': 1}]
    assert (report['method']['limit'], report['method']['own_range']) == (5, False)
    assert set(report['metrics']['maps']) == {'score', 'filled'}
    device = report['devices']['sad'][0]['device']
    page = ' '.join(pages.Reader((tmp_path / 'report/report.html').read_text()).texts)
    for words in (f'sad on {device}, 1 thread; bm on OpenCV ',
                  'sad 40 in 1 pair of near, 24 in 1 pair of far; bm 48 in 1 pair of near, 32 in '
                  '1 pair of far (as the data set says, else the settings)',
                  '4 runs of sad, 2 of each pair, from images in memory to a disparity in memory'):
        assert words in text
        assert words in page
    for words in (report['machine']['processor'], 'stereo_bp_ros ' + report['versions'][
            'stereo_bp_ros'], 'D: disparities searched'):
        assert words in text
    assert 'Holes' not in text
    named = MatcherConfig(stereo_algorithm='sad').disparity_range
    assert f'{named}, where the data set does not say it' in page


def test_settings_that_are_named_win_over_the_data_set_and_the_report_says_so(
        folders, tmp_path, capsys, monkeypatch):
    text = told(capsys, monkeypatch, *folders, '--set', 'disparity_range=32', '--against',
                'wide:disparity_range=64,filling=plane,num_threads=0', '--output',
                tmp_path / 'report')
    assert '32 in 1 pair of near, 32 in 1 pair of far; wide 64 in 1 pair of near, 64 in 1 pair ' \
        'of far (as the settings say)' in text
    assert ('Holes: wide fills them itself (plane), and what it has filled counts as valid'
            in text)
    # Threads are those that there are, and not the setting.
    wide = json.loads((tmp_path / 'report/report.json').read_text())['against']['wide']
    assert wide['settings']['num_threads'] == 0
    assert wide['threads'] == len(os.sched_getaffinity(0))


def test_devices_of_several_workers_are_counted():
    device_words = evaluate_report.device_words
    cards = [{'device': 'NVIDIA H100', 'pci bus': bus} for bus in 'ab']
    assert device_words(cards) == '2 x NVIDIA H100'
    assert device_words(cards[:1]) == 'NVIDIA H100'
    hosts = [{'device': 'znver3', 'threads': '1'}, {'device': 'znver4', 'threads': '2'}]
    assert device_words(hosts) == 'znver3, 1 thread and znver4, 2 threads'


def test_the_last_json_line_of_a_scenario_says_what_has_matched_and_how_far(folders, tmp_path,
                                                                           capsys):
    path = tmp_path / 'scenario.yaml'
    path.write_text(f'inputs: [{folders[0]}]\nsettings: {{stereo_algorithm: sad}}\n'
                    'conditions: [mean.score.density >= 1]\n')
    assert main(['evaluate', '--scenario', str(path), '--json-lines', '--backend', 'cpu']) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last['searched'][0]['disparities'] == 40
    assert last['devices']['sad'][0]['device']
    assert last['method']['repeat'] == 3


def test_times_of_a_slow_matcher_are_written_out_and_said_to_be_shared():
    for workers, p50, p99, words in (
            (0, 1.234, 99.96, 'p50 1.23 ms, p99 100 ms'),
            (1, 247.4, 1250.0, 'p50 247 ms, p99 1250 ms'),
            (2, 247.4, 1250.0, 'p99 1250 ms; 2 processes shared the machine: for latency '
             'evaluate without --workers')):
        summary = {'latency_ms': {'total': {'p50': p50, 'p99': p99}}, 'method': {},
                   'matcher': 'bp', 'settings': {}, 'BasicPerformanceMetrics.NUM_FRAMES_SENT': 2,
                   'repeat': 2, 'workers': workers, 'frames': 1, 'runs': {}, 'devices': {},
                   'searched': [], 'against': {}, 'rows': []}
        assert evaluate_report.facts(summary)['times'].endswith(words)
