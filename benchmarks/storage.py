"""Times the papers' kernels beside the engines' own, for ``docs/storage.md``.

    python benchmarks/storage.py DATA [--backend cpu] [--part storage] [--frames 20]

DATA is a folder with ``middlebury/<set>/left.png`` and ``right.png``. Every configuration of a
part takes its turn frame by frame; the tables are Markdown. ``frame`` is the median wall clock
from host images to host disparity, ``device`` that of the device's own clock for everything but
transfers; registers, local and shared bytes and occupancy are those of the message kernel of
level 0, local loads (as many stores) those that the storage asks of the warps of a frame.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import cv2
import yaml

from stereo_bp_ros import MatcherConfig, engines
from stereo_bp_ros.evaluation import timing

SETS = ('tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half')

#: LCPC 2010: tables 1 and 2. The splits of the walk are tried on one set.
STORAGE: dict[str, dict[str, Any]] = {
    'auto': {}, 'register': {'message_storage': 'register'},
    'shared': {'message_storage': 'shared'}, 'local': {'message_storage': 'local'}}
WALKED = 'cones_quarter'

#: GPU + CPU paper, tables 2 to 6: each changes one thing of the one before it or of ``initial``.
_INITIAL = {'message_layout': 'disparity_major', 'aligned_rows': False, 'allocation': 'separate'}
_SINGLE = {**_INITIAL, 'allocation': 'single'}
_HALF = {**_SINGLE, 'message_type': 'float16'}
LAYOUTS: dict[str, dict[str, Any]] = {
    'auto': {}, 'initial': _INITIAL, 'pixel major': {**_INITIAL, 'message_layout': 'pixel_major'},
    'single': _SINGLE, 'half': _HALF, 'half2': {**_HALF, 'packed_halves': True},
    'aligned': {**_SINGLE, 'aligned_rows': True}, 'half, aligned': {**_HALF, 'aligned_rows': True},
    'half, once': {**_HALF, 'aligned_rows': True, 'allocation': 'once'}}

#: The same paper's tables 8 to 12.
CPU: dict[str, dict[str, Any]] = {
    'auto, exact, 1 thread': {'exact': True, 'num_threads': 1}, 'auto': {},
    'parallel': {**_INITIAL, 'vectorised': False}, 'with vectors': _INITIAL, 'single': _SINGLE,
    'half': {**_INITIAL, 'message_type': 'float16'},
    'aligned': {**_INITIAL, 'aligned_rows': True},
    'half, aligned': {**_INITIAL, 'message_type': 'float16', 'aligned_rows': True},
    'pixel major': {**_INITIAL, 'message_layout': 'pixel_major', 'vectorised': False}}


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=pathlib.Path)
    parser.add_argument('--backend', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--part', choices=('storage', 'walk', 'layouts'), action='append')
    parser.add_argument('--sets', nargs='+', choices=SETS, default=SETS)
    parser.add_argument('--frames', type=int, default=20)
    parser.add_argument('--output', type=pathlib.Path, help='write JSON there')
    options = parser.parse_args()
    is_cpu = options.backend == 'cpu'
    parts = ['layouts'] if is_cpu else options.part or ['storage', 'walk', 'layouts']
    base = MatcherConfig.preset('five_sets', message_type='float32', backend=options.backend)
    print(engines.device_info(base))
    report: dict[str, Any] = {}
    for part in parts:
        print(f'\n{part}\n\n{_heading(is_cpu)}')
        for name in [WALKED] if part == 'walk' else options.sets:
            pair = load(options.data / 'middlebury', name)
            config = base.replace(disparity_range=pair.disparities)
            chosen = walked(config) if part == 'walk' else (
                CPU if is_cpu else STORAGE if part == 'storage' else LAYOUTS)
            variants = [timing.Variant(label, config.replace(**changes))
                        for label, changes in chosen.items()]
            if not is_cpu:
                engines.compile_side_by_side(one.config for one in variants)
            found = timing.measure(pair, variants, options.frames, engines)
            report.setdefault(part, []).extend(one.to_dict() for one in found)
            for one, ratio in zip(found, timing.ratios(found), strict=True):
                print(_row(one, ratio, is_cpu), flush=True)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1))


def load(folder: pathlib.Path, name: str) -> timing.Pair:
    """A stereo pair of the data set."""
    left, right = (cv2.imread(str(folder / name / f'{side}.png'), cv2.IMREAD_GRAYSCALE)
                   for side in ('left', 'right'))
    entry = yaml.safe_load((folder / 'sets.yaml').read_text())[name]
    return timing.Pair(name, left, right, entry['disparities'])


def walked(config: MatcherConfig) -> dict[str, dict[str, Any]]:
    """Section 7 of LCPC 2010: the configurations of the occupancy walk, ``local`` before them."""
    found = {'local': STORAGE['local']}
    for occupancy, walk in engines.occupancy_walk(config, 12, 50):
        registers, shared = walk['storage_registers'], walk['storage_shared']
        name = (f'{occupancy:.2f}: {walk["storage_block_width"]}x{walk["storage_block_height"]}, '
                f'{registers}-{shared}-{config.disparity_range - registers - shared}')
        found[name] = {'message_storage': 'hybrid', **walk}
    return found


def _heading(is_cpu: bool) -> str:
    columns = ['set', 'variant', 'frame, ms', 'ratio']
    if not is_cpu:
        columns += ['device, ms', 'registers', 'local B', 'shared B', 'occupancy', 'local loads']
    return f'| {" | ".join(columns)} |\n|{" --- |" * len(columns)}'


def _row(one: timing.Times, ratio: float, is_cpu: bool) -> str:
    figures = one.to_dict()
    cells = [one.pair.name, one.variant, f'{one.median:.3f}', f'{ratio:.2f}']
    if not is_cpu:
        cells.append(f'{figures["device_ms"]:.3f}')
        sends = [kernel for kernel in figures['kernels']
                 if kernel['name'].startswith('send_messages')]
        if sends:
            last = sends[-1]
            cells += [str(last['registers']), str(last['local_bytes']), str(last['shared_bytes']),
                      f'{100 * last["occupancy"]:.0f} %', str(figures['local_loads'])]
        else:
            cells += ['-'] * 5
    return f'| {" | ".join(cells)} |'


if __name__ == '__main__':
    main()
