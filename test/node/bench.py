"""A node in the process of its test."""

from __future__ import annotations

import time
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.node.node import StereoBpNode
from test.node.processes import LIMIT, START_LIMIT
from test.node.stand_ins import FakeMatcher


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
