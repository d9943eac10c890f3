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
from collections.abc import Mapping

from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.tables import plots
from stereo_bp_ros.papers.tables.bench import (
    Bench,
    Settings,
    Timed,
    fastest,
    mean,
    milliseconds,
    speedup,
)
from stereo_bp_ros.papers.tables.images import SIZES, Missing
from stereo_bp_ros.papers.tables.published import gpu_cpu as published
from stereo_bp_ros.papers.tables.results import Cell, Measurement, Published, Row, joined

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
JETSON = re.compile(r'jetson|tegra|xavier|orin', re.IGNORECASE)


def compare(bench: Bench, name: str, variants: Mapping[str, Settings]) -> dict[str, Timed]:
    """Times of variants of the paper's setup on one of its sets."""
    image, disparities = SETS[name]
    setup = load_preset('five_sets')
    return bench.compare(image, disparities,
                         {key: {**setup, **settings} for key, settings in variants.items()})


def table_1(bench: Bench) -> Measurement:
    rows = []
    for name, (image, disparities) in SETS.items():
        times = compare(bench, name, {'CPU': ONE_THREAD, 'initial': INITIAL, **DEFAULTS})
        width, height = SIZES[image] or (0, 0)
        rows.append(Row(name, bench.machine, (
            Cell(text=f'{width} X {height}'), Cell((disparities,)),
            *(milliseconds(one) for one in times.values()))))
    return _by_set(published.TABLE_1, rows, columns=tuple(DEFAULTS),
                   drawn=('CPU time', 'Init CUDA time', *DEFAULTS),
                   notes=(TSUKUBA_NOTE, DEFAULT_NOTE.format(bench.device)))


def table_2(bench: Bench) -> Measurement:
    # The one experiment on GPUs that the paper does not repeat on CPUs.
    rows = tuple(_speedups(bench, {**base, 'plain_steps.layout': 'pixel_major'}, base)
                 for backend, base in (('cuda', INITIAL), ('cpu', PARALLEL))
                 if backend in bench.devices)
    return Measurement(rows, plots=(plots.of_rows(published.TABLE_2, rows, 'speedup'),))


def table_3(bench: Bench) -> Measurement:
    return _one_row(published.TABLE_3, _speedups(bench, INITIAL, SINGLE))


def table_4(bench: Bench) -> Measurement:
    half = {**SINGLE, **HALF}
    rows = (_speedups(bench, SINGLE, half),
            _speedups(bench, SINGLE, {**half, 'plain_steps.packed_halves': True}, 'half2'))
    return Measurement(rows, notes=(HALF2_NOTE,),
                       plots=(plots.of_rows(published.TABLE_4, rows, 'speedup'),))


def table_5(bench: Bench) -> Measurement:
    return _alignment(bench, published.TABLE_5, SINGLE)


def table_6(bench: Bench) -> Measurement:
    return _optimized(bench, published.TABLE_6)


def table_7(bench: Bench) -> Measurement:
    return _optimized(bench, published.TABLE_7) if _is_jetson(bench) else _no_jetson(
        bench, published.TABLE_7)


def table_8(bench: Bench) -> Measurement:
    by_threads, by_both, against_i7 = [], [], []
    for name in SETS:
        times = compare(bench, name, {
            'one': ONE_THREAD, 'threads': PLAIN, 'both': PARALLEL})
        by_threads.append(speedup(times['one'], times['threads']))
        by_both.append(speedup(times['one'], times['both']))
        against_i7.append(_against_i7(name, times['both']))
    note = ('Against the i7: the mean over the sets of its CPU time in table 1, divided by the '
            '5.0 of its row here, over the time measured with vector instructions.')
    return Measurement((Row('', _device(bench, PARALLEL), (
        mean(by_threads), mean(by_both), mean(against_i7))),), notes=(note,))


def table_9(bench: Bench) -> Measurement:
    return _one_row(published.TABLE_9, _speedups(
        bench, PARALLEL, {**PARALLEL, 'plain_steps.allocation': 'single'}))


def table_10(bench: Bench) -> Measurement:
    return _one_row(published.TABLE_10, _speedups(bench, PARALLEL, {**PARALLEL, **HALF}))


def table_11(bench: Bench) -> Measurement:
    return _alignment(bench, published.TABLE_11, PARALLEL)


