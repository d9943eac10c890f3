"""An evaluation spread over processes with Dask distributed, in the order of one process.

Workers read chunks of pairs themselves and send back figures: no image travels. A few chunks are
under way at any time, so that memory does not grow with their number. A chunk whose worker has
died is done again by another one.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import dataclasses
import itertools
import logging
import math
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, Security, WorkerPlugin, get_worker

from stereo_bp_ros import transport
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import StereoError, described
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.rows import RowTracker
from stereo_bp_ros.evaluation.runs import UNREADABLE, Evaluation, Skipped, judge_all
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.evaluation.sources import Chunk, ChunkReader, Pair

#: Under way at most, with those that wait for an earlier one.
CHUNKS_PER_WORKER = 3

#: A cluster may grow or shrink on the way: it is asked for its size this often.
ASK_EVERY_S = 1.0

#: A scheduler has to answer, and then to show its first worker, within these times.
SCHEDULER_TIMEOUT_S, WORKER_TIMEOUT_S = 10, 60

#: A worker that is told to end is killed soon after this time, whatever it does.
END_TIMEOUT_S = 1.0

#: How seldom Dask looks at own processes: by itself it takes 4 % of a core in the command and 2 %
#: in each worker.
UNWATCHED = {'distributed.worker.profile.enabled': False,
             'distributed.admin.tick.interval': '1s',
             'distributed.admin.system-monitor.interval': '10s',
             'distributed.admin.system-monitor.disk': False}

# Dask has its own handler, which a local cluster silences.
logging.getLogger('distributed').propagate = False
# Who ends while it greets is no news; a failure to connect is an exception.
logging.getLogger('distributed.comm').setLevel(logging.CRITICAL)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every worker is told; travels to it once.

    configs, names, method: as of ``Evaluation``.
    devices: CUDA devices of the machine over which numbered workers are spread; 0: every worker
             takes the ``device_id`` of its configurations.
    showing: collects the pairs of each chunk in its worker, anew from this one; None: nothing is
             shown.
    """

    configs: Mapping[str, MatcherConfig]
    names: Sequence[str] = ()
    method: Method = dataclasses.field(default_factory=Method)
    devices: int = 0
    showing: Showing | None = None

    def configs_of(self, worker: object) -> dict[str, MatcherConfig]:
        """Of a worker by its name: the number that a local cluster gives it."""
        if not self.devices or not isinstance(worker, int):
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
    stopped: whether the worker was told to end in between: nothing of it counts.
    """

    collected: Showing | None = None
    results: list[Result] = dataclasses.field(default_factory=list)
    backend: str = ''
    devices: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)
    error: str = ''
    stopped: bool = False

    @property
    def count(self) -> int:
        return len(self.results) + len(self.skipped)


class _Judge(WorkerPlugin):
    """Keeps the engines of one worker from chunk to chunk."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.name = name
        self._plan = plan

    def setup(self, worker: Any) -> None:
        self._configs = self._plan.configs_of(worker.name)
        # A worker with several threads has one engine all the same.
        self._lock = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._evaluation: Evaluation | None = None
        self._ended = False

    def teardown(self, worker: Any) -> None:
        # The worker's event loop is here, and must not wait for the pair in progress.
        self._ended = True
        self._free()

    def _free(self) -> None:
        """Free the engines, unless a pair is in progress: who matches it frees them."""
        if self._lock.acquire(blocking=False):
            try:
                self._opened.close()
            finally:
                self._lock.release()

    def judge(self, chunk: Chunk) -> _Judged:
        found = _Judged(copy.deepcopy(self._plan.showing))
        try:
            with self._lock:
                if self._ended:
                    return _Judged(stopped=True)
                if self._evaluation is None:
                    self._reader = self._opened.enter_context(ChunkReader())
                    self._evaluation = self._opened.enter_context(
                        Evaluation(self._configs, self._plan.names, self._plan.method))
                if chunk.rows is not None:
                    self._evaluation.rows = chunk.rows
                found.backend, found.devices = self._evaluation.backend, self._evaluation.devices
                self._evaluation.follow(self._before(chunk))
                for matched in judge_all(self._evaluation, self._reader.unread(chunk),
                                         chunk.place + 1, found.skipped
                                         if self._plan.method.skip_unreadable else None):
                    if found.collected is not None:
                        found.collected.collect(found.count + chunk.place, self._evaluation,
                                                matched)
                    found.results.append(matched.result)
                    if self._ended:
                        return _Judged(stopped=True)
        # Not every exception survives the way between processes; a text does.
        except (StereoError, ValueError, OSError) as error:
            found.error = str(error)
        except Exception as error:
            found.error = f'behind pair {chunk.place + found.count}: {described(error)}'
        finally:
            if self._ended:
                self._free()
        return found

    def _before(self, chunk: Chunk) -> Pair | None:
        """The pair that the first one of a chunk is compared with; None: with none."""
        if not self._plan.method.consistency or chunk.before is None:
            return None
        try:
            return next(self._reader.read(chunk.before), None)
        except UNREADABLE:
            if self._plan.method.skip_unreadable:
                return None
            raise


def _judge(name: str, chunk: Chunk) -> _Judged:
    plugin: _Judge = get_worker().plugins[name]
    return plugin.judge(chunk)


class _WithoutPages(WorkerPlugin):
    """Ends the HTTP server of a worker: it has no keys, and nobody reads its pages."""

    def setup(self, worker: Any) -> None:
        worker.http_server.stop()


