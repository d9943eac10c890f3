"""The node's parameter lock_memory."""

from __future__ import annotations

import contextlib
import pathlib
import re
from typing import Any

import pytest

from stereo_bp_ros import transport

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros


def test_a_node_locks_its_memory_or_says_that_it_may_not(run_node: Any, client_class: Any,
                                                         tmp_path: pathlib.Path) -> None:
    parameters = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'lock_memory': True}
    with run_node(tmp_path, parameters) as node, \
            contextlib.closing(client_class(node.domain)) as client:
        status = client.status('device')
        text = pathlib.Path(f'/proc/{node.process.pid}/status').read_text()
        kib = int(re.search(r'VmLck:\s+(\d+) kB', text)[1])
        if transport._capabilities() >> transport.CAP_IPC_LOCK & 1:
            assert kib > 50_000
            assert status.level == 0
        else:
            assert 'memory is not locked' in status.message
            assert status.level == 1
