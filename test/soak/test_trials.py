"""The order of faults, their table, the judgement and the report of a soak, without ROS."""

from __future__ import annotations

import html
import itertools
import json
import pathlib
import re
import types
from collections.abc import Sequence
from typing import Any

import pytest

from test.soak import machine_faults, run
from test.soak.faults import Fault
from test.soak.trials import FAULTS, RESTART_EVERY, Trial, deal


def test_a_seed_gives_an_order_and_every_fault_comes_in_the_first_round() -> None:
    def dealt(seed: int) -> list[str]:
        return [fault.name for fault in itertools.islice(deal(seed, FAULTS), 200)]

    assert dealt(3) == dealt(3)
    assert dealt(3) != dealt(4)
    assert set(dealt(3)[:len(FAULTS)]) == {fault.name for fault in FAULTS}


def test_processes_end_in_the_first_of_ten_rounds_only() -> None:
    ending = sum(fault.restarts for fault in FAULTS)
    between = (RESTART_EVERY - 1) * (len(FAULTS) - ending)
    dealt = list(itertools.islice(deal(1, FAULTS), len(FAULTS) + between + len(FAULTS)))
    places = [place for place, fault in enumerate(dealt) if fault.restarts]
    assert len(places) == 2 * ending
    assert not any(len(FAULTS) <= place < len(FAULTS) + between for place in places)


def test_each_fault_of_the_table_can_be_told_apart() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.rig in ('front', 'rear')
        assert fault.says is None or re.compile(fault.says[1])
        assert not (fault.beside and (fault.restarts or fault.says or not fault.results))


@pytest.mark.parametrize(('controllers', 'can'), [
    ('cpu memory pids\n', True), ('cpu pids\n', False), (None, False)])
def test_memory_is_limited_only_where_the_controller_is(
        controllers: str | None, can: bool, tmp_path: pathlib.Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_faults, 'CGROUPS', tmp_path)
    if controllers is not None:
        (tmp_path / 'cgroup.subtree_control').write_text(controllers)
    little_memory = next(fault for fault in FAULTS if fault.name == 'little memory')
    assert (little_memory.needs() == '') is can


def judged(growth: float, violations: list[str], *, of: str = 'front', lives: int = 1,
           tried: Sequence[Fault] = FAULTS[:2]) -> dict[str, Any]:
    """The report of an hour with a trial a minute, in which memory grows by MiB an hour.

    :param of: the node whose memory does, in so many processes one after the other.
    """
    rig = types.SimpleNamespace(ledger=types.SimpleNamespace(sent=10, delivered=9),
                                statuses={0: 41, -11: 2})
    trials = [Trial(number, FAULTS[0].name, 'front', 60.0 * number) for number in range(60)]
    trials[5].violations = violations
    life = [(k / 60, {'RSS MiB': 100 + growth * k / 60, 'private MiB': 50.0, 'open files': 20.0,
                      'threads': 9.0}) for k in range(60)]
    parts = [life[60 * k // lives:60 * (k + 1) // lives] for k in range(lives)]
    soak: Any = types.SimpleNamespace(
        lives={of: parts}, trials=trials, elapsed=3600.0, rigs={of: rig},
        violations=[(trials[5], text) for text in violations])
    return run.judge(soak, seed=5, minutes=60, backend='cpu', faults=tried,
                     skipped={FAULTS[1].name: 'no <such> machine'})


def test_growth_and_violations_are_told_with_their_time() -> None:
    assert judged(0, [])['violations'] == []
    first, second = judged(30, ['it broke'])['violations']
    assert first == f'after 300 s, trial 5, {FAULTS[0].name}: it broke'
    assert second.startswith('front RSS MiB grows by 30.00 an hour')


def test_growth_of_the_other_node_is_told_too() -> None:
    grows, = judged(30, [], of='rear')['violations']
    assert grows.startswith('rear RSS MiB grows by 30.00 an hour')


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
    assert json.loads((tmp_path / 'soak.json').read_text(encoding='utf-8')) == json.loads(
        json.dumps(report))
    text = (tmp_path / 'soak.html').read_text(encoding='utf-8')
    assert '&lt;b&gt;it broke&lt;/b&gt;' in text
    assert 'skipped: no &lt;such&gt; machine' in text
    assert '59 of 60' in text
    assert '--seed 5' in text
    assert '"-11": 2' in html.unescape(text)
    assert 'grows' in text
