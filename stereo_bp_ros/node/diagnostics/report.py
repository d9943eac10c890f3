"""The statuses in /diagnostics: input, pairing, latency, device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from stereo_bp_ros.checks.frame_checks import FrameQuality
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.images.stamps import (
    APART_S,
    SIDES,
    clock_offset_reason,
    sync_setting,
    why_no_pair,
)
from stereo_bp_ros.issues import Issue, IssueCode, IssueLevel
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node.diagnostics.ledger import QUIET_DROPS, Counts, ImageDrop, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import (
    Distribution,
    OutputStall,
    TopicReport,
    missing_images,
)

IDLE = 'idle: no subscribers'

#: Seconds that a new engine may be in the making, kernels compiled included: those that take the
#: compiler longest, ``exact`` of 512 labels on CUDA, need 99 s.
MAX_BUILD = 180.0

#: Where to read about images that are lost on the way.
LOST = 'see Large images and Fast DDS in the README'

#: Why a topic is silent, by whether it has a publisher.
SILENCE = {None: '', 0: ': nobody publishes it',
           1: f': its publisher sends nothing, or its images are lost ({LOST})'}

#: What a reason means where everything is dropped for it.
MEANINGS = {
    ImageDrop.DUPLICATE: 'stamps stand still',
    ImageDrop.CLOCK_JUMP: 'stamps of one side, or of both, went back',
    PairDrop.NO_CAMERA_INFO: 'camera_info is missing',
    PairDrop.SUPERSEDED: 'images come faster than they are matched',
    PairDrop.NOT_NEWER: 'stamps do not advance',
    PairDrop.LATE: 'results take longer than max_latency',
    PairDrop.RECONFIGURING: 'a new engine is being built',
}


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything that the statuses are made of, at one moment.

    state:      of the lifecycle, with what it is busy with: 'active', 'configuring', ...
    images, infos: one report per topic; empty while there are no subscriptions. Of a
                side-by-side camera there is one of images.
    missing:    topics of camera_infos that have never come, while images have.
    counts, before: the counters now and at the report before.
    stall:      images come and nothing is published; None where all is well.
    waiting, held: as of ``CounterSnapshot``.
    closest_miss: seconds between the stamps that came closest without pairing, or None.
    quality:    of the frame that was looked at last, or None.
    distribution, recent: latency of the last frames, and of those since the report before.
    preset:     that is set and, of ``auto``, what it is.
    """

    state: str
    idle: bool
    images: Sequence[TopicReport]
    infos: Sequence[TopicReport]
    missing: Sequence[str]
    issues: Sequence[Issue]
    counts: Counts
    before: Counts
    stall: OutputStall | None
    waiting: Mapping[str, int]
    held: int
    closest_miss: float | None
    quality: FrameQuality | None
    vertical: Mapping[str, str]
    distribution: Distribution | None
    recent: Distribution | None
    matcher: StereoMatcher | None
    device: Mapping[str, str]
    config: MatcherConfig
    settings: NodeConfig
    preset: str

    @property
    def is_active(self) -> bool:
        return self.state == 'active'


def hardware_id(node: str) -> str:
    """The camera that statuses are about: the node's namespace; without one the node's name.

    :param node: its fully qualified name.
    """
    namespace, _, name = node.strip('/').rpartition('/')
    return namespace or name


def diagnostics_message(node: str, stamp: Any, report: Report) -> DiagnosticArray:
    """All four statuses.

    :param node: its fully qualified name.
    """
    message = DiagnosticArray()
    message.header.stamp = stamp
    message.status = [
        DiagnosticStatus(
            level=bytes([level]), name=f'{node}: {name}', message=text,
            hardware_id=hardware_id(node),
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])
        for name, (level, text, values) in {
            'input': input_status(report), 'pairing': pairing_status(report),
            'latency': latency_status(report), 'device': device_status(report)}.items()]
    return message


Status = tuple[IssueLevel, str, Mapping[str, Any]]


