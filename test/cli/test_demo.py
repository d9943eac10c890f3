"""The demo, and reports of runs: from a rendered street to the report, what it is held to."""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='the demo needs rclpy')

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli import replay_recorded
from stereo_bp_ros.cli.demo import MIN_PUBLISHED
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.results import Figures, Result
from stereo_bp_ros.evaluation.showing import View
from stereo_bp_ros.replay import analysis
from stereo_bp_ros.replay.session import SessionResult
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.pairs import open_pairs
from test.evaluation import pages

FLAT = np.full((8, 8), 3, np.float32)


def recorded(name: str = 'bp', judged: int | None = None, **frames) -> analysis.RecordedRun:
    counts = {'sent': 100, 'sent_right': 100, 'received': 100, 'received_right': 100,
              'published': 100, 'recorded': 100, 'dropped': {}, 'waiting': 0, 'in_progress': 0,
              'lost_to_node': 0, 'lost_from_node': 0, 'node_status': 0, **frames}
    counts['lost_in_transport'] = counts['lost_to_node'] + counts['lost_from_node']
    figures = Figures([5.0], score_frame(FLAT, FLAT > 0, FLAT), {'messages': 4.0},
                      disparity_range=16)
    results = [Result(f'{name}/{index}', 8, 8, {name: figures}, input=name)
               for index in range(counts['recorded'] if judged is None else judged)]
    return analysis.RecordedRun(
        name, f'a run of {name}', counts, 10.0, matcher=name, least_published=MIN_PUBLISHED,
        settings={'filling': 'none', 'levels': len(name)},
        device={'backend': 'cpu', 'device': 'znver3', 'threads': '2'}, results=results)


def finished(folder: pathlib.Path, *runs: analysis.RecordedRun, as_json: bool = False
             ) -> tuple[int, dict[str, Any]]:
    """Status and document of what demo and replay end with."""
    options = argparse.Namespace(output=folder, json=as_json, rate=0.5)
    status = replay_recorded.finish(options, 'a street', 'a street', runs)
    return status, json.loads((folder / 'report.json').read_text())


def judged(result: SessionResult, pairs=lambda: iter(())) -> analysis.RecordedRun:
    return analysis.judge('bp', 'a run', pairs, result)


def test_a_run_with_few_frames_that_newer_ones_superseded_passes_and_tells_them(tmp_path, capsys):
    frames = {'sent': 160, 'sent_right': 160, 'received': 160, 'received_right': 160,
              'published': 158, 'recorded': 158, 'dropped': {'superseded': 2}}
    assert finished(tmp_path, recorded(**frames))[0] == 0
    printed = capsys.readouterr().out
    # With ``replay --rate 0.1`` ten times what passes on the clock of the machine.
    assert re.search(r'rate, in the time of the bag +│ 10.0 Hz', printed)
    assert re.search(r'superseded +│ +2 ', printed)
    assert f'Report: {tmp_path}/report.' in printed
    frames |= {'published': 151, 'recorded': 151, 'dropped': {'superseded': 9}}
    assert replay_recorded.failures_of(recorded(**frames))


def test_matchers_of_a_demo_stand_side_by_side_each_of_its_own_frames(tmp_path, capsys):
    for module in report.MODULES:
        pytest.importorskip(module)
    runs = (recorded(sent=40, published=38, recorded=38),
            recorded('sad', sent=80, published=70, recorded=70))
    for one in runs:
        one.frames.update(sent_right=one.frames['sent'], received=one.frames['sent'],
                          received_right=one.frames['sent'])
    status, found = finished(tmp_path, *runs)
    assert status == 1          # 70 of 80 are too few
    own, other = found, found['against']['sad']
    begin = 'BasicPerformanceMetrics.'
    for one, frames, sent, levels in ((own, 38, 40, 2), (other, 70, 80, 3)):
        assert (one['frames'], one['settings']['levels']) == (frames, levels)
        assert one[f'{begin}NUM_FRAMES_SENT'] == sent
        assert one[f'{begin}NUM_MISSED_FRAMES'] == sent - frames
        assert one[f'{begin}MEAN_FRAME_RATE'] == 5.0
    assert {name: one['frames'] for name, one in found['by_input'].items()} == {
        'bp': 38, 'sad': 70}
    assert (found['delivery']['sent'], found['delivery']['rate_hz']) == (120, 10.0)
    capsys.readouterr()
    page = pages.Reader((tmp_path / 'report.html').read_text())
    for text in ('Every matcher', 'a run of bp', 'a run of sad', 'bp, mean of 38',
                 'sad, mean of 70', 'all 38', 'all 70', 'Settings of sad', 'Time over frames'):
        assert text in page.texts


@pytest.fixture(scope='module')
def evaluated(tmp_path_factory, write_pair) -> dict[str, Any]:
    """The document of evaluate."""
    pytest.importorskip('numba')
    folder = tmp_path_factory.mktemp('evaluated')
    write_pair(folder / 'sets/one')
    assert main(['evaluate', str(folder / 'sets'), '--set', 'stereo_algorithm=sad', '--set',
                 'disparity_range=16', '--backend', 'cpu', '--repeat', '1', '--output',
                 str(folder / 'out')]) == 0
    found: dict[str, Any] = json.loads((folder / 'out/report.json').read_text())
    return found


@pytest.mark.parametrize('runs', [
    [recorded('node')], [recorded('bp'), recorded('sad')], [recorded('node', 0)],
    [recorded('node', recorded=0, published=0)], [recorded('bp', 0), recorded('sad')]])
