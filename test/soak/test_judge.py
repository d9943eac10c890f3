"""The judge of the soak is strict: each case is one that a laxer judge would let pass."""

from __future__ import annotations

import collections
import contextlib
import itertools
import pathlib
import random
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')
from test.node.client import Status
from test.soak import faults, rig, trials
from test.soak.faults import Fault, Span
from test.soak.ledger import Found, Ledger, Shown, Waits, waited
from test.soak.rig import MIN_WAIT, PARAMETERS, Rig, Violation
from test.soak.trials import FAULTS, GONE, NAMED, SLACK, Soak, Trial

MS = 1_000_000
SHOWN = Shown(7, 96, 64, 500.0)
COUNTERS = {'received left': 0, 'received right': 0, 'pairs': 0, 'published': 0, 'held': 0,
            'waiting left': 0, 'waiting right': 0}
FAULT = Fault('it breaks', '', faults.camera(), says=('input', 'broken'))


def status(number: int, message: str) -> Status:
    return Status(number, 0, 0, message, {})


class Stub(Rig):
    """A rig without ROS.

    :param answers: whether the n-th frame that is sent has a result.
    :param too_old: frames that the node drops for that, when it is asked the second time.
    :param waits: seconds that threads have waited for a core, always.
    :param messages: of the status 'input', report by report.
    """

    def __init__(self, *, answers: Iterator[bool] | None = None, too_old: int = 0,
                 waits: float = 0.0, messages: tuple[str, ...] = ()) -> None:
        self.name = 'front'
        self.before = None
        self.ledger = Ledger(3.0)
        self.waits = types.SimpleNamespace(since=lambda at: waits)          # type: ignore
        self.camera = types.SimpleNamespace(                                # type: ignore
            send=self._send, set=lambda **settings: None)
        self._answers, self._too_old = answers or itertools.repeat(True), [0, too_old]
        self._statuses = collections.deque(
            {'input': status(number, message)} for number, message in enumerate(messages, 1))
        self.reports = len(messages)
        self.node_process = None
        self.counters: dict[str, int] = {}

    process = None                                                          # type: ignore

    def _send(self) -> None:
        place = self.ledger.send(self.ledger.sent * MS, SHOWN, 0.0)
        if next(self._answers):
            self.ledger.receive((place - 1) * MS, Found(7.0, 1.0, 1.0, 96, 64, 500.0), 0.1)

    def wait_for_result(self, after: int, limit: float = 0.0) -> bool:
        return self.ledger.last > after

    def counts(self) -> dict[str, int]:
        return {**COUNTERS, **self.counters, 'dropped pairs: late': self._too_old[0],
                'dropped pairs: stale': 0, 'dropped pairs: superseded': 0}

    def settled(self) -> dict[str, int]:
        del self._too_old[:-1]
        return self.counts()


def soak(front: Rig) -> Soak:
    return Soak({'front': front}, 1, FAULTS)


# Recovery

@pytest.mark.parametrize(('sent', 'too_old', 'waits', 'recovery'), [
    (1, 0, 0.0, 1), (5, 0, 0.0, 5),
    # The node drops what comes, and the machine is quiet.
    (5, 4, 0.0, 5), (5, 4, 0.9 * MIN_WAIT, 5),
    # The machine is busy: as many as it has made wait, and as were dropped for that.
    (5, 4, 2 * MIN_WAIT, 3), (5, 4, 90.0, 1), (5, 1, 90.0, 4)])
def test_frames_that_are_too_old_are_excused_by_a_busy_machine_alone(
        sent: int, too_old: int, waits: float, recovery: int) -> None:
    answers = itertools.chain([False] * (sent - 1), itertools.repeat(True))
    assert Stub(answers=answers, too_old=too_old, waits=waits).frames_to_recover() == recovery


