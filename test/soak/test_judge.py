"""What the soak judges by is strict: each case is one that a laxer judge would let pass."""

from __future__ import annotations

import collections
import contextlib
import html
import itertools
import json
import pathlib
import random
import subprocess
import sys
import time
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
from test.cases import every
from test.node.client import Status, unaccounted
from test.soak import faults, ledger, rig, run, trials
from test.soak.camera import DISPARITIES, shown_at, textures
from test.soak.faults import Fault, Span
from test.soak.ledger import Found, Ledger, Shown, Totals, Waits, transport_losses, trend, waited
from test.soak.rig import MIN_WAIT, Rig, Violation
from test.soak.trials import FAULTS, GONE, NAMED, RESTART_EVERY, SLACK, Soak, Trial

MS = 1_000_000
SHOWN = Shown(7, 96, 64, 500.0)
RIGHT = Found(7.2, 1.0, 0.8, 96, 64, 500.0)
FAULT = Fault('it breaks', '', faults.camera(), says=('input', 'broken'))


# Results

@pytest.fixture
def sent() -> Ledger:
    """Three frames were sent, at the seconds 0, 1 and 2."""
    made = Ledger(longest_age=3.0)
    for number in range(3):
        made.send((number + 1) * MS, SHOWN, float(number))
    return made


def test_results_in_the_order_of_sending_are_right_whatever_their_stamps_do(sent: Ledger) -> None:
    for number in range(3):
        sent.receive((number + 1) * MS, RIGHT, number + 0.5)
    sent.send(2 * MS + 1, SHOWN, 3.0)
    sent.receive(2 * MS + 1, RIGHT, 3.5)
    assert sent.take_violations() == []
    assert (sent.sent, sent.delivered, sent.last) == (4, 4, 4)
    assert sent.images == {'left': 4, 'right': 4}
    assert sent.shown_between(2, 3) == [SHOWN] * 2


@pytest.mark.parametrize(('order', 'now', 'found', 'words'), [
    ([3, 2], 2.5, RIGHT, 'frame 2: stale, published after frame 3'),
    ([2, 2], 2.5, RIGHT, 'frame 2: published twice'),
    ([9], 2.5, RIGHT, 'the stamp 9000000, which was not sent'),
    ([1], 3.5, RIGHT, 'frame 1: stale, published 3.5 s after it was sent'),
    ([1], 0.5, RIGHT._replace(disparity=8.0), 'mixed, its disparity is 8.0'),
    ([1], 0.5, RIGHT._replace(agreement=0.5), 'in 50 % of the pixels'),
    ([1], 0.5, RIGHT._replace(valid=0.1), '10 % of its pixels are valid'),
    ([1], 0.5, RIGHT._replace(focal=620.0), 'mixed, f is 620'),
    ([1], 0.5, RIGHT._replace(width=144, height=80), '144 x 80, sent were 96 x 64')])
def test_a_result_that_is_stale_repeated_or_of_another_pair_is_found(
        sent: Ledger, order: list[int], now: float, found: Found, words: str) -> None:
    for stamp in order:
        sent.receive(stamp * MS, found, now)
    violation, = sent.take_violations()
    assert words in violation
    assert sent.take_violations() == []


def test_a_busy_machine_excuses_an_old_result_but_none_that_is_forbidden() -> None:
    for excused, is_stale in ((0.4, True), (0.6, False)):
        busy = Ledger(rig.MAX_AGE, {10.0: excused}.__getitem__)
        busy.send(1, SHOWN, 10.0)
        busy.receive(1, RIGHT, 10.5 + rig.MAX_AGE)
        assert bool(busy.take_violations()) is is_stale
    busy = Ledger(rig.MAX_AGE, lambda at: 1e3)
    for number in range(4):
        busy.send((number + 1) * MS, SHOWN, float(number))
    assert busy.forbid(1, 2.0, 'it was too old') == 2
    for number in range(4):
        busy.receive((number + 1) * MS, RIGHT, 100.0)
    assert busy.take_violations() == [
        f'frame {place}: stale, published although it was too old' for place in (2, 3)]


