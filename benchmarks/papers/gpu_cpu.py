"""How tables 1 to 13 of the GPU + CPU paper are measured.

Its test setup (section 5) is the preset ``five_sets``; times include both transfers. Its programs:

initial CUDA:   float, disparity-major, rows as they come, an allocation per array and level,
                the message under computation in local memory;
optimized CUDA: half, one allocation, the better of aligned rows and rows as they come;
initial CPU:    one thread;
parallel CPU:   all threads, float, without and with vector instructions;
optimized CPU:  the same with vector instructions, half and aligned rows, and the initial
                allocation.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.papers.bench import (
    Bench,
    Settings,
    Timed,
    fastest,
    milliseconds,
    speedup,
)
from benchmarks.papers.images import SIZES
from benchmarks.papers.table import (
    PUBLISHED,
    Cell,
    Missing,
    Row,
    cell,
    combined,
    joined,
)
from stereo_bp_ros.config.files import load_preset

Measured = tuple[list[Row], list[str]]
Measure = Callable[[Bench], Measured]

#: Names in the tables to images and their disparities.
SETS: Mapping[str, tuple[str, int]] = {
    'Tsukuba': ('tsukuba', 16), 'Venus': ('venus', 21), 'Barn1': ('barn1', 32),
    'Cones (q)': ('cones_quarter', 64), 'Cones (h)': ('cones_half', 128)}

LAYOUT: Settings = {'program': 'plain_steps', 'plain_steps.layout': 'disparity_major',
                    'plain_steps.aligned_rows': False, 'plain_steps.allocation': 'separate'}
INITIAL: Settings = {**LAYOUT, 'backend': 'cuda', 'plain_steps.storage': 'local'}
SINGLE: Settings = {**INITIAL, 'plain_steps.allocation': 'single'}
HALF: Settings = {'message_type': 'float16'}
ALIGNED: Settings = {'plain_steps.aligned_rows': True}
PIXELS: Settings = {'plain_steps.layout': 'pixel_major'}

PARALLEL: Settings = {**LAYOUT, 'backend': 'cpu', 'plain_steps.vectorised': True}
PLAIN: Settings = {**PARALLEL, 'plain_steps.vectorised': False}
ONE_THREAD: Settings = {**PLAIN, 'num_threads': 1}

#: What this package does when nothing is said about layouts and storage.
DEFAULTS: Mapping[str, Settings] = {'default, float32': {},
                                    'default, int16': {'message_type': 'int16'}}

TSUKUBA_NOTE = 'Tsukuba is 384 x 288; the paper prints 388 X 284.'
DEFAULT_NOTE = 'Default: this package with nothing said of layouts and storage, on {}.'
HALF2_NOTE = ('half2: the arithmetic in pairs of 16 bits; the paper has over 7.5 per cent more on '
              'Cones (h) by it, and up to 25 per cent less elsewhere (section 6.2.2).')
I7_NOTE = ('Against the i7: the mean over the sets of its CPU time in table 1, divided by the '
           '5.0 of its row here, over the time measured with vector instructions.')
JETSON = re.compile(r'jetson|tegra|xavier|orin', re.IGNORECASE)


def compare(bench: Bench, name: str, variants: Mapping[str, Settings]) -> dict[str, Timed]:
    """Times of variants of the paper's setup on one of its sets."""
    image, disparities = SETS[name]
    setup = load_preset('five_sets')
    return bench.compare(image, disparities,
                         {key: {**setup, **settings} for key, settings in variants.items()})


def table_1(bench: Bench) -> Measured:
    rows = []
    for name, (image, disparities) in SETS.items():
        times = compare(bench, name, {'CPU': ONE_THREAD, 'initial': INITIAL, **DEFAULTS})
        width, height = SIZES[image] or (0, 0)
        rows.append(Row(name, (
            Cell(text=f'{width} X {height}'), Cell((disparities,)),
            *map(milliseconds, times.values())), bench.machine))
    return rows, [TSUKUBA_NOTE, DEFAULT_NOTE.format(bench.device)]


def optimized(bench: Bench) -> Measured:
    """The CUDA programs beside the CPU's: tables 6 and 7."""
    rows = []
    for name in SETS:
        times = compare(bench, name, {
            'CPU': ONE_THREAD, 'initial': INITIAL, 'optimized': {**SINGLE, **HALF},
            'optimized, aligned': {**SINGLE, **HALF, **ALIGNED}, **DEFAULTS})
        best = fastest(times['optimized'], times['optimized, aligned'])
        rows.append(Row(name, tuple(map(milliseconds, (
            times['CPU'], times['initial'], best, *(times[name] for name in DEFAULTS)))),
            bench.machine))
    return rows, [DEFAULT_NOTE.format(bench.device)]