class Cluster:
    """Worker processes, own ones of this machine or those of a scheduler; used in ``with``.

    :param workers: processes that are started here, each with one thread; they end with this one.
        Only this process and they have the keys that a connection needs (TLS).
    :param scheduler: address of a scheduler that is there, e.g. tcp://host:8786, instead.
    :raises StereoError: processes cannot be started, there is no scheduler, or no worker comes to
        it.
    """

    def __init__(self, workers: int = 0, scheduler: str = '') -> None:
        if bool(workers) == bool(scheduler):
            raise ValueError('either a number of workers or the address of a scheduler is needed')
        self.backend = ''
        """What computes: 'cpu' or 'cuda'; '' before the first result."""
        self.devices: dict[str, list[Mapping[str, str]]] = {}
        """What has computed each matcher so far, the same thing once; as of ``Evaluation``."""
        self.skipped: list[Skipped] = []
        """Pairs so far that cannot be read, where they are left out."""
        self.collected: Showing | None = None
        """From all results so far; None where the plan shows nothing."""
        self._opened = contextlib.ExitStack()
        try:
            self._client = self._connect(scheduler) if scheduler else self._start(workers)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int) -> Client:
        folder = self._opened.enter_context(tempfile.TemporaryDirectory(prefix='stereo_bp_'))
        environment = 'distributed.nanny.pre-spawn-environ'
        self._opened.enter_context(dask.config.set({
            # CUDA and Numba do not survive a fork.
            'distributed.worker.multiprocessing-method': 'spawn',
            **UNWATCHED,
            # Dask has its workers give memory back at once: they would wait for pages together.
            environment: {**dask.config.get(environment), **transport.kept_memory()}}))
        # A terminal interrupts the whole group. Threads that are started now, and the processes
        # that they start, never see it: this one ends them.
        resource_tracker.ensure_running()       # which would end that for the thread it starts in
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            cluster = self._opened.enter_context(LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, host='127.0.0.1',
                security=Security.temporary(),
                dashboard_address=None, scheduler_kwargs={'dashboard_address': '127.0.0.1:0'},
                memory_limit=0, local_directory=folder, silence_logs=logging.CRITICAL))
            self._opened.callback(_end_workers, cluster)
            cluster.loop.add_callback(cluster.scheduler.http_server.stop)
            client = self._opened.enter_context(Client(cluster))
            client.register_plugin(_WithoutPages())
            return client
        except RuntimeError as error:
            raise StereoError(f'{workers} processes cannot be started: {error}') from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _connect(self, scheduler: str) -> Client:
        try:
            client = self._opened.enter_context(Client(
                scheduler, timeout=SCHEDULER_TIMEOUT_S))
            client.wait_for_workers(1, timeout=WORKER_TIMEOUT_S)
        except (OSError, ValueError, TimeoutError, TypeError, RuntimeError) as error:
            raise StereoError(f'no worker by the scheduler {scheduler}: {error}') from error
        return client

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that were started here."""
        self._opened.close()

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers that answer, each on its own machine."""
        found = self._client.run(os.getpid, on_error='return').values()
        return [pid for pid in found if isinstance(pid, int)]

    @property
    def scheduler(self) -> str:
        """Address of the scheduler."""
        return str(self._client.scheduler.address)

    @property
    def workers(self) -> int:
        """How many there are now."""
        return len(self._client.nthreads())

    def judge(self, plan: Plan, chunks: Iterable[Chunk]) -> Generator[Result, None, None]:
        """Results of all pairs in the order of the chunks.

        The first chunk is done alone: what it compiles, others find in the cache.

        :raises StereoError: a pair cannot be read or matched, or its workers have died.
        """
        name = f'stereo-bp-{uuid.uuid4().hex}'
        self.collected, self.devices, self.skipped = plan.showing, {}, []
        self._client.register_plugin(_Judge(plan, name))
        waiting = _with_rows(chunks, plan)
        under_way: collections.deque[tuple[Chunk, Any]] = collections.deque()
        allowed, asked = 1, -math.inf

        def submit(chunk: Chunk) -> Any:
            return self._client.submit(_judge, name, chunk, key=f'{name}-{uuid.uuid4().hex}')

        try:
            while True:
                for chunk in itertools.islice(waiting, max(0, allowed - len(under_way))):
                    under_way.append((chunk, submit(chunk)))
                if not under_way:
                    return
                chunk, future = under_way.popleft()
                judged = _result_of(chunk, future)
                if judged.stopped:
                    under_way.appendleft((chunk, submit(chunk)))
                    continue
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
                if time.monotonic() >= asked + ASK_EVERY_S:
                    allowed = CHUNKS_PER_WORKER * max(1, self.workers)
                    asked = time.monotonic()
        finally:
            self._client.cancel([future for _, future in under_way])
            self._client.unregister_worker_plugin(name)


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


def _end_workers(cluster: LocalCluster) -> None:
    """Without waiting for what they are doing: nobody takes it any more."""
    async def end() -> None:
        await asyncio.gather(*(nanny.close(timeout=END_TIMEOUT_S)
                               for nanny in cluster.workers.values()))
    cluster.sync(end)


def _result_of(chunk: Chunk, future: Any) -> _Judged:
    try:
        judged: _Judged = future.result()
        return judged
    except KilledWorker as error:
        raise StereoError(
            f'pairs {chunk.start + 1} to {chunk.stop} of {chunk.input} have ended one worker '
            'after another: are they too large for its memory? See what evaluating them alone '
            'says (without --workers)') from error
    except Exception as error:
        raise StereoError(f'pairs {chunk.start + 1} to {chunk.stop} of {chunk.input}: a worker '
                          f'failed: {described(error)}') from error
