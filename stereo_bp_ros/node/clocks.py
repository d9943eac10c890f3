"""What time it is for the node, and a callback at a steady pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog


class Clocks:
    """The clocks of a node; for any number of threads.

    A negative /clock is ignored: the time before it stays.

    :param issues: gets a warning for a negative /clock.
    """

    def __init__(self, node: Node, issues: IssueLog) -> None:
        self._clock = node.get_clock()
        # rclpy's callback raises for a negative time, and an executor that only raises ends.
        source = node._time_source
        take_clock = source.clock_callback

        def take_possible_clock(message: Clock) -> None:
            if message.clock.sec >= 0:
                take_clock(message)
            else:
                issues.add(IssueCode.CLOCK, f'/clock is negative, {message.clock.sec} s: that is '
                           'ignored, and the time before it stays')
        is_active = source.ros_time_is_active
        source.ros_time_is_active = False
        source.clock_callback = take_possible_clock
        source.ros_time_is_active = is_active           # subscribes anew

    def on_going_back(self, callback: Callable[[int], None]) -> None:
        """Have a function called with the new time, nanoseconds, when /clock goes back.

        It is called in the executor's thread, before anything that comes after /clock.
        """
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1),
                                  on_clock_change=False)
        self._watch = self._clock.create_jump_callback(
            threshold, post_callback=lambda jump: callback(self.now_ns()))

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


class Ticker:
    """Calls a function every ``period_s`` seconds of real time, in a thread of its own.

    :param tick: must not raise.
    """

    def __init__(self, period_s: float, tick: Callable[[], None]) -> None:
        self._period_s = period_s
        self._tick = tick
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='stereo_bp_ticker', daemon=True)

    def start(self) -> None:
        """Start the thread; the first call comes after one period."""
        self._thread.start()

    def stop(self) -> None:
        """No call begins any more; one in progress is waited for."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.wait(self._period_s):
            self._tick()
