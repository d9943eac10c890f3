"""What could make one frame late: memory that grows, and the garbage collector."""

from __future__ import annotations

import gc
import json
import math
import pathlib
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.frame_loop import FrameLoop
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.node import main
from stereo_bp_ros.node.diagnostics.monitors import WINDOW
from stereo_bp_ros.stream import observer
from test.node.stand_ins import FakeMatcher

#: Frames after which everything bounded is full, and those that are watched.
FULL, WATCHED = WINDOW + 20, 40

#: Bytes that these may keep together, that one may take for a moment, and that one may whose
#: images and result are looked at, which is done twice a second.
KEPT, TAKEN, LOOKED_AT = 4096, 6144, 65536


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def traced() -> int:
    """Bytes in use, without the cache of attributes: it keeps 4096 names, by their address.

    Numba makes such names whenever a kernel is called with a NamedTuple.
    """
    getattr(sys, '_clear_internal_caches', sys._clear_type_cache)()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def watch_frames() -> None:
    """Print what frames take and keep, bytes: for a process in which nothing else is traced."""
    sys.settrace(None)          # each call that a tracer of coverage sees takes memory, too
    left, right = np.random.default_rng(5).integers(0, 256, (2, 240, 320), dtype=np.uint8)
    loop = FrameLoop([left], [right])
    loop.build(MatcherConfig(stereo_algorithm='sad', disparity_range=8, backend='cpu'))
    seen = []
    tracemalloc.start()
    for interval in (0.0, math.inf, math.inf, math.inf):
        observer.LOOK_INTERVAL_S = interval
        loop.frames(5 if seen else FULL)
        peaks = []
        for _ in range(WATCHED):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            assert loop.frame()[0] == 'right'
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        seen.append([sorted(peaks)[9 * WATCHED // 10], traced()])
    loop.host.release()
    print(json.dumps(seen))


def test_frames_keep_no_memory_in_python_and_take_little_whatever_their_size() -> None:
    pytest.importorskip('numba')
    result = subprocess.run(
        [sys.executable, '-c', 'from test.node import test_real_time as t; t.watch_frames()'],
        capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    taken, kept = zip(*json.loads(result.stdout.splitlines()[-1]), strict=True)
    assert taken[0] < LOOKED_AT
    assert max(taken[1:]) < TAKEN
    assert kept[-1] - kept[-2] < KEPT


def test_what_lives_when_the_node_is_configured_is_not_looked_at_again(thawed: None) -> None:
    class Cycle:
        pass

    old = Cycle()
    old.itself = old        # type: ignore[attr-defined]
    gone = weakref.ref(old)
    main.freeze()
    assert gc.get_freeze_count() > 1000
    del old
    gc.collect()
    assert gone() is not None
    # The next time the node is configured, it is garbage.
    main.freeze()
    assert gone() is None


@pytest.mark.ros
def test_the_node_tells_when_it_is_configured(context: Any) -> None:
    from stereo_bp_ros.node.node import StereoBpNode
    told: list[str] = []
    node = StereoBpNode(matcher_factory=FakeMatcher, context=context,
                        on_configured=lambda: told.append('configured'))
    try:
        assert not told
        assert node.trigger_configure().name == 'SUCCESS'
        assert told == ['configured']
    finally:
        node.stop(1.0)
        node.destroy_node()


@pytest.mark.ros
def test_a_set_up_that_the_machine_refuses_says_why(
        monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip('rclpy')
    from benchmarks import node, real_time

    def refuse(*_: object) -> None:
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(real_time.os, 'sched_setscheduler', refuse)
    real_time.print_row(real_time.measure(
        'all', node.RUNS['bp_small'], 'cpu', tmp_path, [0, 1], 0.1, is_loaded=False))
    assert capsys.readouterr().out == (
        '| all | no SCHED_FIFO: [Errno 1] Operation not permitted |\n')


@pytest.mark.ros
@pytest.mark.slow
def test_every_set_up_for_real_time_is_measured(repository: pathlib.Path) -> None:
    pytest.importorskip('rclpy')
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.real_time', '--minutes', '0.05', '--run', 'bp_small',
         '--setups', 'plain', 'frozen', 'affinity', 'all'],
        cwd=repository, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith('| ')][2:]
    assert [row.split('|')[1].strip() for row in rows] == ['plain', 'frozen', 'affinity', 'all']
