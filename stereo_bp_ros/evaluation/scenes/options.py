"""A street by the names of its options: one grammar for `stereo_bp render` and for scenarios."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.scenes.misalignment import LARGEST, Misalignment
from stereo_bp_ros.evaluation.scenes.sequence import HARD, WEATHER, RoadSequence

KINDS: dict[str, type] = {
    **{name: kind for name, kind in typing.get_type_hints(RoadSequence).items()
       if kind in (bool, int, float, str)},
    **dict.fromkeys(LARGEST, float), 'hard': bool, 'weather': str}
"""Type of every option: those of `RoadSequence`, those of `Misalignment` for its right camera,
`hard`, which begins with `HARD`, and `weather`, which adds those of `WEATHER`."""


def sequence_of(options: Mapping[str, Any]) -> RoadSequence:
    """The street that these options describe; single ones win over `weather`, that over `hard`.

    :raises ValueError: one sentence that names the option and what is known.
    """
    values = {name: _value(name, value) for name, value in options.items()}
    weather = values.pop('weather', 'clear')
    if weather not in WEATHER:
        raise ValueError(f'weather is {shown(weather)}, but must be one of ' + ', '.join(WEATHER))
    errors = {name: values.pop(name) for name in LARGEST if name in values}
    begin = HARD if values.pop('hard', False) else {}
    return RoadSequence(**{**begin, **WEATHER[weather], **values},
                        misalignment=Misalignment(**errors))


def _value(name: str, value: Any) -> Any:
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f'a street has no option {shown(name)}, but ' + ', '.join(KINDS)
                         + did_you_mean(str(name), KINDS))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number and math.isfinite(value):
        return float(value)
    is_huge = isinstance(value, int) and abs(value) >= 2**63
    if type(value) is kind and kind is not float and not is_huge:
        return value
    raise ValueError(f'{name} of a street is {shown(value)}, but must be of type {kind.__name__}')
