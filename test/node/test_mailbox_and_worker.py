"""Mailbox and worker: the latest pair wins, commands go first, nobody waits for ever."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Iterator

import pytest

from stereo_bp_ros.frame.pending import Pending
from stereo_bp_ros.node import worker
from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop
from stereo_bp_ros.node.pairing import Generation, StereoPair
from stereo_bp_ros.node.worker import Mailbox, Worker, WorkerStopped
from test.node.processes import LIMIT


def pair(stamp_ns: int, generation: int = 1) -> StereoPair:
    return StereoPair(None, None, None, None, stamp_ns, stamp_ns, generation, 0.0, 0.0, 0.0)


class Bench:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.mailbox = Mailbox(ledger=self.ledger)
        self.processed: list[int] = []
        self.errors: list[BaseException] = []
        self.go = threading.Event()
        self.go.set()
        self.worker = Worker(mailbox=self.mailbox, process=self._process,
                             on_error=self.errors.append)

    def _process(self, work: StereoPair) -> None:
        assert self.go.wait(LIMIT)
        self.processed.append(work.stamp_ns)
        if work.stamp_ns < 0:
            raise RuntimeError('a bug')

    def drops(self) -> dict[PairDrop, int]:
        return {k: v for k, v in self.ledger.counts().pair_drops.items() if v}

    def wait_until_idle(self) -> None:
        self.worker.call(lambda: None, limit=LIMIT)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.go.set()
    bench.worker.stop(LIMIT)


def test_of_pairs_that_pile_up_only_the_latest_of_the_newest_generation_is_kept(bench: Bench
                                                                                ) -> None:
    for stamp in (1, 3, 2):
        bench.mailbox.put(pair(stamp))
    assert bench.mailbox.take() == pair(3)
    assert not bench.mailbox.occupied
    assert bench.drops() == {PairDrop.SUPERSEDED: 2}
    bench.mailbox.put(pair(5, generation=1))
    bench.mailbox.put(pair(4, generation=2))
    assert bench.mailbox.take() == pair(4, generation=2)


def test_what_is_dropped_behind_a_rebuild_or_by_an_end_is_called_so(bench: Bench) -> None:
    bench.mailbox.reconfiguring = True
    bench.mailbox.put(pair(1))
    bench.mailbox.put(pair(2))
    bench.mailbox.clear(PairDrop.CLOCK_JUMP)
    bench.mailbox.clear(PairDrop.CLOCK_JUMP)
    bench.mailbox.put(pair(3))
    bench.mailbox.close()
    bench.mailbox.put(pair(4))
    assert bench.drops() == {PairDrop.RECONFIGURING: 1, PairDrop.CLOCK_JUMP: 1,
                             PairDrop.DEACTIVATED: 2}
    assert bench.mailbox.take() is None
    assert not bench.mailbox.post(lambda: None)


def test_commands_run_in_order_and_before_the_pair(bench: Bench) -> None:
    order: list[object] = []
    bench.go.clear()
    bench.worker.start()
    bench.mailbox.put(pair(1))          # keeps the worker busy
    while not bench.worker.busy:
        time.sleep(0.001)
    bench.mailbox.put(pair(2))
    for k in range(3):
        bench.worker.post(lambda k=k: order.append((k, list(bench.processed))))
    bench.go.set()
    bench.wait_until_idle()
    assert order == [(0, [1]), (1, [1]), (2, [1])]
    while bench.worker.busy or bench.mailbox.occupied:
        time.sleep(0.001)
    assert bench.processed == [1, 2]


def test_a_command_returns_or_raises_to_whoever_waits_for_it(bench: Bench) -> None:
    bench.worker.start()
    assert bench.worker.call(lambda: threading.current_thread().name, limit=LIMIT
                             ) == 'stereo_bp_worker'
    with pytest.raises(ZeroDivisionError):
        bench.worker.call(lambda: 1 // 0, limit=LIMIT)


def test_waiting_has_a_limit_whatever_the_interval_and_reports_progress(bench: Bench) -> None:
    bench.worker.start()
    waited: list[float] = []
    done = threading.Event()

    def progress(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            done.set()

    bench.worker.call(lambda: done.wait(LIMIT), limit=LIMIT, progress=progress, interval=0.05)
    assert len(waited) >= 3
    assert waited == sorted(waited)
    assert waited[0] >= 0.05
    done.clear()
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r'within 0\.2 s'):
        bench.worker.call(lambda: done.wait(LIMIT), limit=0.2, interval=30.0)
    assert 0.2 <= time.monotonic() - start < 15
    done.set()


class EndsAsTheWaitTimesOut(concurrent.futures.Future[str]):
    """Of a command that ends between the waiter's time-out and its look at the future."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self._error = error

    def result(self, timeout: float | None = None) -> str:
        if not self.done():
            self.set_exception(self._error) if self._error else self.set_result('found')
            raise concurrent.futures.TimeoutError
        return super().result(timeout)


