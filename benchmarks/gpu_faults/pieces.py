"""What is done to a device, each a generator of the rows that it measures."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.common import percentiles
from benchmarks.gpu_faults.processes import Child, ChildError, settings
from stereo_bp_ros.evaluation import timing

#: MiB that a neighbour leaves of a device: less than a process takes of it, and less than an
#: engine does.
NO_CONTEXT_MIB, NO_ENGINE_MIB = 64, 8

#: Share of the memory that the busy neighbour takes.
NEIGHBOUR_SHARE = 0.95

#: Frames of a worker that must be there before something happens to it.
BEFORE = 20


class Setting(NamedTuple):
    """What all pieces share.

    pairs: file of the pairs; seconds: that latencies of one row are taken for.
    """

    pairs: pathlib.Path
    backend: str
    disparities: int
    seconds: float
    rate: float

    @property
    def config(self) -> dict[str, Any]:
        return settings(self.backend, self.disparities)


@dataclasses.dataclass
class Row:
    """What became of frames.

    again_s: from the fault to the next frame; status: of the process that it met.
    """

    piece: str
    case: str
    right: int = 0
    wrong: int = 0
    none: int = 0
    said: str = ''
    status: str = ''
    again_s: float | None = None
    ms: dict[str, float] | None = None
    more: dict[str, Any] = dataclasses.field(default_factory=dict)

    def add(self, found: dict[str, Any]) -> None:
        """Count an answer's frames."""
        self.right += found['right']
        self.wrong += found['wrong']
        self.none += found['none']

    def say(self, *texts: str) -> None:
        """Add what was said, each text once."""
        known = [self.said] if self.said else []
        self.said = ' / '.join([*known, *(text for text in texts if text not in self.said)])


Piece = Callable[[Setting], Iterator[Row]]


def lost(given: Setting) -> Iterator[Row]:
    """A kernel of the same process fails: before a frame, and while one is computed."""
    for kind, within, policy in (
            ('address', False, 'exit'), ('address', False, 'cpu'), ('address', True, 'exit'),
            ('address', True, 'cpu'), ('trap', True, 'cpu')):
        row = Row('lost', f'{kind}, {"within" if within else "before"} a frame, '
                          f'on_device_loss {policy}')
        yield _caught(row, _lose, given, kind, within, policy)


def _lose(row: Row, given: Setting, kind: str, within: bool, policy: str) -> None:
    with Child('worker', given.pairs) as worker:
        _built(worker.ask('build', config=given.config, on_device_loss=policy))
        row.add(worker.ask('frames', count=BEFORE))
        worker.ask('fault', kind=kind, within=within)
        begin = time.monotonic()
        found = worker.ask('frames', count=BEFORE)
        row.add(found)
        row.say(*found['said'], *found['fatal'])
        row.again_s = found['first_s']
        row.status = worker.end()
        row.more = {'end_s': time.monotonic() - begin, 'stderr': worker.said[-500:],
                    'backend': found['backend']}
    if policy == 'exit':
        # As the launch file, which waits 2 s more.
        with Child('worker', given.pairs) as worker:
            _built(worker.ask('build', config=given.config, on_device_loss=policy))
            found = worker.ask('frames', count=BEFORE, until_right=True)
            row.again_s = time.monotonic() - begin
            row.add(found)
            row.add(worker.ask('frames', count=BEFORE))
            worker.end()


def memory(given: Setting) -> Iterator[Row]:
    """Another process holds the memory: at the start, at the build, and at a rebuild."""
    for backend in ('cuda', 'auto'):
        row = Row('memory', f'start with {NO_CONTEXT_MIB} MiB free, backend {backend}')
        yield _caught(row, _start_without, given, backend)
    row = Row('memory', f'build with {NO_ENGINE_MIB} MiB free')
    yield _caught(row, _build_without, given)
    row = Row('memory', f'rebuild for larger images with {NO_ENGINE_MIB} MiB free')
    yield _caught(row, _rebuild_without, given)


def _start_without(row: Row, given: Setting, backend: str) -> None:
    with Child('load') as load:
        row.more = load.ask('hold', leave_mib=NO_CONTEXT_MIB)
        with Child('worker', given.pairs) as worker:
            _build_and_match(row, worker, {**given.config, 'backend': backend})
            _let_go(row, load, worker, {**given.config, 'backend': backend})


