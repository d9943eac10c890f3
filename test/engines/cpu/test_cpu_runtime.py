"""Kernels, their cache and threads."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import threading
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cpu.simd import runtime

Child = Callable[..., str]


def test_division_by_zero_is_numpys() -> None:
    @runtime.python_kernel
    def divide(a: float, b: float) -> float:
        return a / b

    assert divide(1.0, 0.0) == np.inf


def test_numbas_own_setting_of_a_cache_is_neither_used_nor_changed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    import numba
    monkeypatch.setattr(numba.config, 'CACHE_DIR', '/somebody/elses')

    @runtime.python_kernel
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


def test_a_kernel_for_kernels_alone_is_refused_to_python_also_once_it_is_compiled(child) -> None:
    printed = child(
        'from stereo_bp_ros.engines.cpu.costs.features import rounded\n'
        'from stereo_bp_ros.engines.cpu.simd.runtime import python_kernel\n'
        'import numpy as np\n'
        'def call():\n'
        '    try:\n'
        '        return rounded(np.float32(2.5))\n'
        '    except TypeError as error:\n'
        '        return error\n'
        'print(call(), "-", python_kernel(lambda x: rounded(x))(np.float32(2.5)), "-", call())')
    assert printed == 'rounded is for kernels only - 3 - rounded is for kernels only'