def test_pairs_show_a_disparity_that_changes_and_halves_of_two_pairs_none() -> None:
    for period in (5, 50):              # milliseconds, of the rates of the camera
        shown = [shown_at(k * period * MS) for k in range(100)]
        assert every(a != b for a, b in itertools.pairwise(shown))
        assert set(shown) == set(DISPARITIES)

    def share(left: np.ndarray, right: np.ndarray, disparity: int) -> float:
        return float(np.mean(left[:, disparity:] == right[:, :left.shape[1] - disparity]))
    (left, right), (_, other) = textures(5, 96, 64), textures(9, 96, 64)
    assert share(left, right, 5) == 1
    assert max(share(left, other, d) for d in range(32)) < 0.1


# Messages and counters

def test_a_counter_that_is_one_too_high_is_found() -> None:
    sound = {'received left': 10, 'received right': 9, 'pairs': 8, 'published': 5, 'held': 1,
             'waiting left': 1, 'waiting right': 0, 'dropped left: unmatched': 1,
             'dropped right: duplicate stamp': 1, 'dropped pairs: stale': 2, 'clock jumps': 3}
    assert unaccounted(sound) == []
    for key in sound.keys() - {'clock jumps'}:
        assert unaccounted({**sound, key: sound[key] + 1}), key


def test_losses_on_the_way_are_counted_and_gains_are_impossible() -> None:
    before = Totals({'received left': 5, 'received right': 5, 'published': 4},
                    {'left': 105, 'right': 105}, 4)
    after = Totals({'received left': 9, 'received right': 16, 'published': 8},
                   {'left': 115, 'right': 115}, 7)
    assert transport_losses(before, after) == (
        ['11 right images have arrived, but 10 were sent'], {'left images': 6, 'results': 1})


# Waits of a busy machine, and growth

def test_waiting_is_summed_over_threads_since_a_sample(tmp_path: pathlib.Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / '5/task/6').mkdir(parents=True)
    (tmp_path / '5/task/6/schedstat').write_text('7 500000000 9\n')
    assert waited(5, tmp_path) == {'6': 0.5}
    assert waited(6, tmp_path) == {}
    threads = {'a': 1.0, 'gone': 5.0}
    waits, now = Waits(lambda: dict(threads)), [100.0]
    monkeypatch.setattr(ledger.time, 'monotonic', lambda: now[0])
    waits.sample()
    threads['a'], now[0] = 1.5, 200.0
    waits.sample()
    del threads['gone']
    threads |= {'a': 3.0, 'new': 0.25}
    # From the sample at 100, that at 200, and the first.
    assert [waits.since(at) for at in (150.0, 200.0, 50.0)] == [2.25, 1.75, 2.25]


def line(slope: float, noise: float, *, level: float = 100.0, seed: int = 1
         ) -> list[tuple[float, float]]:
    """A value a minute for an hour."""
    noises = noise * np.random.default_rng(seed).standard_normal(60)
    return [(k / 60, level + slope * k / 60 + noises[k]) for k in range(60)]


@pytest.mark.parametrize(('runs', 'slope', 'grows'), [
    ([line(10, 1)], 10, True), ([line(0, 1)], 0, False),
    ([line(0, 1, level=100), line(0, 1, level=200, seed=2)], 0, False),     # two processes
    ([line(1, 0.01)], 1, False)])                                           # within the grain
def test_growth_is_told_from_noise_levels_and_grains(
        runs: Any, slope: float, grows: bool) -> None:
    found = trend(runs, 2)
    assert found is not None
    assert found.interval[0] < slope < found.interval[1]
    assert found.grows is grows


def test_the_interval_holds_the_slope_about_as_often_as_it_says_and_few_values_tell_nothing(
        ) -> None:
    intervals = [trend([line(3, 5, seed=seed)], 2).interval for seed in range(40)]  # type: ignore
    assert sum(low <= 3 <= high for low, high in intervals) >= 33
    assert trend([line(10, 1)[:5]], 2) is None


