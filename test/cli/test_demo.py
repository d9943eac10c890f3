"""The demo: from a rendered street to the report, and what it is held to."""

from __future__ import annotations

import importlib.util
import json
import re

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='the demo needs rclpy')

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli import run_report
from stereo_bp_ros.cli.demo import MIN_PUBLISHED
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.showing import View
from stereo_bp_ros.evaluation.sources import open_pairs
from stereo_bp_ros.replay.analysis import Analysis, Answer
from stereo_bp_ros.replay.session import SessionResult


def recorded(**frames) -> run_report.RecordedRun:
    counts = {'sent': 100, 'sent_right': 100, 'received': 100, 'received_right': 100,
              'published': 100, 'recorded': 100, 'dropped': {}, 'waiting': 0, 'in_progress': 0,
              'lost_to_node': 0, 'lost_from_node': 0, **frames}
    figures = Analysis(counts, {}, [], rate_hz=10.0)
    judged = [Result(str(index), 8, 8, {}) for index in range(counts['recorded'])]
    return run_report.RecordedRun('bp', 'a run', figures, MIN_PUBLISHED, results=judged)


def test_a_run_with_few_frames_that_newer_ones_superseded_passes_and_tells_them(capsys):
    assert run_report.failures_of(recorded()) == []
    run_report.print_run(recorded())
    # With ``replay --rate 0.1`` ten times what passes on the clock of the machine.
    assert re.search(r'rate, in the time of the bag +│ 10.0 Hz', capsys.readouterr().out)
    one = recorded(sent=160, sent_right=160, received=160, received_right=160, published=158,
                   recorded=158, dropped={'superseded': 2})
    assert run_report.failures_of(one) == []
    assert run_report.drops_of(one) == ['bp: 2 of 160 frames dropped: superseded']
    one.figures.frames.update(published=151, recorded=151, dropped={'superseded': 9})
    assert run_report.failures_of(one)


@pytest.mark.parametrize(('frames', 'text'), [
    ({'lost_to_node': 2, 'received_right': 98},
     '2 of 100 frames were lost on the way to the node, which received 100 of 100 left images '
     'and 98 of 100 right images; reliable qos_overrides'),
    ({'lost_from_node': 3, 'published': 90},
     '3 of 90 results were lost on the way from the node to the recorder; reliable qos_overrides'),
    ({'received': 150, 'lost_to_node': -50}, 'something else publishes to it, too'),
    ({'in_progress': 1}, '1 of 100 frames were still in progress'),
    ({'recorded': 0}, 'nothing was published'), ({'sent': 0, 'recorded': 0}, 'bp: '),
    ({'recorded': 0, 'dropped': {'stale': 100}}, 'set use_sim_time'),
    ({'node_status': 3}, 'ended with status 3'),
    ({'published': 94, 'recorded': 94, 'dropped': {'superseded': 6}},
     '94 of 100 frames were published in time, but 95 % have to be')])
def test_what_a_run_does_not_reach_is_named(frames, text):
    failures = run_report.failures_of(recorded(**frames))
    assert any(text in failure for failure in failures)


@pytest.mark.parametrize('lost', [{'lost_to_node': 7}, {'lost_from_node': 7}])
def test_the_advice_on_losses_leads_somewhere_and_is_not_what_the_run_has(lost, repository):
    one = recorded(**lost)
    page, title = (run_report.LOSE_NOTHING.split(' in ')[-1],
                   run_report.LOSE_NOTHING.split('see ')[1].split(' in ')[0])
    assert f'## {title}\n' in (repository / page).read_text()
    one.is_lossless = True
    failure, = (text for text in run_report.failures_of(one) if 'lost' in text)
    assert 'qos_overrides' not in failure
    assert 'the run was reliable already' in failure
    assert '--rate' in failure


@pytest.mark.parametrize('as_json', [False, True])
def test_a_run_of_which_nothing_is_judged_fails_with_the_reason(tmp_path, capsys, as_json):
    one = recorded(recorded=5)
    one.results, one.unjudged = [], {'no pair of the source has their stamp': 5}
    assert run_report.finish(tmp_path, [one], title='', lead='', as_json=as_json) == 1
    said = capsys.readouterr()
    assert ('FAILED bp: 5 of 5 results are not judged: no pair of the source has their stamp'
            in (said.err if as_json else said.out))


