"""StereoMatcher among threads: ``close`` waits for what is in flight, ``submit`` for a slot."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.matcher import stereo_matcher
from stereo_bp_ros.matcher.current_engine import CurrentEngine
from stereo_bp_ros.system.entrance import Entrance
from test.cases import every

SMALL = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')

#: Seconds after which a test gives up, and for which something is watched that must not happen.
LIMIT, A_WHILE = 20.0, 0.2


class Held:
    """A matcher whose frames wait inside the engine for ``leave``."""

    def __init__(self, pair: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
                 ) -> None:
        self.pair = pair
        self.matcher = StereoMatcher(SMALL)
        self.matcher.compute(*pair)
        self.inside, self.leave = threading.Event(), threading.Event()
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []
        compute, close = CpuEngine.compute, CpuEngine.close

        def wait(engine: CpuEngine, *arguments: Any) -> Any:
            self.inside.set()
            assert self.leave.wait(LIMIT)
            found = compute(engine, *arguments)
            self.order.append('frame')
            return found

        def told(engine: CpuEngine) -> None:
            self.order.append('freed')
            close(engine)
        monkeypatch.setattr(CpuEngine, 'compute', wait)
        monkeypatch.setattr(CpuEngine, 'close', told)

    def start(self, work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def start_closing(self) -> threading.Thread:
        """Close in another thread; returns when later calls are rejected."""
        thread = self.start(self.matcher.close)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            try:
                self.matcher.prepare()
            except RuntimeError as error:
                if 'closed' in str(error):
                    break
            time.sleep(0.001)
        return thread


@pytest.fixture
def held(textured_pair: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(textured_pair(64, 32, 5), monkeypatch)
    yield made
    made.leave.set()
    for thread in made.threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    made.matcher.close()


@pytest.mark.parametrize('closes', [1, 2])
@pytest.mark.parametrize('is_submitted', [True, False])
def test_close_waits_for_every_frame_in_flight(held: Held, is_submitted: bool, closes: int
                                               ) -> None:
    """Of another thread's call, or submitted and queued; two threads may close at once."""
    found: list[Any] = []
    if is_submitted:
        pending = [held.matcher.submit(*held.pair) for _ in range(2)]
    else:
        held.start(lambda: found.append(held.matcher.compute(*held.pair)))
    assert held.inside.wait(LIMIT)
    if not is_submitted:
        with pytest.raises(RuntimeError, match='two threads at once'):
            held.matcher.compute(*held.pair)
    closing = [held.start_closing() for _ in range(closes)]
    closing[-1].join(A_WHILE)
    assert [thread.is_alive() for thread in closing] == [True] * closes
    assert held.order == []
    held.leave.set()
    for thread in held.threads:
        thread.join(LIMIT)
    if is_submitted:
        found = [one.result(timeout=0) for one in pending]
    assert held.order == ['frame'] * len(found) + ['freed']
    assert len(found) == 1 + is_submitted
    assert every(np.array_equal(frame.disparity, found[0].disparity) for frame in found)


def test_a_submit_that_waits_for_a_slot_is_rejected_when_the_matcher_closes(held: Held) -> None:
    pending = [held.matcher.submit(*held.pair) for _ in range(2)]
    errors: list[str] = []

    def third() -> None:
        try:
            held.matcher.submit(*held.pair)
        except RuntimeError as error:
            errors.append(str(error))
    waiting = held.start(third)
    waiting.join(A_WHILE)
    assert waiting.is_alive()
    closing = held.start_closing()
    held.leave.set()
    closing.join(LIMIT)
    waiting.join(LIMIT)
    assert errors == ['this matcher is closed']
    assert [one.result(timeout=0).disparity.shape for one in pending] == [(32, 64)] * 2
    assert held.order == ['frame', 'frame', 'freed']


def test_after_closing_every_call_says_that_the_matcher_is_closed(held: Held) -> None:
    held.leave.set()
    held.matcher.close()
    held.matcher.close()
    for call in (lambda: held.matcher.submit(*held.pair),
                 lambda: held.matcher.compute(*held.pair),
                 lambda: held.matcher.prepare(64, 32),
                 lambda: held.matcher.reconfigure(SMALL.replace(levels=2))):
        with pytest.raises(RuntimeError, match='this matcher is closed'):
            call()
    assert held.order == ['freed']


