"""How tables 3 and 4 and figure 4 of the LCPC 2010 paper are measured: its walk over occupancies.

The walk (section 7) has two constants, which are 12 and 50 on the GTX 285 and the Tesla C870 and
0 and 0 on the GTX 470; both are tried on every device. Table 4 is of parts that are matched as
images of their own, one after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.tables import plots
from stereo_bp_ros.papers.tables.bench import Bench, Settings, Timed, milliseconds, speedup, total
from stereo_bp_ros.papers.tables.images import Missing
from stereo_bp_ros.papers.tables.lcpc_2010 import CONES, INITIAL, best_speedup
from stereo_bp_ros.papers.tables.published import lcpc_2010 as published
from stereo_bp_ros.papers.tables.results import Cell, Line, Measurement, Plot, Row, joined

#: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES by what they mean.
WALKS: Mapping[str, tuple[int, int]] = {
    '12 to 50 values in registers': (12, 50), 'no values in registers': (0, 0)}

#: Configurations that are compared at once, each with the initial program: bounds how many
#: engines there are, and how many kernels are compiled for them.
AT_ONCE = 8

#: Image and disparities to columns and rows of parts.
SPLIT: Mapping[tuple[str, int], tuple[int, int]] = {
    ('cones_half', 129): (1, 3), ('cones_full', 256): (5, 5)}
PADDING = 20
DEFAULT = 'default in partitions'
UNCUT = 'uncut'

NO_CUDA = 'only CUDA has occupancies: {}'
PARTS_NOTE = ('Parts are matched as images of their own, one after the other; the initial program '
              'has the same parts. The occupancy is chosen for the first of them.')
DEFAULT_NOTE = ('Default: this package with partition_columns and partition_rows as here and '
                'partition_padding 20, which start at multiples of 32 pixels and overlap by more; '
                'uncut: the same without.')


@dataclasses.dataclass(frozen=True)
class Step:
    """A configuration of the walk: the most occupancy that gives it, settings and times."""

    occupancy: float
    settings: Settings
    timed: Timed
    initial: Timed


def figure_4(bench: Bench) -> Measurement:
    rows, lines = [], []
    for name, constants in WALKS.items():
        walked = _walk(bench, *CONES, constants)
        if isinstance(walked, Missing):
            return _without(bench, walked, 5)
        rows += [Row(f'{step.occupancy:.2f}', bench.devices['cuda'], (
            milliseconds(step.timed, '{} ms'), speedup(step.initial, step.timed),
            *_written(step, CONES[1]), Cell(text=name))) for step in walked]
        lines.append((name, {f'{step.occupancy:.2f}': speedup(step.initial, step.timed)
                             for step in walked}))
    places = sorted({place for _, found in lines for place in found}, key=float)
    return Measurement(
        tuple(rows), ('Thread Block Dims', 'Num vals in reg.-shared-loc. mem.', 'Walk'),
        ('An occupancy whose configuration is that of a lower one is left out.',),
        (Plot(plots.file_name(published.FIGURE_4), published.FIGURE_4.title, 'most occupancy',
              'speedup over the initial program', tuple(float(place) for place in places),
              tuple(Line(name, bench.devices['cuda'], tuple(
                  _value(found.get(place, Cell())) for place in places))
                  for name, found in lines)),))


def table_3(bench: Bench) -> Measurement:
    rows = []
    for name, constants in WALKS.items():
        walked = _walk(bench, *CONES, constants)
        if isinstance(walked, Missing):
            return _without(bench, walked, 4, extra=0)
        best = _best(walked)
        gain = speedup(best.initial, best.timed)
        rows.append(Row(name, bench.devices['cuda'], (
            Cell((best.occupancy,)), milliseconds(best.timed, '{} ms'), gain,
            _difference(gain, best_speedup(bench)))))
    return Measurement(tuple(rows), notes=(
        'The walk with its two choices of values in registers, NUM_REG_VALUES_INITIAL to '
        'MAX_REG_VALUES; the paper has none in registers on the GTX 470.',))


def table_4(bench: Bench) -> Measurement:
    rows = []
    for name, constants in WALKS.items():
        half, full = (_in_parts(bench, *image, constants) for image in SPLIT)
        rows.append(Row(name, bench.devices.get('cuda', bench.machine), (
            joined('{} ({})', half[0], full[0]), joined('{} ({}) ms', half[1], full[1]),
            joined('{} ({})', half[2], full[2]), Cell())))
    (cut, uncut), (full_cut, full_uncut) = (_default(bench, *image) for image in SPLIT)
    rows.append(Row(DEFAULT, bench.device, (
        Cell(), joined('{} ({}) ms', milliseconds(cut), milliseconds(full_cut)), Cell(),
        joined('{} ({}) ms', milliseconds(uncut), milliseconds(full_uncut)))))
    return Measurement(tuple(rows), (UNCUT,), (PARTS_NOTE, DEFAULT_NOTE))


def _walk(bench: Bench, image: str, disparities: int, constants: tuple[int, int]
          ) -> list[Step] | Missing:
    """Every configuration of the walk that runs here, timed."""
    base = load_preset('cones_2010')
    walked = bench.occupancies(disparities, base, *constants)
    if isinstance(walked, Missing):
        return Missing(NO_CUDA.format(walked.reason))
    found = bench.images.load(image)
    if isinstance(found, Missing):
        return found
    steps = []
    for first in range(0, len(walked), AT_ONCE):
        some = {f'{occupancy:.2f}': (occupancy, {
                    **base, **INITIAL, 'plain_steps.storage': 'hybrid', **settings})
                for occupancy, settings in walked[first:first + AT_ONCE]}
        times = bench.compare(image, disparities, {
            'initial': {**base, **INITIAL}, **{name: one for name, (_, one) in some.items()}})
        steps += [Step(occupancy, settings, times[name], times['initial'])
                  for name, (occupancy, settings) in some.items()]
    return steps


def _best(walked: list[Step]) -> Step:
    """The one with the least time over that of the initial program."""
    def key(step: Step) -> float:
        return -(_value(speedup(step.initial, step.timed)) or 0.0)
    return min(walked, key=key)


def _in_parts(bench: Bench, image: str, disparities: int, constants: tuple[int, int]
              ) -> tuple[Cell, Cell, Cell]:
    """Occupancy, time and speedup over the initial program of an image in parts."""
    parts = bench.images.cut(image, *SPLIT[image, disparities], PADDING)
    if isinstance(parts, Missing):
        return (Cell(missing=parts.reason),) * 3
    walked = _walk(bench, parts[0], disparities, constants)
    if isinstance(walked, Missing):
        return (Cell(missing=walked.reason),) * 3
    best = _best(walked)
    base = load_preset('cones_2010')
    times = [bench.compare(part, disparities, {
        'initial': {**base, **INITIAL}, 'best': best.settings}) for part in parts]
    initial, tuned = (total([one[name] for one in times]) for name in ('initial', 'best'))
    before, after = _value(initial), _value(tuned)
    gain = Cell((before / after,)) if before and after else Cell(
        missing=initial.missing or tuned.missing)
    return Cell((best.occupancy,)), tuned, gain


def _default(bench: Bench, image: str, disparities: int) -> tuple[Timed, Timed]:
    """Times of the package's own kernels in partitions, and uncut."""
    base = load_preset('cones_2010')
    columns, rows = SPLIT[image, disparities]
    times = bench.compare(image, disparities, {UNCUT: base, DEFAULT: {
        **base, 'partition_columns': columns, 'partition_rows': rows,
        'partition_padding': PADDING}})
    return times[DEFAULT], times[UNCUT]


def _written(step: Step, disparities: int) -> tuple[Cell, Cell]:
    """Block and split, as the paper writes them."""
    width, height, registers, shared = (
        int(step.settings[f'plain_steps.{name}']) for name in
        ('block_width', 'block_height', 'registers', 'shared'))
    return (Cell(text=f'{width} X {height}'),
            Cell(text=f'{registers}-{shared}-{disparities - registers - shared}'))


def _difference(gain: Cell, other: Cell) -> Cell:
    """Per cent by which a speedup is above another."""
    ours, theirs = _value(gain), _value(other)
    if ours is None or theirs is None:
        return Cell(missing=gain.missing or other.missing)
    return Cell((100 * (ours / theirs - 1),), '{}%')


def _value(cell: Cell) -> float | None:
    return cell.values[0] if cell.values else None


def _without(bench: Bench, missing: Missing, cells: int, extra: int = 3) -> Measurement:
    """One row that says why nothing can be measured here."""
    columns = ('Thread Block Dims', 'Num vals in reg.-shared-loc. mem.', 'Walk')[:extra]
    return Measurement((Row('', bench.device, (Cell(missing=missing.reason),) * cells),), columns)
