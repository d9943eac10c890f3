"""The reports of a soak: soak.json for machines and soak.html for people."""

from __future__ import annotations

import json
import pathlib
import platform
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.evaluation import report as html

LEAD = ('A real node process with its camera over DDS, under faults in random order. Each result '
        'shows a disparity that follows from its stamp, so that a stale or mixed one is seen.')


def write(folder: pathlib.Path, report: Mapping[str, Any]) -> None:
    """Write ``soak.json`` and ``soak.html`` into a folder."""
    (folder / 'soak.json').write_text(json.dumps(report, indent=1), encoding='utf-8')
    html.write_html(folder / 'soak.html', 'Soak of the node', LEAD, [
        html.Section('Result', [_tiles(report), *_violations(report)]),
        html.Section('Faults', [_faults(report)]),
        html.Section('Memory, files and threads', _trends(report)),
        html.Section('Run', [html.facts('', {
            'command': f'python -m test.soak --minutes {report["minutes"]:g} '
                       f'--seed {report["seed"]} --backend {report["backend"]}',
            'machine': platform.platform(), 'frames': json.dumps(report['frames']),
            'exit statuses of nodes that were ended': json.dumps(report['statuses'])})])])


def _tiles(report: Mapping[str, Any]) -> html.Tiles:
    sent, results = (sum(frames[key] for frames in report['frames'].values())
                     for key in ('sent', 'results'))
    names = {trial['fault'] for trial in report['trials']}
    return html.Tiles([
        (f'{len(report["violations"])}', 'expectations violated'),
        (f'{len(report["trials"])}', f'faults injected, of {len(names)} kinds'),
        (f'{report["seconds"] / 60:.0f} min', f'with seed {report["seed"]}'),
        (f'{results}', f'results, of {sent} frames sent'),
        (f'{sum(sum(one["lost"].values()) for one in report["trials"])}',
         'messages lost on the way')])


def _violations(report: Mapping[str, Any]) -> list[html.Part]:
    rows = [(text,) for text in report['violations']]
    return [html.Table('Violated', ('what, and when',), rows, is_text=True)] if rows else []


def _faults(report: Mapping[str, Any]) -> html.Table:
    rows = []
    for fault in report['faults']:
        trials = [one for one in report['trials'] if one['fault'] == fault['name']]
        survived = [one for one in trials if not one['violations']]
        told = next((one['told'] for one in survived if one['told']), '')
        rows.append((
            fault['name'], fault['expects'],
            f'skipped: {fault["skipped"]}' if fault['skipped'] else
            f'{len(survived)} of {len(trials)}',
            *(str(max((one[key] for one in survived), default=''))
              for key in ('named', 'recovery', 'reports')), told))
    return html.Table('Reports until a fault was named, frames until the first result after it, '
                      'and reports until its words had gone, are the most of all', (
                          'fault', 'expected', 'survived', 'until named', 'frames',
                          'until gone', 'named as'),
                      rows, is_text=True)


def _trends(report: Mapping[str, Any]) -> list[html.Part]:
    def row(name: str, found: Mapping[str, Any] | None) -> tuple[str, ...]:
        if found is None:
            return name, 'too short to tell', '', '', '', ''
        low, high = found['interval']
        return (name, f'{found["slope"]:+.2f}', f'{low:+.2f} to {high:+.2f}',
                f'{found["change"]:+.2f}', f'{found["allowed"]:g}',
                'grows' if found['grows'] else 'flat')

    parts: list[html.Part] = [html.Table(
        'At rest, in the same state', ('quantity', 'slope per hour', '95 % interval',
                                       'over the run', 'allowed', 'verdict'),
        [row(name, found) for name, found in report['trends'].items()])]
    for rig, lives in report['usage'].items():
        values = [one for life in lives for one in life]
        if len(values) > 1:
            parts.append(html.Image(f'Memory of the {rig} node', plots.data_uri(plots.lines(
                [60 * one['hours'] for one in values],
                {key: [one[key] for one in values] for key in ('RSS MiB', 'private MiB')},
                'minutes', 'MiB'))))
    return parts
