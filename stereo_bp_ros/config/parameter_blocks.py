"""ROS parameter files, and which blocks of them are a stereo node's."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.config import stereo_image_proc
from stereo_bp_ros.config.files import Block, load_blocks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.settings import Value, did_you_mean
from stereo_bp_ros.errors import ConfigError

_log = logging.getLogger(__name__)

#: Names of nodes whose parameters these are, the first one that the file has.
NODES = ('stereo_bp', stereo_image_proc.NODE)

#: Parameters that every node may have.
OF_ANY_NODE = ('use_sim_time', 'start_type_description_service')


def load_parameter_file(path: str | os.PathLike[str]) -> dict[str, Value]:
    """Settings in a ROS parameter file: those of all nodes and of the stereo node, later ones win.

    Blocks of other nodes are left out with a warning. See ``choose``.

    :raises ConfigError: the file cannot be read or has no such block.
    """
    blocks = load_blocks(path)
    if not blocks:
        raise ConfigError('params_file', str(path), 'it has no ros__parameters block')
    values, warnings = choose(blocks)
    if values is None:
        raise ConfigError('params_file', str(path), warnings[0])
    values, sentences = stereo_image_proc.translate(values)
    for warning in (*warnings, *sentences):
        _log.warning('%s: %s', path, warning)
    return values


def without_node(path: str | os.PathLike[str], node: str) -> str:
    """A sentence about a parameter file of which nothing is for this node; '' = something is.

    :param node: fully qualified name.
    """
    try:
        names = [name for name, _ in load_blocks(path)]
    except ConfigError:
        return ''
    if not names or any(matches(name, node) for name in names):
        return ''
    return (f'{path} sets nothing here: its parameters are for {", ".join(names)}, and this node '
            f'is {node}; name them {node} or /**, or this node by -r __node:= and -r __ns:=')


def matches(block: str, node: str) -> bool:
    """Whether ROS gives parameters of this name to a node: * is one word, ** any number."""
    pattern = re.escape(block).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')
    return re.fullmatch(pattern, node) is not None


def choose(blocks: Sequence[Block]) -> tuple[dict[str, Any] | None, list[str]]:
    """Parameters of all nodes and of the stereo node, and sentences about what is left out.

    The stereo node is the one that has a name of ``NODES``. Names that nobody here knows are
    left out of wildcards where the file has other nodes.

    :returns: None and the reason where no block is left.
    """
    mine = next((found for node in NODES if (found := [
        name for name, _ in blocks if name.rpartition('/')[2] == node])), [])
    others = [name for name, _ in blocks if name not in mine and not _is_wildcard(name)]
    if len(others) == len(blocks):
        return None, [f'its parameters are for {", ".join(others)}: name them {NODES[0]} or /**']
    warnings = ['left out as parameters of other nodes: ' + ', '.join(others)] if others else []
    chosen: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for name, values in blocks:
        if name in mine:
            warnings += [
                f'{key} is {chosen[key]!r} for {owners[key]} and {value!r} for {name}: the latter '
                'is taken' for key, value in values.items()
                if owners.get(key, name) != name and chosen[key] != value]
            chosen.update(values)
            owners.update(dict.fromkeys(values, name))
        elif _is_wildcard(name):
            unknown = [key for key in values if others and not _is_known(key)]
            warnings += [f'{key} of {name} is left out: there is no setting of this name'
                         + did_you_mean(key, _known()) for key in unknown]
            chosen.update({key: value for key, value in values.items() if key not in unknown})
    return chosen, warnings


def _is_wildcard(name: str) -> bool:
    return name.rpartition('/')[2] in ('', '*', '**')


def _is_known(name: str) -> bool:
    return (name in _known() or name in OF_ANY_NODE or name in stereo_image_proc.IGNORED
            or name.startswith('qos_overrides.'))


def _known() -> Mapping[str, Any]:
    return {**MatcherConfig.settings(), **NodeConfig.settings()}