def test_a_thread_that_closes_the_matcher_it_is_inside_of_is_told_so(
        textured_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler of the main thread would, which could wait for itself for ever."""
    with StereoMatcher(SMALL) as matcher:
        pair = textured_pair(64, 32, 5)
        matcher.compute(*pair)
        compute = CpuEngine.compute

        def interrupted(engine: CpuEngine, *arguments: Any) -> Any:
            with pytest.raises(RuntimeError, match='inside this matcher'):
                matcher.close()
            return compute(engine, *arguments)
        monkeypatch.setattr(CpuEngine, 'compute', interrupted)
        assert matcher.compute(*pair).disparity is not None


def test_threads_that_submit_first_at_once_share_one_worker(
        textured_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = textured_pair(64, 32, 5)
    made: list[SlowToMake] = []

    class SlowToMake(concurrent.futures.ThreadPoolExecutor):
        def __init__(self, *arguments: Any) -> None:
            time.sleep(0.05)        # for the other threads to get here, too
            super().__init__(*arguments)
            made.append(self)
    monkeypatch.setattr(stereo_matcher, 'ThreadPoolExecutor', SlowToMake)
    with StereoMatcher(SMALL) as matcher:
        matcher.prepare(64, 32)
        barrier, errors = threading.Barrier(3), list[BaseException]()

        def submit() -> None:
            try:
                barrier.wait(LIMIT)
                matcher.submit(*pair).result(LIMIT)
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=submit, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert (errors, len(made)) == ([], 1)


def test_a_matcher_is_described_beside_a_thread_that_closes_its_engine(textured_pair: Any) -> None:
    """Size, memory and partitions are of one engine, or None; the engine goes at any moment."""
    with StereoMatcher(SMALL) as matcher:
        matcher.compute(*textured_pair(64, 32, 5))
        current = matcher._current
        engine, kind = current.engine, type(current)

        class Going(CurrentEngine):
            looks = 0

            @property
            def engine(self) -> Any:        # type: ignore[override]
                Going.looks += 1
                return engine if Going.looks == 1 else None
        current.__class__ = Going
        for describe in (lambda: matcher.size, lambda: matcher.memory_plan,
                         lambda: matcher.partitions):
            Going.looks = 0
            assert describe() is not None
            assert Going.looks == 1
        current.__class__ = kind


def test_rows_are_corrected_while_another_thread_ends_the_correction(textured_pair: Any) -> None:
    class Ended(StereoMatcher):         # each time after somebody has looked
        @property
        def _warp(self) -> Any:         # type: ignore[override]
            return self.__dict__.pop('warp', None)

        @_warp.setter
        def _warp(self, warp: Any) -> None:
            self.__dict__['warp'] = warp

    upwards = (1, 0, 0, 0, 1, 2, 0, 0, 1)
    with Ended(SMALL.replace(row_correction='correct')) as matcher:
        matcher.correct_rows(upwards)
        matcher.correct_rows([1, *upwards[1:]])     # the same one, as long as it is there
        assert 'warp' not in matcher.__dict__
        matcher.correct_rows(upwards)
        left, right = textured_pair(64, 32, 5)
        corrected = matcher.compute(left, right).disparity
        assert not np.array_equal(corrected, matcher.compute(left, right).disparity)


def test_a_call_that_meets_close_is_told_that_the_matcher_is_closed() -> None:
    class Meeting(Entrance):
        def acquire(self) -> None:      # the check is passed, and nobody is inside
            self.close()
            assert self.lock.acquire(blocking=False)
            super().acquire()
    with pytest.raises(RuntimeError, match='this matcher is closed'), Meeting():
        pass


def test_threads_wait_their_turn_where_that_is_asked_for(textured_pair: Any) -> None:
    pairs = [textured_pair(64, 32, shift) for shift in (3, 5, 7, 9)]
    found: dict[int, Any] = {}
    with StereoMatcher(SMALL, concurrent='wait') as matcher:
        wanted = [matcher.compute(*pair).disparity for pair in pairs]
        barrier = threading.Barrier(len(pairs))

        def compute(index: int) -> None:
            barrier.wait(LIMIT)
            for _ in range(5):
                found[index] = matcher.compute(*pairs[index])
        threads = [threading.Thread(target=compute, args=(index,), daemon=True)
                   for index in range(len(pairs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
    assert len(found) == len(pairs)
    assert every(np.array_equal(found[index].disparity, one) for index, one in enumerate(wanted))


def test_a_thread_that_is_inside_is_rejected_though_others_wait() -> None:
    entrance = Entrance(waits=True)
    with entrance, pytest.raises(RuntimeError, match='two threads at once'), entrance:
        pass


def test_threads_that_wait_are_rejected_once_the_matcher_closes(held: Held) -> None:
    held.matcher._entrance._waits = True
    errors: list[str] = []

    def second() -> None:
        try:
            held.matcher.compute(*held.pair)
        except RuntimeError as error:
            errors.append(str(error))
    held.start(lambda: held.matcher.compute(*held.pair))
    assert held.inside.wait(LIMIT)
    waiting = held.start(second)
    waiting.join(A_WHILE)
    assert waiting.is_alive()
    closing = held.start(held.matcher.close)
    closing.join(A_WHILE)
    held.leave.set()
    for thread in (waiting, closing):
        thread.join(LIMIT)
    assert errors == ['this matcher is closed']
    assert held.order == ['frame', 'freed']
