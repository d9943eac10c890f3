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

from stereo_bp_ros.checks.frame_checks import FrameQuality
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.errors import quoted
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import (
    LOG_INTERVAL,
    IssueLog,
)
from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import (
    Distribution,
    OutputStall,
    TopicMonitor,
    TopicReport,
    missing_images,
)
from stereo_bp_ros.node.diagnostics.report import (
    Report,
    diagnostics_message,
    published_instead,
)

pytestmark = pytest.mark.ros

ALIVE = TopicReport('/left/image_rect', 30.0, 0.03, True, '640 x 480 mono8')


def make_report(**fields: Any) -> Report:
    ledger = Ledger()
    values: dict[str, Any] = {
        'state': 'active', 'idle': False, 'images': [ALIVE], 'infos': [], 'missing': [],
        'issues': [], 'counts': ledger.counts(), 'before': ledger.counts(), 'stall': None,
        'waiting': {'left': 0, 'right': 0}, 'held': 0, 'closest_miss': None,
        'quality': None, 'vertical': {}, 'distribution': None, 'recent': None,
        'matcher': None, 'device': {},
        'config': MatcherConfig(), 'settings': NodeConfig(), 'preset': 'auto', **fields}
    return Report(**values)


def status(report: Report, name: str) -> types.SimpleNamespace:
    from builtin_interfaces.msg import Time
    message = diagnostics_message('/stereo_bp', Time(sec=7), report)
    assert message.header.stamp.sec == 7
    found, = (s for s in message.status if s.name == f'/stereo_bp: {name}')
    assert isinstance(found.level, bytes)
    return types.SimpleNamespace(level=found.level[0], message=found.message,
                                 values={v.key: v.value for v in found.values})


def test_a_healthy_node_is_ok_throughout_and_names_its_camera_as_the_hardware() -> None:
    from builtin_interfaces.msg import Time
    report = make_report()
    assert [status(report, n).level for n in ('input', 'pairing', 'latency', 'device')
            ] == [0, 0, 0, 0]
    assert status(report, 'input').message == 'receiving'
    for name, camera in (('/robot/front/stereo_bp', 'robot/front'), ('/stereo_bp', 'stereo_bp')):
        message = diagnostics_message(name, Time(), report)
        assert {status.hardware_id for status in message.status} == {camera}


def test_a_node_that_is_not_active_or_idle_misses_nothing_and_shows_no_old_measurements() -> None:
    silent = dataclasses.replace(ALIVE, silent=100.0)
    quality = FrameQuality(valid=0.873, at_maximum=0.00123, nearest=0.66, farthest=1344.0)
    vertical = {'vertical offset px': '-0.12', 'vertical points': '104'}
    report = make_report(quality=quality, vertical=vertical)
    assert status(report, 'input').values.items() >= {
        'valid %': '87.3', 'at the last label %': '0.12', 'nearest m': '0.660',
        'farthest m': '1344.0', **vertical}.items()
    # Where no pixel can have a disparity there are no shares of pixels.
    narrow = dataclasses.replace(quality, valid=None, nearest=math.inf)
    values = status(dataclasses.replace(report, quality=narrow), 'input').values
    assert 'valid %' not in values
    assert values['nearest m'] == 'inf'
    configuring = dataclasses.replace(report, state='configuring', images=[silent])
    assert status(configuring, 'input').level == 0
    assert 'configuring' in status(configuring, 'device').message
    ledger = both_sides()
    ledger.count('pairs')
    ledger.drop_pair(PairDrop.NO_SUBSCRIBERS)
    idle = dataclasses.replace(report, idle=True, counts=ledger.counts())
    for name in ('input', 'pairing', 'latency'):
        found = status(idle, name)
        assert (found.level, found.message) == (0, 'idle: no subscribers')
    for resting in (configuring, idle):
        values = status(resting, 'input').values
        assert not values.keys() & {'valid %', 'nearest m', 'vertical offset px'}


