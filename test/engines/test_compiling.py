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

    now = 1000.0

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


@pytest.mark.parametrize(('place', 'says'), [
    (KEPT, '/cache'), (None, 'they cannot be kept')])
def test_a_long_wait_says_what_it_is_for_and_again_every_few_seconds(clock, caplog, place, says):
    progress = compiling.Progress('15 to 45 s')
    compile_kernels(progress, clock, 3, 0.3, place)
    assert caplog.messages == []        # what is done at once is not worth a line
    compile_kernels(progress, clock, 40, 0.5, place)
    assert 'compiling kernels, which takes 15 to 45 s' in caplog.messages[0]
    assert says in caplog.messages[0]
    assert 3 <= len(caplog.messages) <= 5
    assert caplog.messages[1].startswith('still compiling kernels: ')


def test_what_is_compiled_much_later_is_another_wait(clock, caplog):
    progress = compiling.Progress('15 to 45 s')
    compile_kernels(progress, clock, 2, 1.5)
    clock.now += 3600
    compile_kernels(progress, clock, 1, 0.3)
    assert len(caplog.messages) == 1
    compile_kernels(progress, clock, 1, 1.5)
    assert len(caplog.messages) == 2
    assert caplog.messages[1] == caplog.messages[0]


@pytest.mark.slow
def test_a_program_is_told_once_and_not_from_the_cache_unless_its_own_logging_decides(
        tmp_path: pathlib.Path, child: Callable[..., str]) -> None:
    def first_compute(cache: str, setup: str = '') -> str:
        return child(
            'import logging, sys, numpy as np\n'
            f'{setup}\n'
            'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
            'from stereo_bp_ros.engines import compiling\n'
            'compiling.FIRST = 0.0\n'
            'pair = np.random.default_rng(1).integers(0, 256, (2, 40, 60), dtype=np.uint8)\n'
            'config = MatcherConfig(stereo_algorithm="sad", disparity_range=16, backend="cpu")\n'
            'sys.stderr = sys.stdout\n'
            'StereoMatcher(config).compute(*pair)',
            XDG_CACHE_HOME=str(tmp_path / cache), COVERAGE_PROCESS_CONFIG='')
    told = first_compute('first')
    assert told.startswith('stereo_bp_ros: compiling kernels')
    assert str(tmp_path) in told
    assert first_compute('first') == ''
    quiet = 'logging.basicConfig(level=logging.WARNING, stream=sys.stdout)'
    assert first_compute('second', quiet) == ''


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
