"""The CUDA engine's sizes, launches and memory: arithmetic that needs neither CuPy nor a GPU."""

from __future__ import annotations

import doctest
import itertools
import types
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import ConfigError, MatcherConfig
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.hierarchical import (
    cost_formats,
    formats,
    launch,
    messages,
    schedule,
    tilings,
)
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    Fixed32,
    MessageFormat,
)
from stereo_bp_ros.engines.cuda.plan import plan_of, resolve
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.errors import MemoryLimitError
from test.cases import every, slow
from test.settings import five_sets

FIVE_SETS = {'tsukuba': (384, 288, 16), 'venus': (434, 383, 21), 'barn1': (432, 381, 32),
             'cones_quarter': (450, 375, 64), 'cones_half': (900, 750, 128)}


@pytest.mark.parametrize('disparities', [2, 16, 21, 128, *slow(8, 32, 64, 256, 512)])
@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_what_a_launch_reads_was_written_before_it(disparities: int, message_type: str) -> None:
    config = five_sets(disparities, message_type=message_type)
    written: set[str] = set()
    for step in schedule.launches(config, 250, 190):
        read = {step.source, *(step.parents or ())} - {None}
        assert read <= written
        targets = {name for name in step.targets if name}
        if step.iterations > 1:
            # Other blocks may still read what this one would overwrite.
            assert not targets & read
        written |= targets


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.parametrize('iterations', ['3, 0, 5', '0, 2, 1', '1, 7, 0', '0, 0, 4', '2, 3, 12'])
@pytest.mark.parametrize('disparities', [16, 64, 300])
def test_levels_have_iterations_of_their_own(disparities: int, iterations: str,
                                             message_type: str) -> None:
    config = five_sets(disparities, levels=3, level_iterations=iterations,
                       message_type=message_type)
    found = schedule.launches(config, 321, 157)
    written: set[str | None] = set()
    for step in found:
        assert {step.source, *(step.parents or ())} - {None} <= written
        # What a launch finds at the parents alone it passes on, see ``Messages``.
        inherited = messages.inherited(config, step)
        assert inherited == () or step.source is None
        written |= {*step.targets, *(f'messages_{step.level}_{colour}' for colour in inherited)}
    for k, wanted in enumerate(config.iterations_of_levels):
        done = [t for step in found if step.level == k
                for t in range(step.first, step.first + step.iterations)]
        assert done == list(range(wanted))
    starts = [step.start for step in found if step.first == 0]
    assert starts == [launch.FROM_ZERO] + [launch.FROM_PARENTS] * (len(starts) - 1)
    assert set(schedule.message_arrays(config, found)) >= written - {None}


def test_levels_with_the_same_iterations_are_launched_as_ever() -> None:
    config = five_sets(64, iterations=5)
    given = config.replace(iterations=7, level_iterations='5')
    assert schedule.launches(given, 640, 480) == schedule.launches(config, 640, 480)


def test_exact_with_iterations_of_levels_is_left_to_the_cpu() -> None:
    config = five_sets(16, message_type='float32', exact=True, level_iterations='3, 5')
    with pytest.raises(ConfigError, match='use backend cpu or auto') as refused:
        resolve(config, TYPICAL)
    assert refused.value.field == 'level_iterations'


def test_a_first_step_is_kept_as_the_messages_are() -> None:
    def message(**changes: Any) -> MessageFormat:
        return MessageFormat.of(MatcherConfig(census_weight=1.0, discontinuity_slope=20.0,
                                              discontinuity_truncation=120.0, **changes))
    assert message().name == 'Int16Bytes'
    assert message(discontinuity_first_step=20.0).name == 'Int16Bytes'
    stepped = message(discontinuity_first_step=10.0)
    assert (stepped.name, stepped.first_step) == ('Int16BytesFirstStep', 10)
    assert message(discontinuity_first_step=0.3).first_step == 0
    # No step costs more than the truncation: both are that.
    steep = MatcherConfig(census_weight=1.0, discontinuity_slope=200.0,
                          discontinuity_truncation=120.0, discontinuity_first_step=150.0)
    assert MessageFormat.of(steep).name == 'Int16Bytes'