def test_a_topic_is_silent_after_the_timeout() -> None:
    silent = dataclasses.replace(ALIVE, silent=1.01)
    found = status(make_report(images=[silent]), 'input')
    assert (found.level, found.message) == (2, 'nothing on /left/image_rect for 1.0 s')
    for publishers, reason in ((0, ': nobody publishes it'),
                               (2, ': its publisher sends nothing, or its images are lost')):
        told = dataclasses.replace(silent, publishers=publishers)
        found = status(make_report(images=[told]), 'input')
        assert found.message.startswith(f'nothing on /left/image_rect for 1.0 s{reason}')
    raw = dataclasses.replace(silent, publishers=0, instead='/left/image_raw is published')
    message = 'nothing on /left/image_rect for 1.0 s: nobody publishes it; /left/image_raw is'
    assert status(make_report(images=[raw]), 'input').message.startswith(message)
    # What is logged is the same in every report, or it would be logged again.
    for seconds in (1.01, 7.0):
        later = dataclasses.replace(raw, silent=seconds)
        assert published_instead(make_report(images=[later, ALIVE])) == [
            'nothing on /left/image_rect: nobody publishes it; /left/image_raw is published']
    patient = make_report(images=[silent, raw], settings=NodeConfig(input_timeout=2.0))
    assert status(patient, 'input').level == 0
    assert published_instead(patient) == []


def test_a_camera_info_that_stopped_is_a_warning_and_one_that_never_came_an_error() -> None:
    info = TopicReport('/left/camera_info', 0.0, 5.0, True, '')
    found = status(make_report(infos=[info]), 'input')
    assert found.level == 1
    assert 'its last camera_info is used' in found.message
    found = status(make_report(infos=[dataclasses.replace(info, seen=False)],
                               missing=['/left/camera_info']), 'input')
    assert (found.level, found.message) == (2, 'no camera_info on /left/camera_info')


def test_the_worst_comes_first_in_the_status_that_it_belongs_to() -> None:
    report = make_report(issues=[
        IssueCode.VERTICAL_OFFSET.issue('rows'),
        IssueCode.MEMORY.issue('not locked'),
        IssueCode.ZERO_BASELINE.issue('bad input: zero baseline')])
    found = status(report, 'input')
    assert (found.level, found.message) == (2, 'bad input: zero baseline; rows [vertical offset]')
    found = status(report, 'device')
    assert (found.level, found.message) == (1, 'not locked')


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


def both_sides() -> Ledger:
    """A ledger of one image of each side, which are no pair."""
    ledger = Ledger()
    for side in SIDES:
        ledger.receive(side)
    return ledger


def stalled(report: Report) -> types.SimpleNamespace:
    """The status pairing where nothing has been published for 2 s; it is an error."""
    found = status(dataclasses.replace(report, stall=OutputStall(2.0, report.before)), 'pairing')
    assert found.level == 2
    assert found.message.startswith('nothing published for 2 s: ')
    return found


def test_images_without_any_result_are_an_error_with_the_meaning_of_their_reason() -> None:
    ledger = Ledger()
    report = make_report(before=ledger.counts())
    ledger.count('pairs')
    ledger.drop_pair(PairDrop.BAD_INPUT, IssueCode.SHORT_DATA)
    ledger.drop_image('left', ImageDrop.DUPLICATE)
    report = dataclasses.replace(report, counts=ledger.counts())
    assert stalled(report).message == ('nothing published for 2 s: dropped: 1 duplicate stamp left'
                                       ' (stamps stand still), 1 bad input')
    assert status(report, 'input').values['bad input: short data'] == '1'


@pytest.mark.parametrize(('settings', 'hint'), [
    ({}, 'approximate_sync is off'),
    ({'approximate_sync': True}, 'approximate_sync_tolerance_seconds is 0.01')])