def input_status(report: Report) -> Status:
    """Silent topics, rejected input, issues of images, QoS that does not fit."""
    values: dict[str, Any] = {'state': report.state}
    for topic in (*report.images, *report.infos):
        values[topic.topic] = (f'{topic.rate:.1f} Hz, {topic.detail}' if topic.seen
                               else 'nothing yet')
    values |= {f'bad input: {reason}': count
               for reason, count in report.counts.bad_inputs.items()}
    if not report.is_active:
        return IssueLevel.OK, report.state, values
    if not report.idle:
        values |= _measured(report)
    timeout = report.settings.input_timeout
    issues = [
        IssueCode.SILENT.issue(
            f'nothing on {topic.topic} for {topic.silent:.1f} s'
            + SILENCE[topic.publishers and 1] + f'; {topic.instead}' * bool(topic.instead))
        for topic in report.images if topic.silent > timeout]
    issues += [IssueCode.NO_CAMERA_INFO.issue(f'no camera_info on {topic}')
               for topic in report.missing]
    issues += [
        Issue(IssueCode.SILENT, IssueLevel.WARN, f'nothing on {topic.topic} for '
              f'{topic.silent:.1f} s: its last camera_info is used')
        for topic in report.infos if topic.seen and topic.silent > timeout]
    issues += [one for one in report.issues if one.code.scope in ('pair', 'input')]
    return *_worst(issues, IDLE if report.idle else 'receiving'), values


def published_instead(report: Report) -> list[str]:
    """Which image topics nobody publishes while others of the same camera have publishers."""
    return [f'nothing on {topic.topic}{SILENCE[0]}; {topic.instead}' for topic in report.images
            if topic.instead and topic.silent > report.settings.input_timeout]


def _measured(report: Report) -> dict[str, str]:
    """What the frame that was looked at last says of images and settings."""
    values, quality = {}, report.quality
    if quality is not None:
        if quality.valid is not None:
            values = {'valid %': f'{100 * quality.valid:.1f}',
                      'at the last label %': f'{100 * quality.at_maximum:.2f}'}
        values |= {'nearest m': f'{quality.nearest:.3f}', 'farthest m': f'{quality.farthest:.1f}'}
    return {**values, **report.vertical}


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
    values['waited for camera_info'] = counts.camera_info_waits
    values['waited for camera_info in vain'] = counts.camera_infos_missed
    if not report.is_active:
        return IssueLevel.OK, report.state, values
    stall = nothing_published(report)
    if stall is not None:
        return stall.level, stall.text, values
    texts = [*_losses(report), *_without_partner(report)]
    dropped = [text for _, text in _drops(counts, before)]
    if dropped:
        texts.append('dropped: ' + ', '.join(dropped))
    if texts:
        return IssueLevel.WARN, '; '.join(texts), values
    published = counts.published - before.published
    return IssueLevel.OK, IDLE if report.idle else f'{published} pairs published', values


def nothing_published(report: Report) -> Issue | None:
    """What is to be said of images that come while nothing is published, with the cause."""
    if report.stall is None:
        return None
    text = f'nothing published for {report.stall.seconds:.0f} s: '
    building = report.stall.building
    if building is not None and building < MAX_BUILD:
        return Issue(IssueCode.OUTPUT, IssueLevel.WARN, text + 'a new engine is being built')
    if building is not None:
        return IssueCode.OUTPUT.issue(
            f'{text}a new engine has been in the making for {building:.0f} s, and '
            f'{MAX_BUILD:.0f} s are the limit: restart the node')
    since, counts = report.stall.since, report.counts
    dropped = [f'{text}{f" ({MEANINGS[reason]})" if reason in MEANINGS else ""}'
               for reason, text in _drops(counts, since)]
    names = (['images'] if report.settings.is_side_by_side
             else [f'{side} images' for side in SIDES])
    causes = [f'no {name}' for name, topic in zip(names, report.images, strict=False)
              if topic.silent > report.settings.input_timeout]
    causes += [*_losses(report), *_without_partner(report)]
    if dropped:
        causes.append('dropped: ' + ', '.join(dropped))
    if counts.pairs > since.pairs and report.held:
        causes.append('a pair waits for its camera_info or for the engine')
    return IssueCode.OUTPUT.issue(text + ('; '.join(causes) or 'images wait for their partners'))


