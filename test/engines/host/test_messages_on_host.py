"""The kernels that pass messages of long vectors, run on the host, do what is defined."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import numpy as np
import pytest

from test.cases import slow
from test.engines.support import naive_bp

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import (
    cost_formats,
    edges,
    formats,
    labels,
    launch,
    messages,
    schedule,
)
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from test.engines.support.cuda_runs import tiled_as
from test.engines.support.host_arena import HostArena
from test.settings import five_sets

pytestmark = [pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++'),
              pytest.mark.usefixtures('host_kernels')]


def put_costs(arena: HostArena, config: MatcherConfig, k: int, level: formats.Level,
              multiples: np.ndarray, base: str) -> None:
    """Write H x W x D whole numbers as ``kernels/README.md`` draws them."""
    chunks = MessageFormat.of(config).chunks
    kind = {'Multiples': np.uint8, 'MultipleSums': np.uint16, 'Bytes': np.uint8,
            'Int16': np.uint16}[CostFormat.of(config, k, base).name]
    padded = np.zeros((level.height, level.width, 8 * chunks), kind)
    padded[..., :config.disparity_range] = multiples
    middle = 4 * chunks
    pairs = np.stack([padded[..., :middle], padded[..., :middle - 1:-1]], axis=-1)
    y, x = np.mgrid[:level.height, :level.width]
    lines = np.zeros((level.height, 2, chunks, level.columns, 8), kind)
    lines[y, (x + y) % 2, :, x // 2] = pairs.reshape(level.height, level.width, chunks, 8)
    found = arena.view(f'cost_{k}').reshape(-1).view(kind)
    found[:lines.size] = lines.reshape(-1)


def configured(disparities: int, **changes: Any) -> MatcherConfig:
    return five_sets(disparities, **{'message_type': 'float32', 'levels': 2, 'iterations': 3,
                                     **changes})


def noise(config: MatcherConfig, width: int, height: int) -> list[np.ndarray]:
    """Whole numbers from 0 to 15, H x W x D, and their sums at every level."""
    rng = np.random.default_rng(config.disparity_range)
    found = [rng.integers(0, 16, (height, width, config.disparity_range))]
    for _ in range(config.levels - 1):
        found.append(naive_bp.parents(found[-1]))
    return found


#: A row and the next, an iteration after the other.
WIDE = launch.Tiling(1, 32, 2, 128, 2)


def check(config: MatcherConfig, multiples: list[np.ndarray], expected: np.ndarray, unit: float,
          tiling: launch.Tiling = WIDE, base: str = 'Multiples',
          grey: np.ndarray | None = None) -> None:
    """Pass messages over costs; labels and leads are those of beliefs of ``unit`` each.

    :param tiling: of every level.
    :param base: name of the data cost's format at level 0.
    :param grey: the left image, uint8 or float32, where messages across its edges are told apart.
    """
    height, width = multiples[0].shape[:2]
    tilings = dict.fromkeys(range(config.levels), tiling)
    with tiled_as(tilings):
        launches = schedule.launches(config, width, height, TYPICAL)
        arena = HostArena(plan_of(config, width, height, TYPICAL).memory)
    for k, level in enumerate(formats.levels(config, width, height)):
        put_costs(arena, config, k, level, multiples[k], base)
    uncut = partitions.whole(width, height)
    context = Context(TYPICAL, config, width, height, arena)
    passing = messages.Messages(context, launches, uncut)
    if grey is not None:
        kind = {'uint8': 'uint8', 'float32': 'float'}[str(grey.dtype)]
        edges.Edges(context, uncut).enqueue(0, kind, grey.ctypes.data, uncut.partitions[0])
    for address, values in passing._constants.items():
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
    selecting = labels.Labels(context, launches, uncut)
    for has_more in (False, True):
        arena.spoil('messages_')
        for name in ('label', 'fraction', 'best', 'second', 'right_keys'):
            arena.view(name).view(np.uint8)[...] = 0xff
        out = labels.matches(config, width, height, arena, uncut.partitions[0], has_more,
                              has_more, has_more)
        passing.enqueue(0, base, out)
        selecting.enqueue(0, base, out)
        assert np.array_equal(arena.view('label'), naive_bp.labels(expected))
    inside = (slice(1, -1), slice(1, -1))
    label = arena.view('label')[inside][..., np.newaxis]
    is_other = np.abs(np.arange(config.disparity_range) - label) > 1
    others = np.where(is_other, expected[inside], np.iinfo(np.int64).max)
    lead = others.min(axis=2) - expected[inside].min(axis=2)
    found = arena.view('second')[inside] - arena.view('best')[inside]
    assert np.array_equal(found, unit * lead)
    assert np.array_equal(arena.view('fraction')[inside], naive_bp.fractions(expected)[inside])
    needs_all = not config.has_combined_cost
    keys = naive_bp.right_keys(expected, config.min_disparity, 1, needs_all_partners=needs_all)
    assert (keys != 2 ** 64 - 1).any() == (width > config.disparity_range or not needs_all)
    check_right_keys(arena.view('right_keys'), keys, config, unit)
    if not MessageFormat.of(config).is_whole:       # such costs are never combined
        return
    # The same where a pixel offers what it believes of labels whose partner exists.
    arena.view('right_keys').view(np.uint8)[...] = 0xff
    arena.spoil('messages_')
    out.first_x, out.end_x = -1, width + 1
    passing.enqueue(0, base, out)
    selecting.enqueue(0, base, out)
    keys = naive_bp.right_keys(expected, config.min_disparity, 1, needs_all_partners=False)
    check_right_keys(arena.view('right_keys'), keys, config, unit)


def check_right_keys(found: np.ndarray, keys: np.ndarray, config: MatcherConfig,
                     unit: float) -> None:
    """Keys of the kernels are those of whole beliefs, of ``unit`` each."""
    is_offered = keys != 2 ** 64 - 1
    assert np.array_equal(found != 2 ** 64 - 1, is_offered)
    assert np.array_equal(found[is_offered] & 0xffff, keys[is_offered] & 0xffff)
    kind = np.int32 if MessageFormat.of(config).is_whole else np.float32
    values = (found[is_offered] >> np.uint64(32)).astype(np.uint32).view(kind)
    assert np.array_equal(values, unit * (keys[is_offered] >> np.uint64(32)))


@pytest.mark.parametrize(('disparities', 'width', 'changes'), [
    (64, 37, {}),
    *slow((57, 75, {'data_weight': 1.0, 'discontinuity_slope': 0.7310585, 'iterations': 2}),
          (77, 37, {'levels': 4, 'iterations': 2}),
          (128, 131, {'discontinuity_truncation': 6.0, 'iterations': 2, 'levels': 1}))])
def test_whole_numbers_of_32_bits_are_passed_as_they_are_defined(
        disparities: int, width: int, changes: dict[str, Any]) -> None:
    config = configured(disparities, **changes)
    message = MessageFormat.of(config)
    assert message.name == 'Fixed32'
    multiples = noise(config, width, 18 if width < 100 else 8)
    factor = np.float64(np.float32(cost_formats.real_factor(config)))
    costs = [np.rint(values * factor).astype(np.int64) for values in multiples]
    check(config, multiples, naive_bp.beliefs_from(
        costs, message.slope, message.truncation, config.iterations_of_levels), 1)


@pytest.mark.parametrize(('disparities', 'width', 'kind', 'least_cost'), [
    (121, 40, 'Float32ThreeBytesSplit', 1e-3),
    *slow((64, 70, 'Float32Split', float('inf')), (136, 150, 'Float32ThreeBytesSplit', 1e-3),
          (260, 40, 'Float32Split', float('inf')))])
def test_halves_of_floats_are_exact_where_sums_are(
        disparities: int, width: int, kind: str, least_cost: float,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, 'COSTS_OF_FIXED', (float('inf'), float('inf')))
    monkeypatch.setattr(formats, 'MIN_COST_OF_THREE_BYTES', least_cost)
    formats.forget()
    # Everything is a multiple of 1/8.
    config = configured(disparities, data_weight=0.125, discontinuity_slope=0.5,
                        discontinuity_truncation=7.5, iterations=2, min_disparity=-3)
    assert MessageFormat.of(config).name == kind
    multiples = noise(config, width, 14 if width < 100 else 7)
    check(config, multiples, naive_bp.beliefs_from(multiples, 4, 60, config.iterations_of_levels),
          MessageFormat.of(config).scale / 8)
    formats.forget()


#: Whole numbers whose messages are bytes, their differences in 6 bits, or 16 bits: slope, first
#: step, truncation.
STEPS = {'Int16Bytes': (20.0, 10.0, 120.0), 'Int16SixBits': (30.0, 20.0, 700.0),
         'Int16': (200.0, 70.0, 900.0)}
STREAMED = launch.Tiling(1, 16, 8, 64, 4)
IN_SLOTS = launch.Tiling(2, 16, 8, 64, 2, last=launch.Tiling(2, 16, 8, 64, 4))
SMALL_TILES = launch.Tiling(2, 8, 4, 128, 4, resident=True,
                              last=launch.Tiling(2, 16, 8, 64, 4))


@pytest.mark.parametrize(('kind', 'disparities', 'iterations', 'tiling', 'pixels'), [
    ('Int16Bytes', 21, '3, 2', IN_SLOTS, None), ('Int16Bytes', 21, '3, 2', IN_SLOTS, 'uint8'),
    ('Int16SixBits', 64, '4, 0, 2', IN_SLOTS, 'float32'), ('Int16', 16, '5, 2', IN_SLOTS, None),
    *slow(
        ('Int16Bytes', 21, '0, 2, 0, 1', STREAMED, None),
        ('Int16Bytes', 64, '4, 4, 0', SMALL_TILES, 'float32'),
        ('Int16Bytes', 130, '2, 1, 2', STREAMED, 'uint8'),
        ('Int16SixBits', 128, '1, 3', STREAMED, None),
        ('Int16SixBits', 128, '4, 4', SMALL_TILES, 'uint8'),
        ('Int16', 300, '2, 3', STREAMED, 'uint8'))])
def test_first_steps_edges_and_iterations_of_levels_are_passed_as_they_are_defined(
        kind: str, disparities: int, iterations: str, tiling: launch.Tiling,
        pixels: str | None) -> None:
    """:param pixels: of images across whose edges messages have a truncation of their own."""
    slope, first_step, truncation = STEPS[kind]
    if kind == 'Int16Bytes' and disparities == 130:
        first_step = 0.0            # the same formats without a first step
    config = MatcherConfig(
        census_weight=1.0, levels=len(iterations.split(',')), iterations=iterations,
        disparity_range=disparities, discontinuity_slope=slope,
        discontinuity_first_step=first_step, discontinuity_truncation=truncation,
        discontinuity_edge_threshold=40 if pixels else 0,
        discontinuity_edge_truncation=truncation / 7)
    message = MessageFormat.of(config)
    assert message.name == kind + 'FirstStep'
    costs = [values * 4 for values in noise(config, 37, 21)]
    rng = np.random.default_rng(disparities)
    grey = rng.integers(0, 256, (21, 37)).astype(pixels or 'uint8')
    if pixels == 'float32':
        grey += rng.choice(np.float32([-30.5, -0.5, 0.0, 0.25, 0.5]), grey.shape)
    expected = naive_bp.beliefs_from(
        costs, message.slope, message.truncation, config.iterations_of_levels,
        message.first_step, naive_bp.edge_truncations(grey, config) if pixels else None)
    check(config, costs, expected, 1, tiling, CostFormat.of(config, 0).name,
          grey if pixels else None)
