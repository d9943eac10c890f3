"""A scenario: inputs, configuration and pass conditions in a YAML file."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.config.settings import Value, did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.conditions import Condition, parse_condition
from stereo_bp_ros.sources.pairs import Input
from stereo_bp_ros.sources.scenes.sequence import RoadSequence, sequence_of

#: What a scenario may have; the first two it must have.
KEYS = ('inputs', 'conditions', 'preset', 'settings', 'against', 'repeat', 'limit')

#: Key of an input that is drawn, with the options of ``scenes.sequence.sequence_of``.
RENDERED = 'rendered'


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is matched, how, and what it is held to.

    preset, settings, against, repeat: as the options of ``stereo_bp evaluate``.
    limit: pairs of each input; 0 = all.
    """

    path: pathlib.Path
    inputs: tuple[Input, ...]
    conditions: tuple[Condition, ...]
    preset: str = ''
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    against: tuple[str, ...] = ()
    repeat: int = 3
    limit: int = 0

    @property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """Distances whose pixels the conditions are about, metres, each once."""
        return tuple(dict.fromkeys(one.window for one in self.conditions if one.window))

    @property
    def judges_confidence(self) -> bool:
        """Whether a condition is about the confidence, which is judged for it alone."""
        return any('sparsification' in one.path for one in self.conditions)


def read_scenario(path: pathlib.Path) -> Scenario:
    """Read and check a file; the inputs are not opened.

    :raises ValueError: one sentence that names the file, the key and what is known.
    """
    try:
        return _scenario(path, read_yaml(path))
    except ValueError as error:
        raise ValueError(f'the scenario {path} is refused: {error}') from error


def _scenario(path: pathlib.Path, content: Any) -> Scenario:
    if not isinstance(content, Mapping):
        raise ValueError('it is no mapping of ' + ', '.join(KEYS))
    for key in content:
        if key not in KEYS:
            raise ValueError(f'it has the key {shown(key)}, but known are ' + ', '.join(KEYS)
                             + did_you_mean(str(key), KEYS))
    inputs = _inputs(path.parent, content.get('inputs'))
    conditions = tuple(map(parse_condition, _texts(content, 'conditions')))
    if not conditions:
        raise ValueError('it has no conditions, so that it could not fail')
    preset = content.get('preset', '')
    if not isinstance(preset, str):
        raise ValueError(f'preset is {shown(preset)}, but must be the name of one')
    settings = content.get('settings', {})
    if not isinstance(settings, Mapping) or not all(
            isinstance(value, bool | int | float | str) for value in settings.values()):
        raise ValueError(f'settings is {shown(settings)}, but must have a name and a value in '
                         'each line')
    return Scenario(path, inputs, conditions, preset,
                    {str(name): value for name, value in settings.items()},
                    tuple(_texts(content, 'against')), _whole(content, 'repeat', 3, 1),
                    _whole(content, 'limit', 0, 0))


def _texts(content: Mapping[str, Any], key: str) -> list[str]:
    values = content.get(key, [])
    values = values if isinstance(values, list) else [values]
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f'{key} has {shown(value)}, but must be a list of texts')
    return values


def _whole(content: Mapping[str, Any], key: str, default: int, low: int) -> int:
    value = content.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= 10**9:
        raise ValueError(f'{key} is {shown(value)}, but must be a whole number from {low} '
                         'to 1000000000')
    return value


def _inputs(folder: pathlib.Path, values: Any) -> tuple[Input, ...]:
    values = values if isinstance(values, list) else [values]
    found: dict[str, Input] = {}
    for value in values:
        if isinstance(value, str) and value:
            one = Input(value, folder / value)
        elif isinstance(value, Mapping) and list(value) == [RENDERED]:
            count = sum(isinstance(known.source, RoadSequence) for known in found.values())
            one = Input(RENDERED + (f'_{count + 1}' if count else ''), _street(value[RENDERED]))
        else:
            raise ValueError(f'inputs has {shown(value)}, but must be a list of paths, relative '
                             f'to the file, and of "{RENDERED}:" with options of a street')
        if one.name in found:
            raise ValueError(f'inputs has {shown(one.name)} twice')
        found[one.name] = one
    return tuple(found.values())


def _street(options: Any) -> RoadSequence:
    if not isinstance(options, Mapping):
        raise ValueError(f'{RENDERED} is {shown(options)}, but must be a mapping of options')
    return sequence_of(options)
