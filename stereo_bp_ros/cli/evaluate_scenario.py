"""``stereo_bp evaluate --scenario``: what the file chooses, and how its conditions are printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.evaluation.conditions import Verdict
from stereo_bp_ros.evaluation.results import PERFORMANCE
from stereo_bp_ros.evaluation.scenario import Scenario, read_scenario

#: Options that the file chooses, and their values where the command line does not name them.
CHOSEN: dict[str, Any] = {'paths': [], 'preset': None, 'params_file': None, 'against': [],
                          'repeat': 3, 'limit': 0}


def choose(options: argparse.Namespace) -> Scenario:
    """Read the scenario and let it choose the options; --set and --backend win over it.

    :raises ValueError: the file is refused, or the command line names what it chooses.
    """
    for name, default in CHOSEN.items():
        if getattr(options, name) != default:
            option = 'a path' if name == 'paths' else '--' + name.replace('_', '-')
            raise ValueError(f'{option} and --scenario exclude each other: the scenario says it')
    scenario = read_scenario(options.scenario)
    options.preset = scenario.preset or None
    # The presets of --against have this option's back end.
    options.backend = options.backend or scenario.settings.get('backend')
    options.confidence |= scenario.judges_confidence
    options.against = list(scenario.against)
    options.repeat, options.limit = scenario.repeat, scenario.limit
    return scenario


def report(scenario: Scenario, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """For the JSON document of the verb."""
    return {'scenario': str(scenario.path), 'inputs': [one.name for one in scenario.inputs],
            'passed': all(one.passed for one in verdicts),
            'conditions': [one.to_dict() for one in verdicts]}


def print_lines(summary: Mapping[str, Any]) -> None:
    """JSON lines on standard output: one a condition, and a last one of the scenario."""
    about = {key: summary[key] for key in ('scenario', 'date')}
    for one in summary['conditions']:
        shared.say(json.dumps({'type': 'condition', **about, **one}, allow_nan=False))
    failed = sum(not one['passed'] for one in summary['conditions'])
    kept = ('inputs', 'passed', 'frames', 'backend', 'devices', 'matcher', 'method', 'searched',
            'settings', 'versions', 'machine')
    shared.say(json.dumps({
        'type': 'scenario', **about, **{key: summary[key] for key in kept},
        'conditions': len(summary['conditions']), 'failed': failed,
        **{key: value for key, value in summary.items()
           if key.startswith(PERFORMANCE)}}, allow_nan=False))


def print_verdicts(scenario: Scenario, verdicts: Sequence[Verdict]) -> None:
    """A table on standard output, and a last line."""
    shared.print_table(f'Conditions of {scenario.path.name}', [
        'condition', 'value', 'limit', 'frames', 'result'], [
        [one.condition.text, _number(one.value), _number(one.condition.number), str(one.frames),
         'pass' if one.passed else 'FAIL'] for one in verdicts])
    for one in verdicts:
        if one.reason:
            shared.say(f'{one.condition.text}: {one.reason}')
    failed = sum(not one.passed for one in verdicts)
    shared.say(f'{failed} of {len(verdicts)} conditions fail' if failed else
               f'all {len(verdicts)} conditions hold')


def _number(value: float | None) -> str:
    """Of any size, without an exponent."""
    return '-' if value is None else f'{value:.0f}' if abs(value) >= 1000 else f'{value:.4g}'