def cpu(bench: Bench) -> Measured:
    """The CPU programs: tables 12 and 13."""
    rows = []
    for name in SETS:
        times = compare(bench, name, {
            'one': ONE_THREAD, 'threads': PLAIN, 'both': PARALLEL,
            'optimized': {**PARALLEL, **HALF, **ALIGNED},
            **{key: {**settings, 'backend': 'cpu'} for key, settings in DEFAULTS.items()}})
        one, threads, both, *others = map(milliseconds, times.values())
        rows.append(Row(name, (one, joined('{} ({})', threads, both), *others),
                        _device(bench, PARALLEL)))
    return rows, [DEFAULT_NOTE.format('the CPU')]


def table_8(bench: Bench) -> Measured:
    columns = []
    for name in SETS:
        times = compare(bench, name, {'one': ONE_THREAD, 'threads': PLAIN, 'both': PARALLEL})
        i7 = _printed('table 1', name, 'CPU time') / _printed('table 8', 'i7-7700K',
                                                              'OpenMP + SIMD')
        columns.append((speedup(times['one'], times['threads']),
                        speedup(times['one'], times['both']),
                        cell(lambda timed, i7=i7: i7 / timed.median, times['both'])))
    return [Row('', tuple(combined(lambda *values: statistics.fmean(values), *cells)
                          for cells in zip(*columns, strict=True)),
                _device(bench, PARALLEL))], [I7_NOTE]


def speedups(*rows: tuple[str, Settings, Settings], also: Settings | None = None,
             notes: tuple[str, ...] = ()) -> tuple[Measure]:
    """A table of a row for each name, settings before and after, and the speedup of every set.

    A row of a back end that is not here is left out beside one of a back end that is.

    :param also: a cell has a second speedup, with these settings before and after.
    """
    parts = {'': {}} if also is None else {', float': {}, ', half': also}

    def measure(bench: Bench) -> Measured:
        here = [row for row in rows if row[1]['backend'] in bench.devices] or rows
        return [Row(name, tuple(
            _gain(compare(bench, one, {f'{when}{part}': {**settings, **more}
                                       for part, more in parts.items()
                                       for when, settings in (('before', before),
                                                              ('after', after))}))
            for one in SETS), _device(bench, before)) for name, before, after in here], [*notes]
    return (measure,)


def of_jetson(measure: Measure) -> Measure:
    """The same, measured on a Jetson only."""
    def measured(bench: Bench) -> Measured:
        if not JETSON.search(bench.machine):
            raise Missing('this table is of a Jetson, and this machine is none')
        return measure(bench)
    return measured


def _gain(times: dict[str, Timed]) -> Cell:
    """The speedups of pairs of times: before, after, before, after."""
    timed = list(times.values())
    cells = [speedup(*pair) for pair in zip(timed[::2], timed[1::2], strict=True)]
    return cells[0] if len(cells) == 1 else joined('{} / {}', *cells)


def _device(bench: Bench, settings: Settings) -> str:
    """The device of settings that name a back end."""
    return bench.devices.get(str(settings['backend']), bench.machine)


def _printed(number: str, name: str, column: str) -> float:
    """A figure of a printed table."""
    table = PUBLISHED['gpu_cpu', number]
    row = next(row for row in table.rows if row.name == name)
    return float(row.cells[table.columns.index(column) - 1].text)


TABLES: Mapping[str, tuple[Any, ...]] = {
    'table 1': (table_1, tuple(DEFAULTS)),
    # The one experiment on GPUs that the paper does not repeat on CPUs.
    'table 2': speedups(('', {**INITIAL, **PIXELS}, INITIAL),
                        ('', {**PARALLEL, **PIXELS}, PARALLEL)),
    'table 3': speedups(('', INITIAL, SINGLE)),
    'table 4': speedups(
        ('', SINGLE, {**SINGLE, **HALF}),
        ('half2', SINGLE, {**SINGLE, **HALF, 'plain_steps.packed_halves': True}),
        notes=(HALF2_NOTE,)),
    'table 5': speedups(('', SINGLE, {**SINGLE, **ALIGNED}), also=HALF),
    'table 6': (optimized, tuple(DEFAULTS)), 'table 7': (of_jetson(optimized), tuple(DEFAULTS)),
    'table 8': (table_8,),
    'table 9': speedups(('', PARALLEL, {**PARALLEL, 'plain_steps.allocation': 'single'})),
    'table 10': speedups(('', PARALLEL, {**PARALLEL, **HALF})),
    'table 11': speedups(('', PARALLEL, {**PARALLEL, **ALIGNED}), also=HALF),
    'table 12': (cpu, tuple(DEFAULTS)), 'table 13': (of_jetson(cpu), tuple(DEFAULTS))}
