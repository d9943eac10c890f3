"""An evaluation in this process, or spread over several in the order of one.

A worker opens the source of a chunk itself, and writes what it finds into a file that the command
reads meanwhile. No image travels, and what waits for an earlier chunk fills no memory.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import io
import multiprocessing
import os
import pathlib
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, resource_tracker
from typing import Any

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError, described
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result, room_is_needed
from stereo_bp_ros.evaluation.runs import UNREADABLE, Evaluation, Skipped, for_each_pair
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.sources.pairs import Chunk, Sources, Unread
from stereo_bp_ros.system import transport

#: A worker's share of pairs without stamps comes in so many chunks.
CHUNKS_PER_WORKER = 4

#: From one look at what a worker has written to the next, seconds.
POLL_S = 0.1

#: Of libraries for linear algebra in a worker.
ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')


@dataclasses.dataclass
class Run:
    """What an evaluation has found so far beside its results.

    collected: for a page; None: nothing is shown.
    backend:   what computes: 'cpu' or 'cuda'.
    devices:   what has computed each matcher, the same thing once; as of ``Evaluation``.
    skipped:   pairs that cannot be read, where they are left out.
    """

    collected: Showing | None = None
    backend: str = ''
    devices: dict[str, list[Mapping[str, str]]] = dataclasses.field(default_factory=dict)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)

    def add(self, other: Run) -> None:
        """Take in what another process has found."""
        self.backend = other.backend
        for name, devices in other.devices.items():
            known = self.devices.setdefault(name, [])
            known += [one for one in devices if one not in known]
        self.skipped += other.skipped
        if self.collected and other.collected:
            self.collected += other.collected


def judge_here(evaluation: Evaluation, sources: Sources, run: Run
               ) -> Generator[Result, None, None]:
    """Results of all pairs in their order, in this process.

    :raises StereoError: a pair cannot be read or matched.
    """
    for chunk in sources.chunks():
        yield from _judge_chunk(evaluation, chunk, sources.unread(chunk), run)


def _judge_chunk(evaluation: Evaluation, chunk: Chunk, pairs: Generator[Unread, None, None],
                 run: Run) -> Iterator[Result]:
    run.add(Run(backend=evaluation.backend,
                devices={name: [one] for name, one in evaluation.devices.items()}))
    skipped = run.skipped if evaluation.method.skip_unreadable else None
    with contextlib.closing(pairs):
        for place, matched in for_each_pair(evaluation.judge, pairs, chunk.place, skipped):
            if run.collected:
                run.collected.collect(place, evaluation, matched)
            yield matched.result


def on_device(configs: Mapping[str, MatcherConfig], names: Sequence[str], method: Method,
              devices: int, worker: int) -> Evaluation:
    """What a worker evaluates with, by its number from 0.

    :param devices: CUDA devices that workers take in turn; 0: those of the configurations.
    """
    if devices:
        configs = {name: config.replace(device_id=worker % devices)
                   for name, config in configs.items()}
    return Evaluation(configs, names, method)


def spread(make: Callable[[int], Evaluation], sources: Sources, run: Run, workers: int
           ) -> Generator[Result, None, None]:
    """Results of all pairs in their order, by processes that end with this generator.

    :param make: travels to a worker by pickle, and is handed its number from 0.
    :raises StereoError: a pair cannot be read or matched, or a worker was killed.
    """
    size = max(1, sources.count // (CHUNKS_PER_WORKER * workers))
    under_way: list[tuple[Chunk, pathlib.Path, Future[None]]] = []
    with _pool(workers, make, copy.deepcopy(run.collected)) as (pool, folder):
        try:
            with _uninterrupted():
                for chunk in sources.chunks(size):
                    path = folder / str(chunk.place)
                    under_way.append((chunk, path, pool.submit(_judge, chunk, path)))
            for chunk, path, judging in under_way:
                found = 0
                for one in _read(path, judging):
                    if isinstance(one, Result):
                        found += 1
                        yield one
                    else:
                        found += len(one.skipped)
                        run.add(one)
                judging.result()
                path.unlink()
                sources.warn_unpaired(chunk, found)
        except BrokenProcessPool as error:
            lost = [str(chunk) for chunk, path, judging in under_way
                    if path.exists() and judging.exception()]
            raise StereoError(f'a worker died while it evaluated {" or ".join(lost) or "nothing"}'
                              ': is memory short? Use fewer --workers') from error


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start meanwhile never see SIGINT, by which a terminal ends a whole group.

    This one ends them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _pool(workers: int, make: Callable[[int], Evaluation], showing: Showing | None
          ) -> Iterator[tuple[ProcessPoolExecutor, pathlib.Path]]:
    """Processes that end with it or with this process, and a folder for their files."""
    added = {name: value for name, value in {**ONE_THREAD, **transport.kept_memory()}.items()
             if name not in os.environ}
    # Started later, it would let the thread that starts it be interrupted.
    resource_tracker.ensure_running()
    context = multiprocessing.get_context('spawn')      # CUDA and Numba do not survive a fork
    numbers = context.SimpleQueue()
    for number in range(workers):
        numbers.put(number)
    # Its end here closes with this process, also when that is killed.
    theirs, command = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix='stereo_bp_') as folder:
        pool = ProcessPoolExecutor(workers, context, _start_worker, (
            numbers, theirs, folder, os.getcwd(), make, showing))
        os.environ.update(added)
        try:
            yield pool, pathlib.Path(folder)
            pool.shutdown()
        finally:
            command.close()
            pool.shutdown(cancel_futures=True)
            for name in added:
                del os.environ[name]


def _start_worker(numbers: Any, command: connection.Connection, temporary: str, current: str,
                  make: Callable[[int], Evaluation], showing: Showing | None) -> None:
    def end_with_command() -> None:
        connection.wait([command])
        os._exit(1)

    threading.Thread(target=end_with_command, daemon=True).start()
    tempfile.tempdir = temporary
    os.chdir(current)
    _of_this_worker.extend((functools.cache(functools.partial(make, numbers.get())), showing))


#: Where this process is a worker: who makes its evaluation, once, and what begins to collect.
_of_this_worker: list[Any] = []


def _judge(chunk: Chunk, path: pathlib.Path) -> None:
    """Write results, and what to add to the ``Run`` of the command."""
    make, showing = _of_this_worker
    run = Run(copy.deepcopy(showing))
    with room_is_needed(), path.open('wb') as file:
        try:
            for result in _judge_chunk(make(), chunk, chunk.unread(), run):
                if not file.tell():     # whatever becomes of the rest
                    pickle.dump(Run(None, run.backend, run.devices), file)
                pickle.dump(result, file)
                file.flush()
        # Not every exception survives the way between processes; a text does.
        except UNREADABLE as error:
            raise StereoError(str(error)) from error
        except Exception as error:
            raise StereoError(f'{chunk}: {described(error)}') from error
        finally:
            pickle.dump(run, file)


def _read(path: pathlib.Path, judging: Future[None]) -> Iterator[Any]:
    """What a worker has written, and what it writes until its chunk is done."""
    while not (path.exists() or judging.done()):
        wait([judging], POLL_S)
    with path.open('rb') if path.exists() else io.BytesIO() as file:
        while True:
            is_done, place = judging.done(), file.tell()
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):      # it is not whole yet
                if is_done:
                    return
                file.seek(place)
                wait([judging], POLL_S)
