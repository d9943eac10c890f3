"""``stereo_bp evaluate --compare``: two reports over the same frames."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.evaluate_origin import device_words, folded
from stereo_bp_ros.cli.evaluate_scenario import CHOSEN
from stereo_bp_ros.errors import printable
from stereo_bp_ros.evaluation.comparison import (
    DRAWS,
    SHARE,
    SIGNIFICANT,
    Comparison,
    Difference,
    compare,
    devices_of,
    read_report,
)

#: What JSON tells of either report.
ABOUT = ('source', 'date', 'matcher', 'backend', 'devices', 'repeat', 'workers', 'searched')

#: Options that match something, and their values where the command line does not name them.
REFUSED = {**CHOSEN, 'scenario': None, 'output': None, 'settings': [], 'backend': None,
           'confidence': False, 'json_lines': False,
           'workers': 0, 'view': False,
           'web': None, 'save': None, 'skip_unreadable': False}


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
    a, b = options.compare
    reports = {'A': read_report(a), 'B': read_report(b)}
    comparison = compare(*reports.values())
    if options.json:
        about = {name.lower(): {key: report.get(key) for key in ABOUT}
                 for name, report in reports.items()}
        shared.print_json({'a': str(a), 'b': str(b), 'about': about, **comparison.to_dict()})
    else:
        _print(f'A = {a}, B = {b}, {comparison.frames} frames', comparison)
        for name, report in reports.items():
            shared.say(*folded([_origin(name, report)]))
    return 0


def _origin(name: str, report: Mapping[str, Any]) -> str:
    """A report in a line; an older one does not say what has computed it."""
    words = device_words(devices_of(report)) or report.get('backend')
    return printable(f'{name}: {report.get("matcher")} on {words}, repeat {report.get("repeat")}, '
                     f'{report.get("date")}, {report.get("source")}')


def _print(title: str, comparison: Comparison) -> None:
    columns = ['figure', 'A', 'B', 'B - A', f'{100 * SHARE:g} % interval', 'p', 'change', 'n']
    rows = [_row(one) for one in comparison.differences]
    # How many frames have a figure is left out first where the terminal has no room.
    shared.print_table(title, columns, rows, ranks=[0] * 7 + [1])
    shared.say(*folded([
        f'Interval of the mean difference of frames: bootstrap, BCa, {DRAWS} resamples. p: random '
        f'signs of the differences, two-sided: all signs, or {DRAWS} of many. '
        'n: frames that have the figure in both. filled: every hole has got a disparity of '
        'the background; valid, density and EPE: of the map as published. Time: median of the '
        'runs.']))
    least = 2 / 2 ** comparison.frames
    if least > SIGNIFICANT:
        shared.say(f'{comparison.frames} frames are too few for a change: p is at least '
                   f'{least:g}.')
    if comparison.worst:
        kind = comparison.worst_of
        shared.print_table(f'Frames whose {kind.words} got worse most', [
            'frame', 'A', 'B', 'B - A'], [
            [one.name, *(f'{value:.2f} {kind.unit}' for value in (one.a, one.b)),
             f'{one.b - one.a:+.2f} {kind.unit}'] for one in comparison.worst])
    for key, both in comparison.changed.items():
        shared.say('{}: {} in A, {} in B'.format(printable(key), *map(printable, both)))


def _row(one: Difference) -> list[str]:
    if one.a is None or one.b is None or one.difference is None or one.p is None:
        return [one.kind.words, '-', '-', '-', '-', '-', '', '0']
    return [one.kind.words, f'{one.a:.2f}', f'{one.b:.2f}',
            f'{_signed(one.difference)} {one.kind.unit}',
            ', '.join(map(_signed, one.interval or ())) or '-', f'{one.p:.2g}', one.change,
            str(one.frames)]


def _signed(value: float) -> str:
    """Three digits, without an exponent where there are more."""
    return f'{value:+.3g}' if abs(value) < 999 else f'{value:+.0f}'
