"""An evaluation spread over processes, in the order of one process.

Workers read chunks of pairs themselves and send back figures: no image travels. A few chunks are
under way at any time, so that memory does not grow with their number.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import itertools
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, resource_tracker
from typing import Any

from stereo_bp_ros import transport
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import StereoError, described
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.rows import RowTracker
from stereo_bp_ros.evaluation.runs import UNREADABLE, Evaluation, Skipped, judge_all
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.evaluation.sources import Chunk, ChunkReader

#: Under way at most, with those that wait for an earlier one.
CHUNKS_PER_WORKER = 3

#: A worker whose command has ended finishes its pair within this time, or is killed.
END_TIMEOUT_S = 1.0

#: Of libraries for linear algebra in a worker.
ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every worker is told when it starts.

    configs, names, method: as of ``Evaluation``.
    devices: CUDA devices of the machine over which workers are spread; 0: every worker takes the
             ``device_id`` of its configurations.
    showing: collects the pairs of each chunk in its worker, anew from this one; None: nothing is
             shown.
    """

    configs: Mapping[str, MatcherConfig]
    names: Sequence[str] = ()
    method: Method = dataclasses.field(default_factory=Method)
    devices: int = 0
    showing: Showing | None = None

    def configs_of(self, worker: int) -> dict[str, MatcherConfig]:
        """Of a worker by its number, from 0."""
        if not self.devices:
            return dict(self.configs)
        return {name: config.replace(device_id=worker % self.devices)
                for name, config in self.configs.items()}


@dataclasses.dataclass
class _Judged:
    """What a worker made of a chunk.

    devices: of ``Evaluation``.
    skipped: pairs that cannot be read, where they are left out.
    collected: from its pairs, where any are shown.
    error:   why the rest of it is missing, or ''.
    """

    collected: Showing | None = None
    results: list[Result] = dataclasses.field(default_factory=list)
    backend: str = ''
    devices: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)
    error: str = ''

    @property
    def count(self) -> int:
        return len(self.results) + len(self.skipped)


class _Judge:
    """Judges chunks in a worker; its engines stay from chunk to chunk."""

    def __init__(self, plan: Plan, worker: int = 0) -> None:
        self.ended = threading.Event()
        self._plan = plan
        self._configs = plan.configs_of(worker)
        self._reader = ChunkReader()
        self._evaluation: Evaluation | None = None

    def judge(self, chunk: Chunk) -> _Judged:
        found = _Judged(copy.deepcopy(self._plan.showing))
        try:
            if self._evaluation is None:
                self._evaluation = Evaluation(self._configs, self._plan.names, self._plan.method)
            if chunk.rows is not None:
                self._evaluation.rows = chunk.rows
            found.backend, found.devices = self._evaluation.backend, self._evaluation.devices
            for matched in judge_all(self._evaluation, self._reader.unread(chunk),
                                     chunk.place + 1, found.skipped
                                     if self._plan.method.skip_unreadable else None):
                if self.ended.is_set():
                    return _Judged()        # nobody takes it any more
                if found.collected is not None:
                    found.collected.collect(found.count + chunk.place, self._evaluation, matched)
                found.results.append(matched.result)
        # Not every exception survives the way between processes; a text does.
        except (StereoError, ValueError, OSError) as error:
            found.error = str(error)
        except Exception as error:
            found.error = f'behind pair {chunk.place + found.count}: {described(error)}'
        return found


#: That of this process, where it is a worker.
_of_this_worker: list[_Judge] = []


def _start_worker(plan: Plan, numbers: Any, command: connection.Connection, folder: str) -> None:
    tempfile.tempdir = folder
    judge = _Judge(plan, numbers.get())
    _of_this_worker.append(judge)

    def end_with_command() -> None:
        connection.wait([command])
        judge.ended.set()
        threading.Event().wait(END_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=end_with_command, daemon=True).start()


def _judge(chunk: Chunk) -> _Judged:
    return _of_this_worker[0].judge(chunk)


