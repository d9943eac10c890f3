"""The demo: from a rendered street to the report, and what it is held to."""

from __future__ import annotations

import json

import cv2
import pytest

pytest.importorskip('rclpy', reason='the demo needs rclpy')

from stereo_bp_ros.cli import demo
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.replay.analysis import Analysis

RUN = demo.Run('bp', 'a run', {}, least_rate_hz=10.0)


def analysis(**frames) -> Analysis:
    counts = {'sent': 100, 'received': 100, 'published': 100, 'recorded': 100, 'dropped': {},
              'lost_in_transport': 0, **frames}
    return Analysis(counts, {}, [], rate_hz=frames.get('rate', 10.0))


def test_a_run_with_every_frame_accounted_for_at_its_rate_passes():
    assert demo._failures(RUN, analysis()) == []


@pytest.mark.parametrize(('frames', 'text'), [
    ({'lost_in_transport': 1}, '1 frames are not accounted for'),
    ({'recorded': 0}, 'nothing was published'),
    ({'node_status': 3}, 'ended with status 3'),
    ({'rate': 8.0}, '8.0 frames a second, not 10')])
def test_what_a_run_does_not_reach_is_named(frames, text):
    failures = demo._failures(RUN, analysis(**frames))
    assert any(text in failure for failure in failures)


def test_a_folder_that_is_not_an_earlier_demos_is_left_alone(tmp_path, capsys):
    (tmp_path / 'thesis.txt').write_text('years of work')
    assert main(['demo', '--output', str(tmp_path)]) == 2
    assert 'not the output of an earlier demo' in capsys.readouterr().err
    assert (tmp_path / 'thesis.txt').is_file()


@pytest.mark.ros
@pytest.mark.slow
def test_a_short_demo_leaves_report_and_pictures_with_every_frame_accounted_for(
        tmp_path, capsys, monkeypatch):
    # A busy machine may drop frames; that they are accounted for does not depend on it.
    monkeypatch.setattr(demo, '_failures', lambda one, figures: [])
    output = tmp_path / 'demo'
    assert main(['demo', '--output', str(output), '--frames', '12', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((output / 'report.json').read_text())
    assert set(report['runs']) == {'bp', 'sad'}
    page = (output / 'report.html').read_text()
    for name, run in report['runs'].items():
        frames = run['frames']
        assert frames['sent'] == 12
        assert frames['lost_in_transport'] == 0
        assert frames['published'] + sum(frames['dropped'].values()) == 12
        assert run['accuracy']['bad_3_estimated'] < 5
        pictures = sorted(output.glob(f'{name}_*.png'))
        assert pictures
        for picture in pictures:
            assert cv2.imread(str(picture)).std() > 10
            assert picture.name in page
