"""A node in the process of its test."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.node.node import StereoBpNode
from stereo_bp_ros.node.pairing import StereoPair
from test.node.processes import LIMIT, START_LIMIT
from test.node.stand_ins import FakeMatcher, Outputs, make_image, make_info


class Bench:
    """A node with a stand-in for the matcher and nobody spinning it."""

    def __init__(self, context: Any, parameters: dict[str, Any]) -> None:
        self.made: list[Any] = []

        def factory(config: MatcherConfig) -> Any:
            self.made.append(FakeMatcher(config))
            return self.made[-1]

        self.node = StereoBpNode(
            matcher_factory=factory, context=context,
            parameter_overrides=[Parameter(n, value=v) for n, v in parameters.items()])

    def set(self, **values: Any) -> SetParametersResult:
        """Atomically, as the service does it."""
        return self.node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in values.items()])

    def get(self, name: str) -> Any:
        return self.node.get_parameter(name).value

    def configure(self) -> None:
        assert self.node.trigger_configure().name == 'SUCCESS'

    def frame(self, width: int, height: int) -> None:
        """Have the worker process a pair of black images, which somebody waits for."""
        node, outputs, stamp = self.node, Outputs(), time.time_ns()
        assert node._processor is not None
        node._processor._outputs = outputs
        left, right = (make_image(stamp, np.zeros((height, width), np.uint8)) for _ in range(2))
        infos = [make_info(stamp, side=side, width=width, height=height)
                 for side in ('left', 'right')]
        pair = StereoPair(left, right, *infos, stamp, stamp, node._generation.number, 0.0, 0.0,
                          0.0)
        node._worker.call(lambda: node._process(pair), limit=START_LIMIT)
        self.settle()

    @property
    def matcher(self) -> Any:
        return self.made[-1]

    def settle(self) -> None:
        """Let the compiler finish and the worker run what has been posted."""
        deadline = time.monotonic() + START_LIMIT
        while self.node._reconfiguration.compiling:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.node._worker.call(lambda: None, limit=LIMIT)