def _build_without(row: Row, given: Setting) -> None:
    with Child('load') as load, Child('worker', given.pairs) as worker:
        worker.ask('context')
        row.more = load.ask('hold', leave_mib=NO_ENGINE_MIB)
        _build_and_match(row, worker, given.config)
        _let_go(row, load, worker, given.config)


def _rebuild_without(row: Row, given: Setting) -> None:
    with Child('load') as load, Child('worker', given.pairs) as worker:
        _built(worker.ask('build', config=given.config))
        row.add(worker.ask('frames', count=BEFORE))
        row.more = load.ask('hold', leave_mib=NO_ENGINE_MIB)
        worker.ask('enlarge')
        found = worker.ask('frames', count=40, period=0.05)
        row.add(found)
        row.say(*found['said'])
        load.ask('let_go')
        found = worker.ask('frames', count=400, period=0.05, until_right=True)
        row.add(found)
        row.again_s = found['first_s']
        row.add(worker.ask('frames', count=BEFORE))
        row.status = worker.end()


def _build_and_match(row: Row, worker: Child, config: dict[str, Any]) -> None:
    found = worker.ask('build', config=config)
    if 'refused' in found:
        row.say(found['refused'])
        return
    row.say(f'{found["backend"]}: {found["reason"]}')
    found = worker.ask('frames', count=BEFORE)
    row.add(found)
    row.say(*found['said'], *found['fatal'])


def _let_go(row: Row, load: Child, worker: Child, config: dict[str, Any]) -> None:
    """The memory is free again: does the same process find it?"""
    load.ask('let_go')
    begin = time.monotonic()
    found = worker.ask('build', config=config)
    if 'refused' in found:
        row.say(f'and with the memory free again: {found["refused"]}')
    else:
        row.add(worker.ask('frames', count=BEFORE, until_right=True))
        row.again_s = time.monotonic() - begin
        row.add(worker.ask('frames', count=BEFORE))
    row.status = worker.end()


def neighbour(given: Setting) -> Iterator[Row]:
    """Another process takes nearly all memory, and computes without a pause."""
    row = Row('neighbour', f'{NEIGHBOUR_SHARE:.0%} of the memory, full load')
    yield _caught(row, _beside, given)


def _beside(row: Row, given: Setting) -> None:
    with Child('load') as load, Child('worker', given.pairs) as worker:
        row.more = load.ask('hold', share=NEIGHBOUR_SHARE)
        load.ask('busy', on=True)
        _built(worker.ask('build', config=given.config))
        _timed(row, worker, given)
        row.status = worker.end()


def driver(given: Setting) -> Iterator[Row]:
    """There is no device that this process may use, or no driver."""
    with tempfile.TemporaryDirectory(prefix='gpu_faults_') as folder:
        (pathlib.Path(folder) / 'libcuda.so.1').write_bytes(b'')
        known = os.environ.get('LD_LIBRARY_PATH', '')
        for case, variables in (
                ('no visible device', {'CUDA_VISIBLE_DEVICES': ''}),
                ('libcuda.so.1 cannot be loaded',
                 {'LD_LIBRARY_PATH': os.pathsep.join(filter(None, (folder, known)))})):
            yield from _starts('driver', case, variables, given)


def devices(given: Setting) -> Iterator[Row]:
    """CUDA_VISIBLE_DEVICES names one device, none that is there, or another."""
    for value, backends in (('0', ('auto',)), ('7', ('auto', 'cuda')), ('-1', ('cuda',)),
                            ('GPU-00000000-0000-0000-0000-000000000000', ('cuda',))):
        yield from _starts('devices', f'CUDA_VISIBLE_DEVICES={value}',
                           {'CUDA_VISIBLE_DEVICES': value}, given, backends)


def _starts(piece: str, case: str, variables: dict[str, str], given: Setting,
            backends: tuple[str, ...] = ('auto', 'cuda')) -> Iterator[Row]:
    """What ``backend: auto`` does, and what is said where the GPU is asked for."""
    for backend in backends:
        row = Row(piece, f'{case}, backend {backend}')
        yield _caught(row, _start, {**given.config, 'backend': backend}, given, variables)


