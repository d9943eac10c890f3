#!/usr/bin/env python3
"""Rate and latency of the node over DDS: player, node and recorder as processes of their own.

Renders a drive along a street, plays it to the node at the rate of its stamps, and accounts for
every frame. First SAD at 640 x 480 with 64 disparities, then belief propagation at 320 x 240
with 32, each at 30 Hz. Ends with status 1 when a frame is dropped, lost, or the rate is not held.

  python benchmarks/node_rates.py
  python benchmarks/node_rates.py --frames 900 --output rates.json
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import tempfile
from typing import Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli.options import print_table
from stereo_bp_ros.config import Value
from stereo_bp_ros.evaluation import bags, scenes
from stereo_bp_ros.replay import analysis, session

#: Name to width, height, disparities and settings.
RUNS: dict[str, tuple[int, int, int, dict[str, Value]]] = {
    'SAD': (640, 480, 64, {'preset': 'sad_fast'}),
    'BP': (320, 240, 32, {'preset': 'road'})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--frames', type=int, default=300, metavar='N', help='default 300')
    parser.add_argument('--rate', type=float, default=30.0, metavar='HZ', help='default 30')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default='cpu',
                        help='what computes (default: cpu)')
    parser.add_argument('--repeats', type=int, default=1, metavar='N',
                        help='how often each run is made (default 1)')
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')
    parser.add_argument('--keep', type=pathlib.Path, metavar='DIR',
                        help='keep logs and bags there; the folder must be empty')
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix='node_rates_') as temporary:
        folder = options.keep or pathlib.Path(temporary)
        for name in RUNS:
            source = folder / f'{name}_input'
            _render(name, options, source)
            for number in range(options.repeats):
                directory = folder / f'{name}_{number}'
                directory.mkdir(parents=True)
                results.append(_run(name, options, source, directory))
    _print(results)
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + '\n', encoding='utf-8')
    return 0 if all(one['is_held'] for one in results) else 1


def _sequence(name: str, options: argparse.Namespace) -> scenes.RoadSequence:
    width, height, disparities, _ = RUNS[name]
    return scenes.RoadSequence(width=width, height=height, max_disparity=disparities - 2,
                               rate_hz=options.rate, frames=options.frames, noise_sigma=1.5)


def _render(name: str, options: argparse.Namespace, path: pathlib.Path) -> None:
    sequence = _sequence(name, options)
    print(f'{name}: rendering {options.frames} pairs', file=sys.stderr)
    calibration = Calibration(sequence.focal_px, sequence.baseline_m, sequence.cx, sequence.cx,
                              sequence.cy)
    workers = len(os.sched_getaffinity(0))
    bags.write_bag(path, calibration, (
        (frame.stamp_ns, frame.left, frame.right, None)
        for frame in scenes.render(sequence, workers if workers > 1 else 0)))


def _run(name: str, options: argparse.Namespace, source: pathlib.Path,
         directory: pathlib.Path) -> dict[str, Any]:
    width, height, disparities, settings = RUNS[name]
    print(f'{name}: playing', file=sys.stderr)
    result = session.run_session(source, directory, {
        **settings, 'backend': options.backend, 'disparity_range': disparities,
        'image_width': width, 'image_height': height})
    figures = analysis.analyse(result)
    frames = figures.frames
    # The last frame ends no interval, so a rate is only known to within one frame.
    is_held = (frames['published'] == frames['recorded'] == frames['sent'] and not
               frames['dropped'] and result.node_status == 0
               and figures.rate_hz >= options.rate * (1 - 1 / frames['sent']))
    return {'run': name, 'size': f'{width}x{height}x{disparities}', 'wanted_hz': options.rate,
            'is_held': is_held, 'node_status': result.node_status, 'ready_s': result.ready_s,
            'load_average': os.getloadavg()[0], 'player': result.sent, **figures.to_dict()}


def _print(results: list[dict[str, Any]]) -> None:
    rows = []
    for one in results:
        frames, total = one['frames'], one['latency_ms'].get('total', {})
        dropped = ', '.join(f'{n} {reason}' for reason, n in frames['dropped'].items()) or '0'
        rows.append([
            one['run'], one['size'], f'{one["rate_hz"]:.2f}',
            *(str(frames[step]) for step in ('sent', 'received', 'published', 'recorded')),
            dropped, str(frames['lost_in_transport']),
            *(f'{total.get(p, 0.0):.1f}' for p in ('p50', 'p95', 'p99', 'max')),
            'yes' if one['is_held'] else 'NO'])
    print_table('The node over DDS; latency from the receipt of the later image to the return of '
                'publish, ms',
                ['run', 'size', 'Hz', 'sent', 'received', 'published', 'recorded', 'dropped',
                 'lost', 'p50', 'p95', 'p99', 'max', 'held'], rows)


if __name__ == '__main__':
    sys.exit(main())
