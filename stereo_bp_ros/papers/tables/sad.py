"""How figures 8 and 9 of the SAD data-streaming paper are measured: preset ``sad_venus``.

On CUDA the matching kernel alone is timed in every variant of the paper, in 8 and 32 bits, with
sums in a loop and unrolled. All variants must give the labels of the default kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.tables import plots
from stereo_bp_ros.papers.tables.bench import Bench, Streaming, milliseconds
from stereo_bp_ros.papers.tables.images import Missing
from stereo_bp_ros.papers.tables.published import sad as published
from stereo_bp_ros.papers.tables.results import Cell, Line, Measurement, Plot, Row

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

Group = tuple[str, str, bool]
Times = tuple[float, Mapping[Group, tuple[float | None, ...]]]


def figure_8(bench: Bench) -> Measurement:
    rows, notes, drawn = [], [], []
    if 'cuda' in bench.devices:
        device, found = bench.devices['cuda'], _streaming(bench)
        notes.append(KERNEL_NOTE)
        if isinstance(found, Missing):
            rows.append(Row('', device, (Cell(missing=found.reason),) * 6))
        else:
            default, groups = found
            rows += [Row(label(group), device, (*(_cell(time) for time in times), Cell()))
                     for group, times in groups.items()]
            rows.append(Row('default', device, (Cell(),) * 5 + (Cell((default,)),)))
            drawn = [Line(label(group), device, times) for group, times in groups.items()]
            drawn.append(Line('default', device, (default,) * len(BLOCKS)))
    if 'cpu' in bench.devices:
        timed = bench.compare(IMAGE, DISPARITIES, {
            'SAD': {**load_preset('sad_venus'), 'backend': 'cpu'}})['SAD']
        notes.append(FRAME_NOTE)
        rows.append(Row('CPU engine', bench.devices['cpu'],
                        (Cell(),) * 5 + (milliseconds(timed),)))
    return Measurement(tuple(rows), (OWN,), tuple(notes), (_plot(drawn),))


def figure_9(bench: Bench) -> Measurement:
    reason = bench.absent.get('cuda', '')
    found = Missing(f'only CUDA has workgroups: {reason}') if reason else _streaming(bench)
    if isinstance(found, Missing):
        return Measurement((Row('', bench.device, (Cell(missing=found.reason),) * 4),))
    device = bench.devices['cuda']
    rows = [Row(label(group), device, tuple(_cell(value) for value in decreases(times)))
            for group, times in found[1].items()]
    lines = [Line(label(group), device, decreases(times)) for group, times in found[1].items()]
    return Measurement(tuple(rows), notes=(KERNEL_NOTE,), plots=(Plot(
        plots.file_name(published.FIGURE_9), published.FIGURE_9.title, 'threads of a workgroup',
        'per cent less time', tuple(str(size) for size in BLOCKS[1:]), tuple(lines)),))


def label(group: Group) -> str:
    """What a group of variants is called in tables and plots."""
    streaming, pixel, unrolled = group
    return (f'{NAMES[streaming]}, {8 if pixel == "uint8" else 32} bit, '
            f'{"unrolled" if unrolled else "loop"}')


def decreases(times: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """Per cent less than with the size before; a rise is below 0."""
    return tuple(None if before is None or after is None else 100 * (before - after) / before
                 for before, after in itertools.pairwise(times))


def grouped(times: Mapping[Streaming, float | None]) -> dict[Group, tuple[float | None, ...]]:
    """Milliseconds over the sizes of a workgroup, from microseconds of every variant."""
    found: dict[Group, tuple[float | None, ...]] = {}
    for variant in times:
        group = variant[:3]
        found[group] = tuple(
            None if (time := times.get((*group, size))) is None else time / 1e3
            for size in BLOCKS)
    return found


def _streaming(bench: Bench) -> Times | Missing:
    """Milliseconds of the default kernel and of each group of variants."""
    found = bench.streaming(IMAGE, DISPARITIES, load_preset('sad_venus'), REPEATS)
    return found if isinstance(found, Missing) else (found[0] / 1e3, grouped(found[1]))


def _cell(value: float | None) -> Cell:
    return Cell(missing=FIT) if value is None else Cell((value,))


def _plot(lines: list[Line]) -> Plot:
    printed = [Line(row[0], '', tuple(float(cell) if cell[:1].isdigit() else None
                                      for cell in row[1:]))
               for row in published.FIGURE_8.rows]
    return Plot(plots.file_name(published.FIGURE_8), published.FIGURE_8.title,
                'threads of a workgroup', 'ms', tuple(str(size) for size in BLOCKS),
                (*printed, *lines), is_log=True)
