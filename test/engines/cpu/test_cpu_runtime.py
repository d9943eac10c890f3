"""Kernels, their cache and threads."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel

Child = Callable[..., str]


def test_division_by_zero_is_numpys() -> None:
    @runtime.kernel
    def divide(a: float, b: float) -> float:
        return a / b

    assert divide(1.0, 0.0) == np.inf


def test_numbas_own_setting_of_a_cache_is_neither_used_nor_changed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    import numba
    monkeypatch.setattr(numba.config, 'CACHE_DIR', '/somebody/elses')

    @runtime.kernel
    def identity(x: float) -> float:
        return x

    assert identity(1.0) == 1.0
    assert numba.config.CACHE_DIR == '/somebody/elses'
    assert str(runtime.cache_directory()) == identity.stats.cache_path


def test_tbb_is_found_where_its_wheel_puts_it(child: Child) -> None:
    try:
        version = importlib.metadata.version('tbb')
    except importlib.metadata.PackageNotFoundError:
        pytest.skip('the tbb wheel is not installed')
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip('one core has no use for TBB')
    layer = child('from stereo_bp_ros.engines.cpu.simd import runtime\n'
                  'print(runtime.threading_layer())',
                  LD_LIBRARY_PATH='', NUMBA_THREADING_LAYER='default')
    assert layer == 'tbb', f'with the wheel tbb {version}'


def test_a_process_of_one_core_ends_when_another_thread_has_computed(child: Child) -> None:
    computed = child(
        'import os, threading\n'
        'os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n'
        'from stereo_bp_ros.engines.cpu.simd import runtime\n'
        'thread = threading.Thread(target=lambda: print(runtime.threading_layer()))\n'
        'thread.start()\n'
        'thread.join()', NUMBA_THREADING_LAYER='default')
    assert computed in ('omp', 'workqueue')


def test_a_frame_takes_the_threads_it_is_allowed(child: Child) -> None:
    taken = child(
        'import numba\n'
        'from stereo_bp_ros.engines.cpu.simd import runtime\n'
        'numba.set_num_threads(2)\n'
        'for wanted in (0, 1, 3, 100):\n'
        '    with runtime.frame(wanted) as threads:\n'
        '        assert threads == numba.get_num_threads()\n'
        '        print(threads, end=" ")\n'
        'print(numba.get_num_threads())', NUMBA_NUM_THREADS='4')
    assert taken == '4 1 3 4 2'


class Sums(NamedTuple):
    """An argument of a parallel kernel."""

    first: float
    out: np.ndarray


@parallel_kernel
def add_row(y: int, rows: np.ndarray, sums: Sums, weights: tuple[float, int], bound: float | None,
            is_doubled: bool) -> None:
    total = sums.first
    for x in range(rows.shape[1]):
        total += weights[0] * rows[y, x] + weights[1]
    if bound is not None:
        total = min(total, bound)
    sums.out[y] += 2 * total if is_doubled else total


@pytest.mark.parametrize('count', [0, 1, 2, 7, 5000])
@pytest.mark.parametrize('threads', [1, 2, 0])
def test_a_parallel_kernel_computes_every_row_once_from_all_arguments(count: int, threads: int
                                                                      ) -> None:
    rows = np.random.default_rng(count).integers(0, 9, (count + 1, 13)).astype(np.float64)
    for bound, is_doubled in ((None, False), (60.0, True)):
        out = np.ones(count + 1)
        with runtime.frame(threads):
            add_row(count, rows[:, ::2], Sums(5.0, out), (3.0, 2), bound, is_doubled)
        expected = 5.0 + 3.0 * rows[:, ::2].sum(axis=1) + 2 * 7
        expected = 2 * np.minimum(expected, 60.0) if is_doubled else expected
        assert np.array_equal(out[:count], 1 + expected[:count])
        assert out[count] == 1


@parallel_kernel
def fail_at_five(y: int, out: np.ndarray) -> None:
    if y == 5:
        raise ValueError
    out[y] = y


def test_a_parallel_kernel_that_fails_says_so_once_all_are_done() -> None:
    out = np.full(9, -1)
    with runtime.frame(0), pytest.raises(MemoryError, match='scratch of fail_at_five'):
        fail_at_five(9, out)
    assert out.tolist() == [0, 1, 2, 3, 4, -1, 6, 7, 8]


ROWS = """
import numpy as np
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel

@parallel_kernel
def double(y, rows, out):
    out[y] = 2 * rows[y].sum()

@parallel_kernel
def treble(y, rows, out):
    out[y] = 3 * rows[y].sum()

out = np.zeros(9)
globals()[KERNEL](9, np.arange(27.0).reshape(9, 3), out)
print(out.sum(), runtime.origins()['compiled'] > 0)
"""


def test_kernels_read_from_the_disk_compute_what_they_did_when_compiled(
        child: Child, tmp_path: pathlib.Path) -> None:
    # The second process reads the loop that all share and compiles a kernel; the third reads both.
    file = tmp_path / 'rows.py'
    file.write_text(ROWS)
    printed = [child(f'import runpy; runpy.run_path({str(file)!r}, {{"KERNEL": {name!r}}})',
                     XDG_CACHE_HOME=str(tmp_path)) for name in ('double', 'treble', 'treble')]
    assert printed == ['702.0 True', '1053.0 True', '1053.0 False']


CONFIGS = (MatcherConfig.preset('five_sets', disparity_range=16, message_type='int16'),
           MatcherConfig.preset('sad_fast', disparity_range=32, num_threads=1))


def disturb_each_other() -> bool:
    """Two matchers in two threads, many frames: does any differ from the frame alone?"""
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 256, (2, 60, 90), dtype=np.uint8)
    alone = []
    for config in CONFIGS:
        with StereoMatcher(config, 'cpu') as matcher:
            alone.append(matcher.compute(left, right).disparity)
    failures = []

    def work(config: MatcherConfig, expected: np.ndarray) -> None:
        with StereoMatcher(config, 'cpu') as matcher:
            for _ in range(15):
                if not np.array_equal(matcher.compute(left, right).disparity, expected):
                    failures.append(config)

    threads = [threading.Thread(target=work, args=arguments)
               for arguments in zip(CONFIGS, alone, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return bool(failures)


def test_two_matchers_in_two_threads_do_not_disturb_each_other() -> None:
    assert not disturb_each_other()


def test_nor_do_they_with_the_layer_that_bears_no_second_thread(child: Child) -> None:
    source = pathlib.Path(__file__).read_text() + (
        '\nprint(runtime.threading_layer(), disturb_each_other())')
    assert child(source, NUMBA_THREADING_LAYER='workqueue') == 'workqueue False'
