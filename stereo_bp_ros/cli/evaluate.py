"""Match every pair of a data set or a bag; report accuracy and time.

  stereo_bp evaluate middlebury/ --preset five_sets
  stereo_bp evaluate kitti2012/ --preset road --against sgbm,bm
  stereo_bp evaluate kitti2012/ --preset road --against road_fast --against bare:filling=none
  stereo_bp evaluate recording/ --preset road --output report/
  stereo_bp evaluate --scenario street.yaml --json-lines
  stereo_bp evaluate --compare before/report.json after/report.json
  stereo_bp evaluate kitti2012/ --params-file node.yaml
  stereo_bp evaluate monday/ tuesday/ wednesday/ --preset road --workers 8
  stereo_bp evaluate recording/ --preset road --truth-topic /velodyne_points
  stereo_bp evaluate drive.mp4 --side-by-side left_right --calibration left.yaml

Folders may be laid out as Middlebury (2001 to 2021), ETH3D, KITTI 2012 or 2015, DrivingStereo,
a sequence of stamped pairs, left.png and right.png, or else by globs (docs/reference/files.md);
a bag is a rosbag2 folder, a file of one, or a ROS 1 bag; a video is one with --side-by-side, or
left.* and right.* in a folder. Where the data set says how many disparities it has, that many are
searched unless --set disparity_range says otherwise; a setting min_depth goes by each pair's
calibration in place of both. docs/reference/metrics.md defines every figure.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import pathlib

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli import (
    against,
    evaluate_compare,
    evaluate_report,
    evaluate_scale,
    evaluate_scenario,
    progress,
)
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import check_folder
from stereo_bp_ros.cli.source_options import (
    SOURCE,
    add_source_options,
    chosen_topics,
    open_sources,
)
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import baselines, report, row_report
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Results, totals_of
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.sources.pairs import inputs_of
from stereo_bp_ros.system import transport

HELP = 'a data set folder or a bag: accuracy and time as a table, JSON and HTML'
NEEDS = ()

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('paths', type=pathlib.Path, nargs='*', metavar='path',
                        help=f'{SOURCE}; several are judged apart and together')
    parser.add_argument('--scenario', type=pathlib.Path, metavar='FILE',
                        help='read inputs, settings and pass conditions from a YAML file '
                             '(docs/reference/scenarios.md); status 1 where a condition fails')
    parser.add_argument('--compare', type=pathlib.Path, nargs=2, metavar='REPORT',
                        help='match nothing: compare two files report.json over the same frames, '
                             'the second with the first')
    parser.add_argument('--repeat', type=shared.whole(1), default=3, metavar='N',
                        help='match each pair N times, report the median time (default 3)')
    parser.add_argument('--limit', type=shared.whole(1), default=0, metavar='N',
                        help='stop after N pairs of each path (default: all)')
    parser.add_argument('--skip-unreadable', action='store_true',
                        help='leave out pairs that cannot be read, and name them (default: the '
                             'first one ends the evaluation)')
    parser.add_argument('--range-from-truth', action='store_true',
                        help='search as far as the truth of each pair goes, where the data set '
                             'does not say how far')
    against.add_argument(parser)
    parser.add_argument('--confidence', action='store_true',
                        help='judge the confidence, too: sparsification and AUSE; matches each '
                             'pair with truth once more')
    parser.add_argument('--focal', type=shared.real(1e-3, 1e6), metavar='PIXELS',
                        help='focal length of pairs without calibration, to score by distance '
                             'and for min_depth')
    parser.add_argument('--baseline', type=shared.real(1e-6, 1e6), metavar='METRES',
                        help='with --focal')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write report.json and report.html, one page with plots, the worst '
                             'frames and some of all, and a map of the errors (the page needs '
                             'jinja2 and matplotlib)')
    evaluate_scale.add_arguments(parser)
    add_source_options(parser)
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)
    parser.add_argument('--json-lines', action='store_true',
                        help='with --scenario: print one line of JSON a condition, and one of '
                             'all')
    parser.epilog = f'{parser.epilog}\n\n{shared.score_keys()}'


def run(options: argparse.Namespace) -> int:
    if options.compare:
        return evaluate_compare.run(options)
    scenario = evaluate_scenario.choose(options) if options.scenario else None
    if not options.paths and scenario is None:
        raise ValueError('there is nothing to evaluate: name a folder, a bag or a --scenario')
    if options.json_lines and (scenario is None or options.json):
        raise ValueError('--json-lines is for --scenario, and in place of --json')
    transport.keep_freed_memory()
    fixed = scenario.settings if scenario else {}
    opened = functools.cache(lambda: open_sources(
        scenario.inputs if scenario else inputs_of(options.paths),
        chosen_topics(options), options.limit))
    # A setting that is none is said before a source that cannot be read.
    config = MatcherConfig.from_mapping(shared.chosen_settings(
        options, fixed, otherwise=AUTO, size=lambda: opened().first_size()))
    sources = opened()
    own = against.own_name(options, config)
    names, others = against.chosen(options, own, config)
    method = Method(options.repeat, options.confidence, _calibration(options),
                    shared.names_range(options) or 'disparity_range' in fixed,
                    scenario.windows if scenario else (), options.skip_unreadable,
                    options.range_from_truth)
    configs = {name: evaluate_scale.for_workers(options, one)
               for name, one in {own: config, **others}.items()}
    title = scenario.path.name if scenario else sources.title
    if options.output:
        check_folder(options.output, ('report.json', 'report.html'),
                     (*sources.paths, options.scenario, options.params_file))
        shared.can_draw('report.html', report.MODULES)
    results = Results()
    stopped: BaseException | None = None
    with (evaluate_scale.start(options, configs, names, method, sources) as (found, run_),
          progress.Bar('evaluate') as bar):
        task = bar.add_task(f'Evaluating {title}', total=sources.count)
        shared.say_preset(options)
        try:
            for result in found:
                results.append(result)
                bar.advance(task)
        except (StereoError, KeyboardInterrupt) as error:
            if not results:
                raise
            stopped = error         # once everything is reported that there is
        backend, devices, showing = run_.backend, run_.devices, run_.collected
        skipped = run_.skipped
    if skipped:
        _log.warning('%d of %d pairs cannot be read and are left out, e.g. %s: %s', len(skipped),
                     len(skipped) + len(results), skipped[0].name, skipped[0].error)
    if not results:
        raise ValueError(f'{sources} has no stereo pairs' + ' that can be read' * bool(skipped))
    totals = totals_of(results)
    rows = row_report.sequences_of(results)
    summary = evaluate_report.document(
        results, totals, source=str(scenario.path if scenario else sources), backend=backend,
        settings=configs[own].to_mapping(), method=method, limit=options.limit,
        workers=options.workers, devices=devices, rows=rows,
        issues=[IssueCode.SOURCE.issue(text) for text in sources.warnings],
        skipped=[dataclasses.asdict(one) for one in skipped],
        stopped=None if stopped is None else str(stopped) or 'interrupted',
        # On a CUDA device there are no threads.
        against={name: {'settings': configs[name].to_mapping() if name in configs
                        else baselines.SETTINGS[name],
                        'threads': int(devices[name][0].get('threads', 0))}
                 for name in totals.matchers if name != own})
    passed = evaluate_report.finish(options, title, summary, results, totals, showing=showing,
                                    scenario=scenario, json_lines=options.json_lines)
    if stopped:
        raise stopped
    return 0 if passed else 1




def _calibration(options: argparse.Namespace) -> Calibration | None:
    """Of pairs without their own."""
    if (options.focal is None) != (options.baseline is None):
        raise ValueError('--focal and --baseline need each other')
    if options.focal is None:
        return None
    return Calibration(options.focal, options.baseline, 0, 0, 0)