@pytest.mark.parametrize('iterations', [0, 1, 2, 5, 7, 16, *slow(3, 8, 11)])
@pytest.mark.parametrize('disparities', [2, 16, 64, 128, 512, *slow(21, 40, 200)])
@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_launches_follow_each_other_and_fit_their_blocks(disparities: int, iterations: int,
                                                       message_type: str) -> None:
    config = five_sets(disparities, message_type=message_type, iterations=iterations, levels=3)
    for width, height in ((16, 17), (90, 61), (900, 750)):
        launches = schedule.launches(config, width, height)
        assert [step.level for step in launches] == sorted(
            (step.level for step in launches), reverse=True)
        for k in range(3):
            steps = [step for step in launches if step.level == k]
            ends = [0, *itertools.accumulate(step.iterations for step in steps)]
            assert [step.first for step in steps] == ends[:-1]
            assert ends[-1] == iterations
            for step in steps:
                assert step.threads <= step.tiling.threads <= 1024
                assert step.tiling.width % 2 == step.halo_columns % 2 == 0
                assert not step.tiling.resident or step.iterations > 1
                assert step.shared_bytes <= TYPICAL.shared_memory - launch.STATIC_SHARED
                lists, counts = schedule.nodes_of(step)
                assert every(0 <= node >> 16 < 65536 for row in lists for node in row)
                assert [len(row) for row in lists] == [row[-1] for row in counts]


def slots_of(step: launch.Launch, x: int, y: int) -> set[int]:
    """Slots on chip of the edges of a node (from the corner of its tile): as in ``update.cuh``."""
    plane = step.halo_tile_height * step.halo_tile_columns + 1
    own = (y + step.halo_rows) * step.halo_tile_columns + (x + step.halo_columns) // 2
    if (x + y) % 2:
        return {own + direction * plane for direction in range(4)}
    odd = x % 2
    return {own + plane - step.halo_tile_columns, own + step.halo_tile_columns,
            own + 3 * plane - 1 + odd, own + 2 * plane + odd}


@pytest.mark.parametrize('iterations', [2, 3, 4, 7])
@pytest.mark.parametrize('first', [0, 1])
@pytest.mark.parametrize('selects', [False, True])
def test_nobody_touches_a_slot_that_another_node_writes(iterations: int, first: int,
                                                        selects: bool) -> None:
    config = five_sets(16, iterations=9, levels=3)
    tiling = launch.Tiling(iterations, 6, 4, 1024, 4, resident=True)
    step = launch.placed(MessageFormat.of(config), launch.Launch(
        0, first, iterations, launch.FROM_MESSAGES,
        launch.LABELS if selects else launch.LAST_COLOUR, None, None, (None, None), tiling))
    size = 4 * (step.halo_tile_height * step.halo_tile_columns + 1)
    last: dict[tuple[int, int], int] = {}
    for y in range(-step.halo_rows, tiling.height + step.halo_rows):
        for x in range(-step.halo_columns, tiling.width + step.halo_columns):
            outside = max(-x, x - tiling.width + 1, -y, y - tiling.height + 1, 0)
            is_second = (x + y) % 2 != (first + 1) % 2
            used_to = min(iterations - 1 + selects - outside, iterations - 1)
            if used_to >= is_second:
                last[x, y] = used_to
    for i in range(iterations):
        colour = (first + i + 1) % 2
        touched: dict[int, tuple[int, int]] = {}
        for node, used_to in last.items():
            if sum(node) % 2 != colour:
                continue
            # Threads whose node is no longer updated go along and read; nobody may write there.
            for slot in slots_of(step, *node):
                assert 0 <= slot < size
                assert touched.setdefault(slot, node) == node
            if i <= used_to and colour == 0:        # its slots are its neighbours'
                x, y = node
                assert every(-step.halo_columns <= column < tiling.width + step.halo_columns
                             for column in (x - 1, x, x + 1))
                assert every(-step.halo_rows <= row < tiling.height + step.halo_rows
                             for row in (y - 1, y, y + 1))


def test_the_table_has_rows_for_every_format_and_level() -> None:
    for rows in tilings.TABLE.values():
        assert [row.labels for row in rows] == sorted({row.labels for row in rows})
        for levels in itertools.chain.from_iterable((row.base, row.coarser) for row in rows):
            assert [row.nodes for row in levels] == sorted({row.nodes for row in levels})
            assert levels[-1].nodes == tilings.ANY


