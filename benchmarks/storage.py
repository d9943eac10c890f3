"""Times the papers' kernels beside the engines' own, for ``docs/papers/storage.md``.

    python -m benchmarks.storage ../shared/data/middlebury [--backend cpu] [--part storage]

Every configuration of a part takes its turn. ``frame`` is the median wall clock
from host images to host disparity, ``device`` that of the device's own clock for everything but
transfers; registers, local and shared bytes and occupancy are those of the message kernel of
level 0, local loads (as many stores) those that the storage asks of the warps of a frame.
"""

from __future__ import annotations

from typing import Any

from benchmarks import common
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.evaluation import timing
from stereo_bp_ros.papers.plain_steps.cuda import compile_side_by_side
from stereo_bp_ros.papers.plain_steps.tune import occupancy_walk

Changes = dict[str, dict[str, Any]]

#: LCPC 2010: tables 1 and 2. The splits of the walk are tried on one set.
STORAGE: Changes = {
    'default': {}, **{storage: {'program': 'plain_steps', 'plain_steps.storage': storage}
                      for storage in ('register', 'shared', 'local')}}
WALKED = 'cones_quarter'

#: GPU + CPU paper, tables 2 to 6: each changes one thing of the one before it or of ``initial``.
_INITIAL = {'program': 'plain_steps', 'plain_steps.aligned_rows': False,
            'plain_steps.allocation': 'separate'}
_ALIGNED = {'plain_steps.aligned_rows': True}
_PIXEL_MAJOR = {'plain_steps.layout': 'pixel_major'}
_SINGLE = {**_INITIAL, 'plain_steps.allocation': 'single'}
_HALF = {**_SINGLE, 'message_type': 'float16'}
LAYOUTS: Changes = {
    'default': {}, 'initial': _INITIAL, 'pixel major': {**_INITIAL, **_PIXEL_MAJOR},
    'single': _SINGLE, 'half': _HALF, 'half2': {**_HALF, 'plain_steps.packed_halves': True},
    'aligned': {**_SINGLE, **_ALIGNED}, 'half, aligned': {**_HALF, **_ALIGNED},
    'half, once': {**_HALF, **_ALIGNED, 'plain_steps.allocation': 'once'}}

#: The same paper's tables 8 to 12.
CPU: Changes = {
    'default, exact, 1 thread': {'exact': True, 'num_threads': 1}, 'default': {},
    'parallel': {**_INITIAL, 'plain_steps.vectorised': False},
    'with vectors': _INITIAL, 'single': _SINGLE,
    'half': {**_INITIAL, 'message_type': 'float16'},
    'aligned': {**_INITIAL, **_ALIGNED},
    'half, aligned': {**_INITIAL, 'message_type': 'float16', **_ALIGNED},
    'pixel major': {**_INITIAL, **_PIXEL_MAJOR, 'plain_steps.vectorised': False}}


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_data(parser, common.FIVE_SETS)
    parser.add_argument('--backend', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--part', choices=('storage', 'walk', 'layouts'), action='append')
    common.add_frames(parser, 20)
    common.add_output(parser)
    options = parser.parse_args()
    is_cpu = options.backend == 'cpu'
    base = MatcherConfig.preset('five_sets', message_type='float32', backend=options.backend)
    common.print_machine(base)
    report: dict[str, list[dict[str, Any]]] = {}
    for part in ['layouts'] if is_cpu else options.part or ['storage', 'walk', 'layouts']:
        print(f'\n{part}')
        columns = ['set', 'variant', 'frame, ms', 'ratio']
        if not is_cpu:
            columns += ['device, ms', 'registers', 'local B', 'shared B', 'occupancy',
                        'local loads']
        common.print_head(*columns)
        for one in common.sets(options.data, [WALKED] if part == 'walk' else options.sets):
            pair = common.timed(one, is_grey=True)
            config = base.replace(disparity_range=pair.disparities)
            chosen = walked(config) if part == 'walk' else (
                CPU if is_cpu else STORAGE if part == 'storage' else LAYOUTS)
            variants = [timing.Variant(label, config.replace(**changes))
                        for label, changes in chosen.items()]
            if not is_cpu:
                compile_side_by_side(variant.config for variant in variants)
            found = common.measure(pair, variants, options.frames)
            report.setdefault(part, []).extend(times.to_dict() for times in found)
            for times, ratio in zip(found, timing.ratios(found), strict=True):
                common.print_row(pair.name, times.variant, f'{times.median:.3f}', f'{ratio:.2f}',
                                 *([] if is_cpu else device_cells(times.to_dict())))
    common.write_report(options.output, base, results=report)


def walked(config: MatcherConfig) -> Changes:
    """Section 7 of LCPC 2010: the configurations of the occupancy walk, ``local`` before them."""
    found = {'local': STORAGE['local']}
    for occupancy, walk in occupancy_walk(config, 12, 50):
        width, height, registers, shared = (
            walk[f'plain_steps.{one}'] for one in ('block_width', 'block_height', 'registers',
                                                   'shared'))
        name = (f'{occupancy:.2f}: {width}x{height}, '
                f'{registers}-{shared}-{config.disparity_range - registers - shared}')
        found[name] = {**STORAGE['local'], 'plain_steps.storage': 'hybrid', **walk}
    return found


def device_cells(figures: dict[str, Any]) -> list[str]:
    """Time on the device, and what the last message kernel takes where a paper's runs."""
    sends = [kernel for kernel in figures['kernels']
             if kernel['name'].startswith('send_messages')]
    if not sends:
        return [f'{figures["device_ms"]:.3f}', *'-----']
    last = sends[-1]
    return [f'{figures["device_ms"]:.3f}', last['registers'], last['local_bytes'],
            last['shared_bytes'], f'{100 * last["occupancy"]:.0f} %', figures['local_loads']]


if __name__ == '__main__':
    main()
