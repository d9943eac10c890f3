"""Results on a device that is busy: everything is ordered by the engine's own stream."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip('cupy')
from benchmarks import sanitizers
from stereo_bp_ros import Rectification, StereoMatcher, preset_names
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.errors import OutOfDeviceMemory
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.node.matcher_host import MatcherHost
from test.cases import every
from test.engines.support.outputs import assert_same
from test.engines.support.pairs import CALIBRATION

#: Ends when the host writes, or after a minute, lest a failing test leave the device busy.
SPIN = r"""
extern "C" __global__ void spin(const volatile int* is_over) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*is_over == 0 && now - begin < 60000000000ull);
}
"""

#: Seconds after which a busy device is let go, for calls that wait for it by design: freeing
#: memory is one.
MAX_BUSY_S = 1.0

#: Functions of CUDA's runtime that take no stream: the legacy one does their work.
WITHOUT_STREAM = ('memset', 'memset2D', 'memcpy', 'memcpy2D', 'memcpyPeer', 'memcpyToSymbol')

CASES = {**sanitizers.CASES, **{name: sanitizers.Case({}, name) for name in preset_names()}}

WARPS = [(1.0, 0.0, 0.0, 0.0, 1.0, rows, 0.0, 0.0, 1.0) for rows in (1.5, -0.7)]


@contextlib.contextmanager
def busy_device() -> Iterator[None]:
    """A kernel runs on the legacy stream, and whatever is queued there waits for it."""
    import cupy
    import cupyx
    is_over = cupyx.zeros_pinned(1, 'int32')
    spin = cupy.RawKernel(SPIN, 'spin')
    cupy.cuda.runtime.deviceSynchronize()

    def let_go() -> None:
        is_over[0] = 1

    timer = threading.Timer(MAX_BUSY_S, let_go)
    with cupy.cuda.Stream.null:
        spin((1,), (1,), (np.uint64(is_over.ctypes.data),))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        let_go()
        cupy.cuda.runtime.deviceSynchronize()


def frames(case: sanitizers.Case, steps: tuple[Step, ...], is_busy: bool
           ) -> list[dict[str, np.ndarray]]:
    """Two frames of each step: one while the device is busy, if it is to be, and one after."""
    matcher: StereoMatcher | None = None
    found = []
    for step in steps:
        options: dict[str, Any] = {
            'calibration': CALIBRATION, 'outputs': step.outputs,
            'rectification': step.rectification or (
                sanitizers.rectified(case) if case.config.rectify else None)}
        with busy_device() if is_busy else contextlib.nullcontext():
            pair = [sanitizers.image(case, 1, shift) for shift in (0, -5)]
            if matcher is None:
                matcher = StereoMatcher(case.config, 'cuda')
            step.change(matcher)
            found.append(matcher.compute(*pair, **options))
        found.append(matcher.compute(*pair, **options))
    assert matcher is not None
    matcher.close()
    return [{name: getattr(frame, name) for name in OUTPUTS
             if getattr(frame, name) is not None} for frame in found]


class Step(NamedTuple):
    """What happens to a matcher while the device is busy, and the frame after it."""

    change: Callable[[StereoMatcher], object] = lambda _: None
    outputs: tuple[str, ...] = ('disparity',)
    rectification: Rectification | None = None


def assert_busy_frames_are_the_idle_ones(case: sanitizers.Case, *steps: Step) -> None:
    idle, busy = (frames(case, steps, is_busy) for is_busy in (False, True))
    assert len(idle) == len(busy) == 2 * len(steps)
    for one, other in zip(idle, busy, strict=True):
        assert_same(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize('name', CASES)
def test_an_engine_built_on_a_busy_device_matches_as_one_built_on_an_idle_one(name: str) -> None:
    case = CASES[name]
    warp = Step(lambda matcher: matcher.correct_rows(WARPS[0] if case.is_corrected else None),
                tuple(OUTPUTS))
    assert_busy_frames_are_the_idle_ones(case, warp)


@pytest.mark.gpu
@pytest.mark.parametrize('preset', ['road_full', 'sad_fast'])
def test_changes_on_a_busy_device_leave_what_they_leave_on_an_idle_one(preset: str) -> None:
    config = sanitizers.Case({}, preset).config
    assert_busy_frames_are_the_idle_ones(
        sanitizers.Case({}, preset),
        Step(),
        Step(lambda matcher: matcher.reconfigure(config.replace(speckle_size=3))),
        Step(outputs=tuple(OUTPUTS)),
        Step(lambda matcher: matcher.reconfigure(config.replace(disparity_range=40))))


@pytest.mark.gpu
def test_maps_copied_to_a_busy_device_are_those_of_the_frame() -> None:
    raw, corrected = sanitizers.CASES['rectified'], sanitizers.CASES['corrected']
    first = sanitizers.rectified(raw)
    second = Rectification(dataclasses.replace(first.left, d=(0.1, -0.03, 0.0, 0.002)),
                           first.right, first.width, first.height)
    assert_busy_frames_are_the_idle_ones(raw, *(
        Step(rectification=one) for one in (first, second, first)))
    assert_busy_frames_are_the_idle_ones(corrected, *(
        Step(lambda matcher, warp=warp: matcher.correct_rows(warp))     # type: ignore[misc]
        for warp in (None, *WARPS, None)))


@pytest.mark.gpu
def test_a_matcher_built_anew_for_want_of_memory_on_a_busy_device_is_right(
        monkeypatch: pytest.MonkeyPatch) -> None:
    case = sanitizers.CASES['road_full']
    pair = [sanitizers.image(case, 1, shift) for shift in (0, -5)]
    compute, failures = CudaEngine.compute, [OutOfDeviceMemory('full')]

    def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return compute(*arguments)

    found = []
    for is_busy in (False, True):
        host = MatcherHost(StereoMatcher)
        host.build(case.config.replace(backend='cuda'), case.width, case.height)
        outs = [{'disparity': np.empty((case.height, case.width), np.float32)} for _ in range(2)]
        with busy_device() if is_busy else contextlib.nullcontext():
            if is_busy:
                monkeypatch.setattr(CudaEngine, 'compute', fail_once)
            host.compute(*pair, CALIBRATION, outs[0])
        host.compute(*pair, CALIBRATION, outs[1])
        host.release()
        found += outs
    assert not failures
    for other in found[1:]:
        assert_same(found[0], other)


def calls_on_the_legacy_stream(source: str) -> list[str]:
    """What a module calls there, by line: functions without a stream, and CuPy's on arrays."""
    found = []

    def is_cupy(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in ('cupy', 'cp')

    def visit(node: ast.AST, has_stream: bool) -> None:
        if isinstance(node, ast.With):
            has_stream |= any('stream' in ast.unparse(item.context_expr).lower()
                              for item in node.items)
        if isinstance(node, ast.Attribute):
            on_arrays = is_cupy(node.value) and node.attr not in ('cuda', '__version__')
            if (node.attr in WITHOUT_STREAM or (on_arrays and not has_stream)
                    or (node.attr == 'null' and 'Stream' in ast.unparse(node.value))):
                found.append(f'{node.lineno}: {ast.unparse(node)}')
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition('.')[2]
            if ((name.endswith('Async') and isinstance(node.args[-1], ast.Constant))
                    or (name == 'Stream' and not any(
                        option.arg == 'non_blocking' for option in node.keywords))):
                found.append(f'{node.lineno}: {ast.unparse(node)}')
        for child in ast.iter_child_nodes(node):
            visit(child, has_stream)

    visit(ast.parse(source), False)
    return found


def test_no_module_uses_the_legacy_stream(repository: pathlib.Path) -> None:
    modules = [path for folder in ('stereo_bp_ros', 'benchmarks/papers')
               for path in (repository / folder).rglob('*.py')]
    assert every('cupy' not in path.read_text(encoding='utf-8')
                 or calls_on_the_legacy_stream(path.read_text(encoding='utf-8')) == []
                 for path in modules)


@pytest.mark.parametrize('source', [
    'runtime.memset(address, 0, size)', 'cupy.asarray(image)', 'cupy.cuda.Stream.null',
    'runtime.memsetAsync(address, 0, size, 0)', 'cupy.cuda.Stream()'])
def test_a_call_on_the_legacy_stream_is_found(source: str) -> None:
    assert len(calls_on_the_legacy_stream(source)) == 1


def test_pageable_memory_is_copied_by_one_function_that_waits(repository: pathlib.Path) -> None:
    package = repository / 'stereo_bp_ros'
    users = [path.relative_to(package).as_posix() for path in sorted(package.rglob('*.py'))
             if 'memcpyAsync' in path.read_text(encoding='utf-8').replace('``memcpyAsync``', '')]
    assert users == ['engines/cuda/runtime/arena.py']
