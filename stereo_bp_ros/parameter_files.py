"""ROS parameter files, and those that are shipped as presets."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.settings import Value

PRESETS_DIRECTORY = pathlib.Path(__file__).parent / 'presets'


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS_DIRECTORY.glob('*.yaml'))


def load_preset(name: str) -> dict[str, Value]:
    """Settings of a shipped preset.

    :raises ConfigError: there is no preset of this name.
    """
    path = PRESETS_DIRECTORY / f'{name}.yaml'
    if name not in preset_names():
        raise ConfigError('preset', name, 'must be one of ' + ', '.join(preset_names()))
    return load_parameter_file(path)


def load_parameter_file(path: str | os.PathLike[str]) -> dict[str, Value]:
    """Settings in a ROS parameter file: every ``ros__parameters`` block, later ones win.

    :raises ConfigError: the file cannot be read or has no such block.
    """
    try:
        with open(path, encoding='utf-8') as file:
            content = yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError('params_file', str(path), f'it cannot be read: {error}') from error
    values: dict[str, Value] = {}
    blocks = list(_parameter_blocks(content))
    if not blocks:
        raise ConfigError('params_file', str(path), 'it has no ros__parameters block')
    for block in blocks:
        values.update(block)
    return values


def _parameter_blocks(content: Any) -> Iterable[Mapping[str, Value]]:
    if isinstance(content, Mapping):
        for key, inner in content.items():
            if key == 'ros__parameters' and isinstance(inner, Mapping):
                yield inner
            else:
                yield from _parameter_blocks(inner)
