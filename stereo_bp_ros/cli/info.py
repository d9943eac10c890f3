"""Versions, devices, settings and the memory that an image size needs.

  stereo_bp info
  stereo_bp info --size 1280x720 --set disparity_range=128
  stereo_bp info --settings
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any

from stereo_bp_ros import __version__, engines, geometry
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import IGNORED, MatcherConfig, NodeConfig, Setting
from stereo_bp_ros.errors import BackendUnavailable

HELP = 'versions, devices, and the memory plan for an image size'

PACKAGES = ('numpy', 'opencv-python-headless', 'opencv-python', 'numba', 'llvmlite', 'tbb',
            'cupy-cuda12x', 'cupy-cuda13x', 'rosbags', 'rclpy')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--size', metavar='WxH', help='image size in pixels, e.g. 1280x720')
    parser.add_argument('--disparities', type=int, metavar='D',
                        help='short for --set disparity_range=D')
    parser.add_argument('--settings', action='store_true', dest='reference',
                        help='print the reference table of all settings (docs/parameters.md)')
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.reference:
        print(settings_reference(), end='')
        return 0
    values = shared.chosen_settings(options)
    if options.disparities is not None:
        values['disparity_range'] = options.disparities
    config = MatcherConfig.from_mapping(values)
    report: dict[str, Any] = {'versions': _versions(), 'machine': _machine(),
                              'backend': _backend(config), 'settings': config.to_mapping()}
    if options.size:
        width, height = _parse_size(options.size)
        report['memory'] = _memory(config, width, height)
    if options.json:
        shared.print_json(report)
        return 0
    shared.print_table('Versions', ('package', 'version'), list(report['versions'].items()))
    shared.print_table('Machine', ('', 'value'),
                       [(k, str(v)) for k, v in {**report['machine'],
                                                 **report['backend']}.items()], is_text=True)
    if 'memory' in report:
        memory = report['memory']
        rows = [(a['name'], ' x '.join(map(str, a['shape'])), a['dtype'],
                 f'{a["bytes"] / 2**20:.2f}') for a in memory['arrays']]
        rows.append(('total', '', '', f'{memory["total_bytes"] / 2**20:.2f}'))
        rows.append(('AI 2009 bound, (5 + 10 D) W H values of 4 bytes', '', '',
                     f'{memory["paper_bound_bytes"] / 2**20:.2f}'))
        rows.append(('allowed', '', '', f'{memory["allowed_bytes"] / 2**20:.2f}'))
        shared.print_table(f'Memory for {options.size}, {config.disparity_range} disparities',
                           ('array', 'shape', 'type', 'MiB'), rows)
        print(_partitions_text(memory['partitions']))
        print(f'Tuning (stereo_bp tune): {memory["tuning"]}.')
    return 0


def settings_reference() -> str:
    """All declared settings as the Markdown text of ``docs/parameters.md``."""
    lines = [
        '# Settings', '',
        'Every setting is a ROS parameter of the node, a `--set KEY=VALUE` of the command line '
        'and a field of', '`MatcherConfig` or `NodeConfig`. This page is printed by '
        '`stereo_bp info --settings`.', '',
        'When: **live** settings take effect on the next frame; **rebuild** ones build a new '
        'engine while frames', 'wait; **start** ones are read when the node starts.', '']
    for title, settings in (('Matching', MatcherConfig.settings()),
                            ('Node', NodeConfig.settings())):
        lines += [f'## {title}', '', '| name | default | accepted | when | meaning |',
                  '| --- | --- | --- | --- | --- |']
        lines += [_reference_row(setting) for setting in settings.values()]
        lines.append('')
    return '\n'.join(lines[:-1]) + '\n'


def _reference_row(setting: Setting) -> str:
    when = 'start' if setting.read_only else 'live' if setting.live else 'rebuild'
    if setting.name in IGNORED:
        when = 'ignored'
    default = str(setting.default).lower() if setting.type is bool else str(setting.default)
    accepted = setting.limit().removeprefix('must be ')
    return f'| `{setting.name}` | `{default or "(none)"}` | {accepted} | {when} | ' \
           f'{setting.meaning} |'


def _versions() -> dict[str, str]:
    versions = {'stereo_bp_ros': __version__, 'python': platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, Any]:
    import os
    return {'system': platform.platform(), 'cores': len(os.sched_getaffinity(0)),
            'available memory MiB': round(engines.available_memory() / 2**20)}


def _backend(config: MatcherConfig) -> dict[str, str]:
    try:
        choice = engines.choose_backend(config)
    except BackendUnavailable as error:
        return {'backend': 'none', 'reason': str(error)}
    return {'backend': choice.backend, 'reason': choice.reason,
            **engines.device_info(config)}


def _memory(config: MatcherConfig, width: int, height: int) -> dict[str, Any]:
    cut = engines.partitioning(config, width, height)
    plan = engines.memory_plan(config, width, height, cut)
    return {
        'width': width, 'height': height,
        'partitions': {
            'columns': len(cut.columns.starts), 'rows': len(cut.rows.starts),
            'width': cut.width, 'height': cut.height, 'padding': cut.padding,
            'computed_share': cut.nodes / (width * height),
            'kept': [part.kept._asdict() for part in cut.partitions]},
        'tuning': engines.tuning_state(config, width, height),
        'arrays': [{'name': a.name, 'shape': list(a.shape), 'dtype': a.dtype, 'bytes': a.nbytes}
                   for a in plan.arrays],
        'total_bytes': plan.total,
        'allowed_bytes': engines.memory_allowed(config),
        'paper_bound_bytes': 4 * geometry.paper_memory_bound(width, height,
                                                             config.disparity_range)}


def _partitions_text(found: dict[str, Any]) -> str:
    count = found['columns'] * found['rows']
    if count == 1:
        return 'The image is matched as a whole.'
    return (f'The image is matched in {found["columns"]} x {found["rows"]} partitions of '
            f'{found["width"]} x {found["height"]} pixels, which overlap by {found["padding"]} '
            f'pixels or more on each side: {found["computed_share"]:.2f} times its pixels.')


def _parse_size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition('x')
    try:
        size = int(width), int(height)
    except ValueError:
        size = (0, 0)
    if min(size) < 1:
        raise ValueError(f'--size is {text!r}, but must be WIDTHxHEIGHT in pixels, e.g. 1280x720')
    return size
