"""The node's clock: what /clock may say."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip('rclpy')
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

from stereo_bp_ros.node.clocks import Clocks
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog

pytestmark = pytest.mark.ros


@pytest.mark.parametrize('is_set_later', [False, True])
def test_a_negative_clock_is_ignored_and_said(context: Any, is_set_later: bool) -> None:
    in_sim_time = [Parameter('use_sim_time', value=True)]
    node = Node('clocked', context=context, parameter_overrides=[] if is_set_later
                else in_sim_time)
    issues = IssueLog(lambda level, text: None)
    clocks = Clocks(node, issues)
    went_back: list[int] = []
    clocks.on_going_back(went_back.append)
    if is_set_later:
        node.set_parameters(in_sim_time)
    subscription, = (one for one in node.subscriptions if one.topic_name == '/clock')
    known = []
    for seconds in (7, -5, 8, 6, 0):
        message = Clock()
        message.clock.sec = seconds
        subscription.callback(message)
        known.append(clocks.now_ns() // 10**9)
    assert known == [7, 7, 8, 6, 0]
    assert went_back == [6 * 10**9, 0]
    told, = issues.active('clock')
    assert told.text == '/clock is negative, -5 s: that is ignored, and the time before it stays'
    node.destroy_node()
