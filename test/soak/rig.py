"""A camera, a node and what listens to it: everything of one namespace."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.replay import session
from test import machine
from test.node.client import Client, Status, stamp_of, unaccounted
from test.node.processes import LIMIT, NODE, START_LIMIT, NodeProcess, running_node
from test.soak.camera import Camera, SimulatedClock
from test.soak.ledger import Found, Ledger, Totals, Waits, transport_losses, waited

#: Of the node. ``max_latency`` drops what a stop in the middle of a frame has made old.
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 32, 'correlation_window_size': 7,
              'max_input_age': 1.0, 'max_latency': 1.5}

#: Seconds from sending to the result, at most: ``max_latency``, and some for the way here. What
#: the machine let the node and this process wait for a core comes on top (``Waits``).
MAX_AGE = 2.0

#: Seconds within which a lone frame on an idle node is answered, before the next is sent, and for
#: how many frames that is tried.
PATIENCE, MAX_FRAMES = 1.0, 60

#: Seconds that threads must have waited for a core for each frame that was made too old by that.
MIN_WAIT = 0.5


class Violation(Exception):
    """An expectation that does not hold, in words."""


class Rig(Client):
    """The camera and the listener of one node, and the process of that node.

    :param namespace: '' or '/name'.
    :param sim_time: the node, the camera's stamps and /clock go by a simulated clock.
    :param backend: the node's.
    """

    def __init__(self, domain: int, directory: pathlib.Path, namespace: str, *, sim_time: bool,
                 backend: str) -> None:
        self.waits = Waits(self._waited)
        super().__init__(domain, (), node=f'{namespace}/stereo_bp', depth=1000,
                         namespace=namespace)
        self.name = namespace.strip('/') or 'front'
        self.namespace = namespace
        self.domain, self.directory = domain, directory
        self.parameters = {**PARAMETERS, 'backend': backend}
        self.ledger = Ledger(MAX_AGE, self.waits.since)
        self.clock: Any = SimulatedClock(self.node) if sim_time else None
        self.camera = Camera(self, self.ledger, self.clock.now_ns if sim_time else self.now_ns)
        self._running = contextlib.ExitStack()
        self._ends: set[tuple[int, ...]] = set()
        #: Ends of nodes in one trial of them, and the exit statuses of all nodes that have ended.
        self.ends, self.statuses = 1, collections.Counter[int]()
        #: Counters at the last rest; None after a start of the node, until the next fault.
        self.before: Totals | None = None
        self.listen()

    # The listener

    def listen(self) -> None:
        """Subscribe to the results."""
        from stereo_msgs.msg import DisparityImage
        self._listener = self.node.create_subscription(
            DisparityImage, 'disparity', self._on_result, 1000)

    def stop_listening(self) -> None:
        """Have no subscription of results any more."""
        self.node.destroy_subscription(self._listener)

    def _on_result(self, message: Any) -> None:
        now = time.monotonic()
        image = message.image
        values = np.frombuffer(message.image.data, np.float32).reshape(image.height, image.width)
        valid = values[values >= message.min_disparity]
        middle = float(np.median(valid)) if valid.size else 0.0
        agreement = float(np.mean(np.abs(valid - middle) <= 0.5)) if valid.size else 0.0
        self.ledger.receive(stamp_of(message), Found(
            middle, agreement, valid.size / values.size, image.width, image.height, message.f),
            now)

    def take_report(self, message: Any) -> None:
        before = self.reports
        super().take_report(message)
        if self.reports > before:
            self.waits.sample()

    def _waited(self) -> dict[str, float]:
        """Of the threads of the node and of this process."""
        pids = [os.getpid(), *([self.process.pid] if self.node_process is not None else [])]
        return {f'{pid} {thread}': seconds for pid in pids
                for thread, seconds in waited(pid).items()}

    # The node's process

    def start(self, *, environment: Mapping[str, str] | None = None,
              before_waiting: Callable[[NodeProcess], None] = lambda node: None) -> None:
        """Start the node and wait until it is active and everything has found everything."""
        self.before = None
        node = self._running.enter_context(running_node(
            self.directory, {**self.parameters, 'use_sim_time': bool(self.clock)},
            *(['-r', f'__ns:={self.namespace}'] if self.namespace else []), wait='', code=NODE,
            domain=self.domain, environment=environment,
            qos=session.reliable_overrides(self.namespace, depth=500)))
        self.node_process = node
        before_waiting(node)
        node.wait_for_log('active: waiting')
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        """Until the active node and this end know each other."""
        from rcl_interfaces.srv import GetParameters

        def are_there() -> bool:
            self.check_running()
            return all(ends - self._ends for ends in self._subscriptions()) and bool(
                self.node.count_publishers('disparity'))

        self.wait_until(are_there, START_LIMIT, 'subscriptions of the node')
        # Of two servers, the one that was killed and the next, only one answers; it may not know
        # this end yet.
        for _ in range(20):
            with contextlib.suppress(AssertionError):
                self.call(GetParameters, 'get_parameters', 3.0, names=['stereo_algorithm'])
                break
        else:
            raise Violation('the parameter service does not answer')
        self._ends = set().union(*self._subscriptions())

    def _subscriptions(self) -> list[set[tuple[int, ...]]]:
        publishers = (*self.image_publishers.values(), *self.info_publishers.values())
        return [self.subscriptions_to(publisher.topic_name) for publisher in publishers]

    def subscriptions_to(self, topic: str) -> set[tuple[int, ...]]:
        """The ends that this one knows, dead ones that are not missed yet included."""
        ends = self.node.get_subscriptions_info_by_topic(topic)
        return {tuple(end.endpoint_gid) for end in ends}

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Of the node."""
        process: subprocess.Popen[bytes] = self.node_process.process
        return process

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the node by a signal, and wait for that; returns its exit status."""
        left = machine.segments_of(self.process.pid)
        status = int(self.node_process.end(number))
        self.statuses[status] += 1
        self._running.close()
        machine.remove(left)
        self.before = None
        return status

    def close(self) -> None:
        """End everything."""
        self.camera.close()
        if self.clock:
            self.clock.close()
        if self.node_process is not None:
            self.process.send_signal(signal.SIGCONT)
            left = machine.segments_of(self.process.pid)
            self._running.close()
            machine.remove(left)
        super().close()

    def check_running(self) -> None:
        """:raises Violation: the node has ended, and nobody has ended it."""
        if self.node_process is not None and self.process.poll() is not None:
            raise Violation(f'the node has ended with status {self.process.returncode}: '
                            f'{self.node_process.log[-500:]}')

    # Waiting for words and frames

    def wait_for_frames(self, count: int) -> None:
        """Wait until so many more frames are sent."""
        end = self.ledger.sent + count
        self.wait_until(lambda: self.ledger.sent >= end, LIMIT, 'the camera')

    def wait_for_result(self, after: int, limit: float = LIMIT) -> bool:
        """Whether the result of a frame after this place comes in time."""
        with contextlib.suppress(AssertionError):
            return bool(self.wait_until(lambda: self.ledger.last > after, limit))
        return False

    def frames_to_recover(self) -> int:
        """Send frames one by one until the result of one of them comes; returns their number.

        Of those that the busy machine made too old no account is taken: as many as threads have
        waited for a core, and no more than the node has dropped for that.

        :raises Violation: none comes.
        """
        begun, before, first = time.monotonic(), self.counts(), self.ledger.sent
        for sent in range(1, 1 + MAX_FRAMES):
            self.camera.send()
            if self.wait_for_result(first, PATIENCE):
                if sent <= 2:
                    return sent
                after = self.settled()
                too_old = sum(after[key] - before.get(key, 0) for key in (
                    'dropped pairs: stale', 'dropped pairs: late', 'dropped pairs: superseded'))
                return max(1, sent - min(too_old, int(self.waits.since(begun) / MIN_WAIT)))
        raise Violation(f'no result of {sent} frames')

    # Counters

    def totals(self) -> Totals:
        """All counters at rest, of both ends."""
        return self._totals(self.settled())

    def _totals(self, node: Mapping[str, int]) -> Totals:
        return Totals(node, dict(self.ledger.images), self.ledger.delivered)

    def wait_until_done(self, before: Totals) -> None:
        """Wait until the node has done with each image sent since; none is sent meanwhile."""
        def is_done(status: Status) -> bool:
            node = {key: int(value) for key, value in status.values.items()}
            _, lost = transport_losses(before, self._totals(node))
            return not (unaccounted(node) or node['held'] or lost.keys() - {'results'})

        self.wait_for_status('pairing', is_done)


def usage(pid: int) -> dict[str, float]:
    """Memory (MiB) of a process, its open files and threads."""
    fields = dict(line.split(':', 1) for line in pathlib.Path(
        f'/proc/{pid}/status').read_text(encoding='ascii').splitlines() if ':' in line)
    kib = {name: int(fields[name].split()[0]) for name in ('VmRSS', 'RssAnon')}
    return {'RSS MiB': kib['VmRSS'] / 1024, 'private MiB': kib['RssAnon'] / 1024,
            'open files': len(os.listdir(f'/proc/{pid}/fd')),
            'threads': int(fields['Threads'])}


@contextlib.contextmanager
def subscribing_process(rig: Rig) -> Iterator[subprocess.Popen[str]]:
    """A process that subscribes to the rig's results and has received one; killed at the end."""
    known = rig.subscriptions_to('disparity')
    with peer_process(rig, rig.namespace) as process:
        # Nobody learns of it from one that is killed.
        rig.wait_until(lambda: rig.subscriptions_to('disparity') - known, LIMIT,
                       'a second subscriber')
        yield process


@contextlib.contextmanager
def peer_process(rig: Rig, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``test.soak.peer`` in the rig's domain that has received a result; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'test.soak.peer', *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, 'ROS_DOMAIN_ID': str(rig.domain)})
    try:
        watchdog = threading.Timer(LIMIT, process.kill)
        watchdog.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise Violation('a peer has received nothing')
        yield process
    finally:
        left = machine.segments_of(process.pid)
        process.kill()
        process.wait(10)
        machine.remove(left)
