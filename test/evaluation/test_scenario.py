"""Scenarios: what a file may say, and the pairs that it stands for."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from stereo_bp_ros.evaluation.scenario import read_scenario
from stereo_bp_ros.sources.pairs import Sources
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import HARD, RoadSequence

SMALL = '{width: 64, height: 48, max_disparity: 12, frames: 3}'


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / 'one.yaml'
    path.write_text(text)
    return path


def test_everything_in_a_file_is_read(tmp_path):
    found = read_scenario(written(tmp_path, """
inputs:
  - drives/day
  - rendered: {width: 64, height: 48, noise_sigma: 2, hard: true}
preset: road
settings: {disparity_range: 32, program: tiled}
against: [sgbm, 'bare:filling=none']
repeat: 2
limit: 5
conditions:
  - mean.regions.10_50_m.score.bad_3_estimated <= 2
  - mean.regions.10_50_m.score.mae <= 1
  - mean.regions.0_16_m.depth.mean_m <= 0.3
  - mean.sparsification.mae.ause <= 5
  - by_input.rendered.mean.score.mae <= 0.9
"""))
    assert [one.name for one in found.inputs] == ['drives/day', 'rendered']
    assert found.inputs[0].source == tmp_path / 'drives/day'
    assert found.inputs[1].source == RoadSequence.hard(width=64, height=48, noise_sigma=2.0)
    assert found.inputs[1].source.side_slope == HARD['side_slope']
    assert (found.preset, found.repeat, found.limit) == ('road', 2, 5)
    assert found.settings == {'disparity_range': 32, 'program': 'tiled'}
    assert found.against == ('sgbm', 'bare:filling=none')
    assert found.windows == ((10.0, 50.0), (0.0, 16.0))
    assert found.conditions[-1].number == 0.9
    assert found.judges_confidence


@pytest.mark.parametrize(('text', 'words'), [
    ('[1]', 'it is no mapping'), ('inputs: [', 'it cannot be read'),
    ('inputs: a', 'it has no conditions'),
    ('inputs: a\nconditions: bad9 = 1', "the condition 'bad9 = 1'"),
    ('inputs: a\nconditions: [1]', 'a list of texts'),
    ('conditions: frames >= 1', 'inputs has None'),
    ('inputs: [a, a]\nconditions: frames >= 1', "'a' twice"),
    ('inputs: [{drawn: {}}]\nconditions: frames >= 1', 'inputs has'),
    ('inputs: [{rendered: 3}]\nconditions: frames >= 1', 'a mapping of options'),
    ('inputs: [{rendered: {widht: 3}}]\nconditions: frames >= 1', 'did you mean width?'),
    ('inputs: [{rendered: {width: 3}}]\nconditions: frames >= 1', 'width is 3, but must be at'),
    ('inputs: [{rendered: {hard: 1}}]\nconditions: frames >= 1', 'must be of type bool'),
    ('inputs: [{rendered: {pitch: 1}}]\nconditions: frames >= 1', 'did you mean pitch_deg?'),
    (f'inputs: [{{rendered: {{frames: {"9" * 400}}}}}]\nconditions: frames >= 1', 'type int'),
    ('inputs: a\nconditions: frames >= 1\ncondition: x', 'did you mean conditions?'),
    ('inputs: a\nconditions: frames >= 1\npreset: 3', 'preset is 3'),
    ('inputs: a\nconditions: frames >= 1\nsettings: {a: [1]}', 'settings is'),
    ('inputs: a\nconditions: frames >= 1\nrepeat: 0', 'repeat is 0'),
    ('inputs: a\nconditions: frames >= 1\nlimit: true', 'limit is True')])
def test_a_mistake_names_the_file_and_what_is_known(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match='is refused: ') as caught:
        read_scenario(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_street_has_truth_everywhere_but_in_the_sky(tmp_path):
    """One input and one condition need no list."""
    scenario = read_scenario(written(
        tmp_path, f'inputs: {{rendered: {SMALL}}}\nconditions: frames >= 1\n'))
    assert (len(scenario.conditions), scenario.repeat, scenario.limit, scenario.settings) == (
        1, 3, 0, {})
    found = Sources(scenario.inputs)
    first, *_ = found.pairs()
    frame = scenario.inputs[0].source.frame(0)
    assert (found.count, first.name, first.stamp_ns) == (3, '000000', frame.stamp_ns)
    assert frame.sky.any()
    np.testing.assert_array_equal(np.isnan(first.truth), frame.sky)
    np.testing.assert_array_equal(first.truth[~frame.sky], frame.disparity[~frame.sky])
    np.testing.assert_array_equal(first.vehicles, frame.vehicles)
    assert first.calibration.baseline_m == scenario.inputs[0].source.baseline_m


def test_streets_of_several_inputs_have_names_and_calibration_errors_of_their_own(tmp_path):
    bent = SMALL[:-1] + ', pitch_deg: 0.5, focal_error_percent: 1}'
    scenario = read_scenario(written(
        tmp_path, f'inputs: [{{rendered: {SMALL}}}, {{rendered: {bent}}}]\n'
        'limit: 1\nconditions: frames >= 1\n'))
    assert scenario.inputs[1].source.misalignment == Misalignment(
        pitch_deg=0.5, focal_error_percent=1.0)
    perfect, moved = Sources(scenario.inputs, limit=scenario.limit).pairs()
    assert (perfect.name, moved.name) == ('rendered/000000', 'rendered_2/000000')
    np.testing.assert_array_equal(perfect.left, moved.left)
    np.testing.assert_array_equal(perfect.truth, moved.truth)
    assert (perfect.right != moved.right).mean() > 0.5
