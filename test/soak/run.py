"""A whole soak: start, try faults until the time is over, judge, and write the reports."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.evaluation import report as html
from stereo_bp_ros.system import process
from test import machine
from test.soak.faults import Fault
from test.soak.ledger import Trend, settled, trend
from test.soak.rig import Rig
from test.soak.trials import FAULTS, Soak, deal

#: What is watched, and the growth over the whole run that counts as none. The heap of C and that
#: of Python grow by whole arenas, and Fast DDS by histories: 8 MiB are what a run of any length
#: may add by them. An hour's run finds 100 bytes a frame, a night's ten.
WATCHED = {'RSS MiB': 8.0, 'private MiB': 4.0, 'open files': 2.0, 'threads': 1.0}

#: Hours at the beginning of a process that are left out: each fault has come once by then, and
#: what it makes Python load and keep is there.
WARM_UP = 10 / 60

#: Minutes of a run that has to tell whether something grows, unless faults were chosen.
LONG = 30

#: Violations after which there is no use in going on.
MAX_VIOLATIONS = 20


def run(*, minutes: float, seed: int, output: pathlib.Path, backend: str,
        faults: Sequence[Fault], ends: int = 1) -> int:
    """Run a soak and write ``soak.json`` and ``soak.html``; returns the exit status.

    :param ends: of nodes in each trial of them.
    """
    output.mkdir(parents=True, exist_ok=True)
    skipped = {fault.name: reason for fault in faults if (reason := fault.needs())}
    for name, reason in skipped.items():
        print(f'skipped: {name}: {reason}', flush=True)
    tried = [fault for fault in faults if fault.name not in skipped]
    with contextlib.ExitStack() as stack:
        domain = stack.enter_context(machine.domain())
        rigs = {}
        for namespace, sim_time in (('', False), ('/rear', True)):
            rig = stack.enter_context(contextlib.closing(Rig(
                domain, output, namespace, sim_time=sim_time, backend=backend)))
            process.keep(rig)
            rig.ends = ends
            rig.start()
            rigs[rig.name] = rig
        soak = Soak(rigs, seed, tried)
        report: dict[str, Any] = {}
        try:
            end = time.monotonic() + 60 * minutes
            for fault in deal(seed, tried):
                if time.monotonic() > end or len(soak.violations) > MAX_VIOLATIONS:
                    break
                _tell(soak.attempt(fault))
        finally:
            report = judge(soak, seed=seed, minutes=minutes, backend=backend, skipped=skipped,
                           faults=faults)
            write_report(output, report)
    for text in report['violations']:
        print(f'violated (seed {seed}): {text}', flush=True)
    print(f'{len(soak.trials)} faults in {report["seconds"] / 60:.1f} minutes, '
          f'{len(report["violations"])} violations; {output / "soak.html"}', flush=True)
    return 1 if report['violations'] else 0


def _tell(trial: Any) -> None:
    text = f'{trial.at:7.1f} s  {trial.number:4}  {trial.fault}: '
    if trial.beside:
        text += f'(beside: {trial.beside}) '
    print(text + ('; '.join(trial.violations) or
                  f'survived, {trial.recovery} frames to recover, {trial.seconds:.1f} s'
                  + (f', lost {trial.lost}' if trial.lost else '')), flush=True)


def judge(soak: Soak, *, seed: int, minutes: float, backend: str, skipped: dict[str, str],
          faults: Sequence[Fault]) -> dict[str, Any]:
    """Everything about a soak, for JSON; what grows is a violation, too."""
    trends: dict[str, Trend | None] = {}
    for rig, lives in soak.lives.items():
        for name, allowed in WATCHED.items():
            trends[f'{rig} {name}'] = trend(
                [settled([(hours, values[name]) for hours, values in life], WARM_UP)
                 for life in lives], allowed)
    violations = [f'after {trial.at:.0f} s, trial {trial.number}, {trial.fault}: {text}'
                  for trial, text in soak.violations]
    violations += [f'{name} grows by {found.slope:.2f} an hour '
                   f'({found.interval[0]:.2f} to {found.interval[1]:.2f})'
                   for name, found in trends.items() if found is not None and found.grows]
    if soak.elapsed > 60 * LONG and len(faults) == len(FAULTS):
        violations += [f'no process lived long enough to tell whether {name} grows'
                       for name, found in trends.items() if found is None]
    return {
        'seed': seed, 'minutes': minutes, 'seconds': soak.elapsed, 'backend': backend,
        'frames': {name: {'sent': rig.ledger.sent, 'results': rig.ledger.delivered}
                   for name, rig in soak.rigs.items()},
        'statuses': {name: {str(status): count for status, count in rig.statuses.items()}
                     for name, rig in soak.rigs.items()},
        'faults': [{'name': fault.name, 'expects': fault.expects, 'rig': fault.rig,
                    'skipped': skipped.get(fault.name, '')} for fault in faults],
        'trials': [dataclasses.asdict(trial) for trial in soak.trials],
        'trends': {name: found and dataclasses.asdict(found) for name, found in trends.items()},
        'usage': {name: [[{'hours': hours, **values} for hours, values in life]
                         for life in lives] for name, lives in soak.lives.items()},
        'violations': violations}


LEAD = ('A real node process with its camera over DDS, under faults in random order. Each result '
        'shows a disparity that follows from its stamp, so that a stale or mixed one is seen.')


def write_report(folder: pathlib.Path, report: Mapping[str, Any]) -> None:
    """Write ``soak.json`` and ``soak.html`` into a folder."""
    (folder / 'soak.json').write_text(json.dumps(report, indent=1), encoding='utf-8')
    rows = [(text,) for text in report['violations']]
    violations = [html.Table('Violated', ('what, and when',), rows, is_text=True)] if rows else []
    html.write_html(folder / 'soak.html', 'Soak of the node', LEAD, [
        html.Section('Result', [_tiles(report), *violations]),
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