def test_the_beginning_of_a_life_is_left_out() -> None:
    assert ledger.settled([(1.0, 5.0), (1.1, 6.0), (1.2, 7.0)], 0.15) == [(1.2, 7.0)]
    assert ledger.settled([], 0.15) == []
    # One step in the first half is no growth.
    hour = [(minute / 60, 103.0 if minute > 24 else 95.0) for minute in range(61)]
    assert {value for _, value in ledger.settled(hour, 10 / 60)} == {103.0}


# Faults: naming, recovery, and whether they took place

class Stub(Rig):
    """A rig without ROS.

    :param answers: whether the n-th frame that is sent has a result; then all have.
    :param too_old: frames that the node drops for that, when it is asked the second time.
    :param waits: seconds that threads have waited for a core, always.
    :param messages: of the status 'input', report by report.
    """

    process = types.SimpleNamespace(pid=1)                                  # type: ignore

    def __init__(self, *, answers: Sequence[bool] = (), too_old: int = 0, waits: float = 0.0,
                 messages: Sequence[str] = ()) -> None:
        self.name, self.before, self.node_process = 'front', None, None
        self.ledger = Ledger(3.0)
        self.waits = types.SimpleNamespace(since=lambda at: waits)          # type: ignore
        self.camera = types.SimpleNamespace(                                # type: ignore
            send=self._send, set=lambda **settings: None)
        self._answers = itertools.chain(answers, itertools.repeat(True))
        self._statuses = collections.deque(
            {'input': Status(number, 0, 0, message, {})}
            for number, message in enumerate(messages, 1))
        self.reports = len(messages)
        self.counters = collections.Counter[str]()
        self._too_old = too_old

    def _send(self) -> None:
        place = self.ledger.send(self.ledger.sent * MS, SHOWN, 0.0)
        if next(self._answers):
            self.ledger.receive((place - 1) * MS, RIGHT, 0.1)

    def wait_for_result(self, after: int, limit: float = 0.0) -> bool:
        return self.ledger.last > after

    def counts(self) -> dict[str, int]:
        keys = ('received left', 'received right', 'pairs', 'published', 'held', 'waiting left',
                'waiting right', *(f'dropped pairs: {why}' for why in ('late', 'stale',
                                                                       'superseded')))
        return {key: self.counters[key] for key in keys}

    def settled(self) -> dict[str, int]:
        self.counters['dropped pairs: late'] += self._too_old
        return self.counts()


@pytest.mark.parametrize(('sent', 'too_old', 'waits', 'recovery'), [
    (1, 0, 0.0, 1), (5, 0, 0.0, 5),
    # The node drops what comes, and the machine is quiet.
    (5, 4, 0.9 * MIN_WAIT, 5),
    # The machine is busy: as many as it has made wait, and as were dropped for that.
    (5, 4, 2 * MIN_WAIT, 3), (5, 4, 90.0, 1), (5, 1, 90.0, 4)])
def test_frames_that_are_too_old_are_excused_by_a_busy_machine_alone(
        sent: int, too_old: int, waits: float, recovery: int) -> None:
    stub = Stub(answers=[False] * (sent - 1), too_old=too_old, waits=waits)
    assert stub.frames_to_recover() == recovery


@pytest.mark.parametrize(('messages', 'waits', 'reports'), [
    (['broken'] * GONE + [''], 0.0, GONE + 1), (['broken'] * (GONE - 1) + [''], 0.0, None),
    (['broken'] * GONE + [''], 1.5, None),
    (['broken'] * (GONE + SLACK) + [''], 9.0, GONE + SLACK + 1)])
def test_words_that_stay_longer_than_two_reports_are_found(
        messages: list[str], waits: float, reports: int | None) -> None:
    with (pytest.raises(Violation, match=f'took {reports} reports to go') if reports
          else contextlib.nullcontext()):
        trials.wait_until_gone(FAULT, Stub(waits=waits, messages=messages),
                               Trial(0, FAULT.name, 'front', 0.0), 0)


