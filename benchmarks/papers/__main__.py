"""The command line of the papers' tables."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import common, papers
from benchmarks.papers import catalogue, report
from benchmarks.papers.bench import Bench
from benchmarks.papers.images import Images
from benchmarks.papers.table import PAPERS, Table, merge
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.papers.plain_steps import tune

HYBRID = {'backend': 'cuda', 'program': 'plain_steps', 'plain_steps.storage': 'hybrid'}


def main(arguments: list[str] | None = None) -> int:
    """Read the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.walk:
            for size in options.walk:
                _walk(size)
            return 0
        chosen = catalogue.select(options.paper, options.table)
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
        measured, tables = (_read(options.read, chosen) if options.read
                            else _measure(options, chosen))
        text = report.markdown(tables)
        if options.output:
            (options.output / 'papers.json').write_text(json.dumps(measured, indent=1) + '\n',
                                                        encoding='utf-8')
            (options.output / 'papers.md').write_text(text, encoding='utf-8')
        print(text)
        return 0
    except (StereoError, ValueError, OSError) as error:
        print(f'benchmarks.papers: {error}', file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = common.parser(papers.__doc__)
    parser.add_argument('path', nargs='?', type=pathlib.Path, metavar='DATA',
                        default=os.environ.get('STEREO_BP_DATA') or None,
                        help='folder with the images (default: the variable STEREO_BP_DATA)')
    parser.add_argument('--paper', action='append', default=[], choices=tuple(PAPERS),
                        help='only this paper; may be given several times')
    parser.add_argument('--table', action='append', default=[], metavar='N',
                        help="only this table or figure: 2, 'figure 3', times; may be given "
                             'several times')
    common.add_backend(parser)
    common.add_count(parser, '--frames', 20, 'frames of every variant')
    parser.add_argument('--seconds', type=float, default=20.0, metavar='S',
                        help='begin no further round of frames of variants that are compared '
                             'after S seconds (default 20)')
    parser.add_argument('--read', action='append', default=[], type=pathlib.Path, metavar='FILE',
                        help='measure nothing, show the papers.json of an earlier run; several '
                             'are shown side by side')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write papers.md and papers.json there')
    parser.add_argument('--walk', action='append', default=[], type=common.size,
                        metavar='WxHxD', help='measure no table, but the walk over occupancies of '
                        'LCPC 2010 (section 7) for images of this size, and print the settings '
                        'of the fastest split; may be given several times')
    return parser


def _measure(options: argparse.Namespace, chosen: Sequence[catalogue.Experiment]
             ) -> tuple[dict[str, Any], list[Table]]:
    bench = Bench(Images(options.path), frames=options.frames, seconds=options.seconds,
                  backend=options.backend, progress=lambda text: print(text, file=sys.stderr))
    tables = [experiment.run(bench) for experiment in chosen]
    return {'machine': platform.platform(), 'devices': bench.devices, 'frames': options.frames,
            'seconds': options.seconds, 'tables': list(map(dataclasses.asdict, tables)),
            'runs': bench.runs}, tables


def _read(paths: Sequence[pathlib.Path], chosen: Sequence[catalogue.Experiment]
          ) -> tuple[dict[str, Any], list[Table]]:
    """What earlier runs measured of the chosen tables, side by side."""
    reports = []
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding='utf-8'))
            reports.append([Table.from_dict(one) for one in content['tables']])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f'{path} is no report of the papers: {error}') from error
    tables = []
    for experiment in chosen:
        paper, number = experiment.published.paper, experiment.published.number
        same = [one for earlier in reports for one in earlier
                if (one.paper, one.number) == (paper, number)]
        if same:
            tables.append(merge(same))
    if not tables:
        raise ValueError('none of the files has one of the chosen tables')
    return {'read': [str(path) for path in paths],
            'tables': list(map(dataclasses.asdict, tables))}, tables


def _walk(size: common.Size) -> None:
    """Print the settings of the split that is fastest on the device."""
    config = MatcherConfig.from_mapping({**load_preset('cones_2010'), **HYBRID,
                                         'disparity_range': size.disparities})
    found = tune.tune(config, size.width, size.height,
                      lambda done, count: print(f'{done} of {count}', file=sys.stderr))
    print(f'{size}: {found.before:.4f} ms a frame with all values in local memory, '
          f'{found.after:.4f} ms with')
    print('--preset cones_2010', *(f'--set {name}={value}' for name, value in {
        **HYBRID, 'disparity_range': size.disparities, **found.best}.items()))


if __name__ == '__main__':
    sys.exit(main())
