"""What the CUDA engine says of itself: kernels of a frame, cold start, pinned arrays."""

from __future__ import annotations

import array
import weakref
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.runtime import pinned as pinned_memory
from stereo_bp_ros.errors import BackendUnavailable
from test.engines.support.cuda_stand_in import Context

Pairs = Callable[..., tuple[np.ndarray, np.ndarray]]

CONFIG = MatcherConfig(backend='cuda', disparity_range=32, levels=3)


def test_without_a_device_pinned_memory_is_refused_in_words(
        monkeypatch: pytest.MonkeyPatch) -> None:
    problem = BackendUnavailable('no NVIDIA driver is installed', 'use backend cpu')
    monkeypatch.setattr(device, 'unavailable', lambda index: problem)
    with pytest.raises(BackendUnavailable, match='no NVIDIA driver'):
        pinned_memory.empty((4, 4), 'uint8', 0)


def test_pinned_memory_is_that_of_the_device_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy
    import cupyx
    entered: list[object] = []

    class Numbered(Context):
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> Context:
            entered.append(self.index)
            return self

        def __exit__(self, *_: object) -> None:
            entered.append('left')

    def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        entered.append(shape)
        return np.empty(shape, dtype)
    monkeypatch.setattr(device, 'require', lambda index: entered.append(f'asked {index}'))
    monkeypatch.setattr(cupy.cuda, 'Device', Numbered)
    monkeypatch.setattr(cupyx, 'empty_pinned', empty)
    assert pinned_memory.empty((3, 4), 'int16', 1).dtype == np.int16
    assert entered == ['asked 1', 1, (3, 4), 'left']


@pytest.mark.gpu
class TestOnTheDevice:
    """What needs one."""

    def test_the_first_frame_shows_every_kernel_with_its_resources(
            self, textured_pair: Pairs) -> None:
        left, right = textured_pair(160, 96, 6)
        with StereoMatcher(CONFIG) as matcher:
            matcher.prepare(160, 96)
            with choice.choose(CONFIG).tools.kernels_used() as first:
                matcher.compute(left, right)
            with choice.choose(CONFIG).tools.kernels_used() as second:
                matcher.compute(left, right)
        names = {one.name.partition('<')[0] for one in first}
        assert 'data_cost' in names
        assert any(name.startswith('pass_') for name in names)
        for one in first:
            assert one.registers > 0
            assert one.launches > 0
            assert one.resident > 0
            assert 0 < one.occupancy <= 1
        assert second == []         # a graph is captured once

    def test_with_its_size_known_warming_up_leaves_nothing_to_compile(self) -> None:
        choice.warm_up(CONFIG, 200, 120)
        before = compiler.origins()
        with StereoMatcher(CONFIG) as matcher:
            matcher.prepare(200, 120)
            assert compiler.origins() == before
            assert matcher.compile_time < 0.5

    def test_a_pinned_buffer_is_written_directly_and_let_go_with_its_owner(
            self, textured_pair: Pairs) -> None:
        images = textured_pair(640, 480, 6)
        buffer = array.array('B', bytes(4 * 640 * 480))
        out = np.frombuffer(buffer, np.float32).reshape(480, 640)
        assert device.mapped_address(out) == 0
        assert choice.choose(CONFIG).tools.pin(buffer)
        assert device.mapped_address(out)
        with StereoMatcher(CONFIG) as matcher:
            expected = matcher.compute(*images).disparity
            matcher.compute(*images, out={'disparity': out})
        np.testing.assert_array_equal(out, expected)
        told: list[bool] = []
        weakref.finalize(buffer, told.append, True)
        pointer = out.ctypes.data
        del buffer, out
        assert told
        runtime = pytest.importorskip('cupy').cuda.runtime
        assert runtime.pointerGetAttributes(pointer).type != runtime.memoryTypeHost