def test_words_that_come_late_or_end_before_the_fault_are_found() -> None:
    front, trial = Stub(messages=('', 'broken', 'broken', '')), Trial(0, FAULT.name, 'front', 0.0)
    trials.check_time(front, trial, NAMED, 0.0)
    with pytest.raises(Violation, match=f'it took {NAMED + 1} reports to say'):
        trials.check_time(front, trial, NAMED + 1, 0.0)
    named = Status(2, 0, 0, 'broken', {})
    with pytest.raises(Violation, match='but no more while it lasted'):
        trials.check_lasting(FAULT, front, named)
    front._statuses.pop()
    trials.check_lasting(FAULT, front, named)


@pytest.mark.parametrize(('received', 'may_lose', 'found'), [
    (9, 0, ['front: 1 left images have not arrived']), (9, 1, []),
    (8, 1, ['front: 2 left images have not arrived'])])
def test_a_message_that_is_lost_on_the_way_is_found_and_a_life_is_of_one_process(
        received: int, may_lose: int, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, 'usage', lambda pid: {})
    front, trial = Stub(), Trial(0, FAULT.name, 'front', 0.0)
    judge = Soak({'front': front}, 1, FAULTS)
    judge.rest(front, trial, may_lose)
    front.ledger.images.update(left=10, right=10)
    front.counters.update({'received left': received, 'received right': 10,
                           'waiting left': received, 'waiting right': 10})
    judge.rest(front, trial, may_lose)
    assert trial.violations == found
    monkeypatch.setattr(Stub, 'process', types.SimpleNamespace(pid=2))
    judge.rest(front, trial, may_lose)
    assert [len(life) for life in judge.lives['front']] == [2, 1]


def test_what_a_fault_did_not_change_is_missing() -> None:
    front, busy = Stub(messages=('', 'it is fine')), Stub(waits=2 * MIN_WAIT)
    for number in range(20):
        front.ledger.send(number, SHOWN, 0.05 * number)
        front.ledger.receive(number, RIGHT, 0.05 * number)
    span = Span(1, 20, 0, 0.0)
    changing = [fault for fault in FAULTS if fault.name in (
        'pairs come ten times as fast', 'the size changes', 'the encoding changes',
        'the calibration changes')]
    assert [bool(fault.shown(front, span)) for fault in changing] == [True] * 4
    front._statuses[-1]['input'].values['/left'] = '20.0 Hz, 96 x 64 rgb8'
    assert faults.told('rgb8')(front, span) == ''
    assert faults.told('rgb8')(front, Span(1, 20, 2, 0.0))
    assert faults.results(width=96)(front, span) == ''
    assert faults.results(width=96)(front, Span(21, 30, 0, 0.0))
    assert faults.sent_faster_than(19.0)(front, span) == ''
    assert faults.sent_faster_than(30.0)(busy, span) == ''


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


@pytest.mark.parametrize(('reports', 'sent_s_ago', 'words'), [
    (1, 2.0, ''), (2, 2.0, 'goes on'), (1, 1.0, 'for too short a time')])
def test_a_node_that_is_not_stopped_or_not_for_long_is_found(
        reports: int, sent_s_ago: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, '_stop', lambda pid: None)
    monkeypatch.setattr(faults, 'is_stopped', lambda pid: True)
    front: Any = types.SimpleNamespace(
        reports=3, process=types.SimpleNamespace(pid=1, send_signal=lambda number: None),
        parameters={'max_latency': 1.5}, ledger=Ledger(2.0))
    with (pytest.raises(Violation, match=words) if words else contextlib.nullcontext(),
          faults.stopped()(front, random.Random(0))):
        front.reports += reports
        front.ledger.send(1, SHOWN, time.monotonic() - sent_s_ago)


