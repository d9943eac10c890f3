"""ROS parameter files, and those that are shipped as presets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from stereo_bp_ros.config.settings import Value, did_you_mean
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.resources import PRESETS

#: Name of the node, '/' and wildcards included, and its parameters by their whole names.
Block = tuple[str, Mapping[str, Any]]


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob('*.yaml'))


def load_preset(name: str) -> dict[str, Value]:
    """Settings of a shipped preset.

    :raises ConfigError: there is no preset of this name.
    """
    path = PRESETS / f'{name}.yaml'
    if name not in preset_names():
        raise ConfigError('preset', name, 'must be one of ' + ', '.join(preset_names())
                          + did_you_mean(name, preset_names()))
    [(_, values)] = load_blocks(path)
    return dict(values)


def load_blocks(path: str | os.PathLike[str]) -> list[Block]:
    """The name and the parameters of each block of a ROS parameter file, in its order.

    :raises ConfigError: the file cannot be read.
    """
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise ConfigError('params_file', str(path), str(error)) from error
    return [(name, _flat(block, set())) for name, block in _parameter_blocks(content, '', set())]


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The content of a YAML file, made of plain types only.

    :raises ValueError: a sentence about 'it', the file: it cannot be read, or is no YAML.
    """
    try:
        with open(path, encoding='utf-8') as file:
            return parse_yaml(file.read())
    except OSError as error:
        raise ValueError(f'it cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise ValueError('it cannot be read: it is not text in UTF-8') from error


def parse_yaml(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The content of a text in YAML; the loader may know more tags.

    :raises ValueError: as ``read_yaml``.
    """
    try:
        return yaml.load(text, loader)
    # PyYAML hands on whatever its constructors run into: dates that are none, tags that do not
    # fit what they are put on, numbers of too many digits, nesting deeper than the stack.
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError,
            RecursionError) as error:
        raise ValueError(f'it cannot be read: {error}') from error


def _parameter_blocks(content: Any, name: str, seen: set[int]
                      ) -> Iterable[tuple[str, Mapping[str, Value]]]:
    if not isinstance(content, Mapping):
        return
    if isinstance(block := content.get('ros__parameters'), Mapping):
        yield name, block
    if id(content) not in seen:
        seen.add(id(content))           # an alias of YAML may stand for what it is a part of
        for key, inner in content.items():
            if key != 'ros__parameters':
                yield from _parameter_blocks(inner, f'{name}/{str(key).strip("/")}', seen)


def _flat(block: Mapping[str, Any], within: set[int]) -> dict[str, Any]:
    """Values by their whole names, as ROS reads them: a mapping nests, with dots between."""
    values: dict[str, Any] = {}
    for name, value in block.items():
        # An empty mapping, and one inside itself, is no group of names: it is refused as a value.
        if isinstance(value, Mapping) and value and id(value) not in within:
            values.update({f'{name}.{inner}': found for inner, found in
                           _flat(value, within | {id(value)}).items()})
        else:
            values[name] = value
    return values