def test_images_that_never_pair_are_an_error_that_says_by_how_much(settings: dict[str, Any],
                                                                   hint: str) -> None:
    report = make_report(counts=both_sides().counts(), closest_miss=0.0123,
                         settings=NodeConfig(**settings))
    found = status(report, 'pairing')
    assert found.level == 1
    assert 'differ by 0.012300 s' in found.message
    text = stalled(report).message
    assert 'images of both sides' in text
    assert 'differ by 0.012300 s' in text
    assert hint in text


def test_a_side_that_is_silent_or_behind_is_named_and_not_the_tolerance() -> None:
    ledger = both_sides()
    report = make_report(before=ledger.counts(), closest_miss=0.05)
    ledger.receive('right')
    silent = dataclasses.replace(report, counts=ledger.counts(), images=[
        dataclasses.replace(ALIVE, silent=1.5), ALIVE])
    assert stalled(silent).message == 'nothing published for 2 s: no left images'
    for ahead, late, other in ((-10.0, 'left', 'right'), (10.0, 'right', 'left')):
        apart = make_report(images=[dataclasses.replace(ALIVE, ahead=ahead), ALIVE],
                            counts=both_sides().counts(), closest_miss=9.8)
        text = stalled(apart).message
        assert f'the stamps of {late} images are 10.000 s behind those of {other} ones' in text
        assert 'approximate_sync' not in text


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


PERIOD = 50_000_000


def topic(stamps: Iterable[int]) -> TopicReport:
    return dataclasses.replace(ALIVE, stamps=tuple(stamp * PERIOD for stamp in stamps))


@pytest.mark.parametrize(('left', 'right', 'expected'), [
    (range(20), range(20), {}),
    (range(0, 20, 2), range(20), {'left': (9, 19)}),        # up to the last that both have
    ([], range(20), {'left': (20, 20)}),
    ([0, 1, 3, 4, 6, 7, 9], [0, 2, 3, 5, 6, 8, 9], {'left': (3, 10), 'right': (3, 10)}),
    (range(1, 20), range(19), {}),                          # on its way at both ends
    (range(4, 24), range(20), {}),                          # late, but all of them
    ([0.4 + k for k in range(20)], range(20), {}),          # not synchronised
    ([0.4 + 3 * k for k in range(7)], range(20), {'left': (13, 20)})])
def test_missing_images_are_told_from_cameras_that_are_not_synchronised(
        left: Iterable[int], right: Iterable[int], expected: dict[str, tuple[int, int]]) -> None:
    assert missing_images(topic(left), topic(right)) == expected
    mirrored = {{'left': 'right', 'right': 'left'}[side]: n for side, n in expected.items()}
    assert missing_images(topic(right), topic(left)) == mirrored


