"""``stereo_bp info`` and ``tune``: devices, memory plans, sizes."""

from __future__ import annotations

import json

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


def test_tune_says_that_the_cpu_has_nothing_to_tune(capsys):
    assert main(['tune', '--backend', 'cpu']) == 0
    assert 'nothing to tune' in capsys.readouterr().out
    assert main(['tune', '--backend', 'cpu', '--json']) == 0
    told = capsys.readouterr()
    assert 'nothing to tune' in told.err
    assert json.loads(told.out)['results'] == []


def test_info_says_in_full_why_the_cpu_computes(capsys, monkeypatch):
    problem = BackendUnavailable('a reason of many words ' * 12, 'and a remedy of many more')
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.runtime.device.unavailable',
                        lambda index: problem)
    assert main(['info', '--backend', 'auto']) == 0
    words = ' '.join(capsys.readouterr().out.replace('│', ' ').split())
    assert 'and a remedy of many more' in words
    assert 'available memory MiB' in words
