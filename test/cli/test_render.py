"""The verb that renders streets: what it writes is what was asked for, and evaluate reads it."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from stereo_bp_ros.cli import render
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation.scenario import read_scenario
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.scenes import sequence as scenes
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import HARD, RoadSequence


def chosen(*arguments):
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    return render.chosen_sequence(parser.parse_args(['--output', 'x', *arguments]))


def test_the_folder_has_exactly_what_the_street_is_and_evaluate_reads_it(tmp_path, capsys):
    pytest.importorskip('numba')
    folder = tmp_path / 'street'
    assert main(['render', '--output', str(folder), '--frames', '2', '--size', '160x96',
                 '--disparities', '16', '--seed', '3', '--rate', '10',
                 '--street', 'hard', '--vertical-offset', '0.3']) == 0
    sequence = scenes.sequence_of({
        'width': 160, 'height': 96, 'max_disparity': 14, 'frames': 2, 'seed': 3, 'rate_hz': 10,
        'hard': True, 'vertical_offset_px': 0.3})
    assert capsys.readouterr().out == (
        f'{folder}: 2 pairs of 160 x 96, 16 disparities, focal length 144 px, '
        f'baseline {sequence.baseline_m:g} m\n')
    found = open_dataset(folder)
    assert found.names == ('000000', '000001')
    assert found[1].stamp_ns - found[0].stamp_ns == 10**8
    for pair, frame in zip(found, sequence, strict=True):
        assert pair.disparities == 16
        for name in ('left', 'right', 'vehicles', 'sky', 'occluded'):
            np.testing.assert_array_equal(getattr(pair, name), getattr(frame, name))
        np.testing.assert_array_equal(pair.truth, frame.disparity)
        assert pair.classes.keys() == frame.classes.keys()
        for name, mask in pair.classes.items():
            np.testing.assert_array_equal(mask, getattr(frame, name))
        assert pair.calibration.focal_px == sequence.focal_px
        assert pair.calibration.baseline_m == pytest.approx(sequence.baseline_m)
        assert (pair.calibration.cx_left, pair.calibration.cy) == (sequence.cx, sequence.cy)
        assert pair.calibration.shift == 0
    scene = json.loads((folder / 'scene.json').read_text())
    assert scene['misalignment']['vertical_offset_px'] == 0.3
    assert main(['evaluate', str(folder), '--preset', 'road', '--backend', 'cpu', '--repeat', '1',
                 '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    frame = report['pairs'][0]
    assert (frame['name'], frame['disparity_range']) == ('000000', 16)
    assert frame['score']['known'] == 160 * 96
    assert frame['filled']['bad_3_all'] < 15
    assert {'near_edges', 'vehicles', '8_16_m', 'class_thin',
            'class_fence'} <= frame['regions'].keys()
    assert frame['sky']['pixels'] > 100


def test_every_option_has_the_name_and_the_unit_of_the_street():
    assert chosen('--size', '320x200', '--disparities', '48', '--frames', '7', '--rate', '20',
                  '--seed', '9', '--sky', 'saturated', '--noise', '2.5', '--exposure', '1.1',
                  '--blur', '0.7', '--vertical-offset', '-0.5', '--pitch', '-0.1',
                  '--yaw', '0.2', '--roll', '0.3', '--focal-error', '0.4') == RoadSequence(
        width=320, height=200, max_disparity=46, frames=7, rate_hz=20, seed=9, sky='saturated',
        noise_sigma=2.5, exposure_gain=1.1, blur_sigma=0.7,
        misalignment=Misalignment(-0.5, -0.1, 0.2, 0.3, 0.4))


def test_an_option_wins_over_the_street():
    hard = chosen('--street', 'hard', '--sky', 'textureless', '--noise', '0')
    assert (hard.fence, hard.exposure_gain) == (HARD['fence'], HARD['exposure_gain'])
    assert (hard.sky, hard.noise_sigma) == ('textureless', 0)


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--size', '640'], "--size is '640', but must be WIDTHxHEIGHT, at least 64x48"),
    (['--size', '9000x400'], 'at most 8192x8192'),
    (['--disparities', '3'], "--disparities: '3' is not a whole number from 4 to 512"),
    (['--noise', '256'], "--noise: '256' is not a number from 0 to 255"),
    (['--pitch', '11'], "--pitch: '11' is not a number from -10 to 10"),
    (['--street', 'icy'], "invalid choice: 'icy'")])
def test_bad_options_are_refused_in_one_line_and_nothing_is_written(tmp_path, capsys, arguments,
                                                                    words):
    assert main(['render', '--output', str(tmp_path / 'street'), *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count('\n') == 1
    assert not (tmp_path / 'street').exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, capsys):
    (tmp_path / 'thesis.txt').write_text('years of work')
    for path, words in ((tmp_path, 'is not empty: name another folder'),
                        (tmp_path / 'thesis.txt', 'is a file: name a folder')):
        assert main(['render', '--output', str(path), '--frames', '1']) == 2
        assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.txt']


@pytest.mark.parametrize(('arguments', 'options'), [
    ((), {}),
    (('--pitch', '0.1', '--yaw', '-0.2', '--roll', '0.3', '--vertical-offset', '1',
      '--focal-error', '0.5'),
     {'pitch_deg': 0.1, 'yaw_deg': -0.2, 'roll_deg': 0.3, 'vertical_offset_px': 1,
      'focal_error_percent': 0.5}),
    (('--street', 'hard', '--noise', '3', '--sky', 'clouds'),
     {'hard': True, 'noise_sigma': 3, 'sky': 'clouds'}),
    (('--blur', '0.5', '--rate', '5', '--seed', '4'),
     {'blur_sigma': 0.5, 'rate_hz': 5, 'seed': 4})])
def test_a_scenario_draws_the_street_that_the_verb_draws(tmp_path, arguments, options):
    path = tmp_path / 'one.yaml'
    size = {'width': 640, 'height': 480, 'max_disparity': 62, 'frames': 10}
    path.write_text(json.dumps({'inputs': [{'rendered': {**size, **options}}],
                                'conditions': ['mean.score.mae <= 1']}))
    drawn, = read_scenario(path).inputs
    assert drawn.source == chosen(*arguments)
