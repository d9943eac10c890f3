"""``stereo_bp evaluate --compare``: two reports over the same frames."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.evaluate_report import folded
from stereo_bp_ros.cli.evaluate_scenario import CHOSEN
from stereo_bp_ros.errors import printable
from stereo_bp_ros.evaluation.comparison import DRAWS, SHARE, SIGNIFICANT, compare, read_report

#: Options that match something, and their values where the command line does not name them.
REFUSED = {**CHOSEN, 'scenario': None, 'output': None, 'settings': [], 'backend': None,
           'confidence': False, 'json_lines': False, 'workers': 0, 'skip_unreadable': False}


def run(options: argparse.Namespace) -> int:
    """Compare the two reports of ``options.compare``; status 0.

    :raises ValueError: one is no report, they have other frames, or an option does not fit.
    """
    for name, default in REFUSED.items():
        if getattr(options, name) != default:
            words = {'paths': 'a path', 'settings': '--set'}.get(
                name, '--' + name.replace('_', '-'))
            raise ValueError(f'--compare matches nothing: {words} does not go with it')
    shared.require('scipy')
    found = compare(*map(read_report, options.compare))
    a, b = map(str, options.compare)
    if options.json:
        shared.print_json({'a': a, 'b': b, **found})
        return 0
    frames, lowest_p = found['frames'], 2 / 2 ** found['frames']
    columns = ['figure', 'A', 'B', 'B - A', f'{100 * SHARE:g} % interval', 'p', 'change', 'n']
    # How many frames have a figure is left out first where the terminal has no room.
    shared.print_table(f'A = {a}, B = {b}, {frames} frames', columns,
                       list(map(_row, found['figures'])), ranks=[0] * 7 + [1])
    shared.say(*folded([
        f'Interval of the mean difference of frames: bootstrap, BCa, {DRAWS} resamples. p: random '
        f'signs of the differences, two-sided: all signs, or {DRAWS} of many. '
        'n: frames that have the figure in both. filled: holes filled from the '
        'background; est, density and EPE: of the map as published. Time: median of the '
        'runs.']))
    if lowest_p > SIGNIFICANT:
        shared.say(f'{frames} frames are too few for a change: p is at least {lowest_p:g}.')
    for key, both in found['changed'].items():
        shared.say('{}: {} in A, {} in B'.format(printable(key), *map(printable, both)))
    return 0


def _row(one: Mapping[str, Any]) -> list[str]:
    if not one['frames']:
        return [one['figure'], '-', '-', '-', '-', '-', '', '0']
    return [one['figure'], f'{one["a"]:.2f}', f'{one["b"]:.2f}',
            f'{_signed(one["difference"])} {one["unit"]}',
            ', '.join(map(_signed, one['interval'] or ())) or '-', f'{one["p"]:.2g}',
            one['change'], str(one['frames'])]


def _signed(value: float) -> str:
    """Three digits, without an exponent where there are more."""
    return f'{value:+.3g}' if abs(value) < 999 else f'{value:+.0f}'
