"""What is measured between two reports: topics, outputs and latencies."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.node.diagnostics.ledger import (
    ATTEMPTS,
    ImageDrop,
    Ledger,
    PairDrop,
    take_snapshot,
)
from stereo_bp_ros.node.diagnostics.monitors import LatencyWindow, OutputMonitor, TopicMonitor


def test_percentiles_are_taken_over_the_window() -> None:
    window = LatencyWindow(100)
    assert window.report() == (None, None)
    for k in range(1, 301):
        window.add(float(k))
    found, _ = window.report()
    assert found is not None
    assert (found.frames, found.p50, found.maximum) == (100, 250.5, 300.0)
    assert found.p95 == pytest.approx(295.05)


def test_a_monitor_measures_rate_and_silence_and_forgives_a_clock_that_is_set() -> None:
    steady = itertools.count(0.0, 5.0)      # 5 s between any two calls
    monitor = TopicMonitor('/t', 10.0, lambda: next(steady))
    message = types.SimpleNamespace(width=4, height=3, encoding='mono8')
    for k in range(20):
        monitor.tick(10.0 + k * 0.1, message)
    report = monitor.report(12.0)
    assert report.rate == pytest.approx(10.0)
    assert report.silent == pytest.approx(0.1)
    assert report.detail == '4 x 3 mono8'
    assert monitor.report(1.0).silent == 0.0
    assert monitor.report(3.0).silent == 2.0
    # A clock that is set ahead, or was not known, makes nothing silent that comes.
    monitor.tick(3.5, message)
    assert monitor.report(36_000.0).silent == 5.0
    monitor = TopicMonitor('/t', 0.0, lambda: next(steady))
    monitor.tick(0.0, message)
    assert [monitor.report(now).silent for now in (0.0, 1000.0, 1002.0)] == [0.0, 0.0, 2.0]


def test_the_detail_of_a_topic_is_bounded() -> None:
    monitor = TopicMonitor('/t', 0.0)
    for message in (types.SimpleNamespace(width=4, height=3, encoding='\n' * 300000),
                    types.SimpleNamespace(data=b'', format='\n' * 300000)):
        monitor.tick(0.0, message)
        detail = monitor.report(1.0).detail
        assert len(detail) < 100
        assert detail.isprintable()


# Counters

@pytest.mark.parametrize('late', ['counters', 'waiting', 'held'])
def test_the_counters_of_a_report_are_of_one_moment(late: str) -> None:
    """An image, or a pair, moves on between two looks of the first attempts."""
    ledger, looks = Ledger(), itertools.count()
    for side in SIDES:
        ledger.receive(side)
    waiting, held = {'left': 1, 'right': 1}, 0

    def look(what: str) -> None:
        nonlocal held
        if what != late:
            return
        step = next(looks)
        if step == 0:           # both images become a pair
            ledger.count('pairs')
            waiting.update(left=0, right=0)
            held = 1
        elif step == 1:
            ledger.count('published')
            held = 0

    def held_now() -> int:
        look('held')
        return held

    def waiting_now(side: str) -> int:
        look('waiting')
        return waiting[side]

    counts = ledger.counts
    ledger.counts = lambda: (counts(), look('counters'))[0]     # type: ignore[method-assign]
    snapshot = take_snapshot(ledger, waiting_now, held_now)
    assert snapshot.adds_up
    assert (snapshot.counts.published, snapshot.waiting, snapshot.held) == (
        1, {'left': 0, 'right': 0}, 0)


def test_counters_that_never_add_up_are_reported_as_they_are() -> None:
    attempts: list[int] = []
    snapshot = take_snapshot(Ledger(), lambda side: 0, lambda: attempts.append(1) or 3)
    assert (snapshot.adds_up, snapshot.held, len(attempts)) == (False, 3, ATTEMPTS)


# Outputs

def test_nothing_published_while_images_come_is_noticed_whatever_the_cause() -> None:
    """One report a second; 20 images of each side in each of them."""
    def spells(*happens: Callable[[Ledger], None], **options: Any) -> list[float]:
        ledger, monitor = Ledger(), OutputMonitor()
        options = {'wanted': True, 'timeout': 1.0, **options}
        found = []
        for k, happen in enumerate(happens):
            happen(ledger)
            spell = monitor.report(100.0 + k, ledger.counts(), **options)
            found.append(spell.seconds if spell else 0.0)
        return found

    def receive(ledger: Ledger) -> None:
        for _ in range(20):
            for side in SIDES:
                ledger.receive(side)

    def publish(ledger: Ledger) -> None:
        receive(ledger)
        for _ in range(20):
            ledger.count('pairs')
            ledger.count('published')

    def lose(ledger: Ledger) -> None:
        receive(ledger)
        for side in SIDES:
            ledger.drop_image(side, ImageDrop.DUPLICATE, 20)

    def silence(ledger: Ledger) -> None:
        pass

    assert spells(publish, lose, lose, lose, publish) == [0, 1, 2, 3, 0]
    assert spells(publish, lose, lose, timeout=2.0) == [0, 0, 2]
    # Nothing was dropped, but what came a report ago is not out yet.
    assert spells(publish, receive, receive) == [0, 0, 2]
    assert spells(lose, lose, lose, wanted=False) == [0, 0, 0]
    assert spells(publish, *[silence] * 5) == [0] * 6
    assert spells(publish, lose, *[silence] * 5) == [0, 1, 2, 3, 0, 0, 0]


@pytest.mark.ros
def test_a_rebuild_is_a_warning_and_the_wait_for_results_begins_anew_after_it() -> None:
    pytest.importorskip('rclpy')
    from stereo_bp_ros.node.diagnostics.report import MAX_BUILD, nothing_published
    from test.node.test_diagnostics import make_report

    ledger, monitor = Ledger(), OutputMonitor()
    ledger.count('published')

    def found(now: float, **options: Any) -> tuple[int, str] | None:
        for side in SIDES:
            ledger.receive(side)
        ledger.count('pairs')
        ledger.drop_pair(PairDrop.RECONFIGURING)
        stall = monitor.report(now, ledger.counts(), wanted=True, timeout=1.0, **options)
        said = nothing_published(make_report(counts=ledger.counts(), stall=stall))
        return said and (said.level, said.text)
    assert found(100.0) is None
    assert found(100.9, building=100.1) is None
    building = 'nothing published for {} s: a new engine is being built'
    assert found(102.0, building=100.1) == (1, building.format(2))
    assert found(100 + MAX_BUILD, building=100.1) == (1, building.format(f'{MAX_BUILD:.0f}'))
    # One that hangs is told.
    level, text = found(101 + MAX_BUILD, building=100.1) or (0, '')
    assert (level, 'in the making for 181 s, and 180 s are the limit' in text) == (2, True)
    # It has ended, and no result is there yet.
    assert found(300.9, built=300.0) is None
    level, text = found(301.1, built=300.0) or (0, '')
    assert (level, 'reconfiguring' in text) == (2, True)
    # It began and ended between two reports.
    ledger.count('published')
    assert found(400.0) is None
    assert found(401.0, built=400.9) is None