def test_evaluate_replay_and_demo_write_documents_of_the_same_keys(tmp_path, evaluated, runs):
    """Also where nothing is judged: there are the figures, without a value."""
    _, found = finished(tmp_path, *runs)
    assert found.keys() == evaluated.keys()
    for key in ('method', 'metrics', 'all', 'filled'):
        assert found[key].keys() == evaluated[key].keys()
    if not runs[0].results:
        assert (found['frames'], found['mean'], found['latency_ms']) == (0, {}, {})
        assert {found['median_ms'], found['all']['mae'], found['filled']['d1_all'],
                found['BasicPerformanceMetrics.MAX_LATENCY']} == {None}
    for pair in found['pairs']:
        assert pair.keys() >= evaluated['pairs'][0].keys() - {'depth'}


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
    failures = replay_recorded.failures_of(recorded(**frames))
    assert any(text in failure for failure in failures)


@pytest.mark.parametrize('lost', [{'lost_to_node': 7}, {'lost_from_node': 7}])
def test_the_advice_on_losses_leads_somewhere_and_is_not_what_the_run_has(lost, repository):
    one = recorded(**lost)
    page, title = (replay_recorded.LOSE_NOTHING.split(' in ')[-1],
                   replay_recorded.LOSE_NOTHING.split('see ')[1].split(' in ')[0])
    assert f'## {title}\n' in (repository / page).read_text()
    one.is_lossless = True
    failure, = (text for text in replay_recorded.failures_of(one) if 'lost' in text)
    assert 'qos_overrides' not in failure
    assert 'the run was reliable already' in failure
    assert '--rate' in failure


@pytest.mark.parametrize('as_json', [False, True])
def test_a_run_of_which_nothing_is_judged_fails_with_the_reason(
        tmp_path, capsys, caplog, monkeypatch, as_json):
    answer = analysis.Answer(10**18, FLAT, FLAT > 0, 0, 15, {'total': 5.0})
    monkeypatch.setattr(analysis, 'answers', lambda bag: [answer] * 5)
    one = judged(SessionResult(dict(recorded().frames), {'disparity': 5}, recorded().frames,
                               tmp_path, 0, 0.0))
    status, found = finished(tmp_path, one, as_json=as_json)
    said = capsys.readouterr()
    assert (status, found['frames']) == (1, 0)
    assert 'FAILED bp: nothing is judged' in (said.err if as_json else said.out)
    reason = ('bp: 5 results are not judged: no pair of the source has the stamp of their left '
              'image')
    assert reason in caplog.messages
    assert [text['text'] for text in found['issues']] == [reason]
    if importlib.util.find_spec('jinja2') and importlib.util.find_spec('matplotlib'):
        assert reason in (tmp_path / 'report.html').read_text()
    assert 'No truth was read' not in said.out


def test_a_replay_that_stood_still_says_so(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(analysis, 'answers', lambda bag: [])
    for waited_s in (0.1, 1.9):
        one = judged(SessionResult({'waited_s': waited_s}, {'disparity': 1}, {}, tmp_path, 0, 0.0))
        assert one.frames['waited_s'] == waited_s
        assert bool(one.issues) == (waited_s > 1)
        assert ('was paused for 1.9 s' in caplog.text) == (waited_s > 1)


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
    answer = analysis.Answer(10**18, truth + 20, np.ones(truth.shape, bool), 20, 83,
                             {'total': 5.0})
    monkeypatch.setattr(analysis, 'answers', lambda bag: [answer])
    shown = []
    monkeypatch.setattr(analysis, 'View', lambda *parts: shown.append(View(*parts)) or shown[-1])
    one = judged(SessionResult({}, {'disparity': 1}, {}, tmp_path, 0, 0.0),
                 lambda: open_pairs(tmp_path / 'bag')[1])
    score = one.results[0].matchers['node'].frame.whole.published
    assert score.known == truth.size
    assert score.mae == 0
    shot, = one.showing.worst_first()
    assert (shot.name, shot.badness) == (str(10**18), 0)
    assert (shown[0].low, shown[0].high) == (0, 63)


@pytest.mark.ros
@pytest.mark.slow
def test_a_short_demo_leaves_report_and_pictures_with_every_frame_accounted_for(
        tmp_path, capsys, monkeypatch):
    # A busy machine may drop frames; that they are accounted for does not depend on it.
    monkeypatch.setattr(replay_recorded, 'failures_of', lambda one, **_: [])
    output = tmp_path / 'demo'
    assert main(['demo', '--output', str(output), '--frames', '12', '--json']) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    if importlib.util.find_spec('rerun'):
        assert f'stereo_bp view {output / "demo.rrd"} --web 9090' in printed.err
        from test.cli.rerun_files import rows
        assert {name.split('/')[0] for name in rows(output / 'demo.rrd')
                if name.endswith('/disparity')} == {'bp', 'sad'}
    assert document == json.loads((output / 'report.json').read_text())
    assert set(document['runs']) == {'bp', 'sad'}
    assert open_pairs(output / 'bp' / 'input')[0] == 12         # for the tutorial
    page = (output / 'report.html').read_text()
    for name, run in document['runs'].items():
        frames = run['frames']
        assert frames['sent'] == 12
        assert frames['lost_in_transport'] == 0
        assert frames['published'] + sum(frames['dropped'].values()) == 12
        assert document['by_input'][name]['all']['bad_3_estimated'] < 5
        assert page.count('error and confidence of ') == sum(   # all of so few are kept
            one['frames']['recorded'] for one in document['runs'].values())
        assert f'id="frame-{name}-{frames["recorded"] - 1}"' in page
    assert not list(output.glob('*.png'))
