"""Reports of a healthy node, with what a test changes, and the statuses made of them."""

from __future__ import annotations

import types
from typing import Any

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.node.diagnostics.ledger import Ledger
from stereo_bp_ros.node.diagnostics.monitors import TopicReport
from stereo_bp_ros.node.diagnostics.report import Report, diagnostics_message

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