def test_images_lost_on_the_way_are_a_diagnosis_of_their_own() -> None:
    ledger = both_sides()
    ledger.drop_image('right', ImageDrop.UNMATCHED, 9)
    report = make_report(images=[topic(range(0, 20, 2)), topic(range(20))],
                         counts=ledger.counts(), closest_miss=0.05)
    found = status(report, 'pairing')
    assert (found.level, found.message) == (
        1, 'left images do not arrive: 9 of 19 are missing; if the camera sends them, see Large '
        'images and Fast DDS in the README; dropped: 9 unmatched right')
    text = stalled(report).message
    assert 'left images do not arrive' in text
    assert 'approximate_sync' not in text
    # Within the tolerance they pair, and are not missing.
    near = [k + 0.1 for k in range(20) if k % 4]
    assert missing_images(topic(range(20)), topic(near), PERIOD // 5) == {'right': (4, 19)}


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
    """Issues with a clock of their own, and what they log."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lines: list[str] = []
        self.issues = IssueLog(lambda level, text: self.lines.append(text),
                                     lambda: self.now)


def test_each_key_is_logged_at_most_once_an_interval_with_its_newest_texts() -> None:
    log = Log()
    for k in range(100):
        log.issues.add(IssueCode.AGE, f'a pair is {k}.5 s old')
    log.issues.add(IssueCode.SHORT_DATA, 'bad input: short data: 5 bytes', detail='more')
    log.issues.add(IssueCode.BAD_STEP, 'bad input: bad step: step is 7')
    assert log.lines == ['a pair is 0.5 s old', 'bad input: short data: 5 bytes\nmore',
                         'bad input: bad step: step is 7']
    log.now += LOG_INTERVAL - 0.1
    log.issues.report()
    assert len(log.lines) == 3
    log.now += 0.2
    log.issues.report()
    assert log.lines[3:] == ['a pair is 99.5 s old']
    log.now += 3 * LOG_INTERVAL
    log.issues.report()
    log.issues.add(IssueCode.AGE, 'a pair is 3 s old')
    assert log.lines[4:] == ['a pair is 3 s old']


def test_texts_that_a_camera_varies_do_not_flood_the_log() -> None:
    log = Log()
    random = np.random.default_rng(0)
    for _ in range(2000):                   # 100 s at 20 Hz
        text = bytes(random.integers(0, 256, 300, np.uint8)).decode('latin-1')
        log.issues.add(IssueCode.UNKNOWN_ENCODING,
                             f'bad input: unknown encoding: {quoted(text)}; no')
        log.issues.hold(IssueCode.MEMORY, f'rows differ by {len(text)} px',
                            f'rows are tilted by {text}')
        log.now += 0.05
        log.issues.report()
    rows = [line for line in log.lines if line.startswith('rows')]
    assert 2 * 9 <= len(rows) <= 2 * 11
    assert 9 <= len(log.lines) - len(rows) <= 11


def test_a_state_that_changes_within_an_interval_is_logged_after_it_unless_it_has_ended() -> None:
    log = Log()
    log.issues.hold(IssueCode.DEVICE, 'activating failed')
    log.issues.hold(IssueCode.DEVICE, 'device lost')
    log.issues.hold(IssueCode.NAME, 'two nodes')
    log.issues.hold(IssueCode.NAME, 'three nodes')
    log.issues.hold(IssueCode.NAME)
    assert log.lines == ['activating failed', 'two nodes']
    log.now += LOG_INTERVAL
    log.issues.report()
    assert log.lines[2:] == ['device lost']
    log.now += LOG_INTERVAL
    log.issues.hold(IssueCode.DEVICE, 'device lost')
    log.issues.report()
    assert len(log.lines) == 3


def test_an_event_is_told_in_one_report_and_a_state_until_it_ends() -> None:
    log = Log()
    issues = log.issues
    issues.add(IssueCode.BAD_STEP, 'bad input: bad step: step is 7')
    issues.hold(IssueCode.DEVICE, 'device lost')
    issues.replace('quality', [IssueCode.FRAME_ID.issue('black')])
    issues.replace('quality', [])
    issues.hold(IssueCode.DEVICE, 'device lost')
    assert [c.text for c in issues.report()] == ['device lost',
                                                     'bad input: bad step: step is 7']
    assert [c.text for c in issues.report()] == ['device lost']
    issues.hold(IssueCode.DEVICE)
    assert issues.report() == []
    assert log.lines == ['bad input: bad step: step is 7', 'device lost', 'black']


def test_a_text_from_outside_is_cut_and_escaped() -> None:
    for text, shown in (('b\u00e4yer', "'b\u00e4yer'"), ("it's", "'it\\'s'"),
                        ('\x1b[2J\n\u202e', "'\\x1b[2J\\n\\u202e'"), ('y' * 80, f"'{'y' * 80}'"),
                        ('y' * 81, f"'{'y' * 77}...'"), ('\0' * 300, "'" + '\\x00' * 19 + "...'")):
        assert quoted(text) == shown


def test_what_is_dropped_is_lost_unless_nobody_listened_or_the_node_was_deactivated() -> None:
    for reason in (*ImageDrop, *PairDrop):
        ledger = Ledger()
        if isinstance(reason, PairDrop):
            ledger.drop_pair(reason)
        else:
            ledger.drop_image('left', reason)
        assert ledger.counts().lost == (reason.value not in ('deactivated', 'no subscribers'))
