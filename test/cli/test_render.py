"""The verb that renders streets: what it writes is what was asked for, and evaluate reads it."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from stereo_bp_ros.cli import render
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation.datasets import open_dataset
from stereo_bp_ros.evaluation.scenario import read_scenario
from stereo_bp_ros.evaluation.scenes.misalignment import Misalignment
from stereo_bp_ros.evaluation.scenes.sequence import HARD, RoadSequence

SMALL = ('--frames', '2', '--size', '160x96', '--disparities', '16')


def rendered(folder, *arguments):
    assert main(['render', '--output', str(folder), *SMALL, *arguments]) == 0
    return open_dataset(folder)


def chosen(*arguments):
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    return render.chosen_sequence(parser.parse_args(['--output', 'x', *arguments]))


def test_the_folder_has_exactly_what_the_street_is(tmp_path, capsys):
    found = rendered(tmp_path / 'street', '--seed', '3')
    sequence = RoadSequence(width=160, height=96, max_disparity=14, frames=2, seed=3)
    assert found.names == ('000000', '000001')
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
    assert capsys.readouterr().out == (
        f'{tmp_path / "street"}: 2 pairs of 160 x 96, 16 disparities, focal length 144 px, '
        f'baseline {sequence.baseline_m:g} m\n')


def test_evaluate_reads_what_render_writes(tmp_path, capsys):
    pytest.importorskip('numba')
    rendered(tmp_path / 'street', '--weather', 'fog', '--vertical-offset', '0.3',
             '--street', 'hard')
    capsys.readouterr()
    assert main(['evaluate', str(tmp_path / 'street'), '--preset', 'road', '--backend', 'cpu',
                 '--repeat', '1', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    frame = report['pairs'][0]
    assert (frame['name'], frame['disparity_range']) == ('000000', 16)
    assert frame['score']['known'] == 160 * 96
    assert frame['filled']['bad_3_known'] < 15
    assert {'near_edges', 'vehicles', '8_16_m', 'class_thin',
            'class_fence'} <= frame['regions'].keys()
    assert frame['sky']['pixels'] > 100


def test_a_rendered_drive_has_stamps_and_so_flicker(tmp_path, capsys):
    pytest.importorskip('numba')
    found = rendered(tmp_path / 'street', '--rate', '10')
    assert found[1].stamp_ns - found[0].stamp_ns == 10**8
    capsys.readouterr()
    assert main(['evaluate', str(tmp_path / 'street'), '--preset', 'sad_fast', '--backend', 'cpu',
                 '--repeat', '1', '--consistency', '--json']) == 0
    consistency = json.loads(capsys.readouterr().out)['mean']['consistency']
    assert consistency['static'] > 0
    assert consistency['flicker'] is not None


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes()
            for path in folder.rglob('*') if path.is_file()}


def test_the_same_options_give_the_same_files_and_another_seed_gives_others(tmp_path):
    rain = ('--weather', 'rain', '--night', '0.3', '--dirt', '0.1', '--yaw', '0.2')
    for name, seed in (('one', '5'), ('same', '5'), ('other', '6')):
        rendered(tmp_path / name, *rain, '--seed', seed)
    one, same, other = (files_of(tmp_path / name) for name in ('one', 'same', 'other'))
    assert len(one) == 2 + 2 * 9
    assert one == same
    differ = {path.name for path in one if one[path] != other[path]}
    assert {'left.png', 'right.png', 'disparity.pfm', 'scene.json'} <= differ


def test_an_error_of_calibration_moves_the_right_image_alone(tmp_path):
    plain = rendered(tmp_path / 'plain')[0]
    pitched = rendered(tmp_path / 'pitched', '--pitch', '1')[0]
    for name in ('left', 'truth', 'vehicles', 'sky', 'calibration'):
        np.testing.assert_array_equal(getattr(pitched, name), getattr(plain, name))
    assert np.mean(pitched.right != plain.right) > 0.5
    scene = json.loads((tmp_path / 'pitched/scene.json').read_text())
    assert scene['misalignment']['pitch_deg'] == 1


def test_every_option_has_the_name_and_the_unit_of_the_street():
    assert chosen('--size', '320x200', '--disparities', '48', '--frames', '7', '--rate', '20',
                  '--seed', '9', '--sky', 'saturated', '--visibility', '80', '--wet', '0.2',
                  '--night', '0.1', '--glare', '40', '--drops', '3', '--dirt', '0.05', '--noise',
                  '2.5', '--exposure', '1.1', '--blur', '0.7', '--vertical-offset', '-0.5',
                  '--pitch', '-0.1', '--yaw', '0.2', '--roll', '0.3', '--focal-error', '0.4'
                  ) == RoadSequence(
        width=320, height=200, max_disparity=46, frames=7, rate_hz=20, seed=9, sky='saturated',
        visibility_m=80, wetness=0.2, daylight=0.1, glare=40, drops=3, dirt=0.05,
        noise_sigma=2.5, exposure_gain=1.1, blur_sigma=0.7,
        misalignment=Misalignment(-0.5, -0.1, 0.2, 0.3, 0.4))


def test_an_option_wins_over_the_weather_and_the_weather_over_the_street():
    assert chosen().visibility_m == 0
    assert chosen('--weather', 'fog').visibility_m == 100
    assert chosen('--weather', 'fog', '--visibility', '30').visibility_m == 30
    hard = chosen('--street', 'hard', '--weather', 'rain', '--drops', '0')
    assert (hard.fence, hard.noise_sigma) == (HARD['fence'], HARD['noise_sigma'])
    assert (hard.wetness, hard.drops, hard.sky) == (0.6, 0, 'textureless')


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--size', '640'], "--size is '640', but must be WIDTHxHEIGHT, at least 64x48"),
    (['--size', '9000x400'], 'at most 8192x8192'),
    (['--disparities', '3'], "--disparities: '3' is not a whole number from 4 to 512"),
    (['--night', '0'], "--night: '0' is not a number from 0.001 to 1"),
    (['--dirt', '2'], "--dirt: '2' is not a number from 0 to 1"),
    (['--pitch', '11'], "--pitch: '11' is not a number from -10 to 10"),
    (['--focal-error', 'nan'], "--focal-error: 'nan' is not a number from -20 to 20"),
    (['--weather', 'snow'], "invalid choice: 'snow'"),
    (['--visibility', '0'], "--visibility: '0' is not a number from 1 to 100000")])
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
        assert main(['render', '--output', str(path), *SMALL]) == 2
        assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.txt']


def test_the_output_must_be_named(capsys):
    assert main(['render']) == 2
    assert 'the following arguments are required: --output' in capsys.readouterr().err


@pytest.mark.parametrize(('arguments', 'options'), [
    ((), {}),
    (('--pitch', '0.1', '--yaw', '-0.2', '--roll', '0.3', '--vertical-offset', '1',
      '--focal-error', '0.5'),
     {'pitch_deg': 0.1, 'yaw_deg': -0.2, 'roll_deg': 0.3, 'vertical_offset_px': 1,
      'focal_error_percent': 0.5}),
    (('--weather', 'fog', '--street', 'hard', '--noise', '3', '--night', '0.5'),
     {'weather': 'fog', 'hard': True, 'noise_sigma': 3, 'daylight': 0.5}),
    (('--weather', 'rain', '--visibility', '50', '--rate', '5', '--seed', '4'),
     {'weather': 'rain', 'visibility_m': 50, 'rate_hz': 5, 'seed': 4})])
def test_a_scenario_draws_the_street_that_the_verb_draws(tmp_path, arguments, options):
    path = tmp_path / 'one.yaml'
    size = {'width': 640, 'height': 480, 'max_disparity': 62, 'frames': 10}
    path.write_text(json.dumps({'inputs': [{'rendered': {**size, **options}}],
                                'conditions': ['mean.score.mae <= 1']}))
    drawn, = read_scenario(path).inputs
    assert drawn.source == chosen(*arguments)
