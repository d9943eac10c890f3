"""/diagnostics: which status is OK, a warning or an error, and what it says."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.errors import InputReason, quoted
from stereo_bp_ros.node.diagnostics.conditions import (
    QUOTATIONS,
    SENTENCES,
    Condition,
    Conditions,
    Level,
)
from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import (
    Distribution,
    OutputStall,
    TopicMonitor,
    TopicReport,
    missing_images,
)
from stereo_bp_ros.node.diagnostics.quality import VERTICAL_OFFSET, FrameQuality
from stereo_bp_ros.node.diagnostics.report import Report, diagnostics_message
from stereo_bp_ros.stamps import SIDES

pytestmark = pytest.mark.ros

ALIVE = TopicReport('/left/image_rect', 30.0, 0.03, True, '640 x 480 mono8')


def make_report(**fields: Any) -> Report:
    ledger = Ledger()
    values: dict[str, Any] = {
        'state': 'active', 'idle': False, 'images': [ALIVE], 'infos': [], 'missing': [],
        'conditions': [], 'counts': ledger.counts(), 'before': ledger.counts(), 'stall': None,
        'waiting': {'left': 0, 'right': 0}, 'held': 0, 'closest_miss': None,
        'quality': None, 'vertical': {}, 'distribution': None, 'recent': None,
        'matcher': None, 'device': {},
        'config': MatcherConfig(), 'settings': NodeConfig(), **fields}
    return Report(**values)


def status(report: Report, name: str) -> types.SimpleNamespace:
    from builtin_interfaces.msg import Time
    message = diagnostics_message('/stereo_bp', Time(sec=7), report)
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


@pytest.mark.parametrize(('name', 'camera'), [
    ('/front/stereo_bp', 'front'), ('/robot/front/stereo_bp', 'robot/front'),
    ('/stereo_bp', 'stereo_bp')])
def test_every_status_names_the_camera_as_its_hardware(name: str, camera: str) -> None:
    from builtin_interfaces.msg import Time
    message = diagnostics_message(name, Time(), make_report())
    assert {status.hardware_id for status in message.status} == {camera}


def test_a_topic_is_silent_after_the_timeout() -> None:
    silent = dataclasses.replace(ALIVE, silent=1.01)
    found = status(make_report(images=[silent]), 'input')
    assert (found.level, found.message) == (2, 'nothing on /left/image_rect for 1.0 s')
    for publishers, reason in ((0, ': nobody publishes it'),
                               (2, ': its publisher sends nothing, or its images are lost')):
        told = dataclasses.replace(silent, publishers=publishers)
        found = status(make_report(images=[told]), 'input')
        assert found.message.startswith(f'nothing on /left/image_rect for 1.0 s{reason}')
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
    ledger.count('pairs')
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
        ledger.count('pairs')
    ledger.count('published')
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
    ledger.count('pairs')
    ledger.drop_pair(PairDrop.BAD_INPUT, InputReason.SHORT_DATA)
    report = make_report(counts=ledger.counts(), before=before, stall=OutputStall(2.0, before))
    found = status(report, 'pairing')
    assert (found.level, found.message) == (
        2, 'nothing published for 2 s: dropped: 1 bad input')
    assert status(report, 'input').values['bad input: short data'] == '1'


def both_sides() -> Ledger:
    """A ledger of one image of each side, which are no pair."""
    ledger = Ledger()
    for side in SIDES:
        ledger.receive(side)
    return ledger


@pytest.mark.parametrize(('settings', 'hint'), [
    ({}, 'approximate_sync is off'),
    ({'approximate_sync': True}, 'approximate_sync_tolerance_seconds is 0.01')])
def test_images_that_never_pair_are_an_error_that_says_by_how_much(settings: dict[str, Any],
                                                                   hint: str) -> None:
    ledger = both_sides()
    report = make_report(counts=ledger.counts(), closest_miss=0.0123,
                         settings=NodeConfig(**settings))
    found = status(report, 'pairing')
    assert found.level == 1
    assert 'differ by 0.012300 s' in found.message
    stalled = dataclasses.replace(report, stall=OutputStall(2.0, report.before))
    found = status(stalled, 'pairing')
    assert found.level == 2
    assert found.message.startswith('nothing published for 2 s: images of both sides')
    assert 'differ by 0.012300 s' in found.message
    assert hint in found.message


def test_images_with_gaps_that_never_pair_are_no_matter_of_the_tolerance() -> None:
    sparse = TopicMonitor('/left/image_rect', 0.0)
    for k in (0, 1, 2, 9, 10, 30):
        sparse.tick(k * 0.05, types.SimpleNamespace(width=4, height=3), k * PERIOD)
    left = sparse.report(1.5)
    ledger = both_sides()
    report = make_report(images=[left, ALIVE], counts=ledger.counts(), closest_miss=0.05)
    text = status(report, 'pairing').message
    assert 'there are gaps among them' in text
    assert 'approximate_sync' not in text
    for k in range(31, 51):
        sparse.tick(k * 0.05, types.SimpleNamespace(width=4, height=3), k * PERIOD)
    assert left.gaps
    assert not sparse.report(2.5).gaps


def test_with_one_side_silent_nobody_speaks_of_images_of_both_sides() -> None:
    ledger = both_sides()
    before = ledger.counts()
    for _ in range(20):
        ledger.receive('right')
    silent = dataclasses.replace(ALIVE, silent=1.5)
    found = status(make_report(images=[silent, ALIVE], counts=ledger.counts(), before=before,
                               closest_miss=0.05, stall=OutputStall(2.0, before)), 'pairing')
    assert (found.level, found.message) == (2, 'nothing published for 2 s: no left images')


@pytest.mark.parametrize(('ahead', 'text'), [
    (-10.0, 'the stamps of left images are 10.000 s behind those of right ones'),
    (10.0, 'the stamps of right images are 10.000 s behind those of left ones')])
def test_a_side_that_is_behind_is_named_with_the_difference(ahead: float, text: str) -> None:
    ledger = both_sides()
    before = Ledger().counts()
    report = make_report(images=[dataclasses.replace(ALIVE, ahead=ahead), ALIVE],
                         counts=ledger.counts(), before=before, closest_miss=9.8,
                         stall=OutputStall(3.0, before))
    found = status(report, 'pairing')
    assert found.level == 2
    assert text in found.message
    assert 'approximate_sync' not in found.message


PERIOD = 50_000_000


def topic(stamps: Iterable[int]) -> TopicReport:
    return dataclasses.replace(ALIVE, stamps=tuple(stamp * PERIOD for stamp in stamps))


@pytest.mark.parametrize(('left', 'right', 'expected'), [
    (range(20), range(20), {}),
    (range(0, 20, 2), range(20), {'left': (9, 19)}),        # up to the last that both have
    ([0, 1, 2, 5, 9, 13, 17, 19], range(20), {'left': (12, 20)}),
    ([3], range(20), {'left': (19, 20)}),
    ([], range(20), {'left': (20, 20)}),
    ([0, 1, 3, 4, 6, 7, 9], [0, 2, 3, 5, 6, 8, 9], {'left': (3, 10), 'right': (3, 10)}),
    (range(1, 20), range(19), {}),                          # on its way at both ends
    (range(4, 24), range(20), {}),                          # late, but all of them
    (range(100, 120), range(20), {}),                       # far behind
    ([0.4 + k for k in range(20)], range(20), {}),          # not synchronised
    ([0.4 + 3 * k for k in range(7)], range(20), {'left': (13, 20)})])
def test_missing_images_are_told_from_cameras_that_are_not_synchronised(
        left: Iterable[int], right: Iterable[int], expected: dict[str, tuple[int, int]]) -> None:
    assert missing_images(topic(left), topic(right)) == expected
    mirrored = {{'left': 'right', 'right': 'left'}[side]: n for side, n in expected.items()}
    assert missing_images(topic(right), topic(left)) == mirrored


def test_images_that_pair_within_the_tolerance_are_not_missing() -> None:
    near = [k + 0.1 for k in range(20) if k % 4]
    assert missing_images(topic(range(20)), topic(near), PERIOD // 5) == {'right': (4, 19)}
    assert missing_images(topic(range(20)), topic([k + 0.1 for k in range(20)]),
                          PERIOD // 5) == {}


def test_images_lost_on_the_way_are_a_diagnosis_of_their_own() -> None:
    ledger = both_sides()
    ledger.drop_image('right', ImageDrop.UNMATCHED, 9)
    report = make_report(images=[topic(range(0, 20, 2)), topic(range(20))],
                         counts=ledger.counts(), closest_miss=0.05)
    found = status(report, 'pairing')
    assert (found.level, found.message) == (
        1, 'left images do not arrive: 9 of 19 are missing; if the camera sends them, see Large '
        'images and Fast DDS in the README; dropped: 9 unmatched right')
    found = status(dataclasses.replace(report, stall=OutputStall(2.0, report.before)), 'pairing')
    assert found.level == 2
    assert 'left images do not arrive' in found.message
    assert 'approximate_sync' not in found.message


def test_a_latency_over_the_budget_is_a_warning_while_frames_come() -> None:
    window, slow = Distribution(300, 20.0, 90.0, 120.0, 130.0), Distribution(20, 30, 85, 90, 91)
    strict = NodeConfig(latency_budget_ms=80)
    found = status(make_report(distribution=window, recent=slow), 'latency')
    assert (found.level, found.values['p99 ms']) == (0, '120.000')
    over = status(make_report(distribution=window, recent=slow, settings=strict), 'latency')
    assert (over.level, over.message) == (
        1, 'p50 30.0 ms, p95 85.0 ms, over latency_budget_ms 80')
    off = make_report(distribution=window, recent=slow, settings=NodeConfig(latency_budget_ms=0))
    assert status(off, 'latency').level == 0
    fast = make_report(distribution=window, recent=Distribution(20, 1, 2, 3, 4), settings=strict)
    assert status(fast, 'latency').level == 0
    ended = status(make_report(distribution=window, settings=strict), 'latency')
    assert (ended.level, ended.message, ended.values['frames']) == (0, 'no frames', '300')


class Log:
    """Conditions with a clock of their own, and what they log."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lines: list[str] = []
        self.conditions = Conditions(lambda level, text: self.lines.append(text),
                                     lambda: self.now)