@pytest.mark.parametrize(('preset', 'name', 'divided'), [
    ('five_sets', 'tsukuba', [(7, 7), (7, 7), (7, 7), (7, 7), (5, 2)]),
    ('five_sets', 'cones_quarter', [(4, 3), (4, 3), (5, 2), (1, 1), (1, 1)]),
    ('five_sets', 'cones_half', [(2, 3), (1, 1), (1, 1), (1, 1), (1, 1)])])
def test_measured_sizes_keep_their_launches(preset: str, name: str,
                                            divided: list[tuple[int, int]]) -> None:
    width, height, disparities = FIVE_SETS[name]
    config = MatcherConfig.preset(preset, disparity_range=disparities, message_type='int16')
    found = schedule.launches(resolve(config), width, height)
    steps = [[step.iterations for step in found if step.level == k] for k in range(4, -1, -1)]
    assert [(each[0], each[-1]) for each in steps] == divided


def test_small_devices_get_smaller_regions() -> None:
    small = TYPICAL.__class__(0, 'small', (7, 5), 8, 64 * 1024, 64 * 1024, 2**33, False)
    for step in schedule.launches(five_sets(128), 640, 480, small):
        assert step.shared_bytes <= 64 * 1024


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_arrays_of_the_arena_do_not_overlap(message_type: str) -> None:
    arrays = plan_of(five_sets(64, message_type=message_type), 450, 375).memory.arrays
    for before, after in itertools.pairwise(arrays):
        assert before.offset + before.nbytes <= after.offset


