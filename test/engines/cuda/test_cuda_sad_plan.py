"""How SAD's windows are given to blocks: arithmetic that needs neither CuPy nor a GPU."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import geometry, programs
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.sad import matching as sad
from stereo_bp_ros.papers.streamed_sad import cuda
from test.settings import streamed

#: Turing: the least shared memory of a device that the kernel is for.
SMALL = dataclasses.replace(TYPICAL, capability=(7, 5), multiprocessors=8,
                            shared_memory=64 * 1024, shared_memory_sm=64 * 1024)


def configuration(window: int, disparities: int, **changes: object) -> MatcherConfig:
    return MatcherConfig.from_mapping({
        'stereo_algorithm': 'sad', 'correlation_window_size': window,
        'disparity_range': disparities, **changes})


@pytest.mark.parametrize('window', [1, 17, 19, 51])
@pytest.mark.parametrize('disparities', [2, 64, 65, 300, 512])
@pytest.mark.parametrize('device', [TYPICAL, SMALL], ids=['H200', 'Turing'])
def test_blocks_cover_every_window_and_fit_the_device(window: int, disparities: int,
                                                      device: object) -> None:
    config = configuration(window, disparities)
    if not sad_launch.is_possible(config, device):      # type: ignore[arg-type]
        assert (device, window, disparities) == (SMALL, 51, 512)
        return
    for width, height in ((640, 480), (1280, 720), (disparities + window, window)):
        found = sad_launch.launch_of(config, width, height, device)     # type: ignore[arg-type]
        valid = geometry.valid_window(config, width, height)
        if valid.width == 0:
            assert found.rows == 0
            continue
        assert found.grid[0] * found.strips * sad_launch.STRIP >= valid.width
        assert found.grid[1] * found.rows >= valid.height
        assert (found.grid[1] - 1) * found.rows < valid.height
        assert found.chunks * found.label_tiles * 8 >= disparities
        assert found.label_tiles * 8 <= sad_launch.MAX_LABELS
        assert 16 * found.tiles >= window + 15
        assert found.threads <= sad_launch.RESIDENT_THREADS
        assert found.shared_bytes <= device.shared_memory - 1024     # type: ignore[attr-defined]


def test_nearly_every_multiprocessor_of_a_large_device_gets_a_block() -> None:
    for window, disparities in itertools.product((5, 15, 21), (64, 128)):
        found = sad_launch.launch_of(configuration(window, disparities), 640, 480)
        assert found.grid[0] * found.grid[1] >= 0.9 * TYPICAL.multiprocessors


@pytest.mark.parametrize('variant', ['auto', 'global', 'shared_one', 'shared_all'])
def test_what_matching_fills_is_in_the_memory_plan(variant: str) -> None:
    config = configuration(5, 64, **streamed(variant))
    names = {spec.name for spec in plan_of(config, 434, 383).memory.arrays}
    assert {'label', 'fraction', 'best', 'second', 'right_keys', 'right_label'} <= names
    assert ('left_8bit' in names) == (variant != 'auto')
    assert not any(name.startswith(('cost', 'messages')) for name in names)


def test_devices_without_integer_products_take_a_variant() -> None:
    old = dataclasses.replace(TYPICAL, capability=(7, 0))
    replaced = plan_of(configuration(5, 64), 64, 48, old)
    assert programs.matching('cuda', replaced.config) is cuda.Streamed
    assert replaced.config == configuration(5, 64, **streamed('shared_all'))
    small = plan_of(configuration(5, 64), 64, 48, SMALL)
    assert programs.matching('cuda', small.config) is sad.Sad
