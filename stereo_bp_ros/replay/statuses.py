"""What running nodes say of themselves in /diagnostics, in figures for people and scripts."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.qos import QoSProfile, ReliabilityPolicy

from stereo_bp_ros.errors import StereoError, printable
from stereo_bp_ros.images.stamps import header_stamp
from stereo_bp_ros.replay import frames
from stereo_bp_ros.replay.listening import Spinner, absolute, listener, namespace_of

#: Seconds without a report of a node, which come once a second, from which on it is stale.
STALE_S = 5.0

#: The statuses of a node, and the words of their levels.
NAMES = ('input', 'pairing', 'latency', 'device')
LEVELS = ('ok', 'warning', 'error', 'stale')

Report = tuple[int, Mapping[str, Any]]
"""The stamp of a report in nanoseconds, and its statuses by their names."""


class Statuses:
    """The last two reports of every node; a context manager with a thread for messages.

    :param context: of rclpy; None: one of its own.
    """

    def __init__(self, context: Context | None = None) -> None:
        self._context = context
        self._reports: dict[str, tuple[Report | None, Report]] = {}
        self._arrived_s: dict[str, float] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Statuses:
        self.node = self._stack.enter_context(listener('stereo_bp_status', self._context))
        self.node.create_subscription(
            DiagnosticArray, '/diagnostics', self._take,
            QoSProfile(depth=64, reliability=ReliabilityPolicy.BEST_EFFORT))
        self._stack.callback(Spinner(self.node, 'status').close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _take(self, message: Any) -> None:
        found: dict[str, dict[str, Any]] = {}
        for status in message.status:
            node, _, name = status.name.rpartition(': ')
            if name in NAMES and node.startswith('/'):
                found.setdefault(node, {})[name] = status
        for node, statuses in found.items():
            if set(statuses) == set(NAMES):
                _, before = self._reports.get(node, (None, None))
                self._arrived_s[node] = time.monotonic()
                self._reports[node] = before, (header_stamp(message), statuses)

    def find(self, seconds: float, namespaces: Sequence[str] = ()) -> list[str]:
        """The nodes in these namespaces (none: all), once they have reported twice.

        By then every other node has reported once.

        :raises StereoError: one does not in time; says which have reported.
        """
        wanted = set(map(absolute, namespaces))
        end = time.monotonic() + seconds
        while True:
            twice = {namespace_of(node) for node, (before, _) in list(self._reports.items())
                     if before}
            if twice and wanted <= twice:
                return list(self.figures(namespaces))
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        raise StereoError(
            f'no report of a node{" in " * bool(wanted)}{", ".join(sorted(wanted))} within '
            f'{seconds:g} s, in ROS domain {os.environ.get("ROS_DOMAIN_ID", "0")}; '
            f'reported have: {", ".join(sorted(self._reports)) or "none"}')

    def figures(self, namespaces: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Of each node in these namespaces (none: all): ``figures_of``."""
        wanted = set(map(absolute, namespaces))
        found = {}
        for node, reports in sorted(self._reports.items()):
            if not wanted or namespace_of(node) in wanted:
                found[node] = figures_of(*reports)
                silent_s = time.monotonic() - self._arrived_s[node]
                if silent_s > STALE_S:
                    found[node] |= {'level': 'stale', 'state': f'no report for {silent_s:.0f} s'}
        return found


def figures_of(before: Report | None, now: Report) -> dict[str, Any]:
    """What matters of a node, for JSON; an unknown figure is None.

    :param before: its report before this one, for the rate.
    """
    stamp_ns, statuses = now
    values = {name: {pair.key: printable(pair.value, 500) for pair in status.values}
              for name, status in statuses.items()}
    counters = frames.counters(_Message(statuses))
    rate = None
    if before is not None and stamp_ns > before[0]:
        then = frames.counters(_Message(before[1]))
        rate = 1e9 * (counters['published'] - then['published']) / (stamp_ns - before[0])
    dropped = {what: {reason: count for reason, count in frames.drops(counters, what).items()
                      if count} for what in ('left', 'right', 'pairs')}
    worst = max(status.level[0] for status in statuses.values())
    return {
        'level': LEVELS[worst], 'state': values['device'].get('state'),
        **{name: {'level': LEVELS[status.level[0]], 'message': printable(status.message, 1000)}
           for name, status in statuses.items()},
        'received': {side: counters[f'received {side}'] for side in ('left', 'right')},
        'pairs': counters['pairs'], 'published': counters['published'], 'rate_hz': rate,
        'latency_ms': {share: _number(values['latency'].get(f'{share} ms'))
                       for share in ('p50', 'p95', 'p99')},
        'dropped': {what: reasons for what, reasons in dropped.items() if reasons},
        'vertical_offset_px': _number(values['input'].get('vertical offset px')),
        **{name: values['device'].get(name) for name in (
            'backend', 'why', 'preset', 'disparities', 'size', 'memory')}}


class _Message:
    """Of these statuses alone."""

    def __init__(self, statuses: Mapping[str, Any]) -> None:
        self.status = list(statuses.values())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or 'nan')
    except ValueError:
        return None
    return value if math.isfinite(value) else None
