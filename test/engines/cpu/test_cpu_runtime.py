"""Kernels, their cache and threads."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import logging
import os
import pathlib
import shutil
import stat
import threading
import types
from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cpu.simd import runtime
from test.cases import slow

Child = Callable[..., str]


@pytest.fixture
def cache_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A user's cache of our own; the process forgets it afterwards."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    runtime.cache_directory.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    runtime.cache_directory.cache_clear()


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


def test_the_cache_can_be_entered_by_its_user_only(cache_home: pathlib.Path) -> None:
    (cache_home / 'stereo_bp_ros').mkdir(mode=0o755)
    directory = runtime.cache_directory()
    assert directory == cache_home / 'stereo_bp_ros' / 'numba' / runtime.engine_hash()
    for private in (directory, directory.parent, directory.parent.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_a_foreign_cache_is_refused_with_one_warning(
        cache_home: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    directory = runtime.cache_directory()
    assert directory is not None
    runtime.cache_directory.cache_clear()
    if os.geteuid() == 0:       # whose files others do trust
        os.chown(directory, 12345, -1)
    else:
        monkeypatch.setattr(os, 'geteuid', lambda: 12345)
    with caplog.at_level(logging.WARNING):
        assert runtime.cache_directory() is None
        assert runtime.cache_directory() is None
    assert len(caplog.records) == 1
    assert 'is not of this user' in caplog.text


def test_a_link_in_place_of_the_cache_is_refused(cache_home: pathlib.Path) -> None:
    (cache_home / 'elsewhere').mkdir()
    (cache_home / 'stereo_bp_ros').symlink_to(cache_home / 'elsewhere')
    assert runtime.cache_directory() is None


def test_without_a_writable_home_kernels_still_run(
        cache_home: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    (cache_home / 'file').touch()
    monkeypatch.setenv('XDG_CACHE_HOME', str(cache_home / 'file'))
    with caplog.at_level(logging.WARNING):
        @runtime.kernel
        def successor(x: int) -> int:
            return x + 1
    assert successor(1) == 2
    assert 'no cache for compiled kernels' in caplog.text


def test_only_the_caches_used_last_are_kept(cache_home: pathlib.Path) -> None:
    parent = cache_home / 'stereo_bp_ros' / 'numba'
    for age in range(8):
        (parent / str(age)).mkdir(parents=True)
        os.utime(parent / str(age), (1000 - age, 1000 - age))
    directory = runtime.cache_directory()
    assert directory is not None
    kept = {entry.name for entry in parent.iterdir()}
    assert kept == {directory.name, *map(str, range(runtime.CACHES_KEPT - 1))}


@pytest.mark.parametrize('room', ['engines.cpu', *slow('papers.plain_steps')])
def test_a_changed_helper_is_compiled_anew_in_spite_of_the_cache(
        repository: pathlib.Path, tmp_path: pathlib.Path, child: Child, room: str) -> None:
    package = tmp_path / 'stereo_bp_ros'
    shutil.copytree(repository / 'stereo_bp_ros', package, symlinks=True,
                    ignore=shutil.ignore_patterns('__pycache__'))
    folder = package.joinpath(*room.split('.'))
    helper = folder / 'probe_helper.py'
    (folder / 'probe.py').write_text(
        f'from stereo_bp_ros.{room}.probe_helper import helper\n'
        'from stereo_bp_ros.engines.cpu.simd.runtime import kernel\n'
        '@kernel\n'
        'def probe():\n'
        '    return helper()\n')
    source = (f'from stereo_bp_ros.{room}.probe import probe\n'
              'import json; print(json.dumps([probe(), sum(probe.stats.cache_hits.values())]))')
    results = []
    for value in (1, 1, 2):
        helper.write_text('from stereo_bp_ros.engines.cpu.simd.runtime import kernel\n'
                          f'@kernel\ndef helper():\n    return {value}\n')
        # Python's own cache sees neither of two changes within a second.
        results.append(json.loads(child(source, tmp_path, PYTHONDONTWRITEBYTECODE='1',
                                        XDG_CACHE_HOME=str(tmp_path / 'cache'))))
    assert results == [[1, 0], [1, 1], [2, 0]]


def constants(source: str, name: str) -> Iterator[tuple[str, object]]:
    """What a module imports by name, and uses of a module that it imports, with the values."""
    module = importlib.import_module(name)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield str(node.module), getattr(module, alias.asname or alias.name, None)
        elif (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
              and isinstance(used := getattr(module, node.value.id, None), types.ModuleType)):
            yield used.__name__, getattr(used, node.attr, None)


def test_the_cache_belongs_to_the_sources_of_all_constants_of_kernels(
        repository: pathlib.Path) -> None:
    sources = runtime.kernel_sources(repository / 'stereo_bp_ros')
    names = {'.'.join(file.relative_to(repository).with_suffix('').parts): file.read_text()
             for file in sources}
    seen = set()
    for name, source in names.items():
        if 'simd.runtime import' in source:
            seen |= {origin for origin, value in constants(source, name)
                     if origin.startswith('stereo_bp_ros.')
                     and isinstance(value, (int, float, np.generic))}
    assert seen <= {*names, 'stereo_bp_ros.engines.cpu.simd'}
    assert {'stereo_bp_ros.config.quantisation', 'stereo_bp_ros.engines.cpu.memory'} <= seen


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['bp', 'sad'])
def test_all_that_a_configuration_needs_compiles_within_two_minutes(
        algorithm: str, tmp_path: pathlib.Path, child: Child) -> None:
    source = ('import time\n'
              'start = time.process_time()\n'
              'from stereo_bp_ros import MatcherConfig\n'
              'from stereo_bp_ros.engines import warm_up\n'
              f'warm_up(MatcherConfig(stereo_algorithm={algorithm!r}))\n'
              'print(time.process_time() - start)')
    # Processes inherit the measuring of coverage, with which compiling takes half as long again.
    environment = {'XDG_CACHE_HOME': str(tmp_path), 'COVERAGE_PROCESS_CONFIG': ''}
    first, second = (float(child(source, **environment)) for _ in range(2))
    assert first < 120                  # 15 to 45 s of a core where the others rest
    assert second < first / 2           # from the cache


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
            for _ in range(30):
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