def test_ranges_are_padded_to_the_next_multiple_of_eight() -> None:
    for disparities in range(2, 513):
        shape = MessageFormat.of(five_sets(disparities))
        assert 8 * shape.chunks == -(-disparities // 8) * 8


def test_what_is_uploaded_has_one_name_and_size_on_both_sides() -> None:
    config = five_sets(16)
    plan = plan_of(config, 101, 67)
    device, host = plan.memory, plan.pinned
    sizes = [{spec.name: spec.nbytes for spec in found.arrays} for found in (device, host)]
    for name in ('parameters', 'left_raw', 'right_raw'):
        assert sizes[0][name] == sizes[1][name]
    assert sizes[0]['left_raw'] >= 101 * 67 * 4


def test_messages_are_kept_in_bytes_only_where_these_are_exact() -> None:
    # Truncations of 30 D / 7.5 that fit a byte: 252, and 256 which is too much.
    assert MessageFormat.of(five_sets(63)).name == 'Int16Bytes'
    assert MessageFormat.of(five_sets(63)).unit_bytes == 8
    assert MessageFormat.of(five_sets(100)).name == 'Int16'
    assert MessageFormat.of(five_sets(24, discontinuity_truncation=300.0)).name == 'Int16'
    assert MessageFormat.of(five_sets(24, discontinuity_truncation=300.0)).unit_bytes == 16


@pytest.mark.parametrize('disparities', [2, 16, 21, 56, 136, 512])
@pytest.mark.parametrize('slope', [0.001, 0.3, 1.0, 50.0])
@pytest.mark.parametrize('truncation', [0.0, 1.7, 1e4])
def test_float32_is_kept_in_three_bytes_unless_costs_are_small(
        disparities: int, slope: float, truncation: float) -> None:
    config = five_sets(disparities, message_type='float32', discontinuity_slope=slope,
                       discontinuity_truncation=truncation)
    largest = min(config.truncation, slope * (disparities - 1))
    has_three_bytes = largest <= 1.5 * 1024
    message = MessageFormat.of(config)
    assert message.is_split == (disparities > 56)
    assert message.name == {
        (True, False): 'Float32ThreeBytes', (False, False): 'Float32',
        (True, True): 'Float32ThreeBytesSplit', (False, True): 'Float32Split'}[
            has_three_bytes, disparities > 56]
    assert message.message_bytes == 8 * message.chunks * (3 if has_three_bytes else 4)
    scale = message.scale
    assert np.log2(scale) == round(np.log2(scale))
    if has_three_bytes:
        assert 1 <= message.truncation < 2
        assert message.slope == scale * min(slope, largest)
        assert message.truncation == scale * largest
        assert cost_formats.real_factor(config) == scale * 0.1
    else:
        assert scale == 1
        assert (message.slope, message.truncation) == (
            min(slope, config.truncation), config.truncation)
    for other in ({'message_type': 'int16'},
                  {'stereo_algorithm': 'tiled_bp'}, {'program': 'plain_steps'}):
        changed = five_sets(16, **{'message_type': 'float32', **other})
        assert MessageFormat.of(changed).scale == 1


@pytest.mark.parametrize('disparities', [65, 77, 128])
@pytest.mark.parametrize('slope', [0.03, 0.05, 0.3, 1.0, 1.1, 5.9, 6.1])
def test_long_vectors_of_floats_are_whole_numbers_where_these_are_as_good(
        disparities: int, slope: float) -> None:
    config = five_sets(disparities, message_type='float32', discontinuity_slope=slope,
                       discontinuity_truncation=30.0)
    # The largest cost is 1.5: 32 slopes or less, and a quarter of one or more.
    is_fixed = 1.5 / 32 <= slope <= 6
    message = MessageFormat.of(config)
    assert isinstance(message, Fixed32) == message.is_whole == is_fixed
    if not is_fixed:
        return
    assert message.name == 'Fixed32'
    assert message.message_bytes == 2 * 8 * message.chunks
    scale = message.scale
    steps, truncation = message.slope, message.truncation
    # The slope is whole, and such that 16 bits hold it.
    own_slope, own_truncation = quantisation.message_smoothness(config)
    assert steps == pytest.approx(own_slope * scale, abs=1e-6)
    assert 2 ** 14 <= steps <= formats.MAX_SLOPE_OF_FIXED
    assert np.log2(scale) % 1 == 0 or steps == formats.MAX_SLOPE_OF_FIXED
    assert isinstance(steps, int)
    assert isinstance(truncation, int)
    assert abs(truncation - scale * min(own_truncation, own_slope * (disparities - 1))) <= 0.5
    # Their sums fit 32 bits, and the products of bytes 22.
    largest = quantisation.largest_cost(config) * scale
    assert largest * 4 < 2 ** 22
    assert largest * 4 ** (config.levels - 1) + 8 * truncation < 2 ** 30


def test_costs_of_floats_take_bytes_where_products_of_theirs_are_exact() -> None:
    kinds = [[CostFormat.of(five_sets(disparities, message_type='float32', data_weight=weight), k,
                            'Multiples').name for k in range(4)]
             for disparities, weight in ((16, 2.0), (128, 0.1), (128, 2.0))]
    assert kinds == [['Multiples'] * 3 + ['MultipleSums']] * 2 + [
        ['Multiples'] * 2 + ['MultipleSums'] * 2]
    # Differences of 255 reach beyond a byte's truncation, and many of them beyond 16 bits.
    whole = five_sets(64, message_type='float32', data_truncation=127.0)
    assert cost_formats.packed(whole) is not None
    for changes in ({'data_truncation': 128.0}, {'data_truncation': 15.5},
                    {'data_truncation': 127.0, 'levels': 6}):
        assert cost_formats.packed(five_sets(64, message_type='float32', **changes)) is None


@pytest.mark.parametrize('changes', [
    {'disparity_range': 56}, {'disparity_range': 129}, {'stereo_algorithm': 'tiled_bp'},
    {'program': 'plain_steps'}, {'message_type': 'int16'}, {'discontinuity_truncation': 3.9},
    {'levels': 9}])
def test_other_messages_are_no_whole_numbers_of_32_bits(changes: dict[str, object]) -> None:
    assert isinstance(MessageFormat.of(five_sets(64, message_type='float32')), Fixed32)
    config = five_sets(64, message_type='float32').replace(**changes)
    assert not isinstance(MessageFormat.of(config), Fixed32)


def test_differences_are_kept_in_6_bits_only_where_these_are_exact() -> None:
    for disparities in (64, 125, 128):
        message = MessageFormat.of(five_sets(disparities))
        assert message.name == 'Int16SixBits'
        assert message.message_bytes == 6 * message.chunks
    # Eight chunks are three units of 16 bytes; 30 units of a slope of 1 fit, 33 do not; sums
    # would not fit when they are too large by a truncation of 1000 each.
    for disparities, changes in ((120, {}), (128, {'discontinuity_slope': 1.1}),
                                 (128, {'discontinuity_truncation': 1000.0})):
        assert MessageFormat.of(five_sets(disparities, **changes)).name == 'Int16'


def test_settings_of_the_cpu_engine_alone_are_refused() -> None:
    exact = MatcherConfig(message_type='float32', exact=True)
    for config in (exact.replace(partition_rows=2), exact.replace(
            program='plain_steps', **{'plain_steps.vectorised': False})):
        with pytest.raises(ConfigError, match='use backend cpu'):
            plan_of(config, 64, 48)


def test_float16_is_refused_in_words_that_name_where_it_is() -> None:
    config = MatcherConfig(message_type='float16')
    with pytest.raises(ConfigError, match=r'plain_steps alone: .* or backend cpu') as refused:
        plan_of(config, 64, 48)
    assert refused.value.field == 'message_type'
    found = plan_of(config.replace(program='plain_steps'), 64, 48)
    assert programs.matching('cuda', found.config).kept_as(found.config)[0].endswith('Halves')
    assert CpuBackend('').fit(config, 64, 48).config == config


@pytest.mark.parametrize(('disparities', 'storage'), [(64, 'register'), (200, 'local')])
def test_exact_is_the_plain_steps_with_the_order_of_sums_of_the_reference_maps(
        disparities: int, storage: str) -> None:
    exact = MatcherConfig(message_type='float32', exact=True, disparity_range=disparities)
    plain = exact.replace(program='plain_steps', **{'plain_steps.storage': storage})
    assert exact.program == 'default'
    assert resolve(exact, TYPICAL) == plain == resolve(plain, TYPICAL)
    assert plan_of(exact, 320, 240) == plan_of(plain, 320, 240)
    for other in (exact.replace(exact=False), exact.replace(stereo_algorithm='sad')):
        assert resolve(other, TYPICAL) is other


def test_an_image_is_not_cut_for_exact() -> None:
    found = CudaBackend(TYPICAL, '')
    exact = MatcherConfig(message_type='float32', exact=True)
    planned = found.fit_at_best(exact, 640, 480)
    assert (planned.config.program, planned.parts.count) == ('plain_steps', 1)
    short = {'memory_limit': planned.memory.total - 1}
    with pytest.raises(MemoryLimitError):
        found.fit_at_best(exact.replace(**short), 640, 480)


@pytest.mark.parametrize('name', FIVE_SETS)
def test_the_plan_stays_below_the_bound_of_the_2009_paper(name: str) -> None:
    from stereo_bp_ros.papers import memory_bound
    width, height, disparities = FIVE_SETS[name]
    found = plan_of(five_sets(disparities), width, height).memory
    assert found.total < 4 * memory_bound(width, height, disparities)


def test_pairs_of_pinned_images_are_known_when_they_come_again() -> None:
    known = convert.PinnedSources()
    pairs = [(16 * i, 16) for i in range(1, 12)]
    # The first time of each, then as many as there may be.
    assert [known.see(pair) for pair in pairs] == [(convert.ANYWHERE, [])] * len(pairs)
    found = [known.see(pair)[0] for _ in range(3) for pair in pairs]
    assert found == 3 * (pairs[:known.MAX_KNOWN] + [convert.ANYWHERE] * 3)
    # What has not come for long makes room.
    for _ in range(known.LONG_AGO):
        known.see(pairs[1])
    assert known.see(pairs[-1]) == (pairs[-1], [pairs[0]])
    assert known.see(pairs[0]) == (convert.ANYWHERE, [])
    assert known.see((1, 1)) == (convert.ANYWHERE, [])
    assert pairs[1] in known.clear()
    assert known.see(pairs[1]) == (convert.ANYWHERE, [])


@pytest.mark.parametrize('module', [launch, tilings],
                         ids=lambda module: module.__name__.rpartition('.')[2])
def test_worked_examples_of_thresholds_and_tilings_come_out(module: types.ModuleType) -> None:
    names = {name: value for owner in (formats, launch) for name, value in vars(owner).items()
             if not name.startswith('_')}
    result = doctest.testmod(module, extraglobs={**names, 'TYPICAL': TYPICAL})
    assert result.attempted > 0
    assert result.failed == 0
