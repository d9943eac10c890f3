"""Say how running nodes are: input, rate, latency, drops, device and warnings.

  stereo_bp status                     (a table that goes on, until Ctrl-C)
  stereo_bp status --namespace front --once
  stereo_bp status --json | jq '.[].rate_hz'

Status 1 with --once and --json: a node reports an error.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stereo_bp_ros.cli import options as shared

HELP = 'how running nodes are: input, rate, latency, drops, device, warnings'
NEEDS = ('rclpy',)

NOT_KNOWN = 'not known'

COLOURS = {'ok': '', 'warning': 'yellow', 'error': 'red', 'stale': 'red'}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--namespace', action='append', default=[], metavar='NAMESPACE',
                        help='of a node; may be given several times (default: every node)')
    parser.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                        help='wait so long for two reports of the nodes (default 10)')
    parser.add_argument('--once', action='store_true', help='print the table once')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.replay.statuses import Statuses
    with Statuses() as statuses:
        statuses.find(options.wait, options.namespace)
        figures = statuses.figures(options.namespace)
        if options.json:
            shared.print_json(figures)
        elif options.once or not sys.stdout.isatty():
            for node, found in figures.items():
                shared.print_table(node, ('', 'value'), lines(found), is_text=True)
        else:
            with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False) as live:
                while True:
                    live.update(Group(*(_table(node, found) for node, found in
                                        statuses.figures(options.namespace).items())),
                                refresh=True)
                    time.sleep(0.5)
    return int(any(found['level'] in ('error', 'stale') for found in figures.values()))


def lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a person wants to know of a node."""
    latency = found['latency_ms']
    drops = [f'{count} {reason}' + f' ({what})' * (what != 'pairs')
             for what, reasons in found['dropped'].items() for reason, count in reasons.items()]
    return [('state', f'{found["state"]}, {found["level"]}'),
            *((name, found[name]['message']) for name in ('input', 'pairing', 'device')),
            ('rate', _with(found['rate_hz'], 'Hz')),
            ('latency', f'p50 {_with(latency["p50"], "ms")}, p99 {_with(latency["p99"], "ms")}'),
            ('published', f'{found["published"]} of {found["pairs"]} pairs'),
            ('dropped since the start', ', '.join(drops) or 'none'),
            ('preset', ', '.join(filter(None, (
                found['preset'], _with_px(found['disparities']), found['size']))) or NOT_KNOWN),
            ('vertical offset', _with(found['vertical_offset_px'], 'px'))]


def _with(value: float | None, unit: str) -> str:
    return NOT_KNOWN if value is None else f'{value:.1f} {unit}'


def _with_px(disparities: str | None) -> str | None:
    return disparities and f'{disparities} px'


def _table(node: str, found: Mapping[str, Any]) -> Table:
    table = Table(title=Text(node), title_justify='left', show_header=False)
    for name, text in lines(found):
        level = found[name]['level'] if name in ('input', 'pairing', 'device') else 'ok'
        table.add_row(name, Text(text, COLOURS[level]))
    return table