def test_the_same_sentence_is_logged_once_in_a_while_with_its_count() -> None:
    log = Log()
    for k in range(100):
        log.conditions.warn('age', f'a pair is {k}.5 s old')
    log.conditions.error('input', 'bad input: short data: 5 bytes', detail='more')
    log.conditions.error('input', 'bad input: bad step: step is 7')
    assert log.lines == ['a pair is 0.5 s old', 'bad input: short data: 5 bytes\nmore',
                         'bad input: bad step: step is 7']
    log.now += 9.9
    log.conditions.report()
    assert len(log.lines) == 3
    log.now += 0.2
    log.conditions.report()
    assert log.lines[3:] == ['a pair is 99.5 s old (99 more in 10 s)']
    log.now += 30
    log.conditions.report()
    log.conditions.warn('age', 'a pair is 3 s old')
    assert log.lines[4:] == ['a pair is 3 s old']


def test_a_text_that_is_another_one_each_time_is_told_apart_a_few_times_and_then_counted() -> None:
    log = Log()
    random = np.random.default_rng(0)
    said = 0
    for _ in range(2000):                   # 100 s at 20 Hz
        text = bytes(random.integers(0, 256, 300, np.uint8)).decode('latin-1')
        log.conditions.error('input', f'bad input: unknown encoding: {quoted(text)}; no')
        log.now += 0.05
        log.conditions.report()
    assert len(log.lines) <= QUOTATIONS + 1 + 10
    for line in log.lines:
        count = line.partition('; no (')[2]
        said += 1 if not count else int(count.split()[0])
    assert said > 1750                      # but for what the last 10 s will say
    before = len(log.lines)
    for k in range(1000):
        log.conditions.error('engine', 'matching failed: ' + chr(ord('a') + k))
    assert len(log.lines) - before == SENTENCES + 1


