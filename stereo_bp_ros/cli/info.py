"""Versions, devices and the memory that an image size needs; with --json all settings, too.

  stereo_bp info
  stereo_bp info --size 1280x720 --set disparity_range=128
  stereo_bp info --settings
  stereo_bp info --preset road --diff road_fast
  stereo_bp info --warm-up road --size 1280x720
"""

from __future__ import annotations

import argparse
import operator
import pathlib
import time
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import machine, versions
from stereo_bp_ros.cli.settings_page import settings_reference
from stereo_bp_ros.config.files import AUTO, NONE
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice, geometry
from stereo_bp_ros.errors import BackendUnavailable
from stereo_bp_ros.images.raw_images import check_limits
from stereo_bp_ros.papers.programs import memory_bound

HELP = 'versions, devices, and the memory plan for an image size'
NEEDS = ()

#: What is said of settings whose values are not the whole answer.
EFFECTIVE = 'preset', 'why preset', 'disparity_range'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--size', metavar='WxH', help='image size in pixels, e.g. 1280x720')
    parser.add_argument('--arrays', action='store_true',
                        help='with --size: print every array, too')
    parser.add_argument('--disparities', type=shared.whole(2, 512), metavar='D',
                        help='short for --set disparity_range=D')
    parser.add_argument('--calibration', type=pathlib.Path, metavar='FILE',
                        help='of the cameras, as for match: how far --set min_depth=METRES '
                             'searches')
    parser.add_argument('--settings', action='store_true', dest='reference',
                        help='print the reference table of all settings '
                             '(docs/reference/parameters.md)')
    parser.add_argument('--diff', nargs='?', const=NONE, metavar='PRESET',
                        help='print only the settings that --preset and --set change in those of '
                             'another preset (default: none, their own defaults)')
    parser.add_argument('--warm-up', action='append', metavar='PRESET',
                        help='compile all that a preset runs, and keep it for later processes; '
                             'may be given several times, on CUDA with --size')
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.reference:
        shared.say(*settings_reference().splitlines())
        return 0
    width, height = (shared.parse_size(options.size, 'WIDTHxHEIGHT', (1, 1)) if options.size
                     else (0, 0))
    if options.warm_up:
        return _warm_up(options, width, height)
    values = shared.chosen_settings(options, otherwise=AUTO, size=lambda: (width, height))
    if options.disparities is not None:
        values['disparity_range'] = options.disparities
    config = MatcherConfig.from_mapping(values)
    if options.diff is not None:
        return _print_differences(options, config)
    calibration = Calibration.from_file(options.calibration) if options.calibration else None
    preset = options.preset or NONE
    report: dict[str, Any] = {'versions': versions(), 'machine': machine(),
                              'backend': _backend(config),
                              'preset': f'{AUTO} ({preset})' if options.why_preset else preset,
                              'settings': config.to_mapping()}
    if options.why_preset:
        report['why preset'] = options.why_preset
    if config.min_depth:
        config = geometry.effective(config, calibration)
        report['disparity_range'] = (
            f'{report["settings"]["disparity_range"]} ' + (
                'until there is a calibration' if calibration is None else
                f'({config.disparity_range} for min_depth {report["settings"]["min_depth"]:g} m)'))
    if options.size:
        report['memory'] = _memory(config, width, height)
    if options.json:
        shared.print_json(report)
        return 0
    if 'memory' in report:
        _print_memory(options, config, report['memory'])
    shared.print_table('Versions', ('package', 'version'), list(report['versions'].items()))
    shared.print_table('Machine', ('', 'value'),
                       [(k, str(v)) for k, v in {
                           **report['machine'], **report['backend'], **{
                               name: report[name] for name in EFFECTIVE if name in report}
                           }.items()], is_text=True)
    return 0


