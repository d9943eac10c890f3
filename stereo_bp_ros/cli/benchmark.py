"""Time the matcher: cold start, every stage, whole frames.

Variants take turns of ten frames, so that a drift of the machine meets all of them; compare
within one run and quote ratios.

  stereo_bp benchmark bp middlebury/
  stereo_bp benchmark bp --size 640x480x64 --variant int16 --variant float32:message_type=float32
  stereo_bp benchmark bp --backend cpu --variant two:num_threads=2 --variant one:num_threads=1
  stereo_bp benchmark bp --backend cuda --size 1280x720x128 --pinned --kernels
  stereo_bp benchmark sad --size 640x480x64 --size 1280x720x128
  stereo_bp benchmark tiled_bp middlebury/ --variant rows --variant bp:stereo_algorithm=bp

Without a folder and without --size, synthetic streets of the sizes of the five sets of the GPU +
CPU paper are matched. Images are in memory before, the disparity is in the caller's array after.

The total is wall clock; all stages but upload and download are on the device's own clock where
there is one, and "device" is their sum. Compiled code comes from the disk where an earlier
process has left it there; an empty XDG_CACHE_HOME shows a start from nothing.
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import platform
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import outputs, progress
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.engines import choice
from stereo_bp_ros.evaluation import timing
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES
from stereo_bp_ros.images.raw_images import check_limits
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.scenes import sequence as scenes

HELP = 'times of cold start, stages and frames, variants in turn'
NEEDS = ()

_log = logging.getLogger(__name__)

PRESETS = {'bp': 'five_sets', 'tiled_bp': 'tsukuba_2019', 'sad': 'sad_venus'}

#: Sizes of tsukuba, venus, barn1, cones_quarter and cones_half: W x H x D.
FIVE_SETS = ('384x288x16', '434x383x21', '432x381x32', '450x375x64', '900x750x128')

def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest='algorithm', required=True, metavar='WHAT')
    for name in PRESETS:
        child = what.add_parser(name, help=f'times of {name}', description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
        _add_arguments(child)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', nargs='?', type=pathlib.Path, help='data set folder')
    parser.add_argument('--size', action='append', default=[], metavar='WxHxD',
                        help='synthetic street of this size; may be given several times')
    parser.add_argument('--variant', action='append', default=[], metavar='NAME[:K=V,K=V]',
                        help='settings to compare; the first is the one that ratios refer to')
    parser.add_argument('--frames', type=shared.whole(1), default=30, metavar='N',
                        help='frames of every variant on every pair (default 30)')
    parser.add_argument('--pinned', action='store_true',
                        help='time every variant once more with images and disparity in '
                             'page-locked memory of the caller (CUDA)')
    parser.add_argument('--kernels', action='store_true',
                        help='registers, local and shared memory and occupancy of every kernel '
                             'of a frame (CUDA)')
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')
    shared.add_matcher_options(parser, 'that of the algorithm')
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    outputs.check_files({'--output': options.output}, (options.path, options.params_file))
    settings: dict[str, Value] = {
        **load_preset(PRESETS[options.algorithm]),
        **({'message_type': 'int16'} if options.algorithm == 'bp' else {}),
        **shared.chosen_settings(options)}
    variants = _variants(options.variant, settings, options.pinned)
    pairs = _pairs(options, variants[0].config)
    results: list[list[timing.Times]] = []
    with progress.Bar('benchmark', 'frames') as bar:
        task = bar.add_task('Timing', total=options.frames * len(pairs))
        for pair in pairs:
            bar.update(task, description=f'Timing {pair.name}')
            results.append(timing.measure(pair, variants, options.frames, choice.choose,
                                          lambda: bar.advance(task)))
    config = variants[0].config
    report: dict[str, Any] = {
        'machine': platform.platform(), 'device': choice.choose(config).describe(config),
        'variants': {one.name: one.config.to_mapping() for one in variants},
        'results': [one.to_dict() for group in results for one in group]}
    if options.output:
        shared.write_json(options.output, report)
    if options.json:
        shared.print_json(report)
    else:
        _print(options, report, results)
    return 0


def _variants(texts: list[str], settings: dict[str, Value], pinned: bool
              ) -> list[timing.Variant]:
    variants: list[timing.Variant] = []
    for text in texts or [str(settings.get('message_type', 'default'))]:
        name, _, assignments = text.partition(':')
        changes = parse_assignments(part for part in assignments.split(',') if part)
        if name in (known.name for known in variants):
            raise ValueError(f'two variants have the name {name}')
        config = MatcherConfig.from_mapping({**settings, **changes})
        variants.append(timing.Variant(name, config))
        if pinned:
            variants.append(timing.Variant(f'{name}, pinned', config, True))
    return variants


def _pairs(options: argparse.Namespace, config: MatcherConfig) -> list[timing.Pair]:
    if options.path:
        if options.size:
            raise ValueError('give a folder or --size, not both')
        named = shared.names_range(options)
        preset = MatcherConfig.preset(options.preset or PRESETS[options.algorithm])
        chosen = MatcherConfig.from_mapping(shared.chosen_settings(options)).disparity_range
        dataset = open_dataset(options.path)
        for warning in dataset.warnings:
            _log.warning(warning)
        return [timing.Pair(pair.name, pair.left, pair.right,
                            chosen if named else pair.disparities or preset.disparity_range)
                for pair in dataset]
    return [_street(text, config) for text in options.size or FIVE_SETS]


def _street(text: str, config: MatcherConfig) -> timing.Pair:
    width, height, disparities = shared.parse_size(text, 'WIDTHxHEIGHTxDISPARITIES', (16, 16, 2))
    # Drawing what no engine takes would only cost time.
    check_limits(width, height, config.max_image_width, config.max_image_height)
    config.replace(disparity_range=disparities)
    try:
        sequence = scenes.RoadSequence(width=width, height=height,
                                       max_disparity=disparities - 2, frames=1)
    except ValueError as error:
        raise ValueError(f'--size is {text}: {error}') from error
    frame = sequence.frame(0)
    return timing.Pair(text, frame.left, frame.right, disparities)


def _print(options: argparse.Namespace, report: dict[str, Any],
           results: list[list[timing.Times]]) -> None:
    everything = [one for group in results for one in group]
    figures = report['results']
    ratios = [ratio for group in results for ratio in timing.ratios(group)]
    shared.print_table(
        f'{options.algorithm} on {everything[0].backend}: {report["device"]["device"]}; whole '
        f'frames, {options.frames} of each, ms',
        ('set', 'size', 'variant', 'median', 'p95', 'min', 'frames/s', 'ratio', 'device', 'MiB'),
        [[one['set'], '{width}x{height}x{disparities}'.format(**one), one['variant'],
          *(f'{one[name]:.3f}' for name in ('median_ms', 'p95_ms', 'minimum_ms')),
          f'{one["frames_per_second"]:.1f}', f'{ratio:.2f}',
          '-' if one['device_ms'] is None else f'{one["device_ms"]:.3f}',
          f'{one["memory_bytes"] / 2**20:.1f}']
         for one, ratio in zip(figures, ratios, strict=True)], keys=3)
    stages = [stage for stage in ENGINE_STAGES
              if any(one['stages_p95_ms'].get(stage) for one in figures)]
    shared.print_table('Stages, ms: median (95th percentile)', ['set', 'variant', *stages], [
        [one['set'], one['variant'],
         *(f'{one["stages_ms"].get(stage, 0.0):.3f} ({one["stages_p95_ms"].get(stage, 0.0):.3f})'
           for stage in stages)] for one in figures], keys=2)
    shared.print_table(
        'Cold start, ms',
        ('set', 'variant', 'compile or load', 'kernels compiled', 'from disk', 'allocate',
         'first frame'),
        [[one.pair.name, one.variant, f'{one.cold.compile:.0f}',
          str(one.cold.origins['compiled']), str(one.cold.origins['disk']),
          f'{one.cold.allocate:.1f}', f'{one.cold.first:.2f}'] for one in everything], keys=2)
    if options.kernels:
        with_kernels = [one for one in everything if one.kernels]
        if not with_kernels:
            shared.say('There are no kernels to show: only CUDA engines launch any.')
        for one in with_kernels:
            _print_kernels(one)


def _print_kernels(one: timing.Times) -> None:
    loads, stores = one.local_accesses
    # What plain_steps.storage asks of local memory; the compiler's spills come on top.
    accesses = f'; {loads} local loads and {stores} stores by warps' if loads else ''
    shared.print_table(
        f'Kernels of a frame of {one.variant} on {one.pair.name}{accesses}',
        ('kernel', 'launches', 'blocks', 'threads', 'registers', 'local B', 'shared B',
         'blocks/SM', 'occupancy'),
        [[kernel['name'], *(str(kernel[name]) for name in (
            'launches', 'blocks', 'threads', 'registers', 'local_bytes', 'shared_bytes',
            'resident')), f'{100 * kernel["occupancy"]:.0f} %'] for kernel in one.kernels])
