"""Measure the tables and figures of the five papers on the devices of this machine.

  stereo_bp benchmark papers middlebury/ --output papers/
  stereo_bp benchmark papers middlebury/ --paper gpu_cpu --table 1 --table 6
  stereo_bp benchmark papers --paper ai_2009 --backend cpu
  stereo_bp benchmark papers --read gpu/papers.json --read cpu/papers.json --output both/

Every table is printed as the paper has it, with rows of this machine under the paper's. DATA is a
folder with the papers' images (tsukuba, venus, barn1, cones_quarter, cones_half, cones_full,
red_barrel), each a folder with left.png and right.png, or a folder whose subfolder middlebury has
them. What is missing, an image or a setting or a device, is named under its table and never
replaced; only the road of the AI 2009 paper is drawn. Times are those of whole frames, medians
of frames of all variants in turn, images in memory before and disparity in memory after.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
from collections.abc import Sequence
from typing import Any

from stereo_bp_ros import atomic_files
from stereo_bp_ros.bounded import MAX_REPORT_BYTES, read_bytes
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.outputs import check_folder
from stereo_bp_ros.papers.tables import catalogue, report
from stereo_bp_ros.papers.tables.bench import Bench
from stereo_bp_ros.papers.tables.images import Images
from stereo_bp_ros.papers.tables.table import PAPERS, Table, merge

HELP = 'the tables and figures of the five papers, measured beside what they print'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', nargs='?', type=pathlib.Path, metavar='DATA',
                        default=os.environ.get('STEREO_BP_DATA') or None,
                        help='folder with the images (default: the variable STEREO_BP_DATA)')
    parser.add_argument('--paper', action='append', default=[], choices=tuple(PAPERS),
                        help='only this paper; may be given several times')
    parser.add_argument('--table', action='append', default=[], metavar='N',
                        help="only this table or figure: 2, 'figure 3', times; may be given "
                             'several times')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default='auto',
                        help='measure on this only (default: on both where there are both)')
    parser.add_argument('--frames', type=shared.whole(1), default=20, metavar='N',
                        help='frames of every variant (default 20)')
    parser.add_argument('--seconds', type=shared.real(0.001, 86400), default=20.0, metavar='S',
                        help='begin no further round of frames of variants that are compared '
                             'after S seconds (default 20)')
    parser.add_argument('--read', action='append', default=[], type=pathlib.Path, metavar='FILE',
                        help='measure nothing, show what --json or --output wrote earlier; '
                             'several files are shown side by side')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write papers.md, papers.json and a plot (SVG) of every figure and '
                             'of most tables; plots need matplotlib')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.output:
        check_folder(options.output, ('papers.json', 'papers.md'), options.read)
        options.output.mkdir(parents=True, exist_ok=True)
    chosen = catalogue.select(options.paper, options.table)
    draws = bool(options.output) and any(one.axes for one in chosen) and shared.can_draw(
        'every figure')
    measured, tables = (_read(options.read, chosen) if options.read
                       else _measure(options, chosen))
    if options.output:
        _write(options.output, measured, tables, draws)
    if options.json:
        shared.print_json(measured)
    else:
        for table in tables:
            rows, notes = report.texts_of(table)
            shared.print_table(report.title_of(table), table.columns, [row for _, row in rows],
                               is_text=True)
            shared.say(*notes, '')
    return 0


def _measure(options: argparse.Namespace, chosen: Sequence[catalogue.Experiment]
             ) -> tuple[dict[str, Any], list[Table]]:
    with progress.Bar('benchmark papers', 'tables') as bar:
        task = bar.add_task('Measuring', total=len(chosen))
        bench = Bench(Images(options.path), frames=options.frames,
                      seconds=options.seconds, backend=options.backend,
                      progress=lambda text: bar.update(task, description=text))
        tables = []
        for experiment in chosen:
            tables.append(experiment.run(bench))
            bar.advance(task)
    return {'machine': platform.platform(), 'devices': bench.devices, 'frames': options.frames,
            'seconds': options.seconds, 'tables': list(map(dataclasses.asdict, tables)),
            'runs': bench.runs}, tables


def _read(paths: Sequence[pathlib.Path], chosen: Sequence[catalogue.Experiment]
          ) -> tuple[dict[str, Any], list[Table]]:
    """What earlier runs measured of the chosen tables, side by side."""
    reports = []
    for path in paths:
        try:
            content = json.loads(read_bytes(path, MAX_REPORT_BYTES))
            reports.append([Table.from_dict(one) for one in content['tables']])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f'{path} is no report of the papers: {error}') from error
    tables = []
    for experiment in chosen:
        paper, number = experiment.published.paper, experiment.published.number
        same = [one for report in reports for one in report
                if (one.paper, one.number) == (paper, number)]
        if same:
            tables.append(merge(same))
    if not tables:
        raise ValueError('none of the files has one of the chosen tables')
    return {'read': [str(path) for path in paths],
            'tables': list(map(dataclasses.asdict, tables))}, tables


def _write(folder: pathlib.Path, measured: dict[str, Any], tables: Sequence[Table],
           draws: bool) -> None:
    shared.write_json(folder / 'papers.json', measured)
    drawn = []
    axes = {table.file_name: catalogue.EXPERIMENTS[table.paper, table.number].axes
            for table in tables}
    if draws:
        drawn = [f'{table.file_name}.svg' for table in tables
                 if (found := axes[table.file_name])
                 and report.draw(table, found, folder / f'{table.file_name}.svg')]
    atomic_files.write_text(folder / 'papers.md', report.markdown(tables, drawn))