def test_a_replay_that_stood_still_says_so(tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.replay.analysis.answers', lambda bag: [])
    for waited_s in (0.1, 1.9):
        monkeypatch.setattr('stereo_bp_ros.replay.analysis.analyse',
                            lambda _: recorded().figures)
        result = SessionResult({'waited_s': waited_s}, {'disparity': 1}, {}, tmp_path, 0, 0.0)
        run_report.print_run(run_report.judge('bp', 'a run', lambda: iter(()), result))
        is_said = re.search(r'the replay stood still +│ +1.9 s', capsys.readouterr().out)
        assert bool(is_said) == (waited_s > 1)
        assert ('stood still for 1.9 s' in caplog.text) == (waited_s > 1)


def test_what_a_demo_cannot_do_is_said_before_anything_is_replaced(tmp_path, capsys):
    (tmp_path / 'report.json').write_text('{}')
    for arguments, words in ((['--bag', str(tmp_path / 'none')], 'none'),
                             (['--images', str(tmp_path / 'none')], 'none'),
                             (['--images', str(tmp_path), '--frames', '5'],
                              '--frames is the length of the rendered sequences')):
        assert main(['demo', *arguments, '--output', str(tmp_path)]) == 2
        assert words in capsys.readouterr().err
    (tmp_path / 'thesis.txt').write_text('years of work')
    assert main(['demo', '--output', str(tmp_path)]) == 2
    assert 'not the output of an earlier demo' in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {'report.json', 'thesis.txt'}


def test_the_demo_scores_without_the_shift_of_principal_points(tmp_path, monkeypatch):
    calibration = Calibration(100, 0.6, 48, 68, 24)
    truth = np.full((48, 96), 6, np.float32)
    image = np.zeros((48, 96), np.uint8)
    bags.write_bag(tmp_path / 'bag', calibration, [(10**18, image, image, truth)])
    answer = Answer(10**18, truth + 20, np.ones(truth.shape, bool), 20, 83, {'total': 5.0})
    monkeypatch.setattr('stereo_bp_ros.replay.analysis.answers', lambda bag: [answer])
    result = SessionResult({}, {'disparity': 1}, {}, tmp_path, 0, 0.0)
    monkeypatch.setattr('stereo_bp_ros.replay.analysis.analyse',
                        lambda _: recorded(recorded=1).figures)
    shown = []
    monkeypatch.setattr(run_report, 'View', lambda *parts: shown.append(View(*parts)) or shown[-1])
    judged = run_report.judge('bp', 'a run', lambda: open_pairs(tmp_path / 'bag')[1], result)
    score = judged.figures.score
    assert score.known == truth.size
    assert score.mae == 0
    shot, = judged.showing.worst_first()
    assert (shot.name, shot.badness) == (str(10**18), 0)
    assert (shown[0].low, shown[0].high) == (0, 63)


@pytest.mark.ros
@pytest.mark.slow
def test_a_short_demo_leaves_report_and_pictures_with_every_frame_accounted_for(
        tmp_path, capsys, monkeypatch):
    # A busy machine may drop frames; that they are accounted for does not depend on it.
    monkeypatch.setattr(run_report, 'failures_of', lambda one, **_: [])
    output = tmp_path / 'demo'
    assert main(['demo', '--output', str(output), '--frames', '12', '--json']) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    if importlib.util.find_spec('rerun'):
        assert f'stereo_bp view {output / "demo.rrd"} --web 9090' in printed.err
        from test.cli.rerun_files import rows
        assert {name.split('/')[0] for name in rows(output / 'demo.rrd')
                if name.endswith('/disparity')} == {'bp', 'sad'}
    assert report == json.loads((output / 'report.json').read_text())
    assert set(report['runs']) == {'bp', 'sad'}
    assert open_pairs(output / 'bp' / 'input')[0] == 12         # for the tutorial
    page = (output / 'report.html').read_text()
    for name, run in report['runs'].items():
        frames = run['frames']
        assert frames['sent'] == 12
        assert frames['lost_in_transport'] == 0
        assert frames['published'] + sum(frames['dropped'].values()) == 12
        assert run['accuracy']['bad_3_estimated'] < 5
        assert page.count('error and confidence of ') == sum(   # all of so few are kept
            one['frames']['recorded'] for one in report['runs'].values())
        assert f'id="frame-{name}-{frames["recorded"] - 1}"' in page
    assert not list(output.glob('*.png'))
