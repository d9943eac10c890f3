"""A rebuild that takes seconds and leaves 4 Hz, in a node that somebody listens to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
from test.node.test_diagnostics_over_ros import Camera

pytestmark = pytest.mark.ros

#: Another engine takes it 2.5 s to build, and every frame 0.25 s from then on.
SLOW_NODE = """
import sys, time
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.node import main
class Slow(StereoMatcher):
    pause = 0.0
    def reconfigure(self, config, calibration=None):
        is_new = super().reconfigure(config, calibration)
        if is_new:
            time.sleep(2.5)
            Slow.pause = 0.25
        return is_new
    def compute(self, *arguments, **options):
        time.sleep(Slow.pause)
        return super().compute(*arguments, **options)
sys.exit(main.main(matcher_factory=Slow))
"""

PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 60.0}


def test_a_rebuild_that_leaves_4_hz_is_a_warning_and_no_error(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    client = start(PARAMETERS, code=SLOW_NODE)
    with Camera(client, textured_pair):
        assert client.set_parameters(disparity_range=32)[0].successful
        status = client.wait_for_status(
            'pairing', lambda one: 'a new engine is being built' in one.message)
        assert status.level == 1
        client.wait_for_status('pairing', lambda one: 'nothing published' not in one.message)
        published = int(client.status('pairing').values['published'])
        client.wait_for_status(
            'pairing', lambda one: int(one.values['published']) >= published + 8)
    assert not re.findall(r'\[ERROR\].*', client.log())
    assert 'nothing published for' in client.log()
    assert client.node_process.end() == 0
