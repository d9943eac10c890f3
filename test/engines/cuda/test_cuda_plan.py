"""The CUDA engine's sizes, launches and memory: arithmetic that needs neither CuPy nor a GPU."""

from __future__ import annotations

import dataclasses
import doctest
import itertools
import types
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import ConfigError, MatcherConfig
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.backend import Resolved
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


SMALL = dataclasses.replace(TYPICAL, capability=(7, 5), multiprocessors=8,
                            shared_memory=64 * 1024, shared_memory_sm=64 * 1024)


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.parametrize('disparities', [2, 64, 128, 300, *slow(16, 21, 40, 200, 512)])
@pytest.mark.parametrize('iterations', [
    '0', '1', '7', '3, 0, 5', '0, 2, 1', *slow('2', '3', '5', '8', '11', '16', '2, 3, 12',
                                               '1, 7, 0', '0, 0, 4')])
def test_launches_follow_each_other_and_fit_their_blocks(iterations: str, disparities: int,
                                                         message_type: str) -> None:
    config = five_sets(disparities, levels=3, iterations=iterations,
                       message_type=message_type)
    # Vectors of 512 labels do not fit into 64 KiB.
    small = SMALL if disparities < 512 else TYPICAL
    for width, height, device in ((16, 17, TYPICAL), (321, 157, TYPICAL), (900, 750, small)):
        launches = schedule.launches(config, width, height, device)
        assert [step.level for step in launches] == sorted(
            (step.level for step in launches), reverse=True)
        written: set[str | None] = set()
        for step in launches:
            read = {step.source, *(step.parents or ())} - {None}
            assert read <= written
            # Other blocks may still read what a launch of several iterations would overwrite.
            assert step.iterations == 1 or not set(step.targets) & read
            # What a launch finds at the parents alone it passes on, see ``Messages``.
            inherited = messages.inherited(config, step)
            assert inherited == () or step.source is None
            written |= {*step.targets,
                        *(f'messages_{step.level}_{colour}' for colour in inherited)}
            assert step.threads <= step.tiling.threads <= 1024
            assert step.tiling.width % 2 == step.halo_columns % 2 == 0
            assert not step.tiling.resident or step.iterations > 1
            assert step.shared_bytes <= device.shared_memory - launch.STATIC_SHARED
            lists, counts = schedule.nodes_of(step)
            assert every(0 <= node >> 16 < 65536 for row in lists for node in row)
            assert [len(row) for row in lists] == [row[-1] for row in counts]
        assert set(schedule.message_arrays(config, launches)) >= written - {None}
        for k, wanted in enumerate(config.iterations_of_levels):
            done = [t for step in launches if step.level == k
                    for t in range(step.first, step.first + step.iterations)]
            assert done == list(range(wanted))
        starts = [step.start for step in launches if step.first == 0]
        assert starts == [launch.FROM_ZERO, *[launch.FROM_PARENTS] * len(starts)][:len(starts)]


def test_levels_with_the_same_iterations_are_launched_as_ever() -> None:
    config = five_sets(64, iterations=5)
    given = config.replace(iterations='5, 5')
    assert schedule.launches(given, 640, 480) == schedule.launches(config, 640, 480)


def test_exact_with_iterations_of_levels_is_left_to_the_cpu() -> None:
    config = five_sets(16, message_type='float32', exact=True, iterations='3, 5')
    with pytest.raises(ConfigError, match='use backend cpu or auto') as refused:
        resolve(config, TYPICAL)
    assert refused.value.field == 'iterations'


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


@pytest.mark.parametrize(('name', 'divided'), [
    ('tsukuba', [(7, 7), (7, 7), (7, 7), (7, 7), (5, 2)]),
    ('cones_quarter', [(4, 3), (4, 3), (5, 2), (1, 1), (1, 1)]),
    ('cones_half', [(2, 3), (1, 1), (1, 1), (1, 1), (1, 1)])])
def test_measured_sizes_keep_their_launches(name: str, divided: list[tuple[int, int]]) -> None:
    width, height, disparities = FIVE_SETS[name]
    config = MatcherConfig.preset('five_sets', disparity_range=disparities, message_type='int16')
    found = schedule.launches(resolve(config)[-1], width, height)
    steps = [[step.iterations for step in found if step.level == k] for k in range(4, -1, -1)]
    assert [(each[0], each[-1]) for each in steps] == divided


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_arrays_do_not_overlap_and_uploads_have_one_size_on_both_sides(message_type: str) -> None:
    plan = plan_of(five_sets(64, message_type=message_type), 450, 375)
    device, host = ({spec.name: spec.nbytes for spec in found.arrays}
                    for found in (plan.memory, plan.pinned))
    for before, after in itertools.pairwise(plan.memory.arrays):
        assert before.offset + before.nbytes <= after.offset
    for name in ('parameters', 'left_raw', 'right_raw'):
        assert device[name] == host[name]
    assert device['left_raw'] >= 450 * 375 * 4


