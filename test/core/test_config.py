"""Settings: declared once, validated in words, presets that are also ROS parameter files."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.cli.settings_page import settings_reference
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.mappings import all_settings, parse_assignments
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.errors import ConfigError, shown
from stereo_bp_ros.system.resources import PRESETS


def test_every_setting_accepts_its_default_and_has_a_meaning_and_limits():
    for setting in all_settings().values():
        assert setting.coerce(setting.default) == setting.default
        assert setting.meaning
        if setting.type in (int, float):
            assert None not in (setting.minimum, setting.maximum)


@pytest.mark.parametrize(('value', 'text'), [
    (np.float64('nan'), 'nan'), (np.int64(3), '3'), ([np.float32(0.5), {'a': np.True_}],
                                                     "[0.5, {'a': True}]")])
def test_numbers_of_numpy_are_shown_as_numbers(value, text):
    assert shown(value) == text
    assert str(ConfigError('levels', value, 'must not')) == f'levels is {text}, but must not'


@pytest.mark.parametrize(('name', 'value'), [
    ('disparity_range', 513), ('disparity_range', 2.5), ('disparity_range', True),
    ('disparity_range', 64.0), ('disparity_range', np.float64(64)), ('levels', np.True_),
    ('correlation_window_size', 4), ('data_weight', 0), ('data_weight', float('nan')),
    ('data_weight', [1]), ('levels', 10**400), ('levels', 16**5000), ('exact', 1), ('exact', None),
    ('stereo_algorithm', 3), ('stereo_algorithm', True), ('stereo_algorithm', 'x' * 10**6),
    ('median_window_size', np.array([1, 2])),
], ids=lambda value: str(value)[:20] if isinstance(value, str) else type(value).__name__)
def test_values_of_wrong_type_range_choice_or_length_are_refused_in_a_line(name, value):
    with pytest.raises(ConfigError) as error:
        MatcherConfig(**{name: value})
    assert error.value.field == name
    assert str(error.value).startswith(f'{name} is ')
    assert len(str(error.value)) < 400


def test_numbers_of_numpy_whole_ones_and_those_of_stereo_image_proc_are_accepted():
    config = MatcherConfig(data_weight=1, smoothing_sigma=2, disparity_range=np.int32(32))
    assert isinstance(config.data_weight, float)
    assert (config.smoothing_sigma, config.disparity_range) == (2.0, 32)
    for number, name in ((0, 'sad'), (1, 'bp'), (np.int64(0), 'sad')):
        assert MatcherConfig(stereo_algorithm=number).stereo_algorithm == name


@pytest.mark.parametrize(('kind', 'values', 'text'), [
    (MatcherConfig, {'disparity_range': 1}, 'disparity_range is 1, but must be a whole number '
                                            'from 2 to 512 pixels'),
    (MatcherConfig, {'disparities': 64}, 'no setting of this name'),
    (MatcherConfig, {'exact': True, 'message_type': 'int16'}, 'exact is True, but needs'),
    (MatcherConfig, {'message_type': 'int16', 'discontinuity_slope': 0.001},
     'use float32 or fewer levels'),
    (NodeConfig, {'image_width': 640}, 'set both, or neither'),
    (MatcherConfig, {'rectify': True, 'rectified_width': 640},
     'rectified_width is 640: set both, or neither')])
def test_settings_that_do_not_fit_are_refused_in_words(kind, values, text):
    with pytest.raises(ConfigError, match=text):
        kind.from_mapping(values)


def test_a_truncation_of_zero_means_a_share_of_the_range():
    assert MatcherConfig(discontinuity_truncation=0, disparity_range=15).truncation == 2.0
    assert MatcherConfig(discontinuity_truncation=3, disparity_range=15).truncation == 3.0


@given(weight=st.floats(0.001, 2), truncation=st.floats(1, 100), smooth=st.floats(0.1, 30),
       levels=st.integers(1, 6))
def test_the_int16_scale_cannot_overflow_and_is_at_least_a_quarter_of_what_could(
        weight, truncation, smooth, levels):
    values = dict(data_weight=weight, data_truncation=truncation, levels=levels,
                  discontinuity_truncation=smooth, discontinuity_slope=1.0)
    try:
        config = MatcherConfig(message_type='int16', **values)
    except ConfigError:
        return
    scale = quantisation.message_scale(config)
    largest_cost = math.floor(scale * weight * truncation + 0.5) * 4 ** (levels - 1)
    assert largest_cost + 3 * quantisation.message_smoothness(config)[1] <= 32767
    most = min(32767 / (weight * truncation * 4 ** (levels - 1) + 3 * smooth), 128)
    assert most / 4 < scale <= most


@pytest.mark.parametrize('message_type', ['int16', 'float16'])
@pytest.mark.parametrize('disparities', [16, 21, 128])
def test_16_bits_hold_the_parameters_of_the_five_sets_exactly(disparities, message_type):
    config = MatcherConfig.preset('five_sets', disparity_range=disparities,
                                  message_type=message_type)
    scale = quantisation.message_scale(config)
    for value in (config.data_weight, config.discontinuity_slope, config.truncation):
        assert scale * value == pytest.approx(round(scale * value), rel=1e-12)
    assert scale * config.truncation <= 2048


def test_only_live_settings_change_without_a_new_engine():
    config = MatcherConfig()
    assert config.is_live_change(config.replace(uniqueness_ratio=10.0, speckle_size=50))
    assert not config.is_live_change(config.replace(disparity_range=32, speckle_size=50))


def test_every_preset_is_a_valid_configuration_and_a_ros_parameter_file():
    for name in preset_names():
        MatcherConfig.preset(name)
        path = PRESETS / f'{name}.yaml'
        content = yaml.safe_load(path.read_text())
        assert list(content) == ['/**']
        assert list(content['/**']) == ['ros__parameters']
        for key, value in content['/**']['ros__parameters'].items():
            # ROS types a parameter by its YAML scalar: 1 where a float is declared is refused.
            setting = all_settings()[key]
            kinds = (int, str) if setting.takes_list else setting.type
            assert isinstance(value, kinds), (name, key)


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(ConfigError, match='road_2009'):
        MatcherConfig.preset('motorway')


@pytest.mark.parametrize(('text', 'value'), [
    ('data_weight=1', 1.0), ('subpixel=false', False), ('stereo_algorithm=0', 'sad'),
    ('levels= 3 ', 3), ('levels=0x3', 3), ('exact=yes', True), ('preset=[1]', '[1]')])
def test_a_value_is_read_as_a_plain_scalar_of_yaml(text, value):
    assert list(parse_assignments([text]).values()) == [value]


@pytest.mark.parametrize('text', ['disparity_range', 'disparities=3', 'disparity_range=x'])
def test_a_malformed_assignment_is_refused(text):
    with pytest.raises(ConfigError):
        parse_assignments([text])


def test_a_parameter_file_without_a_block_is_refused(tmp_path):
    path = tmp_path / 'parameters.yaml'
    path.write_text('a: 1\n')
    with pytest.raises(ConfigError, match='no ros__parameters block'):
        load_parameter_file(path)
    with pytest.raises(ConfigError, match='cannot be read'):
        load_parameter_file(tmp_path / 'none.yaml')


def test_approximate_sync_without_a_limit_is_refused_and_its_default_elsewhere_taken():
    """0 means no limit to stereo_image_proc, whose default it is, too."""
    with pytest.raises(ConfigError, match=r'approximate_sync_tolerance_seconds is 0\.0, but with '
                       'approximate_sync it must be above 0'):
        NodeConfig(approximate_sync=True, approximate_sync_tolerance_seconds=0.0)
    assert NodeConfig(approximate_sync_tolerance_seconds=0.0).approximate_sync is False
    assert NodeConfig(approximate_sync=True).approximate_sync_tolerance_seconds == 0.01


def test_the_page_of_settings_is_what_the_declaration_prints(repository):
    assert (repository / 'docs/reference/parameters.md').read_text() == settings_reference(), \
        'run: stereo_bp info --settings > docs/reference/parameters.md'


#: Settings in the papers, by preset.
OF_PAPERS = {
    'tsukuba_2010': (15, 5, 10, 0.07, 15, 1.7, 1.0), 'cones_2010': (65, 5, 10, 0.07, 15, 1.7, 1.0),
    'tsukuba_2009': (16, 5, 7, 0.07, 15, 1.7, 0.7), 'road_2009': (33, 5, 7, 0.033, 30, 11, 0.7)}


def test_the_papers_presets_have_the_papers_parameters():
    for name, expected in OF_PAPERS.items():
        config = MatcherConfig.preset(name)
        assert expected == (config.disparity_range, config.levels, config.iterations,
                            config.data_weight, config.data_truncation,
                            config.discontinuity_truncation, config.smoothing_sigma)
        assert config.discontinuity_slope == 1.0
    for disparities in (16, 21, 32, 64, 128):
        config = MatcherConfig.preset('five_sets', disparity_range=disparities)
        assert config.truncation == pytest.approx(disparities / 7.5)
    thesis = MatcherConfig.preset('tsukuba_2019')
    assert (thesis.stereo_algorithm, thesis.disparity_range, thesis.tile_size,
            thesis.outer_iterations, thesis.inner_iterations) == ('tiled_bp', 16, 13, 1, 1)
    costs = {'data_weight', 'data_truncation', 'discontinuity_slope', 'discontinuity_truncation'}
    assert not costs & set(thesis.differences(MatcherConfig.preset('five_sets')))


def test_off_is_a_name_though_yaml_makes_false_of_it() -> None:
    config = MatcherConfig.from_mapping({'row_correction': False})
    assert config.row_correction == 'off'
    with pytest.raises(ConfigError):
        MatcherConfig.from_mapping({'row_correction': True})
    with pytest.raises(ConfigError, match='reference maps'):
        MatcherConfig(row_correction='correct', exact=True, message_type='float32')