def test_an_event_is_told_in_one_report_and_a_state_until_it_ends() -> None:
    log = Log()
    conditions = log.conditions
    conditions.error('input', 'bad input: bad step: step is 7')
    conditions.hold('device', Level.ERROR, 'device lost')
    conditions.replace('quality', ['black'])
    conditions.replace('quality', [])
    assert [c.text for c in conditions.report()] == ['device lost',
                                                     'bad input: bad step: step is 7']
    assert [c.text for c in conditions.report()] == ['device lost']
    conditions.hold('device', Level.ERROR, 'device lost')
    conditions.hold('device', Level.ERROR)
    assert conditions.report() == []
    assert log.lines == ['bad input: bad step: step is 7', 'device lost', 'black']


@pytest.mark.parametrize(('text', 'shown'), [
    ('mono8', "'mono8'"), ('', "''"), ("it's", "'it\\'s'"), ('a\\', "'a\\\\'"),
    ('\x1b[2J\n\u202e', "'\\x1b[2J\\n\\u202e'"), ('b\u00e4yer', "'b\u00e4yer'"),
    ('y' * 80, f"'{'y' * 80}'"), ('y' * 81, f"'{'y' * 77}...'"),
    ('\0' * 300000, "'" + '\\x00' * 19 + "...'")])
