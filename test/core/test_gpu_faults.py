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
from stereo_bp_ros.matcher import StereoMatcher

pytest.importorskip('numba')

from benchmarks import gpu_faults
from benchmarks.frame_loop import FrameLoop
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


def test_a_row_fails_for_wrong_frames_and_for_processes_that_do() -> None:
    assert gpu_faults.Row('lost', '', status='3', said=['device lost']).failures() == []
    assert 'wrong bits' in gpu_faults.Row('lost', '', wrong=1).failures()[0]
    for status in ('-11', 'failed', 'killed: it had not ended after 20 s'):
        assert status in gpu_faults.Row('lost', '', status=status).failures()[0]


@pytest.mark.parametrize('name', ['FAULT', 'LOAD'])
def test_kernels_of_the_benchmark_compile(name: str) -> None:
    pytest.importorskip('cupy')
    from cupy_backends.cuda.libs import nvrtc
    program = nvrtc.createProgram(getattr(gpu_faults, name), f'{name}.cu', (), ())
    nvrtc.compileProgram(program, ('-arch=sm_90',))
    assert nvrtc.getCUBIN(program)


@pytest.mark.slow
def test_a_loss_can_be_rehearsed_without_a_gpu(tmp_path: pathlib.Path,
                                               repository: pathlib.Path) -> None:
    report = tmp_path / 'report.json'
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.gpu_faults', '--backend', 'cpu', '--size', '64x48x16',
         '96x64x16', '--output', str(report)],
        cwd=repository, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())['rows']
    assert [row['status'] for row in rows] == ['3', '0', '3', '0', '0']
    assert every(not row['wrong'] and row['none'] == 1 and row['right'] > 20 and row['again_s']
                 for row in rows)
