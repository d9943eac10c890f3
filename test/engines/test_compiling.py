"""Compiling is never silent for long, and reading compiled code says nothing."""

from __future__ import annotations

import io
import logging
import pathlib
import time
from collections.abc import Callable

import pytest

from stereo_bp_ros.engines import compiling

KEPT = pathlib.Path('/cache')


class Clock:
    """Time passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, 'monotonic', made)
    caplog.set_level(logging.INFO)
    return made


def compile_kernels(progress: compiling.Progress, clock: Clock, count: int, seconds: float,
                    place: pathlib.Path | None = KEPT) -> None:
    for _ in range(count):
        progress.begin(place)
        clock.now += seconds
        progress.end(place)


def test_the_first_line_says_what_takes_long_how_long_and_where_it_is_kept(clock, caplog):
    compile_kernels(compiling.Progress('15 to 45 s'), clock, 1, 1.5)
    (said,) = caplog.messages
    assert 'compiling kernels, which takes 15 to 45 s' in said
    assert '/cache' in said


def test_without_a_cache_it_says_that_nothing_is_kept(clock, caplog):
    compile_kernels(compiling.Progress('15 to 45 s'), clock, 1, 1.5, None)
    (said,) = caplog.messages
    assert 'they cannot be kept' in said


def test_a_long_wait_gets_a_line_again_every_few_seconds(clock, caplog):
    compile_kernels(compiling.Progress('15 to 45 s'), clock, 40, 0.5)
    assert 3 <= len(caplog.messages) <= 5
    assert caplog.messages[1] == 'still compiling kernels: 12 after 6 s'


def test_what_is_done_at_once_is_not_worth_a_line(clock, caplog):
    compile_kernels(compiling.Progress('15 to 45 s'), clock, 3, 0.3)
    assert caplog.messages == []


def test_what_is_compiled_much_later_is_another_wait(clock, caplog):
    progress = compiling.Progress('15 to 45 s')
    compile_kernels(progress, clock, 2, 1.5)
    clock.now += 3600
    compile_kernels(progress, clock, 1, 0.3)
    assert len(caplog.messages) == 1
    compile_kernels(progress, clock, 1, 1.5)
    assert len(caplog.messages) == 2
    assert caplog.messages[1] == caplog.messages[0]


FIRST_COMPUTE = (
    'import logging, sys, numpy as np\n'
    '{setup}\n'
    'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
    'from stereo_bp_ros.engines import compiling\n'
    'compiling.FIRST = 0.0\n'
    'left, right = np.random.default_rng(1).integers(0, 256, (2, 40, 60), dtype=np.uint8)\n'
    'config = MatcherConfig(stereo_algorithm="sad", disparity_range=16, backend="cpu")\n'
    'sys.stderr = sys.stdout\n'
    'StereoMatcher(config).compute(left, right)')


@pytest.mark.slow
def test_a_program_that_has_set_up_no_logging_is_told_once_and_not_from_the_cache(
        tmp_path: pathlib.Path, child: Callable[..., str]) -> None:
    environment = {'XDG_CACHE_HOME': str(tmp_path), 'COVERAGE_PROCESS_CONFIG': ''}
    source = FIRST_COMPUTE.format(setup='')
    told = child(source, **environment)
    assert told.startswith('stereo_bp_ros: compiling kernels')
    assert str(tmp_path) in told
    assert child(source, **environment) == ''


@pytest.mark.slow
def test_a_program_s_own_logging_decides(tmp_path: pathlib.Path,
                                         child: Callable[..., str]) -> None:
    quiet = 'logging.basicConfig(level=logging.WARNING, stream=sys.stdout)'
    assert child(FIRST_COMPUTE.format(setup=quiet), XDG_CACHE_HOME=str(tmp_path)) == ''


def test_nobody_at_the_other_end_of_standard_error_stops_nothing(clock, monkeypatch):
    tried: list[str] = []

    class Closed:
        def write(self, text: str) -> None:
            tried.append(text)
            raise BrokenPipeError
    monkeypatch.setattr(compiling.log, 'hasHandlers', lambda: False)
    progress = compiling.Progress('15 to 45 s')
    for nobody in (None, Closed()):
        monkeypatch.setattr('sys.stderr', nobody)
        compile_kernels(progress, clock, 4, 3.0)
    # The first line went nowhere; those after it were tried in vain.
    assert len(tried) >= 2
    assert 'still compiling kernels: ' in tried[0]
    # Whoever listens from now on hears how far it is.
    heard = io.StringIO()
    monkeypatch.setattr('sys.stderr', heard)
    compile_kernels(progress, clock, 2, 6.0)
    assert 'still compiling kernels: 9 after ' in heard.getvalue()
