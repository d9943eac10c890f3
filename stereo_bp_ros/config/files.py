"""ROS parameter files, and those that are shipped as presets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from stereo_bp_ros.config.settings import Value, did_you_mean
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.system.bounded import MAX_TEXT_BYTES, check_limit, read_bytes
from stereo_bp_ros.system.resources import PRESETS

#: Name of the node, '/' and wildcards included, and its parameters by their whole names.
Block = tuple[str, Mapping[str, Any]]

#: In place of a shipped preset: the best one for roads on this machine, or the default of each
#: setting.
AUTO, NONE = 'auto', 'none'

#: Values, lists and mappings of a YAML file, and how deep they lie within each other.
MAX_NODES, MAX_DEPTH = 10**5, 100

#: Of a whole number, as in Python itself.
MAX_DIGITS = 4300


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob('*.yaml'))


def preset_purpose(name: str) -> str:
    """What a shipped preset is for, in a line: the first one of its file.

    It begins with the word Paper where the settings are those of a paper.
    """
    with (PRESETS / f'{name}.yaml').open(encoding='utf-8') as file:
        return file.readline().removeprefix('#').strip().removesuffix('.')


def load_preset(name: str) -> dict[str, Value]:
    """Settings of a shipped preset; none of ``NONE``.

    :raises ConfigError: there is no preset of this name.
    """
    if isinstance(name, str) and name == NONE:
        return {}
    names = preset_names()
    if not isinstance(name, str) or name not in names:
        raise ConfigError('preset', name, f'must be one of {", ".join(names)}, {NONE}, or, for '
                          f'the node, the command line and StereoMatcher, {AUTO}'
                          + did_you_mean(str(name), names))
    [(_, values)] = load_blocks(PRESETS / f'{name}.yaml')
    return dict(values)


def load_blocks(path: str | os.PathLike[str]) -> list[Block]:
    """The name and the parameters of each block of a ROS parameter file, in its order.

    :raises ConfigError: the file cannot be read.
    """
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise ConfigError('params_file', str(path), str(error)) from error
    return [(name, _flat(block)) for name, block in _parameter_blocks(content, '')]


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The content of a YAML file, made of plain types only.

    :raises ValueError: a sentence about 'it', the file: it cannot be read, is no YAML, or is
        beyond the limits of ``bounded``.
    """
    try:
        text = read_bytes(path, MAX_TEXT_BYTES).decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise ValueError('it cannot be read: it is not text in UTF-8') from error
    except ValueError as error:
        raise ValueError(f'it {error}') from error
    return parse_yaml(text)


def parse_yaml(text: str) -> Any:
    """The content of a text in YAML. A matrix of OpenCV is a mapping.

    :raises ValueError: as ``read_yaml``.
    """
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise ValueError('it cannot be read: it is nested too deeply') from error
    # PyYAML hands on whatever its constructors run into: dates that are none, tags that do not
    # fit what they are put on, numbers of too many digits.
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError,
            TypeError) as error:
        raise ValueError(f'it cannot be read: {error}') from error


class _Loader(yaml.SafeLoader):
    """The only loader of YAML here: it counts nodes before anything is made of them.

    An alias counts as all that it stands for: whoever walks through the content meets that again
    for every alias, PyYAML first, where a merge key has one.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = self._characters = self._depth = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        nodes, characters = self._nodes, self._characters
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        check_limit(self._depth, MAX_DEPTH, 'levels')
        node = super().compose_node(parent, index)
        self._depth -= 1
        assert node is not None
        if is_alias and node not in self._sizes:
            raise ValueError('it has an alias inside what this stands for')
        nodes_of_it, characters_of_it = self._sizes.get(node, (
            1, len(node.value) if isinstance(node, yaml.ScalarNode) else 0))
        self._nodes += nodes_of_it
        self._characters += characters_of_it
        check_limit(self._nodes, MAX_NODES, 'nodes, with those that aliases stand for')
        check_limit(self._characters, MAX_TEXT_BYTES,
                    'characters, with those that aliases stand for')
        if not is_alias:
            self._sizes[node] = self._nodes - nodes, self._characters - characters
        return node


def _whole_number(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Python limits digits, but PyYAML also reads sixtieths (1:30), which take their square."""
    if len(node.value) > MAX_DIGITS:
        raise ValueError(f'it has a number of more than {MAX_DIGITS} digits')
    return loader.construct_yaml_int(node)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


# As in YAML 1.2, and as ROS reads them: PyYAML wants a point, and a sign behind the e.
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+'), list('-+.0123456789'))
_Loader.add_constructor('tag:yaml.org,2002:int', _whole_number)
# OpenCV's own parser trusts what a file says.
_Loader.add_constructor('tag:yaml.org,2002:opencv-matrix', _mapping)


def _parameter_blocks(content: Any, name: str) -> Iterable[tuple[str, Mapping[str, Value]]]:
    if not isinstance(content, Mapping):
        return
    if isinstance(block := content.get('ros__parameters'), Mapping):
        yield name, block
    for key, inner in content.items():
        if key != 'ros__parameters':
            yield from _parameter_blocks(inner, f'{name}/{str(key).strip("/")}')


def _flat(block: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their whole names, as ROS reads them: a mapping nests, with dots between."""
    values: dict[str, Any] = {}
    for name, value in block.items():
        if isinstance(value, Mapping) and value:    # an empty one is rejected as a value
            values.update({f'{name}.{inner}': found for inner, found in _flat(value).items()})
        else:
            values[name] = value
    return values
