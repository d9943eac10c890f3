"""Time the matcher: cold start, every stage, whole frames.

Variants take turns frame by frame, so that a drift of the machine meets all of them; compare
within one run and quote ratios.

  stereo_bp benchmark bp middlebury/
  stereo_bp benchmark bp --size 640x480x64 --variant int16 --variant float32:message_type=float32
  stereo_bp benchmark bp --backend cpu --variant two:num_threads=2 --variant one:num_threads=1
  stereo_bp benchmark sad --size 640x480x64 --size 1280x720x128

Without a folder and without --size, synthetic streets of the sizes of the five sets of the GPU +
CPU paper are matched. Images are in memory before, the disparity is in the caller's array after.
"""

from __future__ import annotations

import argparse
import pathlib
import platform
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig, Value, load_preset, parse_assignments
from stereo_bp_ros.engines import device_info
from stereo_bp_ros.evaluation import datasets, scenes, timing
from stereo_bp_ros.types import ENGINE_STAGES

HELP = 'times of every stage, variants in turn'

PRESETS = {'bp': 'five_sets', 'sad': 'sad_venus'}
#: Sizes of tsukuba, venus, barn1, cones_quarter and cones_half: W x H x D.
SIZES = ('384x288x16', '434x383x21', '432x381x32', '450x375x64', '900x750x128')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('algorithm', choices=tuple(PRESETS), help='what is timed')
    parser.add_argument('path', nargs='?', type=pathlib.Path, help='data set folder')
    parser.add_argument('--size', action='append', default=[], metavar='WxHxD',
                        help='synthetic street of this size; may be given several times')
    parser.add_argument('--variant', action='append', default=[], metavar='NAME[:K=V,K=V]',
                        help='settings to compare; the first is the one that ratios refer to')
    parser.add_argument('--frames', type=int, default=30, metavar='N',
                        help='frames of every variant on every pair (default 30)')
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.frames < 1:
        raise ValueError(f'--frames is {options.frames}, but must be at least 1')
    settings: dict[str, Value] = load_preset(PRESETS[options.algorithm])
    if options.algorithm == 'bp':
        settings['message_type'] = 'int16'
    settings.update(shared.chosen_settings(options))
    variants = _variants(options.variant, settings)
    pairs = _pairs(options)
    results: list[list[timing.Times]] = []
    with shared.progress_bar() as bar:
        task = bar.add_task('Timing', total=options.frames * len(pairs))
        for pair in pairs:
            bar.update(task, description=f'Timing {pair.name}')
            results.append(timing.measure(pair, variants, options.frames,
                                          lambda: bar.advance(task)))
    report: dict[str, Any] = {
        'machine': platform.platform(), 'device': device_info(next(iter(variants.values()))),
        'variants': {name: config.to_mapping() for name, config in variants.items()},
        'results': [one.to_dict() for group in results for one in group]}
    if options.output:
        shared.write_json(options.output, report)
    if options.json:
        shared.print_json(report)
    else:
        device = ', '.join(f'{k} {v}' for k, v in report['device'].items())
        shared.print_table(f'{options.algorithm} on {results[0][0].backend}: {device}; '
                           f'medians of {options.frames} frames, ms', *_table(results))
    return 0


def _variants(texts: list[str], settings: dict[str, Value]) -> dict[str, MatcherConfig]:
    variants = {}
    for text in texts or [str(settings.get('message_type', 'default'))]:
        name, _, assignments = text.partition(':')
        changes = parse_assignments(part for part in assignments.split(',') if part)
        if name in variants:
            raise ValueError(f'two variants have the name {name}')
        variants[name] = MatcherConfig.from_mapping({**settings, **changes})
    return variants


def _pairs(options: argparse.Namespace) -> list[timing.Pair]:
    if options.path:
        if options.size:
            raise ValueError('give a folder or --size, not both')
        named = shared.names_range(options)
        preset = MatcherConfig.preset(options.preset or PRESETS[options.algorithm])
        chosen = MatcherConfig.from_mapping(shared.chosen_settings(options)).disparity_range
        return [timing.Pair(pair.name, pair.left, pair.right,
                            chosen if named else pair.disparities or preset.disparity_range)
                for pair in datasets.open_dataset(options.path)]
    return [_street(text) for text in options.size or SIZES]


def _street(text: str) -> timing.Pair:
    try:
        width, height, disparities = (int(part) for part in text.lower().split('x'))
        sequence = scenes.RoadSequence(width=width, height=height,
                                       max_disparity=disparities - 2, frames=1)
    except ValueError as error:
        raise ValueError(f'--size is {text!r}, but must be WIDTHxHEIGHTxDISPARITIES, e.g. '
                         f'640x480x64 ({error})') from error
    frame = sequence.frame(0)
    return timing.Pair(text, frame.left, frame.right, disparities)


def _table(results: list[list[timing.Times]]) -> tuple[list[str], list[list[str]]]:
    stages = [stage for stage in ENGINE_STAGES
              if any(max(one.stages.get(stage, [0.0])) for group in results for one in group)]
    columns = ['set', 'size', 'variant', *stages, 'total', 'p95', 'ratio', 'first', 'prepare',
               'MiB']
    rows = []
    for group in results:
        for one, ratio in zip(group, timing.ratios(group), strict=True):
            figures = one.to_dict()
            rows.append([
                one.pair.name, f'{figures["width"]}x{figures["height"]}x{one.pair.disparities}',
                one.variant,
                *(f'{figures["stages_ms"].get(stage, 0.0):.3f}' for stage in stages),
                f'{one.median:.3f}', f'{figures["p95_ms"]:.3f}', f'{ratio:.2f}',
                f'{one.first:.2f}', f'{one.prepare:.0f}', f'{one.memory / 2**20:.1f}'])
    return columns, rows
