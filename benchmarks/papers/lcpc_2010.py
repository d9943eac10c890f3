"""How the tables and figures of the LCPC 2010 paper are measured.

Its setup is the presets ``tsukuba_2010`` and ``cones_2010``; it keeps the message that a thread
computes in registers, shared memory, local memory or a split of the three: program
``plain_steps``. The walk over occupancies (section 7) has two constants, which are 12 and 50 on
the GTX 285 and the Tesla C870 and 0 and 0 on the GTX 470; both are tried on every device. Table 4
is of parts that are matched as images of their own, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.papers.bench import Bench, Settings, Timed, milliseconds, speedup
from benchmarks.papers.table import Cell, Missing, Row, cell, combined, joined
from stereo_bp_ros.config.files import load_preset

Measured = tuple[list[Row], list[str]]

INITIAL: Settings = {
    'backend': 'cuda', 'program': 'plain_steps', 'plain_steps.storage': 'local',
    'plain_steps.block_width': 32, 'plain_steps.block_height': 4}
STORAGES: Mapping[str, Settings] = {
    'Initial CUDA imp.': INITIAL,
    'Register memory imp.': {**INITIAL, 'plain_steps.storage': 'register'},
    'Shared memory imp.': {**INITIAL, 'plain_steps.storage': 'shared'},
    'default': {}}

CONES = ('cones_quarter', 65)
#: Values in shared memory of the splits that are measured.
SHARED = (*range(0, 65, 8), 65)
BLOCKS = ((32, 4), (32, 2))

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

#: How names of kernels that pass messages begin: the paper's, and the default's.
SENDING = ('send_messages', 'pass_messages', 'pass_resident')
ACCESSES = ('Local loads and stores are those that the storage asks of the warps of a frame: '
            "derived, not counted. A profiler's count equalled them in both cases that were "
            'checked (docs/papers/storage.md); what the compiler spills from registers comes on '
            "top. The paper's are a profiler's of its day.")
FAST = "loads and stores are derived for the paper's kernels only"
NO_KERNELS = 'only CUDA kernels have registers and occupancy'
PARTS_NOTE = ('Parts are matched as images of their own, one after the other; the initial program '
              'has the same parts. The occupancy is chosen for the first of them.')
DEFAULT_NOTE = ('Default: this package with partition_columns and partition_rows as here and '
                'partition_padding 20, which start at multiples of 32 pixels and overlap by more; '
                'uncut: the same without.')


class Tried(NamedTuple):
    """A storage of the message that was timed in turn with the initial program."""

    settings: Settings
    timed: Timed
    initial: Timed
    occupancy: float = 0.0

    @property
    def gain(self) -> Cell:
        return speedup(self.initial, self.timed)

    @property
    def block(self) -> Cell:
        return Cell(text='{} X {}'.format(*(self.settings[f'plain_steps.block_{side}']
                                            for side in ('width', 'height'))))

    def split(self, labels: int) -> str:
        """Values in registers, shared and local memory, as the paper writes them."""
        registers, shared = (int(self.settings[f'plain_steps.{name}'])
                             for name in ('registers', 'shared'))
        return f'{registers}-{shared}-{labels - registers - shared}'


def table_1(bench: Bench) -> Measured:
    preset = load_preset('tsukuba_2010')
    times = bench.compare('tsukuba', 15, {
        name: {**preset, **settings} for name, settings in STORAGES.items()})
    return [Row(name, (*_resources(one), milliseconds(one, '{} ms'),
                       speedup(times['Initial CUDA imp.'], one)), bench.device)
            for name, one in times.items()], [ACCESSES]


def table_2(bench: Bench) -> Measured:
    best = _best(one for tried in _splits(bench).values() for one in tried)
    return [Row('', (
        best.block, Cell(text=best.split(CONES[1])), *_resources(best.timed),
        milliseconds(best.timed, '{} ms'), best.gain), bench.device)], [
            'The best of the splits of figure 3.', ACCESSES]


def figure_3(bench: Bench) -> Measured:
    device = bench.require('cuda')
    return [Row(one.split(CONES[1]), (
        one.block, milliseconds(one.timed, '{} ms'), one.gain), device)
        for kind, tried in _splits(bench).items() for one in tried
        # All in shared memory is one split, whatever the rest would be in.
        if kind == 'register' or one.settings['plain_steps.shared'] != CONES[1]], []


def figure_4(bench: Bench) -> Measured:
    device = bench.require('cuda')
    return [Row(f'{one.occupancy:.2f}', (
        milliseconds(one.timed, '{} ms'), one.gain, one.block, Cell(text=one.split(CONES[1])),
        Cell(text=name)), device) for name, constants in WALKS.items()
        for one in _walk(bench, *CONES, constants)], [
            'An occupancy whose configuration is that of a lower one is left out.']


def table_3(bench: Bench) -> Measured:
    device, rows = bench.require('cuda'), []
    for name, constants in WALKS.items():
        best = _best(_walk(bench, *CONES, constants))
        split = _best(one for tried in _splits(bench).values() for one in tried)
        rows.append(Row(name, (
            Cell((best.occupancy,)), milliseconds(best.timed, '{} ms'), best.gain,
            combined(lambda ours, theirs: 100 * (ours / theirs - 1), best.gain, split.gain,
                     pattern='{}%')), device))
    return rows, [
        'The walk with its two choices of values in registers, NUM_REG_VALUES_INITIAL to '
        'MAX_REG_VALUES; the paper has none in registers on the GTX 470.']


def table_4(bench: Bench) -> Measured:
    rows = []
    for name, constants in WALKS.items():
        half, full = (_in_parts(bench, *image, constants) for image in SPLIT)
        occupancies, times, gains = zip(half, full, strict=True)
        rows.append(Row(name, (
            joined('{} ({})', *occupancies), joined('{} ({}) ms', *times),
            joined('{} ({})', *gains), Cell()), bench.devices.get('cuda', bench.machine)))
    base = load_preset('cones_2010')
    compared = [bench.compare(*image, {UNCUT: base, DEFAULT: {
        **base, 'partition_columns': columns, 'partition_rows': lines,
        'partition_padding': PADDING}}) for image, (columns, lines) in SPLIT.items()]
    cut, uncut = (joined('{} ({}) ms', *(milliseconds(one[name]) for one in compared))
                  for name in (DEFAULT, UNCUT))
    rows.append(Row(DEFAULT, (Cell(), cut, Cell(), uncut), bench.device))
    return rows, [PARTS_NOTE, DEFAULT_NOTE]


def _splits(bench: Bench) -> dict[str, list[Tried]]:
    """Splits between ``SHARED`` values in shared memory and the rest, by where that is."""
    initial = {**load_preset('cones_2010'), **INITIAL}
    found: dict[str, list[Tried]] = {'register': [], 'local': []}
    for kind, tried in found.items():
        for width, height in BLOCKS:
            variants = {str(shared): {
                **initial, 'plain_steps.storage': 'hybrid', 'plain_steps.block_width': width,
                'plain_steps.block_height': height, 'plain_steps.shared': shared,
                'plain_steps.registers': CONES[1] - shared if kind == 'register' else 0}
                for shared in SHARED}
            times = bench.compare(*CONES, {'initial': initial, **variants})
            tried += [Tried(settings, times[name], times['initial'])
                      for name, settings in variants.items()]
    return found


def _walk(bench: Bench, image: str, labels: int, constants: tuple[int, int]) -> list[Tried]:
    """Every configuration of the walk that runs here, timed.

    :raises Missing: there is no CUDA device, or no image.
    """
    initial = {**load_preset('cones_2010'), **INITIAL}
    walked = bench.occupancies(labels, load_preset('cones_2010'), *constants)
    bench.images.load(image)
    tried = []
    for first in range(0, len(walked), AT_ONCE):
        some = {f'{occupancy:.2f}': (occupancy, {
                    **initial, 'plain_steps.storage': 'hybrid', **settings})
                for occupancy, settings in walked[first:first + AT_ONCE]}
        times = bench.compare(image, labels, {
            'initial': initial, **{name: one for name, (_, one) in some.items()}})
        tried += [Tried(settings, times[name], times['initial'], occupancy)
                  for name, (occupancy, settings) in some.items()]
    return tried


def _best(tried: Iterable[Tried]) -> Tried:
    """The one with the least time over that of the initial program."""
    return max(tried, key=lambda one: one.gain.value or 0.0)


def _in_parts(bench: Bench, image: str, labels: int, constants: tuple[int, int]
              ) -> tuple[Cell, Cell, Cell]:
    """Occupancy, time and speedup over the initial program of an image in parts."""
    try:
        parts = bench.images.cut(image, *SPLIT[image, labels], PADDING)
        best = _best(_walk(bench, parts[0], labels, constants))
    except Missing as missing:
        return (Cell(missing=str(missing)),) * 3
    initial = {**load_preset('cones_2010'), **INITIAL}
    times = [bench.compare(part, labels, {'initial': initial, 'best': best.settings})
             for part in parts]
    before, after = (cell(lambda *parts: math.fsum(one.median for one in parts),
                          *(one[name] for one in times)) for name in ('initial', 'best'))
    return (Cell((best.occupancy,)), after,
            combined(lambda before, after: before / after, before, after))


def _resources(timed: Timed) -> tuple[Cell, Cell, Cell, Cell]:
    """Local loads and stores, registers and occupancy of the kernel that sends most messages."""
    if isinstance(timed, Exception):
        return (Cell(missing=str(timed)),) * 4
    if not timed.kernels:
        return (Cell(missing=NO_KERNELS),) * 4
    kernel: dict[str, Any] = max(
        (one for one in timed.kernels if one['name'].startswith(SENDING)),
        key=lambda one: int(one['launches'] * one['blocks'] * one['threads']))
    # A kernel that is not of the papers' is not asked for any.
    loads, stores = ((Cell((count,)) for count in timed.local_accesses)
                     if kernel['name'].startswith('send_messages') else (Cell(missing=FAST),) * 2)
    return loads, stores, Cell((kernel['registers'],)), Cell((kernel['occupancy'],))


TABLES: Mapping[str, tuple[Any, ...]] = {
    'table 1': (table_1,), 'table 2': (table_2,), 'table 3': (table_3,),
    'table 4': (table_4, (UNCUT,)),
    'figure 3': (figure_3,),
    'figure 4': (figure_4, ('Thread Block Dims', 'Num vals in reg.-shared-loc. mem.', 'Walk'))}