def test_messages_are_kept_in_bytes_only_where_these_are_exact() -> None:
    # Truncations of 30 D / 7.5 that fit a byte: 252, and 256 which is too much.
    for config, name, unit_bytes in (
            (five_sets(63), 'Int16Bytes', 8), (five_sets(100), 'Int16', 16),
            (five_sets(24, discontinuity_truncation=300.0), 'Int16', 16)):
        message = MessageFormat.of(config)
        assert (message.name, message.unit_bytes) == (name, unit_bytes)


@pytest.mark.parametrize('disparities', [2, 56, 136])
@pytest.mark.parametrize('slope', [0.001, 1.0, 50.0])
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


@pytest.mark.parametrize('disparities', [65, 128])
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
    whole = five_sets(16)
    assert cost_formats.packed(whole) == (round(0.1 * quantisation.message_scale(whole)), 15)
    for changes in ({'data_truncation': 15.3}, {'data_truncation': 200.0, 'levels': 2}):
        assert cost_formats.packed(whole.replace(**changes)) is None


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
    assert plan_of(config.replace(program='plain_steps'), 64, 48).config.message_type == 'float16'
    assert Resolved(config, config, CpuBackend('')).plan(64, 48).config == config


@pytest.mark.parametrize(('disparities', 'storage'), [(64, 'register'), (200, 'local')])
def test_exact_is_the_plain_steps_with_the_order_of_sums_of_the_reference_maps(
        disparities: int, storage: str) -> None:
    exact = MatcherConfig(message_type='float32', exact=True, disparity_range=disparities)
    plain = exact.replace(program='plain_steps', **{'plain_steps.storage': storage})
    assert exact.program == 'default'
    assert resolve(exact, TYPICAL) == (plain,) == resolve(plain, TYPICAL)
    assert plan_of(exact, 320, 240) == plan_of(plain, 320, 240)
    for other in (exact.replace(exact=False), exact.replace(stereo_algorithm='sad')):
        assert resolve(other, TYPICAL)[-1] is other


def test_an_image_is_not_cut_for_exact() -> None:
    found = CudaBackend(TYPICAL, '')
    exact = MatcherConfig(message_type='float32', exact=True)
    planned = Resolved(exact, exact, found).plan(640, 480, found.allowed_at_best(exact))
    assert (planned.config.program, planned.parts.count) == ('plain_steps', 1)
    with pytest.raises(MemoryLimitError):
        Resolved(exact, exact, found).plan(640, 480, planned.memory.total - 1)


@pytest.mark.parametrize('name', FIVE_SETS)
def test_the_plan_stays_below_the_bound_of_the_2009_paper(name: str) -> None:
    from stereo_bp_ros.papers.programs import memory_bound
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


def combined(disparities: int, **changes: object) -> MatcherConfig:
    return MatcherConfig.from_mapping({
        'disparity_range': disparities, 'census_weight': 0.8, 'sobel_weight': 1.0,
        'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0, 'levels': 3, **changes})


@pytest.mark.parametrize('disparities', [21, 128])
@pytest.mark.parametrize('weight', [0.15, 1.0])     # of the plain cost, which is not computed
def test_combined_costs_are_bytes_at_level_0_alone(disparities: int, weight: float) -> None:
    config = combined(disparities, data_weight=weight, data_truncation=15.0)
    assert [CostFormat.of(config, k).name for k in range(3)] == ['Bytes', 'Int16', 'Int16']
    for image in ('uint8', 'float'):
        steps = schedule.launches(config, 640, 480)
        assert messages.base_cost(config, image, steps) == 'Bytes'
    assert MessageFormat.of(config).name == 'Int16Bytes'


def test_combined_costs_have_volumes_of_a_partition_and_features_of_the_image() -> None:
    config = combined(21, path_aggregation=True, preprocessing='sobel_x')
    across, down = partitions.split(200, 2, 4, 16), partitions.split(90, 1, 4, 16)
    assert across is not None
    assert down is not None
    found = plan_of(config, 200, 90, parts=partitions.Partitioning(across, down))
    arrays = {spec.name: (spec.shape, str(spec.dtype)) for spec in found.memory.arrays}
    assert arrays['left_census_feature'] == ((90, 200), 'uint64')
    assert arrays['right_sobel_feature'] == ((90, 200), 'uint8')
    assert arrays['data_cost'] == ((90, across.size, 24), 'uint8')
    assert arrays['path_costs'] == ((4, 90, across.size, 24), 'uint8')
    assert not {'table', 'left_matched', 'left_grey_feature',
                'left_sparse_census_feature'} & arrays.keys()
    both = plan_of(config.replace(sparse_census_weight=0.5), 200, 90)
    assert {'left_census_feature', 'left_sparse_census_feature'} <= {
        spec.name for spec in both.memory.arrays}
    without = plan_of(config.replace(path_aggregation=False), 200, 90)
    assert 'path_costs' not in {spec.name for spec in without.memory.arrays}