def _without_partner(report: Report) -> list[str]:
    """Why no image finds its partner, where images of both sides come by now and no pair does."""
    counts, before = report.counts, report.before
    if counts.pairs > before.pairs or any(
            counts.received[side] == before.received[side] for side in SIDES):
        return []
    if len(report.images) == len(SIDES):
        left, right = report.images
        ahead = left.ahead - right.ahead
        if abs(ahead) > APART_S:
            return [clock_offset_reason(ahead)]
        if _losses(report):
            return []
    if report.closest_miss is None:
        return []
    allowed = sync_setting(report.settings.stamp_tolerance_s)
    if any(topic.gaps for topic in report.images):
        allowed = f'and there are gaps among them: if the cameras send more images, {LOST}'
    return [why_no_pair(report.closest_miss, allowed)]


def _losses(report: Report) -> list[str]:
    """Which images do not arrive, where both sides are alive."""
    settings = report.settings
    if len(report.images) < len(SIDES) or any(
            topic.silent > settings.input_timeout for topic in report.images):
        return []
    left, right = report.images
    losses = missing_images(left, right, int(settings.stamp_tolerance_s * 1e9))
    texts = [f'{side} images do not arrive: {missing} of {of} are missing'
             for side, (missing, of) in losses.items()]
    if texts:
        texts[-1] += (f"; if {'both cameras send' if len(texts) > 1 else 'the camera sends'} "
                      f'them, {LOST}')
    return texts


def _drops(counts: Counts, since: Counts) -> list[tuple[ImageDrop | PairDrop, str]]:
    """What was dropped, but by a node at rest: every reason with its number."""
    drops: list[tuple[ImageDrop | PairDrop, str]] = []
    for side in SIDES:
        for image in ImageDrop:
            number = counts.image_drops[side][image] - since.image_drops[side][image]
            if number and image is not ImageDrop.DEACTIVATED:
                drops.append((image, f'{number} {image} {side}'))
    for pair in PairDrop:
        number = counts.pair_drops[pair] - since.pair_drops[pair]
        if number and pair not in QUIET_DROPS:
            drops.append((pair, f'{number} {pair}'))
    return drops


def latency_status(report: Report) -> Status:
    """The distribution of the total; a warning where the 95th percentile of the frames since the
    report before is over the budget."""
    budget = report.settings.latency_budget_ms
    values: dict[str, Any] = {'budget ms': f'{budget:g}'}
    window, recent = report.distribution, report.recent
    if window is not None:
        values |= {'frames': window.frames, 'p50 ms': f'{window.p50:.3f}',
                   'p95 ms': f'{window.p95:.3f}', 'p99 ms': f'{window.p99:.3f}',
                   'max ms': f'{window.maximum:.3f}'}
    if recent is None:
        return IssueLevel.OK, IDLE if report.idle and report.is_active else 'no frames', values
    text = f'p50 {recent.p50:.1f} ms, p95 {recent.p95:.1f} ms'
    if budget and recent.p95 > budget:
        return IssueLevel.WARN, f'{text}, over latency_budget_ms {budget:g}', values
    return IssueLevel.OK, text, values


def device_status(report: Report) -> Status:
    """Back end, why this one, threads and memory; an error where it is lost."""
    matcher = report.matcher
    values: dict[str, Any] = {'state': report.state, 'preset': report.preset}
    if matcher is not None:
        plan = matcher.memory_plan
        size = matcher.size
        values |= {
            'backend': matcher.backend, 'why': matcher.backend_reason,
            'algorithm': matcher.config.stereo_algorithm,
            'disparities': _search(matcher),
            **report.device,
            'size': f'{size[0]} x {size[1]}' if size else 'not known yet',
            'memory': f'{plan.total / 2**20:.1f} MiB' if plan is not None else 'none yet'}
    issues = [one for one in report.issues if one.code.scope == 'device']
    healthy = report.state if matcher is None else f'{report.state} on {matcher.backend}'
    return *_worst(issues, healthy), values


def _search(matcher: StereoMatcher) -> str:
    """First and last disparity of the search between the images as they are, and why."""
    config, depth = matcher.effective_config, matcher.config.min_depth
    text = f'{config.min_disparity} to {config.max_disparity}'
    if not depth:
        return text
    if matcher.calibration is None:
        return f'{text}: min_depth {depth:g} m waits for a calibration'
    return f'{text}: as far as min_depth {depth:g} m'


def _worst(issues: Iterable[Issue], healthy: str) -> tuple[IssueLevel, str]:
    ordered = sorted(issues, key=lambda issue: -issue.level)
    if not ordered:
        return IssueLevel.OK, healthy
    return ordered[0].level, '; '.join(map(str, ordered))
