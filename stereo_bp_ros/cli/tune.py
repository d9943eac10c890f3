"""Search what makes belief propagation fastest on the CUDA device that is here.

What is found is kept under the user's cache directory, for this device, image size, number of
disparities and kind of messages; engines read it when they are built. It changes times and no
result. A search that was interrupted goes on where it was; docs/howto/tune.md has measured gains.

  stereo_bp tune middlebury/
  stereo_bp tune --size 640x480x64 --size 1280x720x128
  stereo_bp tune --size 640x480x64 --preset road --afresh
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

from stereo_bp_ros import engines
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.config.files import AUTO, NONE
from stereo_bp_ros.evaluation import datasets

HELP = 'search what is fastest on this CUDA device, for engines to use later'
NEEDS = ()

Size = tuple[str, int, int, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', nargs='?', type=pathlib.Path,
                        help='data set folder, whose sizes are tuned for')
    shared.add_glob_options(parser)
    parser.add_argument('--size', action='append', default=[], metavar='WxHxD',
                        help='image size and disparities; may be given several times (default: '
                             'the five sets of the GPU + CPU paper)')
    parser.add_argument('--strategy', choices=('tiles', 'occupancy'), default='tiles',
                        help='what is searched: tiles and passes of the engine, or what the LCPC '
                             '2010 paper walks over, the split of plain_steps.storage hybrid')
    parser.add_argument('--afresh', action='store_true',
                        help='begin anew, whatever was found earlier')
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    values = shared.chosen_settings(
        options, otherwise=AUTO if options.strategy == 'tiles' else NONE)
    sizes = _sizes(options, MatcherConfig.from_mapping(values))
    first = MatcherConfig.from_mapping({**values, 'disparity_range': sizes[0][3]})
    backend = engines.choose(first)
    shared.say_preset(options)
    if backend.tools is None:
        if options.json:
            shared.print_json({'device': backend.describe(first), 'results': []})
        shared.say('The CPU back end has nothing to tune: its kernels fit themselves to the '
                   'caches.', file=sys.stderr if options.json else sys.stdout)
        return 0
    if options.strategy == 'occupancy':
        values.setdefault('program', 'plain_steps')
        values.setdefault('plain_steps.storage', 'hybrid')
    report = []
    with progress.Bar('tune', 'tilings') as bar:
        task = bar.add_task('Tuning', total=None)
        for name, width, height, disparities in sizes:
            config = MatcherConfig.from_mapping({**values, 'disparity_range': disparities})

            def show(done: int, total: int, what: str, name: str = name) -> None:
                bar.update(task, completed=done, total=total, description=f'{name}: {what}')

            backend.resolve(config)
            found = backend.tools.tune(config, width, height, show, options.afresh)
            report.append({'set': name, 'width': width, 'height': height,
                           'disparities': disparities, **found})
    device = backend.describe(first)
    if options.json:
        shared.print_json({'device': device, 'results': report})
        return 0
    shared.print_table(
        f'Frames on {device["device"]}, from the device: ms',
        ('set', 'size', 'untuned', 'tuned', 'ratio', 'changed', 'most D on chip (AI 2009)'),
        [[one['set'], '{width}x{height}x{disparities}'.format(**one), f'{one["untuned"]:.4f}',
          f'{one["tuned"]:.4f}', f'{one["ratio"]:.3f}', _text(one['best']),
          ' / '.join(map(str, one['most_disparities']))] for one in report])
    return 0


def _text(best: dict[str, Any]) -> str:
    if 'plain_steps.registers' in best:
        found = {name.removeprefix('plain_steps.'): value for name, value in best.items()}
        return '{registers}-{shared} values, {block_width}x{block_height} threads, ' \
               '{blocks} blocks'.format(**found)
    return 'levels ' + ', '.join(sorted(best)) if best else 'nothing'


def _sizes(options: argparse.Namespace, config: MatcherConfig) -> list[Size]:
    """Name, width, height and disparities of everything to tune for."""
    if options.path and options.size:
        raise ValueError('give a folder or --size, not both')
    if options.path:
        named = shared.names_range(options)
        found: dict[tuple[Any, ...], Size] = {}
        for pair in datasets.open_dataset(options.path, globs=shared.chosen_globs(options)):
            height, width = pair.left.shape[:2]
            disparities = config.disparity_range if named else (pair.disparities
                                                                or config.disparity_range)
            found.setdefault((width, height, disparities),
                             (pair.name, width, height, disparities))
        return list(found.values())
    return [(text, *shared.parse_search_size(text)) for text in options.size or shared.FIVE_SETS]