def test_a_text_from_outside_is_cut_and_escaped(text: str, shown: str) -> None:
    assert quoted(text) == shown


@pytest.mark.parametrize('reason', [*ImageDrop, *PairDrop])
def test_what_is_dropped_is_lost_unless_nobody_listened_or_the_node_was_deactivated(
        reason: ImageDrop | PairDrop) -> None:
    ledger = Ledger()
    ledger.count('pairs')
    ledger.count('published')
    if isinstance(reason, PairDrop):
        ledger.drop_pair(reason)
    else:
        ledger.drop_image('left', reason)
    assert ledger.counts().lost == (reason.value not in ('deactivated', 'no subscribers'))


QUALITY = FrameQuality(valid=0.873, last_label=0.00123, nearest=0.66, farthest=1344.0)
VERTICAL = {'vertical offset px': '-0.12', 'vertical points': '104'}


def test_the_status_input_has_what_was_measured_in_the_last_frame() -> None:
    values = status(make_report(quality=QUALITY, vertical=VERTICAL), 'input').values
    assert values.items() >= {
        'valid %': '87.3', 'at the last label %': '0.12', 'nearest m': '0.660',
        'farthest m': '1344.0', **VERTICAL}.items()


def test_where_no_pixel_can_have_a_disparity_there_are_no_shares_of_pixels() -> None:
    empty = FrameQuality(valid=None, last_label=0.0, nearest=math.inf, farthest=84.0)
    values = status(make_report(quality=empty), 'input').values
    assert 'valid %' not in values
    assert values['nearest m'] == 'inf'


@pytest.mark.parametrize('fields', [{'idle': True}, {'state': 'inactive'}])
def test_a_node_that_matches_nothing_shows_no_old_measurements(fields: dict[str, object]) -> None:
    values = status(make_report(quality=QUALITY, vertical=VERTICAL, **fields), 'input').values
    assert not values.keys() & {'valid %', 'nearest m', 'vertical offset px'}


def test_rows_that_miss_each_other_are_a_warning_of_the_status_input() -> None:
    condition = Condition(VERTICAL_OFFSET, Level.WARN, 'rows')
    found = status(make_report(conditions=[condition]), 'input')
    assert (found.level, found.message) == (1, 'rows')


def test_a_gpu_that_is_slowed_down_is_a_warning_of_the_status_device() -> None:
    found = status(make_report(conditions=[Condition('gpu', Level.WARN, 'hot')]), 'device')
    assert (found.level, found.message) == (1, 'hot')
