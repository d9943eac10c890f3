"""How the tables and figures of the LCPC 2010 paper are measured.

Its setup is the presets ``tsukuba_2010`` and ``cones_2010``; it keeps the message that a thread
computes in registers, shared memory, local memory or a split of the three: program
``plain_steps``. ``lcpc_2010_walk`` has its walk over occupancies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.tables import plots
from stereo_bp_ros.papers.tables.bench import Bench, Settings, Timed, milliseconds, speedup
from stereo_bp_ros.papers.tables.images import Missing
from stereo_bp_ros.papers.tables.published import lcpc_2010 as published
from stereo_bp_ros.papers.tables.results import Cell, Line, Measurement, Plot, Row

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

ACCESSES = ('Local loads and stores are those that the storage asks of the warps of a frame: '
            "derived, not counted. A profiler's count equalled them in both cases that were "
            'checked (docs/papers/storage.md); what the compiler spills from registers comes on '
            "top. The paper's are a profiler's of its day.")
#: How names of kernels that pass messages begin: the paper's, and the default's.
SENDING = ('send_messages', 'pass_messages', 'pass_resident')
FAST = "loads and stores are derived for the paper's kernels only"


def table_1(bench: Bench) -> Measurement:
    preset = load_preset('tsukuba_2010')
    times = bench.compare('tsukuba', 15, {
        name: {**preset, **settings} for name, settings in STORAGES.items()})
    rows = tuple(Row(name, bench.device, (
        *_resources(one), milliseconds(one, '{} ms'),
        speedup(times['Initial CUDA imp.'], one))) for name, one in times.items())
    return Measurement(rows, notes=(ACCESSES,))


def table_2(bench: Bench) -> Measurement:
    best: tuple[float, Row] | None = None
    missing = Cell()
    for (width, height), kind in _series():
        times = _sweep(bench, width, height, kind)
        for shared in SHARED:
            one = times[_split(shared, kind)]
            if isinstance(one, Missing):
                missing = Cell(missing=one.reason)
            elif best is None or one.median < best[0]:
                best = one.median, Row('', bench.device, (
                    Cell(text=f'{width} X {height}'), Cell(text=_split(shared, kind)),
                    *_resources(one), milliseconds(one, '{} ms'), speedup(times['initial'], one)))
    return Measurement((best[1] if best else Row('', bench.device, (missing,) * 8),),
                       notes=('The best of the splits of figure 3.', ACCESSES))


def figure_3(bench: Bench) -> Measurement:
    if 'cuda' not in bench.devices:
        return Measurement((Row('', bench.device, (Cell(missing=bench.absent['cuda']),) * 3),))
    rows, lines = [], []
    for (width, height), kind in _series():
        times = _sweep(bench, width, height, kind)
        cells = [speedup(times['initial'], times[_split(shared, kind)]) for shared in SHARED]
        rows += [Row(_split(shared, kind), bench.device, (
            Cell(text=f'{width} X {height}'),
            milliseconds(times[_split(shared, kind)], '{} ms'), cell))
            for shared, cell in zip(SHARED, cells, strict=True)
            # All in shared memory is one split, whatever the rest would be in.
            if kind == 'register' or shared < CONES[1]]
        lines.append(Line(f'shared and {kind} memory, {width} X {height}', bench.device,
                          tuple(cell.values[0] if cell.values else None for cell in cells)))
    return Measurement(tuple(rows), plots=(Plot(
        plots.file_name(published.FIGURE_3), published.FIGURE_3.title,
        'values in shared memory', 'speedup over the initial program',
        tuple(float(shared) for shared in SHARED), tuple(lines)),))


def best_speedup(bench: Bench) -> Cell:
    """Of the splits of figure 3: that of table 2."""
    return table_2(bench).rows[0].cells[-1]


def _series() -> list[tuple[tuple[int, int], str]]:
    return [(block, kind) for kind in ('register', 'local') for block in BLOCKS]


def _split(shared: int, kind: str) -> str:
    rest = CONES[1] - shared
    return f'{rest}-{shared}-0' if kind == 'register' else f'0-{shared}-{rest}'


def _sweep(bench: Bench, width: int, height: int, kind: str) -> dict[str, Timed]:
    """Times of the initial program and of splits of the message, by their names."""
    preset = load_preset('cones_2010')
    variants: dict[str, Settings] = {'initial': {**preset, **INITIAL}}
    for shared in SHARED:
        variants[_split(shared, kind)] = {
            **preset, **INITIAL, 'plain_steps.storage': 'hybrid',
            'plain_steps.block_width': width, 'plain_steps.block_height': height,
            'plain_steps.shared': shared,
            'plain_steps.registers': CONES[1] - shared if kind == 'register' else 0}
    return bench.compare(*CONES, variants)


def _resources(timed: Timed) -> tuple[Cell, Cell, Cell, Cell]:
    """Local loads and stores, registers and occupancy of the kernel that sends most messages."""
    if isinstance(timed, Missing):
        return (Cell(missing=timed.reason),) * 4
    if not timed.kernels:
        return (Cell(missing='only CUDA kernels have registers and occupancy'),) * 4
    kernel: dict[str, Any] = max(
        (one for one in timed.kernels if one['name'].startswith(SENDING)),
        key=lambda one: int(one['launches'] * one['blocks'] * one['threads']))
    # A kernel that is not of the papers' is not asked for any.
    loads, stores = ((Cell((count,)) for count in timed.local_accesses)
                     if kernel['name'].startswith('send_messages') else (Cell(missing=FAST),) * 2)
    return loads, stores, Cell((kernel['registers'],)), Cell((kernel['occupancy'],))
