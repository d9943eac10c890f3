"""How figures 8 and 9 of the SAD data-streaming paper are measured: preset ``sad_venus``.

On CUDA the matching kernel alone is timed in every variant of the paper, in 8 and 32 bits, with
sums in a loop and unrolled. All variants must give the labels of the default kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from benchmarks.papers.bench import Bench, Streaming, milliseconds
from benchmarks.papers.table import Cell, Missing, Row
from stereo_bp_ros.config.files import load_preset

#: Sizes of a workgroup, threads.
BLOCKS = (32, 64, 128, 256, 512)
#: The paper's names of what ``streamed_sad.variant`` selects.
NAMES = {'global': 'global', 'shared_one': 'centralized local',
         'shared_all': 'distributed local'}
IMAGE, DISPARITIES = 'venus', 64
OWN = 'blocks of its own'
REPEATS = 15

KERNEL_NOTE = (f'CUDA: the matching kernel alone, medians of {REPEATS} graphs of 20 launches; '
               'every variant gave the labels and fractions of the default kernel.')
FRAME_NOTE = 'CPU: whole frames, which have no workgroups.'
FIT = 'its rows do not fit the shared memory'


def figure_8(bench: Bench) -> tuple[list[Row], list[str]]:
    rows, notes = [], []
    if 'cuda' in bench.devices:
        device = bench.devices['cuda']
        notes.append(KERNEL_NOTE)
        try:
            default, variants = _stream(bench)
            rows += [Row(name, (*map(_cell, times), Cell()), device)
                     for name, times in variants.items()]
            rows.append(Row('default', (Cell(),) * 5 + (Cell((default,)),), device))
        except Missing as missing:
            rows.append(Row('', (Cell(missing=str(missing)),) * 6, device))
    if 'cpu' in bench.devices:
        timed = bench.compare(IMAGE, DISPARITIES, {
            'SAD': {**load_preset('sad_venus'), 'backend': 'cpu'}})['SAD']
        notes.append(FRAME_NOTE)
        rows.append(Row('CPU engine', (Cell(),) * 5 + (milliseconds(timed),),
                        bench.devices['cpu']))
    return rows, notes


def figure_9(bench: Bench) -> tuple[list[Row], list[str]]:
    device = bench.require('cuda')
    return [Row(name, tuple(map(_cell, decreases(times))), device)
            for name, times in _stream(bench)[1].items()], [KERNEL_NOTE]


def decreases(times: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """Per cent less than with the size before; a rise is below 0."""
    return tuple(None if before is None or after is None else 100 * (before - after) / before
                 for before, after in itertools.pairwise(times))


def _stream(bench: Bench) -> tuple[float, Mapping[str, tuple[float | None, ...]]]:
    """Milliseconds of the default kernel, and over the workgroups of each group of variants."""
    default, times = bench.streaming(IMAGE, DISPARITIES, load_preset('sad_venus'), REPEATS)
    return default / 1e3, {_name(variant): tuple(
        None if (time := times.get((*variant[:3], size))) is None else time / 1e3
        for size in BLOCKS) for variant in times}


def _name(variant: Streaming) -> str:
    streaming, pixel, unrolled, _ = variant
    return (f'{NAMES[streaming]}, {8 if pixel == "uint8" else 32} bit, '
            f'{"unrolled" if unrolled else "loop"}')


def _cell(value: float | None) -> Cell:
    return Cell(missing=FIT) if value is None else Cell((value,))


TABLES = {
    'figure 8': (figure_8, (OWN,)), 'figure 9': (figure_9,)}