class Workers:
    """Processes of this machine that evaluate; used in ``with``, at whose end they end."""

    def __init__(self, plan: Plan, count: int) -> None:
        self.backend = ''
        """What computes: 'cpu' or 'cuda'; '' before the first result."""
        self.devices: dict[str, list[Mapping[str, str]]] = {}
        """What has computed each matcher so far, the same thing once; as of ``Evaluation``."""
        self.skipped: list[Skipped] = []
        """Pairs so far that cannot be read, where they are left out."""
        self.collected: Showing | None = plan.showing
        """From all results so far; None where the plan shows nothing."""
        self._plan, self._count = plan, count
        self._opened = contextlib.ExitStack()
        self._folder = self._opened.enter_context(
            tempfile.TemporaryDirectory(prefix='stereo_bp_'))
        added = {name: value for name, value in {**ONE_THREAD, **transport.kept_memory()}.items()
                 if name not in os.environ}
        os.environ.update(added)
        self._opened.callback(lambda: [os.environ.pop(name, None) for name in added])
        # Started later, it would let the thread that starts it be interrupted.
        resource_tracker.ensure_running()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context('spawn')      # CUDA and Numba do not survive a fork
        numbers = context.SimpleQueue()
        for number in range(self._count):
            numbers.put(number)
        # Its end here closes with this process, also when that is killed.
        theirs, self._command = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self._count, context, _start_worker, (
            self._plan, numbers, theirs, self._folder))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._opened.close()

    def _stop(self) -> None:
        self._command.close()
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, chunk: Chunk) -> Future[_Judged]:
        # A terminal interrupts the whole group. Processes that are started here never see it:
        # this one ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(_judge, chunk)
        except BrokenProcessPool as error:
            lost: Future[_Judged] = Future()
            lost.set_exception(error)
            return lost
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def judge(self, chunks: Iterable[Chunk]) -> Generator[Result, None, None]:
        """Results of all pairs in the order of the chunks.

        The first chunk is done alone: what it compiles, others find in the cache. Where a worker
        dies all start anew, and the earliest chunk is done alone.

        :raises StereoError: a pair cannot be read or matched, or a chunk ends a worker twice.
        """
        waiting = _with_rows(chunks, self._plan)
        under_way: collections.deque[tuple[Chunk, Future[_Judged]]] = collections.deque()
        allowed = 1
        while True:
            for chunk in itertools.islice(waiting, allowed - len(under_way)):
                under_way.append((chunk, self._submit(chunk)))
            if not under_way:
                return
            chunk, future = under_way.popleft()
            try:
                judged = future.result()
            except BrokenProcessPool:
                judged = self._judge_alone(chunk)
                under_way = collections.deque(
                    (other, self._submit(other)) for other, _ in under_way)
            self.backend = judged.backend
            for matcher, device in judged.devices.items():
                known = self.devices.setdefault(matcher, [])
                if device not in known:
                    known.append(device)
            if self.collected and judged.collected and not judged.error:
                self.collected += judged.collected
            self.skipped += judged.skipped
            yield from judged.results
            if judged.error:
                raise StereoError(judged.error)
            allowed = CHUNKS_PER_WORKER * self._count

    def _judge_alone(self, chunk: Chunk) -> _Judged:
        """Of new workers, because one has died."""
        self._stop()
        self._start()
        try:
            return self._submit(chunk).result()
        except BrokenProcessPool as error:
            raise StereoError(
                f'pairs {chunk.start + 1} to {chunk.stop} of {chunk.input} have ended one worker '
                'after another: are they too large for the memory? See what evaluating them '
                'without --workers says') from error


def _with_rows(chunks: Iterable[Chunk], plan: Plan) -> Generator[Chunk, None, None]:
    """The chunks, with what all pairs before them show of their rows, where somebody asks.

    These are measured here: every worker would need all pairs before its own.
    """
    configs = {name: config for name, config in plan.configs.items()
               if config.row_correction != 'off'}
    if not configs:
        yield from chunks
        return
    tracker = RowTracker(plan.method.alone, plan.method.calibration)
    with ChunkReader() as reader:
        for chunk in chunks:
            yield dataclasses.replace(chunk, rows=copy.deepcopy(tracker))
            for unread in reader.unread(chunk):
                with contextlib.suppress(*UNREADABLE):      # the worker tells of it
                    pair = unread.load()
                    if pair.stamp_ns is not None:
                        tracker.corrections(pair, {name: plan.method.range_of(config, pair)
                                                   for name, config in configs.items()})
