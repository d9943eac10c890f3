"""How tiles are given to blocks on CUDA: arithmetic that needs neither CuPy nor a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from stereo_bp_ros import ConfigError, MatcherConfig
from stereo_bp_ros.engines.cuda.plan import plan_of, resolve
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.tiled import launch as tiled_launch
from test.settings import tiled

TURING = dataclasses.replace(TYPICAL, capability=(7, 5), multiprocessors=40,
                             shared_memory=64 * 1024, shared_memory_sm=64 * 1024)


def configuration(disparities: int = 16, **changes: Any) -> MatcherConfig:
    return MatcherConfig.preset('tsukuba_2019', disparity_range=disparities, **changes)


@pytest.mark.parametrize('disparities', [2, 8, 9, 21, 33, 128, 256, 257, 512])
def test_a_team_has_every_label_and_at_most_a_warp(disparities: int) -> None:
    team = tiled_launch.team(configuration(disparities, tile_size=2))
    assert disparities <= 2 * team.lanes * team.words < disparities + 2 * team.lanes
    assert team.lanes <= 32
    assert team.words <= 4 or disparities > 256


@pytest.mark.parametrize('schedule', ['rows', 'cooperative', 'lock_free', 'launches'])
@pytest.mark.parametrize('device', [TYPICAL, TURING])
def test_blocks_that_wait_for_each_other_all_have_a_multiprocessor(device: Any,
                                                                   schedule: str) -> None:
    for width, height in ((384, 288), (3840, 2160), (16, 16)):
        found = tiled_launch.launch_of(configuration(tile_size=5, **tiled(schedule)), width,
                                       height, device)
        assert found.shared_bytes <= device.shared_memory
        assert found.threads <= 1024
        assert (found.rows - 1) * 5 < height <= found.rows * 5
        assert schedule == 'launches' or found.blocks <= device.multiprocessors


def schedule(config: MatcherConfig, width: int = 384, height: int = 288,
             device: Any = TYPICAL) -> str:
    return tiled_launch.launch_of(config, width, height, device).schedule


def test_the_schedule_follows_what_the_device_has_room_for() -> None:
    assert schedule(configuration()) == 'speculative'
    assert schedule(configuration(), 1280, 720) == 'rows'
    assert schedule(configuration(inner_iterations=2)) == 'rows'
    assert schedule(configuration(64)) == 'cooperative'
    assert schedule(configuration(**tiled(synchronisation='all'))) == 'cooperative'
    assert schedule(configuration(), device=TURING) == 'cooperative'
    assert schedule(configuration(**tiled('launches'))) == 'launches'


@pytest.mark.parametrize(('width', 'height', 'tile_size', 'blocks', 'run'), [
    (384, 288, 13, 23 * 5, 6), (384, 7, 13, 30, 1), (10, 10, 13, 1, 1), (13, 1716, 13, 132, 1),
    (200, 180, 5, 36 * 3, 14)])
def test_every_tile_lies_in_a_run_of_one_block(width: int, height: int, tile_size: int,
                                               blocks: int, run: int) -> None:
    config = configuration(tile_size=tile_size, **tiled('speculative'))
    found = tiled_launch.launch_of(config, width, height)
    assert (found.blocks, found.run) == (blocks, run)
    assert found.rows * -(-found.columns // run) == blocks <= TYPICAL.multiprocessors
    assert found.shared_bytes <= TYPICAL.shared_memory


@pytest.mark.parametrize(('width', 'height', 'tile_size'), [
    (13, 1729, 13), (1280, 720, 13), (384, 288, 5)], ids=['rows', 'memory', 'bits'])
def test_tiles_that_do_not_all_fit_on_chip_are_refused_in_words(width: int, height: int,
                                                                tile_size: int) -> None:
    config = configuration(tile_size=tile_size, **tiled('speculative'))
    resolve(config)
    with pytest.raises(ConfigError, match='no room on chip for all'):
        assert plan_of(config, width, height).memory


@pytest.mark.parametrize('changes', [
    {'disparities': 64, 'tile_size': 64}, {'tile_size': 64, **tiled('rows')},
    {'disparities': 128, 'tile_size': 20, 'message_type': 'float32'}], ids=str)
def test_a_tile_too_large_is_refused_with_the_largest_that_fits(changes: dict[str, Any]) -> None:
    config = configuration(**changes)
    with pytest.raises(ConfigError, match='the largest that fits on chip is') as error:
        resolve(config)
    largest = int(str(error.value).rsplit(' ', 1)[1])
    resolve(config.replace(tile_size=largest))
    with pytest.raises(ConfigError):
        resolve(config.replace(tile_size=largest + 1))


def test_rows_without_room_for_four_tiles_are_refused() -> None:
    with pytest.raises(ConfigError, match='no room for 4 tiles'):
        resolve(configuration(512, message_type='float32', **tiled('rows')),
                   dataclasses.replace(TYPICAL, shared_memory=48 * 1024))


def test_only_what_tiles_send_over_their_edges_is_kept() -> None:
    config = configuration()
    arrays = {one.name: one for one in plan_of(config, 384, 288).memory.arrays}
    edges = sum(one.nbytes for name, one in arrays.items() if name.startswith('edges'))
    assert edges == 4 * 23 * 30 * 13 * 16 * 2
    assert not any(name.startswith(('cost', 'messages')) for name in arrays)


@pytest.mark.parametrize(('slope', 'truncation', 'expected'), [
    (1.0, 2.0, 1), (1.0, 2.5, 2), (0.5, 6.0, 11), (5.0, 2.0, 0)])
def test_reach_is_where_steps_begin_to_cost_the_truncation(slope: float, truncation: float,
                                                           expected: int) -> None:
    config = configuration(discontinuity_slope=slope, discontinuity_truncation=truncation)
    assert tiled_launch.reach(config) == expected