def table_12(bench: Bench) -> Measurement:
    return _cpu(bench, published.TABLE_12)


def table_13(bench: Bench) -> Measurement:
    return _cpu(bench, published.TABLE_13) if _is_jetson(bench) else _no_jetson(
        bench, published.TABLE_13)


def _speedups(bench: Bench, before: Settings, after: Settings, name: str = '') -> Row:
    """The speedup for each set."""
    cells = []
    for one in SETS:
        times = compare(bench, one, {'before': before, 'after': after})
        cells.append(speedup(times['before'], times['after']))
    return Row(name, _device(bench, before), tuple(cells))


def _alignment(bench: Bench, table: Published, base: Settings) -> Measurement:
    """One row: the speedup by aligned rows for each set, with float and with half data."""
    cells = []
    for name in SETS:
        times = compare(bench, name, {
            'float': base, 'float aligned': {**base, **ALIGNED},
            'half': {**base, **HALF}, 'half aligned': {**base, **HALF, **ALIGNED}})
        cells.append(joined('{} / {}', speedup(times['float'], times['float aligned']),
                            speedup(times['half'], times['half aligned'])))
    return _one_row(table, Row('', _device(bench, base), tuple(cells)), (', float', ', half'))


def _one_row(table: Published, row: Row, parts: tuple[str, ...] = ('',)) -> Measurement:
    return Measurement((row,), plots=(plots.of_rows(table, (row,), 'speedup', parts),))


def _device(bench: Bench, settings: Settings) -> str:
    """The device of settings that name a back end."""
    return bench.devices.get(str(settings['backend']), bench.machine)


def _optimized(bench: Bench, table: Published) -> Measurement:
    rows = []
    for name in SETS:
        times = compare(bench, name, {
            'CPU': ONE_THREAD, 'initial': INITIAL,
            'optimized': {**SINGLE, **HALF},
            'optimized, aligned': {**SINGLE, **HALF, **ALIGNED},
            **DEFAULTS})
        best = fastest(times['optimized'], times['optimized, aligned'])
        rows.append(Row(name, bench.machine, tuple(milliseconds(one) for one in (
            times['CPU'], times['initial'], best, *(times[name] for name in DEFAULTS)))))
    return _by_set(table, rows, columns=tuple(DEFAULTS), drawn=(
        *table.columns[1:], *DEFAULTS), notes=(DEFAULT_NOTE.format(bench.device),))


def _cpu(bench: Bench, table: Published) -> Measurement:
    defaults = {name: {**settings, 'backend': 'cpu'} for name, settings in DEFAULTS.items()}
    rows = []
    for name in SETS:
        times = compare(bench, name, {
            'one': ONE_THREAD, 'threads': PLAIN, 'both': PARALLEL,
            'optimized': {**PARALLEL, **HALF, **ALIGNED}, **defaults})
        rows.append(Row(name, _device(bench, PARALLEL), (
            milliseconds(times['one']),
            joined('{} ({})', milliseconds(times['threads']), milliseconds(times['both'])),
            *(milliseconds(times[key]) for key in ('optimized', *defaults)))))
    return _by_set(table, rows, columns=tuple(defaults), drawn=(
        'Init CPU', 'Opt. CPU', *defaults), notes=(DEFAULT_NOTE.format('the CPU'),))


def _by_set(table: Published, rows: list[Row], *, columns: tuple[str, ...],
            drawn: tuple[str, ...], notes: tuple[str, ...]) -> Measurement:
    return Measurement(tuple(rows), columns, notes, (plots.of_columns(
        table, rows, table.columns + columns, drawn, 'ms'),))


def _against_i7(name: str, timed: Timed) -> Cell:
    if isinstance(timed, Missing):
        return Cell(missing=timed.reason)
    single = next(row for row in published.TABLE_1.rows if row[0] == name)[3]
    speedup_of_i7 = next(row for row in published.TABLE_8.rows if row[0] == 'i7-7700K')[2]
    return Cell((float(single) / float(speedup_of_i7) / timed.median,))


def _is_jetson(bench: Bench) -> bool:
    return bool(JETSON.search(bench.machine))


def _no_jetson(bench: Bench, table: Published) -> Measurement:
    missing = Cell(missing='this table is of a Jetson, and this machine is none')
    return Measurement((Row('', bench.machine, (missing,) * (len(table.columns) - 1)),))
