"""``stereo_bp info``: devices, memory plans, sizes."""

from __future__ import annotations

import json

import pytest

from stereo_bp_ros import preset_names
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import BackendUnavailable


def report_of(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_info_prints_the_memory_plan_with_the_papers_bound(capsys):
    assert main(['info', '--size', '640x480', '--disparities', '32', '--backend', 'cpu',
                 '--json']) == 0
    report = report_of(capsys)
    memory = report['memory']
    assert memory['paper_bound_bytes'] == 4 * (5 + 320) * 640 * 480
    assert sum(a['bytes'] for a in memory['arrays']) <= memory['total_bytes']
    assert report['backend']['backend'] == 'cpu'
    assert report['settings']['disparity_range'] == 32


def test_info_tells_how_an_image_that_does_not_fit_is_cut(capsys):
    arguments = ['info', '--size', '900x750', '--disparities', '128', '--backend', 'cpu',
                 '--preset', 'none', '--set', 'memory_limit=200000000']
    assert main([*arguments, '--json']) == 0
    memory = report_of(capsys)['memory']
    found = memory['partitions']
    assert found['columns'] * found['rows'] == len(found['kept']) > 1
    assert found['padding'] >= 64
    assert memory['total_bytes'] <= memory['allowed_bytes'] == 200000000
    assert main(arguments) == 0
    assert (f'{found["columns"]} x {found["rows"]} partitions of {found["width"]} x '
            f'{found["height"]} pixels') in ' '.join(capsys.readouterr().out.split())
    assert main([*arguments[:-1], 'memory_limit=1000000']) == 2
    assert '1.0 MiB are allowed (memory_limit' in capsys.readouterr().err


def test_info_prints_the_total_first_and_arrays_on_request(capsys):
    arguments = ['info', '--size', '320x240', '--backend', 'cpu', '--preset', 'none']
    assert main(arguments) == 0
    short = capsys.readouterr().out
    assert main([*arguments, '--arrays']) == 0
    whole = capsys.readouterr().out
    rows = short.splitlines()
    assert rows[0].startswith('Memory for 320x240')
    assert 'total' in rows[4]
    assert 'Arrays' not in short
    assert 'int16' in whole.partition('Arrays')[2]


def test_info_shows_what_a_preset_changes(capsys):
    assert main(['info', '--preset', 'road_fast', '--diff', 'road_full', '--json']) == 0
    report = report_of(capsys)
    assert report['settings']['downscale'] == {'preset': '2', 'other': '1'}
    assert len(report['settings']) < 20
    assert main(['info', '--preset', 'none', '--set', 'levels=3', '--diff']) == 0
    table = capsys.readouterr().out
    assert table.startswith('Settings that differ')
    assert [word for word in table.split() if word in ('levels', '3', '5')] == ['levels', '3', '5']
    assert main(['info', '--preset', 'road', '--diff', 'raod']) == 2
    assert 'did you mean road?' in capsys.readouterr().err


def test_help_groups_the_presets_with_a_line_each(capsys):
    with pytest.raises(SystemExit):
        main(['match', '--help'])
    text = capsys.readouterr().out
    own, papers = text.partition('\nPresets:\n')[2].split('\nPresets that repeat papers:\n')
    assert '  road         Driving frames: fewest errors in a filled map\n' in own
    assert '  five_sets    Paper, GPU + CPU' in papers
    rows = [line.split()[0] for line in (own + papers.partition('\n\n')[0]).splitlines() if line]
    assert sorted(rows) == preset_names()


def test_info_says_in_full_why_the_cpu_computes(capsys, monkeypatch):
    problem = BackendUnavailable('a reason of many words ' * 12, 'and a remedy of many more')
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.runtime.device.unavailable',
                        lambda index: problem)
    assert main(['info', '--backend', 'auto']) == 0
    words = ' '.join(capsys.readouterr().out.replace('│', ' ').split())
    assert 'and a remedy of many more' in words
    assert 'available memory MiB' in words


def test_info_says_how_far_min_depth_searches(capsys, tmp_path):
    (tmp_path / 'calib.txt').write_text('cam0=[720 0 600; 0 720 180; 0 0 1]\n'
                                        'cam1=[720 0 600; 0 720 180; 0 0 1]\ndoffs=0\n'
                                        'baseline=540\nwidth=1242\nheight=375\nndisp=128\n')
    options = ['info', '--preset', 'road', '--backend', 'cpu', '--json', '--set', 'min_depth=3']
    for more, text in (([], '128 until there is a calibration'),
                       (['--calibration', str(tmp_path / 'calib.txt')],
                        '128 (136 for min_depth 3 m)')):
        assert main([*options, *more]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report['disparity_range'] == text
        assert (report['preset'], report['settings']['disparity_range']) == ('road', 128)