def _start(row: Row, config: dict[str, Any], given: Setting, variables: dict[str, str]) -> None:
    with Child('worker', given.pairs, environment=variables) as worker:
        _build_and_match(row, worker, config)
        row.status = worker.end()


def many(given: Setting) -> Iterator[Row]:
    """Two processes with four engines each on one device."""
    row = Row('many', 'two processes, four engines each')
    yield _caught(row, _many, given)


def _many(row: Row, given: Setting) -> None:
    with Child('worker', given.pairs) as one, Child('worker', given.pairs) as other:
        for worker in (one, other):
            _built(worker.ask('build', config=given.config, count=4))
        for worker in (one, other):
            worker.tell('frames', count=5 * BEFORE)
        times: list[float] = []
        for worker in (one, other):
            found = worker.answer()
            row.add(found)
            row.say(*found['said'], *found['fatal'])
            times += found['ms']
        row.ms = _milliseconds(times)
        row.status = f'{one.end()}, {other.end()}'


def priority(given: Setting) -> Iterator[Row]:
    """Latency beside a load, on streams of CUDA's default priority and of its highest."""
    rows = {(load, level): Row('priority', f'{load}; {level} priority')
            for load in ('alone', 'beside a process', 'beside a stream of the same process')
            for level in ('default', 'highest')}
    try:
        _prioritised(rows, given)
    except ChildError as error:
        yield Row('priority', 'all', said=f'{error}', status='failed')
    yield from rows.values()


def _prioritised(rows: dict[tuple[str, str], Row], given: Setting) -> None:
    with (Child('load') as load, Child('worker', given.pairs) as plain,
          Child('worker', given.pairs) as first):
        rows['alone', 'highest'].more = first.ask('priority')
        for worker in (plain, first):
            _built(worker.ask('build', config=given.config))
            worker.ask('frames', count=BEFORE)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in rows}
        rounds = max(1, round(given.seconds))
        for _ in range(rounds):
            for beside in ('alone', 'beside a process', 'beside a stream of the same process'):
                load.ask('busy', on=beside == 'beside a process')
                for worker, level in ((plain, 'default'), (first, 'highest')):
                    if beside.startswith('beside a stream'):
                        worker.ask('load', on=True)
                    found = worker.ask('frames', count=round(
                        given.rate * given.seconds / rounds), period=1 / given.rate)
                    worker.ask('load', on=False)
                    rows[beside, level].add(found)
                    times[beside, level] += found['ms']
                load.ask('busy', on=False)
        for key, row in rows.items():
            row.ms = _milliseconds(times[key])
        for worker, level in ((plain, 'default'), (first, 'highest')):
            rows['alone', level].status = worker.end()


def _timed(row: Row, worker: Child, given: Setting) -> None:
    found = worker.ask('frames', count=round(given.rate * given.seconds),
                       period=1 / given.rate)
    row.add(found)
    row.say(*found['said'], *found['fatal'])
    row.ms = _milliseconds(found['ms'])


def _milliseconds(times: list[float]) -> dict[str, float] | None:
    """Percentiles that a control loop is laid out by."""
    found = percentiles(times)
    return found and {'p50': found['p50'], 'p99': found['p99'],
                      'p99.9': timing.percentile(times, 99.9), 'max': found['max'],
                      'number': len(times)}


def _built(answer: dict[str, Any]) -> None:
    if 'refused' in answer:
        raise ChildError(answer['refused'])


def _caught(row: Row, measure: Callable[..., None], *arguments: Any) -> Row:
    """A row, also where its processes fail."""
    try:
        measure(row, *arguments)
    except ChildError as error:
        row.say(str(error))
        row.status = row.status or 'failed'
    return row


#: Pieces by name, in the order in which they are told.
PIECES: dict[str, Piece] = {'lost': lost, 'memory': memory, 'neighbour': neighbour,
                            'driver': driver, 'devices': devices, 'many': many,
                            'priority': priority}

#: Pieces that need a GPU and cannot be rehearsed without one.
OF_A_GPU = ('memory', 'neighbour', 'priority')