def _print_memory(options: argparse.Namespace, config: MatcherConfig, memory: dict[str, Any]
                  ) -> None:
    shared.print_table(
        f'Memory for {options.size}, {config.disparity_range} disparities', ('', 'MiB'),
        [(name, f'{memory[key] / 2**20:.2f}') for name, key in (
            ('total', 'total_bytes'), ('allowed', 'allowed_bytes'),
            ('AI 2009 bound, (5 + 10 D) W H values of 4 bytes', 'paper_bound_bytes'))])
    if options.arrays:
        shared.print_table('Arrays', ('array', 'shape', 'type', 'MiB'), [
            (a['name'], ' x '.join(map(str, a['shape'])), a['dtype'],
             f'{a["bytes"] / 2**20:.2f}') for a in memory['arrays']])
    shared.say(*_partitions_text(memory['partitions']).split('\n'))


def _print_differences(options: argparse.Namespace, config: MatcherConfig) -> int:
    """Print the settings in which a configuration and a preset differ."""
    other = MatcherConfig.preset(options.diff)
    own = options.preset or NONE
    changed = {name: [str(operator.attrgetter(name)(one)) for one in (config, other)]
               for name in config.differences(other)}
    if options.json:
        shared.print_json({'preset': own, 'other': options.diff, 'settings': {
            name: dict(zip(('preset', 'other'), values, strict=True))
            for name, values in changed.items()}})
    else:
        shared.print_table('Settings that differ', ('setting', own, options.diff),
                           [(name, *values) for name, values in changed.items()], is_text=True)
    return 0


def _warm_up(options: argparse.Namespace, width: int, height: int) -> int:
    rows = []
    for name in options.warm_up:
        config = MatcherConfig.from_mapping(shared.chosen_settings(
            argparse.Namespace(**{**vars(options), 'preset': name})))
        resolved = choice.resolve(config)
        backend = resolved.backend
        if backend.name == 'cuda' and not options.size:
            raise ValueError('--warm-up needs --size: on CUDA kernels depend on the image size')
        before = backend.origins()
        start = time.perf_counter()
        backend.warm_up(resolved, width, height)
        seconds = time.perf_counter() - start
        counted = {origin: count - before[origin]
                   for origin, count in backend.origins().items()}
        if counted['kept'] < counted['compiled']:
            raise OSError(f'{name}: {counted["compiled"]} kernels were compiled, but '
                          f'{counted["kept"]} kept: no later process finds the others')
        rows.append({'preset': name, 'backend': backend.name, 'seconds': seconds, **counted})
    if options.json:
        shared.print_json({'warm_up': rows})
        return 0
    shared.print_table('Kernels', ('preset', 'back end', 'seconds', 'compiled', 'from disk'),
                       [(row['preset'], row['backend'], f'{row["seconds"]:.1f}',
                         str(row['compiled']), str(row['disk'])) for row in rows])
    return 0


def _backend(config: MatcherConfig) -> dict[str, str]:
    try:
        backend = choice.choose(config)
    except BackendUnavailable as error:
        return {'backend': 'none', 'reason': str(error)}
    return {'backend': backend.name, 'reason': backend.reason, **backend.describe(config)}


def _memory(config: MatcherConfig, width: int, height: int) -> dict[str, Any]:
    check_limits(width, height, config.max_image_width, config.max_image_height)
    resolved = choice.resolve(config)
    plan = resolved.plan(width, height)
    cut = plan.parts
    return {
        'width': width, 'height': height,
        'partitions': {
            'columns': len(cut.columns.starts), 'rows': len(cut.rows.starts),
            'width': cut.width, 'height': cut.height, 'padding': cut.padding,
            'computed_share': cut.nodes / (width * height),
            'kept': [part.kept._asdict() for part in cut.partitions]},
        'arrays': [{'name': a.name, 'shape': list(a.shape), 'dtype': a.dtype, 'bytes': a.nbytes}
                   for a in plan.memory.arrays],
        'total_bytes': plan.memory.total,
        'allowed_bytes': resolved.backend.allowed(config),
        'paper_bound_bytes': 4 * memory_bound(width, height, config.disparity_range)}


def _partitions_text(found: dict[str, Any]) -> str:
    count = found['columns'] * found['rows']
    if count == 1:
        return 'The image is matched as a whole.'
    return (f'The image is matched in {found["columns"]} x {found["rows"]} partitions of '
            f'{found["width"]} x {found["height"]} pixels, which overlap by {found["padding"]} '
            f'pixels or more on each side: {found["computed_share"]:.2f} times its pixels.')
