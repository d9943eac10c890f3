"""Programs that repeat a paper: settings of their own, and the old names of these."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from stereo_bp_ros import ConfigError, MatcherConfig
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.papers.programs import PROGRAMS, PlainSteps

PLAIN = {'program': 'plain_steps', 'plain_steps.storage': 'hybrid', 'plain_steps.registers': 5}


def test_settings_of_a_program_have_its_name_before_theirs() -> None:
    config = MatcherConfig.from_mapping(PLAIN)
    assert (config.plain_steps.storage, config.plain_steps.registers) == ('hybrid', 5)
    assert config == MatcherConfig(program='plain_steps',
                                   plain_steps=PlainSteps(storage='hybrid', registers=5))
    assert hash(config) == hash(MatcherConfig.from_mapping(config.to_mapping()))
    assert config.to_mapping().items() >= PLAIN.items()
    assert parse_assignments([f'{name}={value}' for name, value in PLAIN.items()]) == PLAIN
    assert not any('.' in name for name in MatcherConfig().to_mapping())


def test_differences_and_changes_have_the_same_names() -> None:
    config = MatcherConfig.from_mapping(PLAIN)
    other = config.replace(levels=3, **{'plain_steps.registers': 6})
    assert config.differences(other) == ['levels', 'plain_steps.registers']
    assert config.differences(MatcherConfig()) == list(PLAIN)
    assert not config.is_live_change(other)
    # Another program begins with its defaults; what is no program's stays.
    assert other.replace(program='default') == MatcherConfig(levels=3)
    assert config.replace(program='default').replace(
        program='plain_steps').plain_steps == PlainSteps()


@pytest.mark.parametrize(('program', 'algorithm'), [
    (name, program.algorithm) for name, program in PROGRAMS.items()])
def test_a_program_is_of_one_algorithm(program: str, algorithm: str) -> None:
    for name in ('sad', 'bp', 'tiled_bp'):
        if name == algorithm:
            assert MatcherConfig(stereo_algorithm=name, program=program).program == program
            continue
        with pytest.raises(ConfigError, match=f'one of stereo_algorithm {algorithm}, which is '
                                              f'{name}') as refused:
            MatcherConfig(stereo_algorithm=name, program=program)
        assert refused.value.field == 'program'


@pytest.mark.parametrize(('values', 'sentence'), [
    ({'plain_steps.storage': 'register'}, "plain_steps.storage is 'register', but it belongs to "
                                          'program plain_steps, and program is default'),
    ({**PLAIN, 'streamed_sad.variant': 'global'}, 'belongs to program streamed_sad, and program '
                                                  'is plain_steps'),
    ({'program': 'plain', 'levels': 3}, 'must be one of default, plain_steps'),
    ({'program': 'plain_steps', 'plain_steps.blocks': 33}, 'a whole number from 1 to 32'),
    ({'program': 'plain_steps', 'plain_steps.blok': 1}, 'did you mean plain_steps.blocks?')])
def test_what_does_not_count_or_fit_is_refused_in_words(values: dict[str, Any], sentence: str
                                                        ) -> None:
    with pytest.raises(ConfigError) as refused:
        MatcherConfig.from_mapping(values)
    assert sentence in str(refused.value)
    assert refused.value.field in values


    for settings in (PlainSteps(storage='register'), 3, None):
        with pytest.raises(ConfigError) as refused:
            MatcherConfig(plain_steps=settings)                     # type: ignore[arg-type]
        assert refused.value.field == 'plain_steps'


def test_yaml_nests_with_or_without_dots(tmp_path: pathlib.Path) -> None:
    file = tmp_path / 'mine.yaml'
    for text in ('plain_steps: {storage: hybrid, registers: 5}',
                 'plain_steps.storage: hybrid\n    plain_steps.registers: 5'):
        file.write_text(f'/**:\n  ros__parameters:\n    program: plain_steps\n    {text}\n')
        assert load_parameter_file(file) == PLAIN
    for text in ('&a {b: *a}', '{}'):
        file.write_text(f'/**:\n  ros__parameters:\n    levels: {text}\n')
        with pytest.raises(ConfigError):
            MatcherConfig.from_mapping(load_parameter_file(file))
