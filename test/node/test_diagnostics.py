"""/diagnostics: which status is OK, a warning or an error, and what it says."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.errors import InputReason
from stereo_bp_ros.node.accounting import ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.conditions import Condition, Conditions, Level
from stereo_bp_ros.node.diagnostics import DiagnosticsBuilder, Report
from stereo_bp_ros.node.input_monitor import TopicMonitor, TopicReport
from stereo_bp_ros.node.latency import Distribution, LatencyWindow

pytestmark = pytest.mark.ros

ALIVE = TopicReport('/left/image_rect', 30.0, 0.03, True, '640 x 480 mono8')


def make_report(**fields: Any) -> Report:
    ledger = Ledger()
    values: dict[str, Any] = {
        'state': 'active', 'idle': False, 'images': [ALIVE], 'infos': [], 'missing': [],
        'conditions': [], 'counts': ledger.counts(), 'before': ledger.counts(),
        'waiting': {'left': 0, 'right': 0}, 'held': 0, 'closest_miss': None,
        'distribution': None, 'matcher': None, 'device': {}, 'config': MatcherConfig(),
        'settings': NodeConfig(), **fields}
    return Report(**values)


def status(report: Report, name: str) -> types.SimpleNamespace:
    from builtin_interfaces.msg import Time
    message = DiagnosticsBuilder('/stereo_bp').build(Time(sec=7), report)
    assert message.header.stamp.sec == 7
    found, = (s for s in message.status if s.name == f'/stereo_bp: {name}')
    assert isinstance(found.level, bytes)
    return types.SimpleNamespace(level=found.level[0], message=found.message,
                                 values={v.key: v.value for v in found.values})


def test_a_healthy_node_is_ok_throughout() -> None:
    report = make_report()
    assert [status(report, n).level for n in ('input', 'pairing', 'latency', 'device')
            ] == [0, 0, 0, 0]
    assert status(report, 'input').message == 'receiving'


def test_a_topic_is_silent_after_the_timeout() -> None:
    silent = dataclasses.replace(ALIVE, silent=1.01)
    found = status(make_report(images=[silent]), 'input')
    assert (found.level, found.message) == (2, 'nothing on /left/image_rect for 1.0 s')
    patient = make_report(images=[silent], settings=NodeConfig(input_timeout=2.0))
    assert status(patient, 'input').level == 0


def test_a_camera_info_that_stopped_is_a_warning_and_one_that_never_came_an_error() -> None:
    info = TopicReport('/left/camera_info', 0.0, 5.0, True, '')
    found = status(make_report(infos=[info]), 'input')
    assert found.level == 1
    assert 'its last camera_info is used' in found.message
    found = status(make_report(infos=[dataclasses.replace(info, seen=False)],
                               missing=['/left/camera_info']), 'input')
    assert (found.level, found.message) == (2, 'no camera_info on /left/camera_info')


def test_the_worst_comes_first() -> None:
    conditions = [Condition('quality', Level.WARN, 'black'),
                  Condition('input', Level.ERROR, 'bad input: zero baseline'),
                  Condition('device', Level.ERROR, 'device lost')]
    found = status(make_report(conditions=conditions), 'input')
    assert (found.level, found.message) == (2, 'bad input: zero baseline; black')
    assert status(make_report(conditions=conditions), 'device').level == 2


@pytest.mark.parametrize('state', ['unconfigured', 'configuring', 'inactive'])
def test_a_node_that_is_not_active_misses_nothing(state: str) -> None:
    silent = dataclasses.replace(ALIVE, silent=100.0)
    report = make_report(state=state, images=[silent])
    assert status(report, 'input').level == 0
    assert state in status(report, 'device').message


def test_idle_is_said_and_is_no_fault() -> None:
    ledger = Ledger()
    before = ledger.counts()
    for side in ('left', 'right'):
        ledger.receive(side)
    ledger.pair()
    ledger.drop_pair(PairDrop.NO_SUBSCRIBERS)
    report = make_report(idle=True, counts=ledger.counts(), before=before)
    for name in ('input', 'latency'):
        found = status(report, name)
        assert (found.level, found.message) == (0, 'idle: no subscribers')


def test_drops_since_the_last_report_are_a_warning_by_reason() -> None:
    ledger = Ledger()
    ledger.drop_pair(PairDrop.STALE)
    before = ledger.counts()
    for _ in range(3):
        ledger.pair()
    ledger.publish()
    ledger.drop_pair(PairDrop.SUPERSEDED)
    ledger.drop_pair(PairDrop.SUPERSEDED)
    ledger.drop_image('left', ImageDrop.UNMATCHED)
    found = status(make_report(counts=ledger.counts(), before=before), 'pairing')
    assert (found.level, found.message) == (1, 'dropped: 1 unmatched left, 2 superseded')
    assert found.values['dropped pairs: stale'] == '1'
    quiet = make_report(counts=ledger.counts(), before=ledger.counts())
    assert status(quiet, 'pairing').level == 0


def test_pairs_without_any_result_are_an_error() -> None:
    ledger = Ledger()
    before = ledger.counts()
    ledger.pair()
    ledger.drop_pair(PairDrop.BAD_INPUT, InputReason.SHORT_DATA)
    report = make_report(counts=ledger.counts(), before=before)
    found = status(report, 'pairing')
    assert (found.level, found.message) == (2, 'nothing published; dropped: 1 bad input')
    assert status(report, 'input').values['bad input: short data'] == '1'


@pytest.mark.parametrize(('settings', 'hint'), [
    ({}, 'approximate_sync is off'),
    ({'approximate_sync': True}, 'approximate_sync_tolerance_seconds is 0.01')])
def test_images_that_never_pair_are_an_error_that_says_by_how_much(settings: dict[str, Any],
                                                                   hint: str) -> None:
    found = status(make_report(closest_miss=0.0123, settings=NodeConfig(**settings)), 'pairing')
    assert found.level == 2
    assert 'differ by 0.012300 s' in found.message
    assert hint in found.message


def test_a_latency_over_the_budget_is_a_warning() -> None:
    distribution = Distribution(100, 20.0, 90.0, 120.0, 130.0)
    found = status(make_report(distribution=distribution), 'latency')
    assert (found.level, found.values['p99 ms']) == (0, '120.000')
    over = make_report(distribution=distribution, settings=NodeConfig(latency_budget_ms=80))
    assert status(over, 'latency').level == 1
    off = make_report(distribution=distribution, settings=NodeConfig(latency_budget_ms=0))
    assert status(off, 'latency').level == 0


def test_percentiles_are_taken_over_the_window() -> None:
    window = LatencyWindow(100)
    assert window.distribution() is None
    for k in range(1, 301):
        window.add(float(k))
    found = window.distribution()
    assert found is not None
    assert (found.frames, found.p50, found.maximum) == (100, 250.5, 300.0)
    assert found.p95 == pytest.approx(295.05)


def test_a_monitor_measures_rate_and_silence_and_forgives_a_clock_that_goes_back() -> None:
    monitor = TopicMonitor('/t', 10.0)
    message = types.SimpleNamespace(width=4, height=3, encoding='mono8')
    for k in range(20):
        monitor.tick(10.0 + k * 0.1, message)
    report = monitor.report(12.0)
    assert report.rate == pytest.approx(10.0)
    assert report.silent == pytest.approx(0.1)
    assert report.detail == '4 x 3 mono8'
    assert monitor.report(1.0).silent == 0.0
    assert monitor.report(3.0).silent == 2.0


def test_what_came_before_the_clock_was_known_is_not_silent_when_it_is() -> None:
    monitor = TopicMonitor('/t', 0.0)
    monitor.tick(0.0, types.SimpleNamespace(width=4, height=3))
    assert monitor.report(0.0).silent == 0.0
    assert monitor.report(1000.0).silent == 0.0
    assert monitor.report(1002.0).silent == 2.0


def test_the_same_sentence_is_logged_once_in_a_while_whatever_its_numbers() -> None:
    logged: list[tuple[Level, str]] = []
    conditions = Conditions(lambda level, text: logged.append((level, text)))
    for k in range(100):
        conditions.warn('age', f'a pair is {k}.5 s old')
    conditions.error('input', 'bad input: short data: 5 bytes', detail='more')
    conditions.error('input', 'bad input: bad step: step is 7')
    assert [text for _, text in logged] == [
        'a pair is 0.5 s old', 'bad input: short data: 5 bytes\nmore',
        'bad input: bad step: step is 7']
    assert [c.text for c in conditions.active()] == ['bad input: bad step: step is 7',
                                                     'a pair is 99.5 s old']
    conditions.clear('input')
    conditions.replace('age', [])
    assert conditions.active() == []