def test_a_command_that_ends_as_the_wait_times_out_has_ended_as_it_has(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.worker, 'post', lambda command: EndsAsTheWaitTimesOut())
    assert bench.worker.call(lambda: 'found', limit=1, interval=0.1) == 'found'
    assert Pending(EndsAsTheWaitTimesOut()).result(0.1) == 'found'
    error = TimeoutError('the camera has not answered')
    monkeypatch.setattr(bench.worker, 'post', lambda command: EndsAsTheWaitTimesOut(error))
    with pytest.raises(TimeoutError, match='the camera has not answered'):
        bench.worker.call(lambda: 'found', limit=1, interval=0.1)


def test_whoever_delivers_a_pair_stands_back_until_it_is_matched(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, 'HEAD_START', 10.0)
    bench.worker.start()
    for stamp in (1, 2, -3, 4):
        bench.worker.deliver(pair(stamp))
        assert bench.processed[-1] == stamp
    assert len(bench.errors) == 1


def test_a_slow_frame_keeps_nobody_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, 'HEAD_START', 0.01)
    bench.worker.start()
    bench.go.clear()
    bench.worker.deliver(pair(1))
    assert not bench.processed


def test_stopping_releases_everybody_who_waits_even_while_a_command_runs(bench: Bench) -> None:
    bench.worker.start()
    started, release, ended = threading.Event(), threading.Event(), threading.Event()
    running = bench.worker.post(lambda: (started.set(), release.wait(LIMIT), ended.set()))
    assert started.wait(LIMIT)
    queued = bench.worker.post(lambda: None)
    assert not bench.worker.stop(0.05)
    for future in (running, queued):
        with pytest.raises(WorkerStopped):
            future.result(LIMIT)
    assert not ended.is_set()
    with pytest.raises(WorkerStopped):
        bench.worker.call(lambda: None, limit=1)
    release.set()
    assert bench.worker.stop(LIMIT)


def test_nothing_passes_the_gate_once_the_generation_has_advanced() -> None:
    generation = Generation()
    inside, leave, order = threading.Event(), threading.Event(), []

    def publish() -> None:
        with generation.gate(0) as ended:
            assert ended is None
            inside.set()
            leave.wait(LIMIT)
            order.append('published')

    thread = threading.Thread(target=publish)
    thread.start()
    inside.wait(LIMIT)
    threading.Timer(0.1, leave.set).start()
    generation.advance(PairDrop.DEACTIVATED)
    order.append('advanced')
    thread.join()
    assert order == ['published', 'advanced']
    with generation.gate(0) as ended:
        assert ended is PairDrop.DEACTIVATED
    with generation.gate(1) as ended:
        assert ended is None
    generation.advance(PairDrop.CLOCK_JUMP)
    assert [generation.ended(number) for number in range(3)] == [
        PairDrop.DEACTIVATED, PairDrop.CLOCK_JUMP, None]
