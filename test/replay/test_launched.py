"""What the replay launch file starts loses nothing, in fifty runs on a busy machine."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stereo_bp_ros.replay.launching import plan
from test.node.processes import NODE, START_LIMIT, running_node

pytest.importorskip('numba', reason='the CPU engine needs Numba')

pytestmark = pytest.mark.ros

#: Of the recording.
FRAMES = 6

#: Fifty runs, five with a node.
NODES, RUNS = 10, 5


#: Computes until whoever has started it ends, also when that is killed.
BUSY = 'import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass'


@contextlib.contextmanager
def busy_machine() -> Iterator[None]:
    """As many processes as there are processors compute without a pause."""
    busy = [subprocess.Popen([sys.executable, '-c', BUSY, str(os.getpid())])
            for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize('node', range(NODES))
def test_a_recorded_replay_loses_no_frame_on_a_busy_machine(
        node: int, tmp_path: pathlib.Path, recording: pathlib.Path) -> None:
    """Without reliable inputs the first frames, or the last, are lost now and then."""
    planned = plan({'bag': str(recording), 'output': str(tmp_path / 'report')})
    lost = {}
    with running_node(tmp_path, {'preset': 'sad_fast', 'use_sim_time': True}, code=NODE,
                      qos=planned.parameters) as running, busy_machine():
        for run in range(RUNS):
            player = subprocess.run(
                [sys.executable, '-m', 'stereo_bp_ros.cli.main', *planned.player, '--json'],
                env={**os.environ, 'ROS_DOMAIN_ID': str(running.domain)}, text=True,
                capture_output=True, timeout=START_LIMIT)
            assert player.stdout, player.stderr
            frames = json.loads(player.stdout)['runs']['replay']['frames']
            assert frames['sent'] == FRAMES
            if frames['lost_in_transport']:
                lost[run] = frames
    assert lost == {}
