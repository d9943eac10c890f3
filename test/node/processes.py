"""A real node in a process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from test import machine

#: Seconds. Compiling everything from scratch takes long on a small machine.
START_LIMIT = 240.0
#: Whatever else is waited for comes far earlier, on a machine that does nothing else.
LIMIT = 120.0

#: The node as it is.
NODE = 'import sys; from stereo_bp_ros.node import main; sys.exit(main.main())'
#: It says every 0.2 s instead of every second how it is: tests wait for that.
TALKATIVE_NODE = """
import sys
from stereo_bp_ros.node import main, node

node.Ticker = lambda period_s, tick, of=node.Ticker: of(period_s / 5, tick)
sys.exit(main.main())
"""


@dataclasses.dataclass
class NodeProcess:
    """A running node: its process, the domain that it speaks in, and what it has logged."""

    process: subprocess.Popen[bytes]
    domain: int
    log_path: pathlib.Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding='utf-8', errors='replace')

    def wait_for_log(self, text: str, limit: float = START_LIMIT) -> float:
        """Wait until the node has logged a text; returns the seconds it took."""
        start = time.monotonic()
        while text not in self.log:
            assert self.process.poll() is None, f'the node has ended:\n{self.log}'
            assert time.monotonic() < start + limit, f'{text!r} was not logged:\n{self.log}'
            time.sleep(0.02)
        return time.monotonic() - start

    def end(self, number: int = signal.SIGINT, limit: float = LIMIT) -> int:
        """Send a signal and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(limit)

    def kill(self) -> None:
        """End it at once, and remove the shared memory that it cannot give back any more."""
        left = machine.segments_of(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        machine.remove(left)


@contextlib.contextmanager
def running_node(directory: pathlib.Path, parameters: Mapping[str, Any],
                 *arguments: str, wait: str = 'active: waiting', code: str = TALKATIVE_NODE,
                 domain: int | None = None, qos: Mapping[str, Any] | None = None,
                 environment: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """A node, killed at the end, in a domain of another node or in one that nobody has.

    ``qos`` are its overrides. By default whatever is sent waits until it is taken; {} leaves the
    node as in a vehicle, which loses messages on a busy machine. ``environment`` is added to that
    of this process.
    """
    if qos is None:
        from stereo_bp_ros.replay import session
        qos = session.reliable_overrides(depth=200)
    if domain is None:
        with machine.domain() as domain, running_node(
                directory, parameters, *arguments, wait=wait, code=code, domain=domain,
                qos=qos, environment=environment) as node:
            yield node
        return
    command = [sys.executable, '-c', code, '--ros-args', *arguments]
    for name, value in {**qos, 'preset': 'none', **parameters}.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        command += ['-p', f'{name}:={text}']
    log_path = directory / f'node_{random.getrandbits(32):08x}.log'
    environment = {**os.environ, **(environment or {}), 'ROS_DOMAIN_ID': str(domain),
                   'PYTHONUNBUFFERED': '1'}
    with open(log_path, 'wb') as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                   env=environment)
    node = NodeProcess(process, domain, log_path)
    try:
        if wait:
            node.wait_for_log(wait)
        yield node
    finally:
        node.kill()
