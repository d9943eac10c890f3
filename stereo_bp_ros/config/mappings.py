"""Settings of the matcher and of the node together, as one flat mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.settings import Setting, Value, unknown_setting
from stereo_bp_ros.errors import ConfigError


def all_settings(program: str = '') -> dict[str, Setting]:
    """Every setting of both classes by name.

    :param program: without those of other programs; '' = those of all programs.
    """
    matcher = MatcherConfig.settings_of(program) if program else MatcherConfig.settings()
    return {**matcher, **NodeConfig.settings()}


def split(values: Mapping[str, Any]) -> tuple[MatcherConfig, NodeConfig]:
    """Both configurations from one flat mapping of names to values.

    :raises ConfigError: an unknown name, a rejected value or a rejected combination.
    """
    matcher = MatcherConfig.settings()
    return (MatcherConfig.from_mapping({k: v for k, v in values.items() if k in matcher}),
            NodeConfig.from_mapping({k: v for k, v in values.items() if k not in matcher}))


def stamp_tolerance_s(values: Mapping[str, Any]) -> float:
    """How far the stamps of a pair may be apart, seconds, by a node's parameters; 0 = equal.

    :raises ConfigError: a rejected value, or a rejected combination.
    """
    names = ('approximate_sync', 'approximate_sync_tolerance_seconds')
    return NodeConfig.from_mapping({name: values[name] for name in names if name in values}
                                   ).stamp_tolerance_s


def parse_assignments(assignments: Iterable[str]) -> dict[str, Value]:
    """``['key=value', ...]`` of a command line as settings.

    :raises ConfigError: no '=', an unknown name or a rejected value.
    """
    known = all_settings()
    values: dict[str, Value] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition('=')
        if not equals:
            raise ConfigError(assignment, text, 'settings are written key=value')
        if name not in known:
            raise unknown_setting(name, text, known)
        values[name] = known[name].parse(text)
    return values
