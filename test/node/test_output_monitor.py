"""Images come and nothing is published: an error, but for a while after a rebuild."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.node.diagnostics.ledger import SIDES, ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import OutputMonitor
from stereo_bp_ros.node.diagnostics.report import MAX_BUILD, nothing_published
from test.node.reports import make_report

pytestmark = pytest.mark.ros


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


def receive_and_lose(ledger: Ledger) -> None:
    for side in SIDES:
        ledger.receive(side)
    ledger.count('pairs')
    ledger.drop_pair(PairDrop.RECONFIGURING)


def test_a_rebuild_is_a_warning_and_the_wait_for_results_begins_anew_after_it() -> None:
    ledger, monitor = Ledger(), OutputMonitor()
    ledger.count('published')

    def found(now: float, **options: Any) -> tuple[int, str] | None:
        receive_and_lose(ledger)
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
