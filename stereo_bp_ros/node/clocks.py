"""What time it is for the node: its own clock for stamps and ages, one of two for silence."""

from __future__ import annotations

import time

from rclpy.node import Node


class Clocks:
    """The clocks of a node; for any number of threads."""

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()

    def now_ns(self) -> int:
        """The node's clock, nanoseconds; 0 = sim time that is not known yet."""
        return int(self._clock.now().nanoseconds)

    def stamp(self) -> object:
        """The node's clock as a ``builtin_interfaces/Time``."""
        return self._clock.now().to_msg()

    def seconds(self) -> float:
        """What silence is measured with: in sim time slow replay must not look silent, and
        otherwise a clock that is set must not either."""
        return self.now_ns() * 1e-9 if self._clock.ros_time_is_active else time.monotonic()

    def missing(self) -> bool:
        """Whether sim time is asked for, and nothing has come on /clock."""
        return self._clock.ros_time_is_active and not self.now_ns()
