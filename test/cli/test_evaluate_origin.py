"""What reports of stereo_bp evaluate say of themselves: how far, by what and how was matched."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.cli import evaluate_origin
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import files
from test.evaluation import pages

FAST = ('--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'num_threads=1', '--repeat',
        '2')


@pytest.fixture
def folders(tmp_path, textured_pair):
    """Two data sets: of 24 and of 40 disparities."""
    pytest.importorskip('numba')
    found = []
    for name, disparities in (('near', 40), ('far', 24)):
        folder = tmp_path / name / 'street'
        folder.mkdir(parents=True)
        for side, image in zip(('left', 'right'), textured_pair(96, 48, 6), strict=True):
            files.write_image(folder / f'{side}.png', image)
        files.write_pfm(folder / 'disparity.pfm', np.full((48, 96), 6, np.float32))
        (tmp_path / name / 'sets.yaml').write_text(
            f'street: {{disparities: {disparities}, disparity_scale: 8}}')
        found.append(str(tmp_path / name))
    return found


def reported(capsys, *arguments) -> dict:
    assert main(['evaluate', *map(str, arguments), '--json', *FAST]) == 0
    return json.loads(capsys.readouterr().out)


def told(capsys, monkeypatch, *arguments) -> str:
    """The text of a wide terminal, in one line."""
    monkeypatch.setenv('COLUMNS', '300')
    assert main(['evaluate', *map(str, arguments), *FAST]) == 0
    return ' '.join(capsys.readouterr().out.split())


def test_every_matcher_says_how_far_it_has_searched(folders, capsys, monkeypatch):
    """OpenCV's search multiples of 16."""
    report = reported(capsys, *folders, '--against', 'bm')
    near, far = report['pairs']
    assert (near['disparity_range'], far['disparity_range']) == (40, 24)
    assert [pair['against']['bm']['disparity_range'] for pair in (near, far)] == [48, 32]
    assert 'disparity_range' not in report['mean']
    table = told(capsys, monkeypatch, *folders, '--against', 'bm')
    assert re.search(r'near/street │ bm │ (96 x 48 │ )?48 │', table)
    named = reported(capsys, folders[0], '--set', 'disparity_range=32', '--against',
                     'wide:disparity_range=64')['pairs'][0]
    assert named['disparity_range'] == 32
    assert named['against']['wide']['disparity_range'] == 64


def test_a_report_says_what_has_matched_how_far_and_how_often(folders, tmp_path, capsys,
                                                              monkeypatch):
    arguments = (*folders, '--against', 'bm', '--limit', '5')
    report = reported(capsys, *arguments)
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
    text = told(capsys, monkeypatch, *arguments, '--output', tmp_path / 'report')
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
    named = MatcherConfig(stereo_algorithm='sad').disparity_range
    assert f'{named}, where the data set does not say it' in page


def test_settings_that_are_named_win_over_the_data_set_and_the_report_says_so(folders, capsys,
                                                                              monkeypatch):
    text = told(capsys, monkeypatch, *folders, '--set', 'disparity_range=32')
    assert '32 in 1 pair of near, 32 in 1 pair of far (as the settings say)' in text


def test_a_matcher_that_fills_its_holes_says_that_they_count_as_valid(folders, capsys,
                                                                      monkeypatch):
    filled = 'fills them itself (plane), and what it has filled counts as valid'
    text = told(capsys, monkeypatch, folders[0], '--against', 'full:filling=plane')
    assert f'Holes: full {filled}' in text
    assert 'Holes' not in told(capsys, monkeypatch, folders[0])


def test_threads_are_those_that_there_are_and_not_the_setting(folders, capsys):
    against = reported(capsys, folders[0], '--against', 'all:num_threads=0')['against']['all']
    assert against['settings']['num_threads'] == 0
    assert against['threads'] == len(os.sched_getaffinity(0))


def test_a_spread_evaluation_says_that_its_times_are_shared(folders, capsys, monkeypatch):
    pytest.importorskip('distributed')
    pytest.importorskip('cryptography')
    report = reported(capsys, *folders, '--workers', '2')
    assert report['devices'] == reported(capsys, *folders)['devices']
    text = told(capsys, monkeypatch, *folders, '--workers', '2')
    assert '2 processes shared the machine' in text
    assert 'shared the machine' not in told(capsys, monkeypatch, *folders, '--workers', '1')


def test_devices_of_several_workers_are_counted():
    from stereo_bp_ros.cli.evaluate_origin import device_words
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


@pytest.mark.parametrize(('p50', 'p99', 'words'), [
    (1.234, 99.96, 'p50 1.23 ms, p99 100 ms'), (247.4, 1250.0, 'p50 247 ms, p99 1250 ms')])
def test_times_of_a_slow_matcher_are_written_out(p50, p99, words):
    summary = {'latency_ms': {'total': {'p50': p50, 'p99': p99}}, 'method': {}, 'matcher': 'bp',
               'settings': {}, 'BasicPerformanceMetrics.NUM_FRAMES_SENT': 2, 'repeat': 2}
    assert evaluate_origin.facts(summary)['times'].endswith(words)
