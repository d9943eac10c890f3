"""Which preset ``auto`` is, on which machine and for which images, and what presets provide."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from stereo_bp_ros import ConfigError, MatcherConfig, preset_names
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.matcher import provided_by
from stereo_bp_ros.config.matcher_settings import NOT_OF_PRESETS
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.backend import Resolved
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.images import files

#: Of an Orin Nano.
JETSON = {'is_integrated': True, 'multiprocessors': 8}


@pytest.mark.parametrize(('threads', 'size', 'name'), [
    (2, (0, 0), 'road_fast'), (2, (640, 480), 'road_fast'), (1, (640, 480), 'road_fast'),
    (1, (320, 240), 'road'), (4, (640, 480), 'road'), (64, (320, 240), 'road')])
def test_a_cpu_gets_the_best_that_is_fast_enough(threads, size, name, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 8)
    found, sentence = choice.best_preset({'backend': 'cpu', 'num_threads': threads}, *size)
    assert found == name
    assert f'takes {name} on cpu' in sentence
    assert 'auto is for roads: for a robot indoors set the preset indoor' in sentence


@pytest.mark.parametrize('threads', [1, 2, 64])
def test_a_preset_that_does_not_go_with_what_is_given_is_not_chosen(threads, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 64)
    machine = {'backend': 'cpu', 'num_threads': threads}
    found, _ = choice.best_preset({**machine, 'levels': 3}, 320, 240)
    assert found == 'road_fast'         # road has 1 level
    with pytest.raises(ConfigError, match='iterations'):
        choice.best_preset({**machine, 'stereo_algorithm': 'sad'}, 320, 240)


@pytest.mark.parametrize(('changes', 'size', 'name'), [
    ({}, (0, 0), 'road'), ({}, (1242, 375), 'road'), ({}, (8192, 6144), 'road'),
    ({'memory': 2**28}, (1242, 375), 'road'), ({'memory': 2**26}, (1242, 375), 'road_fast'),
    (JETSON, (0, 0), 'road'), (JETSON, (1920, 1200), 'road'), (JETSON, (2464, 2056), 'road_fast')])
def test_a_gpu_gets_the_best_that_fits_whole_and_keeps_10_hz(changes, size, name, monkeypatch):
    backend = CudaBackend(dataclasses.replace(TYPICAL, **changes), 'asked for')
    monkeypatch.setattr(choice, 'resolve', lambda config: Resolved(
        config, config, backend))
    assert choice.best_preset({}, *size)[0] == name


def test_a_preset_provides_every_setting_of_matching_and_no_other():
    for name in preset_names():
        assert not set(load_preset(name)) & set(NOT_OF_PRESETS)
        assert {**provided_by(name), 'backend': 'cpu'} == {
            setting: value
            for setting, value in MatcherConfig.preset(name, backend='cpu').to_mapping().items()
            if setting not in NOT_OF_PRESETS or setting == 'backend'}
    assert set(NOT_OF_PRESETS) < set(MatcherConfig.settings())
    assert load_preset('none') == {}
    with pytest.raises(ValueError, match='must be one of'):
        MatcherConfig.preset('auto')


@pytest.mark.parametrize(('arguments', 'name'), [
    ([], 'road_fast'), (['--size', '64x48'], 'road'), (['--preset', 'auto'], 'road_fast'),
    (['--set', 'num_threads=1', '--set', 'color_map=jet'], 'road_fast'),
    (['--set', 'levels=5', '--preset', 'none'], None), (['--preset', 'indoor'], None)])
def test_a_verb_says_which_preset_it_takes_where_nothing_says_how_is_matched(
        arguments, name, capsys):
    assert main(['info', '--backend', 'cpu', '--json', *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['preset'] == (f'auto ({name})' if name else arguments[-1])
    assert report.get('why preset', '').endswith(choice.SCENES) == bool(name)


def test_a_parameter_file_keeps_its_meaning(tmp_path, capsys):
    file = tmp_path / 'params.yaml'
    for text, said in (('queue_size: 7', False), ('preset: auto', True)):
        file.write_text('/**:\n  ros__parameters:\n    ' + text)
        assert main(['info', '--backend', 'cpu', '--json', '--params-file', str(file)]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report['preset'].startswith('auto (road' if said else 'none')
        assert (report['settings']['census_weight'] > 0) == said


def test_match_says_which_preset_it_takes(tmp_path, capsys):
    pair = [str(tmp_path / name) for name in ('left.png', 'right.png')]
    for name in pair:
        files.write_image(pathlib.Path(name), np.zeros((48, 64), np.uint8))
    for arguments, said in (([], True), (['--set', 'levels=5'], False)):
        assert main(['match', *pair, '-o', str(tmp_path / 'd.pfm'), '--backend', 'cpu',
                     *arguments]) == 0
        text = capsys.readouterr().err
        assert ('stereo_bp match: preset auto takes road on cpu (asked for), images of 64 x 48'
                in text) == said
