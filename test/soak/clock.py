"""/clock of a simulation that can stop, jump and fall silent."""

from __future__ import annotations

import threading
import time
from typing import Any

#: Seconds between two messages.
PERIOD = 0.01


class SimulatedClock:
    """Publishes /clock in a thread of its own.

    ``silent``: time goes on, but nothing is published. ``frozen``: it stands still.

    :param node: publishes.
    """

    def __init__(self, node: Any) -> None:
        from rosgraph_msgs.msg import Clock
        self._kind, self._publisher = Clock, node.create_publisher(Clock, '/clock', 10)
        self._lock = threading.Lock()
        self._time = time.time_ns()
        self._at = time.monotonic_ns()
        self.silent = self.frozen = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='clock', daemon=True)
        self._thread.start()

    def now_ns(self) -> int:
        """The time that was published last, or would have been."""
        return self._time

    def jump(self, seconds: float) -> None:
        """Go ahead or back by so much, and publish it."""
        with self._lock:
            self._time += int(seconds * 1e9)
            self._publish()

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD):
            with self._lock:
                now = time.monotonic_ns()
                if not self.frozen:
                    self._time += now - self._at
                self._at = now
                if not self.silent:
                    self._publish()

    def _publish(self) -> None:
        message = self._kind()
        message.clock.sec, message.clock.nanosec = divmod(self._time, 10**9)
        self._publisher.publish(message)
