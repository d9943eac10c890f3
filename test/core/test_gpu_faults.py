"""The benchmark of failing GPUs sees what it is made to see."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.matcher import StereoMatcher

pytest.importorskip('numba')

from benchmarks.frame_loop import FrameLoop
from benchmarks.gpu_faults import __main__ as gpu_faults
from benchmarks.gpu_faults import pieces
from benchmarks.gpu_faults.processes import Child, ChildError
from test.cases import every

CONFIG = MatcherConfig(disparity_range=8, stereo_algorithm='sad', backend='cpu')


@pytest.fixture
def pair(textured_pair: Callable[..., tuple[np.ndarray, np.ndarray]]
         ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left and right image and their disparity."""
    left, right = textured_pair(64, 48, 3)
    with StereoMatcher(CONFIG) as matcher:
        return left, right, np.array(matcher.compute(left, right).disparity)


def test_a_published_frame_with_other_bits_is_a_wrong_one(
        pair: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    left, right, expected = pair
    changed = expected.copy()
    changed[24, 32] = np.nextafter(changed[24, 32], np.float32(9))
    loop = FrameLoop([left, left], [right, right], [expected, changed])
    loop.build(CONFIG)
    found = loop.frames(6)
    loop.host.release()
    assert (found['right'], found['wrong'], found['none']) == (3, 3, 0)
    assert len(found['ms']) == 6


@pytest.mark.parametrize(('policy', 'right', 'is_fatal'), [('exit', 2, True), ('cpu', 5, False)])
def test_a_lost_device_publishes_nothing_and_ends_the_node_or_goes_on(
        pair: tuple[np.ndarray, np.ndarray, np.ndarray], policy: str, right: int,
        is_fatal: bool) -> None:
    count = 0

    class Lost(StereoMatcher):
        def compute(self, *arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == 3:
                raise DeviceLostError('it is gone')
            return super().compute(*arguments, **options)       # type: ignore[arg-type]

    loop = FrameLoop([pair[0]], [pair[1]], [pair[2]], factory=Lost, on_device_loss=policy)
    loop.build(CONFIG)
    found = loop.frames(6)
    loop.host.release()
    assert (found['right'], found['wrong'], found['none']) == (right, 0, 1)
    assert loop.fatal == (['it is gone'] if is_fatal else [])
    assert any('it is gone' in text for text in loop.said)


def test_a_row_fails_for_wrong_frames_and_for_processes_that_do() -> None:
    row = {'wrong': 0, 'status': '3', 'said': 'device lost'}
    assert gpu_faults.failures(row) == []
    assert 'wrong bits' in gpu_faults.failures({**row, 'wrong': 1})[0]
    for status in ('-11', 'failed', 'killed: it had not ended after 20 s'):
        assert status in gpu_faults.failures({**row, 'status': status})[0]


def test_without_a_gpu_only_pieces_that_need_none_run() -> None:
    assert gpu_faults.can_run('lost', 'cpu')
    assert not any(gpu_faults.can_run(name, 'cpu') for name in pieces.OF_A_GPU)
    assert every(gpu_faults.can_run(name, 'cuda') for name in pieces.PIECES)


def test_a_child_that_ends_is_told_with_what_it_said() -> None:
    with pytest.raises(ChildError, match=r'status 1.*No such file'):
        Child('worker', '/nowhere.npz')


@pytest.mark.parametrize('name', ['FAULT', 'LOAD'])
def test_kernels_of_the_benchmark_compile(name: str) -> None:
    pytest.importorskip('cupy')
    from cupy_backends.cuda.libs import nvrtc

    from benchmarks.gpu_faults import child
    program = nvrtc.createProgram(getattr(child, name), f'{name}.cu', (), ())
    nvrtc.compileProgram(program, ('-arch=sm_90',))
    assert nvrtc.getCUBIN(program)


@pytest.mark.slow
def test_faults_can_be_rehearsed_without_a_gpu(tmp_path: pathlib.Path,
                                               repository: pathlib.Path) -> None:
    report = tmp_path / 'report.json'
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.gpu_faults', '--backend', 'cpu', '--size', '64x48x16',
         '96x64x16', '--pieces', 'lost', 'driver', 'many', '--output', str(report)],
        cwd=repository, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = {f'{row["piece"]}: {row["case"]}': row
            for row in json.loads(report.read_text())['rows']}
    assert len(rows) == 5 + 4 + 1
    assert not any(row['wrong'] for row in rows.values())
    lost = [row for name, row in rows.items() if name.startswith('lost')]
    assert [row['status'] for row in lost] == ['3', '0', '3', '0', '0']
    assert every(row['none'] == 1 and row['right'] > 20 and row['again_s'] for row in lost)
    refused = rows['driver: no visible device, backend cuda']
    assert (refused['right'], refused['none']) == (0, 0)
    assert 'BackendUnavailable' in refused['said']
    assert rows['many: two processes, four engines each']['right'] == 800
