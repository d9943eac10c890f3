"""The statuses in /diagnostics: input, pairing, latency, device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.node.accounting import (
    QUIET_DROPS,
    SIDES,
    Counts,
    ImageDrop,
    PairDrop,
)
from stereo_bp_ros.node.conditions import Condition, Level
from stereo_bp_ros.node.engine_room import Matcher
from stereo_bp_ros.node.input_monitor import TopicReport
from stereo_bp_ros.node.latency import Distribution

IDLE = 'idle: no subscribers'


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything that the statuses are made of, at one moment.

    state:      of the lifecycle, with what it is busy with: 'active', 'configuring', ...
    images, infos: one report per topic; empty while there are no subscriptions.
    missing:    topics of camera_infos that have never come, while images have.
    conditions: what is wrong, of all keys.
    counts, before: the counters now and at the report before.
    waiting, held: images per side that wait for a partner, pairs that are on their way; looked
                up where they are, so that they check the counters instead of following them.
    closest_miss: seconds between the stamps that came closest without pairing, or None.
    device:     name of the device and how it computes.
    """

    state: str
    idle: bool
    images: Sequence[TopicReport]
    infos: Sequence[TopicReport]
    missing: Sequence[str]
    conditions: Sequence[Condition]
    counts: Counts
    before: Counts
    waiting: Mapping[str, int]
    held: int
    closest_miss: float | None
    distribution: Distribution | None
    matcher: Matcher | None
    device: Mapping[str, str]
    config: MatcherConfig
    settings: NodeConfig

    @property
    def active(self) -> bool:
        return self.state == 'active'


class DiagnosticsBuilder:
    """Turns reports into ``diagnostic_msgs/DiagnosticArray``.

    :param name: fully qualified name of the node.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, stamp: Any, report: Report) -> DiagnosticArray:
        """All four statuses."""
        hardware = report.matcher.backend if report.matcher is not None else ''
        message = DiagnosticArray()
        message.header.stamp = stamp
        message.status = [
            DiagnosticStatus(
                level=bytes([level]), name=f'{self._name}: {name}', message=text,
                hardware_id=hardware,
                values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])
            for name, (level, text, values) in {
                'input': input_status(report), 'pairing': pairing_status(report),
                'latency': latency_status(report), 'device': device_status(report)}.items()]
        return message


Status = tuple[Level, str, Mapping[str, Any]]


def input_status(report: Report) -> Status:
    """Silent topics, refused input, doubtful images, ends that do not fit."""
    values: dict[str, Any] = {'state': report.state}
    for topic in (*report.images, *report.infos):
        values[topic.topic] = (f'{topic.rate:.1f} Hz, {topic.detail}' if topic.seen
                               else 'nothing yet')
    values |= {f'bad input: {reason}': count
               for reason, count in report.counts.bad_inputs.items()}
    if not report.active:
        return Level.OK, report.state, values
    timeout = report.settings.input_timeout
    found = [Condition('', Level.ERROR, f'nothing on {topic.topic} for {topic.silent:.1f} s')
             for topic in report.images if topic.silent > timeout]
    found += [Condition('', Level.ERROR, f'no camera_info on {topic}')
              for topic in report.missing]
    found += [Condition('', Level.WARN, f'nothing on {topic.topic} for {topic.silent:.1f} s: '
                        'its last camera_info is used')
              for topic in report.infos if topic.seen and topic.silent > timeout]
    found += [c for c in report.conditions
              if c.key in ('input', 'age', 'calibration', 'quality', 'clock')
              or c.key.startswith('qos ')]
    return *_worst(found, IDLE if report.idle else 'receiving'), values


def pairing_status(report: Report) -> Status:
    """What became of every image and pair; a warning where something was dropped lately."""
    counts, before = report.counts, report.before
    values: dict[str, Any] = {}
    for side in SIDES:
        values[f'received {side}'] = counts.received[side]
    values |= {'pairs': counts.pairs, 'published': counts.published}
    for side in SIDES:
        values[f'waiting {side}'] = report.waiting[side]
    values['held'] = report.held
    for side in SIDES:
        values |= {f'dropped {side}: {reason}': counts.image_drops[side][reason]
                   for reason in ImageDrop}
    values |= {f'dropped pairs: {reason}': counts.pair_drops[reason] for reason in PairDrop}
    values['clock jumps'] = counts.clock_jumps
    lately = [f'{counts.image_drops[side][reason] - before.image_drops[side][reason]} '
              f'{reason} {side}'
              for side in SIDES for reason in ImageDrop
              if reason is not ImageDrop.DEACTIVATED
              and counts.image_drops[side][reason] > before.image_drops[side][reason]]
    lately += [f'{counts.pair_drops[reason] - before.pair_drops[reason]} {reason}'
               for reason in PairDrop if reason not in QUIET_DROPS
               and counts.pair_drops[reason] > before.pair_drops[reason]]
    if not report.active:
        return Level.OK, report.state, values
    published = counts.published - before.published
    dropped = 'dropped: ' + ', '.join(lately)
    if counts.pairs == before.pairs and report.closest_miss is not None:
        settings = report.settings
        allowed = ('approximate_sync is off' if not settings.approximate_sync else
                   'approximate_sync_tolerance_seconds is '
                   f'{settings.approximate_sync_tolerance_seconds:g}')
        return Level.ERROR, (f'images of both sides, but no pair: the closest stamps differ by '
                             f'{report.closest_miss:.6f} s, {allowed}'), values
    if lately and not published and counts.pairs > before.pairs:
        return Level.ERROR, f'nothing published; {dropped}', values
    if lately:
        return Level.WARN, dropped, values
    return Level.OK, IDLE if report.idle else f'{published} pairs published', values


def latency_status(report: Report) -> Status:
    """The distribution of the total; a warning where its 95th percentile is over the budget."""
    budget = report.settings.latency_budget_ms
    values: dict[str, Any] = {'budget ms': f'{budget:g}'}
    found = report.distribution
    if found is None:
        return Level.OK, IDLE if report.idle and report.active else 'no frames', values
    values |= {'frames': found.frames, 'p50 ms': f'{found.p50:.3f}',
               'p95 ms': f'{found.p95:.3f}', 'p99 ms': f'{found.p99:.3f}',
               'max ms': f'{found.maximum:.3f}'}
    text = f'p50 {found.p50:.1f} ms, p95 {found.p95:.1f} ms'
    if budget and found.p95 > budget:
        return Level.WARN, f'{text}, over latency_budget_ms {budget:g}', values
    return Level.OK, text, values


def device_status(report: Report) -> Status:
    """Back end, why this one, threads and memory; an error where it is lost."""
    matcher = report.matcher
    values: dict[str, Any] = {'state': report.state}
    if matcher is not None:
        plan = matcher.memory_plan
        size = matcher.size
        values |= {
            'backend': matcher.backend, 'why': matcher.backend_reason,
            'algorithm': matcher.config.stereo_algorithm,
            **report.device,
            'size': f'{size[0]} x {size[1]}' if size else 'not known yet',
            'memory': f'{plan.total / 2**20:.1f} MiB' if plan is not None else 'none yet'}
    found = [c for c in report.conditions if c.key in ('device', 'engine', 'configuration')]
    healthy = report.state if matcher is None else f'{report.state} on {matcher.backend}'
    return *_worst(found, healthy), values


def _worst(conditions: Iterable[Condition], healthy: str) -> tuple[Level, str]:
    ordered = sorted(conditions, key=lambda condition: -condition.level)
    if not ordered:
        return Level.OK, healthy
    return ordered[0].level, '; '.join(condition.text for condition in ordered)