def test_a_pause_in_which_time_goes_on_is_found() -> None:
    times = iter((5, 5, 5, 6))
    front: Any = types.SimpleNamespace(
        camera=types.SimpleNamespace(set=lambda **settings: None),
        clock=types.SimpleNamespace(now_ns=lambda: next(times)),
        status=lambda name: Status(1, 0, 0, 'fine', {}), wait_until_known=lambda: None)
    with faults.paused()(front, random.Random(0)):
        pass
    with (pytest.raises(Violation, match='goes on'),
          faults.paused()(front, random.Random(0))):
        pass


# The order of faults, and the report

def test_a_seed_gives_an_order_and_every_fault_comes_in_the_first_of_ten_rounds() -> None:
    ending = sum(fault.restarts for fault in FAULTS)
    between = (RESTART_EVERY - 1) * (len(FAULTS) - ending)

    def dealt(seed: int) -> list[Fault]:
        return list(itertools.islice(trials.deal(seed, FAULTS), 2 * len(FAULTS) + between))
    assert dealt(3) == dealt(3)
    assert dealt(3) != dealt(4)
    assert {fault.name for fault in dealt(3)[:len(FAULTS)]} == {fault.name for fault in FAULTS}
    # Processes end in that round only.
    places = [place for place, fault in enumerate(dealt(1)) if fault.restarts]
    assert len(places) == 2 * ending
    assert not any(len(FAULTS) <= place < len(FAULTS) + between for place in places)


def test_each_fault_of_the_table_can_be_told_apart() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert not (fault.beside and (fault.restarts or fault.says or not fault.results))


def judged(growth: float, violations: list[str], *, of: str = 'front', lives: int = 1,
           tried: Sequence[Fault] = FAULTS[:2]) -> dict[str, Any]:
    """The report of an hour with a trial a minute, in which memory grows by MiB an hour.

    :param of: the node whose memory does, in so many processes one after the other.
    """
    node = types.SimpleNamespace(ledger=types.SimpleNamespace(sent=10, delivered=9),
                                 statuses={0: 41, -11: 2})
    attempts = [Trial(number, FAULTS[0].name, 'front', 60.0 * number) for number in range(60)]
    attempts[5].violations = violations
    life = [(k / 60, {'RSS MiB': 100 + growth * k / 60, 'private MiB': 50.0, 'open files': 20.0,
                      'threads': 9.0}) for k in range(60)]
    parts = [life[60 * k // lives:60 * (k + 1) // lives] for k in range(lives)]
    soak: Any = types.SimpleNamespace(
        lives={of: parts}, trials=attempts, elapsed=3600.0, rigs={of: node},
        violations=[(attempts[5], text) for text in violations])
    return run.judge(soak, seed=5, minutes=60, backend='cpu', faults=tried,
                     skipped={FAULTS[1].name: 'no <such> machine'})


def test_growth_and_violations_are_told_with_their_time() -> None:
    assert judged(0, [])['violations'] == []
    first, second = judged(30, ['it broke'], of='rear')['violations']
    assert first == f'after 300 s, trial 5, {FAULTS[0].name}: it broke'
    assert second.startswith('rear RSS MiB grows by 30.00 an hour')


def test_an_hour_in_which_no_process_lives_long_enough_is_no_success() -> None:
    short = judged(0, [], lives=6, tried=FAULTS)['violations']
    assert len(short) == len(run.WATCHED)
    assert 'no process lived long enough to tell whether front RSS MiB grows' in short
    assert judged(0, [], lives=4, tried=FAULTS)['violations'] == []
    # Of faults that were chosen each may end the process.
    assert judged(0, [], lives=6)['violations'] == []


def test_the_page_tells_faults_violations_and_what_was_skipped(tmp_path: pathlib.Path) -> None:
    report = judged(30, ['<b>it broke</b>'])
    run.write_report(tmp_path, report)
    assert json.loads((tmp_path / 'soak.json').read_text()) == json.loads(json.dumps(report))
    text = (tmp_path / 'soak.html').read_text(encoding='utf-8')
    for words in ('&lt;b&gt;it broke&lt;/b&gt;', 'skipped: no &lt;such&gt; machine', '59 of 60',
                  '--seed 5', 'grows'):
        assert words in text
    assert '"-11": 2' in html.unescape(text)