def test_a_result_may_be_older_than_the_node_allows_by_what_threads_have_waited() -> None:
    for excused, stale in ((0.0, True), (0.4, True), (0.6, False)):
        ledger = Ledger(rig.MAX_AGE, {10.0: excused}.__getitem__)
        ledger.send(1, SHOWN, 10.0)
        ledger.receive(1, Found(7.0, 1.0, 1.0, 96, 64, 500.0), 10.5 + rig.MAX_AGE)
        assert bool(ledger.take_violations()) is stale
    assert 0 < rig.MAX_AGE - PARAMETERS['max_latency'] <= 0.5           # type: ignore


def test_waiting_is_summed_over_threads_since_a_sample(tmp_path: pathlib.Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    for thread, nanoseconds in (('5', 2_000_000_000), ('6', 500_000_000)):
        (tmp_path / '5/task' / thread).mkdir(parents=True)
        (tmp_path / '5/task' / thread / 'schedstat').write_text(f'7 {nanoseconds} 9\n')
    assert waited(5, tmp_path) == {'5': 2.0, '6': 0.5}
    assert waited(6, tmp_path) == {}
    found = {'a': 1.0, 'gone': 5.0}
    waits, now = Waits(lambda: dict(found)), [100.0]
    monkeypatch.setattr('test.soak.ledger.time.monotonic', lambda: now[0])
    waits.sample()
    found['a'], now[0] = 1.5, 200.0
    waits.sample()
    found.update(a=3.0, new=0.25)
    found.pop('gone')
    assert waits.since(150.0) == 2.25       # from the sample at 100 on
    assert waits.since(200.0) == 1.75
    assert waits.since(50.0) == 2.25        # the first


# Words

@pytest.mark.parametrize(('messages', 'waits', 'reports'), [
    (['broken'] * GONE + [''], 0.0, GONE + 1), (['broken'] * (GONE - 1) + [''], 0.0, None),
    (['broken'] * GONE + [''], 1.5, None), (['broken'] * (GONE + SLACK) + [''], 9.0,
                                            GONE + SLACK + 1)])
def test_words_that_stay_longer_than_two_reports_are_found(
        messages: list[str], waits: float, reports: int | None) -> None:
    front = Stub(waits=waits, messages=tuple(messages))
    trial = Trial(0, FAULT.name, 'front', 0.0)
    with (pytest.raises(Violation, match=f'took {reports} reports to go') if reports
          else contextlib.nullcontext()):
        soak(front)._wait_until_gone(FAULT, front, trial, 0)


def test_words_that_come_late_or_end_before_the_fault_are_found() -> None:
    front, trial = Stub(messages=('', 'broken', 'broken', '')), Trial(0, FAULT.name, 'front', 0.0)
    judge = soak(front)
    judge._check_time(front, trial, NAMED, 0.0)
    with pytest.raises(Violation, match=f'it took {NAMED + 1} reports to say'):
        judge._check_time(front, trial, NAMED + 1, 0.0)
    with pytest.raises(Violation, match='but no more while it lasted'):
        judge._check_lasting(FAULT, front, status(2, 'broken'))
    front._statuses.pop()
    judge._check_lasting(FAULT, front, status(2, 'broken'))


# Counters and lives

@pytest.mark.parametrize(('received', 'may_lose', 'found'), [
    (10, 0, []), (9, 0, ['front: 1 left images have not arrived']), (9, 1, []),
    (8, 1, ['front: 2 left images have not arrived'])])
def test_a_message_that_is_lost_on_the_way_is_found(
        received: int, may_lose: int, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, 'usage', lambda pid: {})
    monkeypatch.setattr(Stub, 'process', types.SimpleNamespace(pid=1))
    front, trial = Stub(), Trial(0, FAULT.name, 'front', 0.0)
    judge = soak(front)
    judge._rest(front, trial, may_lose)
    front.ledger.images.update(left=10, right=10)
    front.counters = {'received left': received, 'received right': 10, 'waiting left': received,
                      'waiting right': 10}
    judge._rest(front, trial, may_lose)
    assert trial.violations == found
    monkeypatch.setattr(Stub, 'process', types.SimpleNamespace(pid=2))
    judge._rest(front, trial, may_lose)
    assert [len(life) for life in judge.lives['front']] == [2, 1]


# Faults that did nothing

def test_a_fault_without_words_shows_in_another_way_that_it_took_place() -> None:
    unseen = Fault('', '', faults.camera()).shown
    assert not [fault.name for fault in FAULTS
                if not fault.says and fault.results is not False
                and fault.shown.__code__ is unseen.__code__]


def test_what_a_fault_did_not_change_is_missing() -> None:
    front = Stub(messages=('', 'it is fine'))
    for number in range(20):
        front.ledger.send(number, SHOWN, 0.05 * number)
        front.ledger.receive(number, Found(7.0, 1.0, 1.0, 96, 64, 500.0), 0.05 * number)
    span = Span(1, 20, 0, 0.0)
    for fault in FAULTS:
        if fault.name in ('pairs come ten times as fast', 'the size changes',
                          'the encoding changes', 'the calibration changes'):
            assert fault.shown(front, span), fault.name
    front._statuses[-1]['input'].values['/left'] = '20.0 Hz, 96 x 64 rgb8'
    assert faults.told('rgb8')(front, span) == ''
    assert faults.told('rgb8')(front, Span(1, 20, 2, 0.0))
    assert faults.results(width=96)(front, span) == ''
    assert faults.results(width=96)(front, Span(21, 30, 0, 0.0))
    assert faults.sent_faster_than(19.0)(front, span) == ''
    front.waits = types.SimpleNamespace(since=lambda at: 2 * MIN_WAIT)    # type: ignore
    assert faults.sent_faster_than(30.0)(front, span) == ''


def test_a_parameter_that_is_accepted_and_not_set_is_found() -> None:
    node: Any = types.SimpleNamespace(
        get_parameters=lambda name: {name: 1},
        set_parameters=lambda **values: [types.SimpleNamespace(successful=True, reason='')])
    lasting = faults.parameters(('speckle_size', 20))
    with pytest.raises(Violation, match='was set to 20, and is 1'), lasting(
            node, random.Random(0)):
        pass


def test_a_process_that_is_stopped_and_one_that_is_not_are_told_apart() -> None:
    with subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']) as process:
        try:
            assert not faults.is_stopped(process.pid)
            faults._stop(process.pid)
            assert faults.is_stopped(process.pid)
        finally:
            process.kill()
    assert not faults.is_stopped(process.pid)


def test_a_node_that_is_not_stopped_or_not_for_long_is_found(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, '_stop', lambda pid: None)
    monkeypatch.setattr(faults, 'is_stopped', lambda pid: True)
    front: Any = types.SimpleNamespace(
        reports=3, process=types.SimpleNamespace(pid=1, send_signal=lambda number: None),
        parameters={'max_latency': 1.5}, ledger=Ledger(2.0))
    for more, sent_s_ago, found in (
            (1, 2.0, ''), (2, 2.0, 'goes on'), (1, 1.0, 'for too short a time')):
        with (pytest.raises(Violation, match=found) if found else contextlib.nullcontext(),
              faults.stopped(front, random.Random(0))):
            front.reports += more
            front.ledger.send(1, Shown(7, 96, 64, 500.0), time.monotonic() - sent_s_ago)


def test_a_pause_in_which_time_goes_on_is_found() -> None:
    times = iter((5, 5, 5, 6))
    front: Any = types.SimpleNamespace(
        camera=types.SimpleNamespace(set=lambda **settings: None),
        simulated=types.SimpleNamespace(now_ns=lambda: next(times)),
        status=lambda name: status(1, 'fine'), wait_until_known=lambda: None)
    paused = faults.clock(frozen=True)
    with paused(front, random.Random(0)):
        pass
    with pytest.raises(Violation, match='goes on'), paused(front, random.Random(0)):
        pass
