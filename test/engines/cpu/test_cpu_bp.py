"""Hierarchical belief propagation on the CPU: the reference maps, the definition, the bounds."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from test.cases import examples, slow
from test.engines.support import naive_bp

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher, partitions
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.hierarchical import labels
from stereo_bp_ros.engines.cpu.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cpu.matching import Matches
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.geometry import valid_window

EXACT = {'message_type': 'float32', 'exact': True}
FAST = {'message_type': 'float32'}
INT16 = {'message_type': 'int16'}
HALF = {'message_type': 'float16'}


def matches(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
            parts: partitions.Partitioning | None = None) -> dict[str, Any]:
    """What matching makes of arrays full of rubbish."""
    plan = plan_of(config, left.shape[1], left.shape[0], parts)
    arrays = {spec.name: np.full(spec.nbytes, 0xa5, np.uint8).view(spec.dtype).reshape(spec.shape)
              for spec in plan.memory.arrays}
    arrays['left_matched'][:], arrays['right_matched'][:] = left, right
    found = {name: arrays[name] for name in
             ('label', 'fraction', 'best', 'second', 'right_label')}
    with runtime.frame(config.num_threads):
        Hierarchical(plan, arrays).match(
            plan.config, Matches(**found, with_costs=True, with_right=True),
            collections.defaultdict(float))
    return found


def expected_matches(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
                     parts: partitions.Partitioning | None = None,
                     needs_all_partners: bool = True) -> dict[str, np.ndarray]:
    """The same from the plain implementation, pixel by pixel."""
    volume = naive_bp.belief_propagation(left, right, config, parts)
    label = naive_bp.labels(volume)
    height, width, disparities = volume.shape
    fraction, best, second = (np.zeros((height, width), kind)
                              for kind in (int, volume.dtype, volume.dtype))
    right_label = np.full((height, width), -1)
    right_best: dict[tuple[int, int], tuple[float, int]] = {}
    window_columns = valid_window(config, width, height).slices[1]
    for y, x in zip(*np.nonzero(label >= 0), strict=True):
        found, row = label[y, x], volume[y, x]
        best[y, x] = row[found]
        others = [row[other] for other in range(disparities) if abs(other - found) > 1]
        second[y, x] = min(others, default=NO_SECOND)
        if 0 < found < disparities - 1:
            before, least, after = (float(v) for v in row[found - 1:found + 2])
            if before - 2 * least + after > 0:
                fraction[y, x] = np.floor(
                    16 * (before - after) / (2 * (before - 2 * least + after)) + 0.5)
        if needs_all_partners and not window_columns.start <= x < window_columns.stop:
            continue
        for other in range(disparities):
            target = (y, x - config.min_disparity - other)
            if not 0 <= target[1] < width:
                continue
            right_best[target] = min(right_best.get(target, (np.inf, 0)), (row[other], other))
    for place, (_, other) in right_best.items():
        right_label[place] = other
    return {'label': label, 'fraction': fraction, 'best': best, 'second': second,
            'right_label': right_label}


def check(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
          parts: partitions.Partitioning | None = None) -> dict[str, Any]:
    """Compare every match with the definition's, and return what was found."""
    found = matches(left, right, config, parts)
    for name, values in expected_matches(left, right, config, parts).items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    return found


@st.composite
def cases(draw: Callable[..., Any], wide: bool) -> dict[str, Any]:
    """Small pairs of any shape, and settings: ``wide`` ones need messages or costs of 16 bits."""
    return {
        'width': draw(st.integers(1, 150)), 'height': draw(st.integers(1, 40)),
        'seed': draw(st.integers(0, 99)), 'smooth': draw(st.booleans()),
        'min_disparity': draw(st.integers(-9, 9)), 'disparity_range': draw(st.integers(2, 19)),
        'levels': draw(st.integers(1, 5)), 'iterations': draw(st.integers(0, 19)),
        'data_weight': draw(st.sampled_from([0.07, 0.1, *[1.0] * wide])),
        'data_truncation': draw(st.sampled_from([5.0, 15.0])),
        'discontinuity_slope': draw(st.sampled_from([0.5, 1.0, *[40.0] * wide])),
        'discontinuity_truncation': draw(st.sampled_from([0.0, 1.7, 6.0])),
        'first_step': draw(st.sampled_from([0.0, 0.04, 0.5, 1.0])),
        'level_iterations': draw(st.lists(st.integers(0, 9), max_size=5))}


def pair_and_config(case: dict[str, Any], **changes: Any
                    ) -> tuple[np.ndarray, np.ndarray, MatcherConfig]:
    values = dict(case)
    width, height, seed, smooth = (values.pop(name)
                                   for name in ('width', 'height', 'seed', 'smooth'))
    first_step = values.pop('first_step') * values['discontinuity_slope']
    if changes['message_type'] == 'int16':
        values['discontinuity_first_step'] = first_step
    values['level_iterations'] = ', '.join(map(str, values['level_iterations'][:values['levels']]))
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(0, 60, (2, height, width)).astype(np.float32)
    if not smooth:                      # whole grey values: many ties
        left, right = np.floor(left), np.floor(right)
    return left, right, MatcherConfig(preprocessing='none', **values, **changes)


#: Compiled code for 16 bits takes a processor twenty seconds more.
both_widths = pytest.mark.parametrize('wide', [False, *slow(True)], ids=['narrow', 'wide'])


@both_widths
@pytest.mark.parametrize('kind', [INT16, EXACT], ids=['int16', 'exact'])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_match_is_the_one_of_the_definition(kind: dict[str, Any], wide: bool,
                                                  data: st.DataObject) -> None:
    check(*pair_and_config(data.draw(cases(wide)), **kind))


@pytest.fixture
def without_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of the other image need no partner for every d, as with combined costs."""
    monkeypatch.setattr(labels, 'selection', lambda *given, select=labels.selection: (
        select(*given)._replace(needs_all_partners=False)))


@both_widths
@pytest.mark.usefixtures('without_partners')
@settings(max_examples=examples(40),
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), columns=st.integers(1, 3))
def test_pixels_can_offer_labels_whose_partner_exists_to_the_other_image(
        wide: bool, data: st.DataObject, columns: int) -> None:
    left, right, config = pair_and_config({**data.draw(cases(wide)), 'levels': 2}, **INT16)
    side = partitions.split(left.shape[1], columns, partitions.alignment(config), 5)
    assume(side is not None)
    parts = partitions.Partitioning(side, partitions.whole(*left.shape[::-1]).rows)
    expected = expected_matches(left, right, config, parts, needs_all_partners=False)
    np.testing.assert_array_equal(matches(left, right, config, parts)['right_label'],
                                  expected['right_label'])


@both_widths
@pytest.mark.parametrize('kind', [INT16, EXACT], ids=['int16', 'exact'])
@settings(max_examples=examples(40))
@given(data=st.data(), levels=st.integers(1, 3), columns=st.integers(1, 4),
       rows=st.integers(1, 3), padding=st.integers(1, 9))
def test_partitions_match_what_their_parts_of_the_costs_make(
        kind: dict[str, Any], wide: bool, data: st.DataObject, levels: int, columns: int,
        rows: int, padding: int) -> None:
    left, right, config = pair_and_config({**data.draw(cases(wide)), 'levels': levels}, **kind)
    height, width = left.shape
    sides = [partitions.split(length, count, partitions.alignment(config), padding)
             for length, count in ((width, columns), (height, rows))]
    assume(None not in sides)
    check(left, right, config, partitions.Partitioning(*sides))


#: int16 with S = 1, so that slope and truncation are messages' units.
WHOLE_STEPS = {'data_weight': 1.0, 'data_truncation': 60.0, 'levels': 2,
               'discontinuity_slope': 100.0, 'discontinuity_truncation': 2700.0, **INT16}


@pytest.mark.parametrize(('changes', 'messages', 'costs'), [
    *(({'discontinuity_slope': 127.0, 'disparity_range': disparities, 'data_weight': 4.0,
        'levels': 1}, 'int8', 'uint8') for disparities in (12, 40)),
    ({'data_truncation': 255.4, 'disparity_range': 9}, 'int8', 'uint8'),
    *slow(({'discontinuity_slope': 128.0, 'disparity_range': 40, 'data_weight': 10.0,
            'levels': 1}, 'uint16', 'uint16'),
          ({'data_truncation': 255.5, 'disparity_range': 9}, 'int8', 'uint16'))], ids=str)
def test_the_largest_values_of_a_type_lose_nothing(changes: dict[str, Any], messages: str,
                                                   costs: str) -> None:
    config = MatcherConfig(preprocessing='none', **{**WHOLE_STEPS, **changes})
    assert quantisation.message_scale(config) == 1
    assert (memory.message_dtype(config), memory.cost_dtype(config, 0)) == (messages, costs)
    check(*np.random.default_rng(7).uniform(0, 600, (2, 20, 75)).astype(np.float32), config)


#: Settings with which messages are bytes, their differences, or 16 bits: slope, first step,
#: truncation, data weight.
STEPS = {'int8': (20.0, 10.0, 120.0, 10.0), 'uint16': (200.0, 70.0, 2700.0, 1.0)}


@pytest.mark.parametrize('disparities', [16, 21, 64, 130, *slow(128, 300)])
@pytest.mark.parametrize('kept', ['int8', *slow('uint16')])
def test_a_first_step_of_its_own_is_matched_as_defined(kept: str, disparities: int) -> None:
    slope, first_step, truncation, weight = STEPS[kept]
    config = MatcherConfig(
        preprocessing='none', data_truncation=60.0, data_weight=weight, levels=2,
        level_iterations='2, 3', disparity_range=disparities, discontinuity_slope=slope,
        discontinuity_first_step=first_step, discontinuity_truncation=truncation, **INT16)
    assert memory.message_dtype(config) == kept
    left, right = np.random.default_rng(disparities).integers(
        0, 60, (2, 7, disparities + 27)).astype(np.float32)
    found = check(left, right, config)
    plain = config.replace(discontinuity_first_step=0.0)
    assert not np.array_equal(found['best'], matches(left, right, plain)['best'])


@pytest.mark.parametrize('disparities', [2, 3, 31, 32, 512, *slow(128, 511)])
@pytest.mark.parametrize('kind', [INT16, EXACT], ids=['int16', 'exact'])
def test_any_range_is_matched_as_defined(kind: dict[str, Any], disparities: int) -> None:
    left, right = np.random.default_rng(disparities).integers(
        0, 60, (2, 7, disparities + 33)).astype(np.float32)
    found = check(left, right, MatcherConfig(
        preprocessing='none', disparity_range=disparities, min_disparity=-5, levels=3, **kind))
    assert (found['label'][1:-1, disparities:-8] > 0).any()


@pytest.mark.parametrize('threads', [1, 2, 3, 4])
@pytest.mark.parametrize('iterations', [0, 1, 7, 8, 9])
@pytest.mark.parametrize('height', [1, 2, 3, 16, 67, 200])
def test_rows_that_are_in_use_at_once_have_slots_of_their_own(
        monkeypatch: pytest.MonkeyPatch, height: int, iterations: int, threads: int) -> None:
    monkeypatch.setenv('NUMBA_NUM_THREADS', '4')
    config = MatcherConfig(iterations=iterations, num_threads=threads)
    slots = memory.row_slots(config, 0, height)
    assert set(slots) == set(range(slots.max() + 1))
    steps = iterations + 1
    if iterations > memory.SWEEP_ITERATIONS:
        assert slots.max() + 1 == height
    else:
        assert slots.max() + 1 <= threads * (steps + 2) + (threads - 1) * 2 * steps
        cuts = [memory.band_edge(height, band, memory.bands(height, threads, steps))
                for band in range(1, memory.bands(height, threads, steps))]
        at_cuts = [slots[y] for cut in cuts for y in range(cut - steps, cut + steps)]
        assert [(slots == slot).sum() for slot in at_cuts] == [1] * len(at_cuts)
        assert cuts or threads == 1 or height < 67
    apart = np.abs(np.subtract.outer(np.arange(height), np.arange(height)))
    assert (apart[np.equal.outer(slots, slots) & (apart > 0)] >= steps + 2).all()
    assert np.array_equal(memory.row_slots(config, 1, height), np.arange(height))


@pytest.mark.parametrize('kind', [INT16, FAST, EXACT, *slow(HALF)],
                         ids=['int16', 'float32', 'exact', 'float16'])
@settings(max_examples=examples(5))
@given(disparity=st.integers(-12, 12), seed=st.integers(0, 99))
def test_a_constant_disparity_is_found_everywhere(
        textured_pair: Callable[..., Any], kind: dict[str, Any], disparity: int,
        seed: int) -> None:
    config = MatcherConfig.preset('five_sets', disparity_range=8, min_disparity=disparity - 3,
                                  **kind)
    with StereoMatcher(config, 'cpu') as matcher:
        frame = matcher.compute(*textured_pair(70, 40, disparity, seed))
    assert (frame.disparity[frame.valid_window.slices] == disparity).all()


# --- real images

def load_set(data: pathlib.Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Left, right, true disparities (NaN = unknown), number of disparities."""
    folder = data / 'middlebury' / name
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    left, right, true = (cv2.imread(str(folder / f'{image}.png'), cv2.IMREAD_GRAYSCALE)
                         for image in ('left', 'right', 'disparity'))
    truth = np.where(true > 0, true / np.float32(entry['disparity_scale']), np.nan)
    return left, right, truth, entry['disparities']


def disparity_map(data: pathlib.Path, name: str, **changes: Any) -> np.ndarray:
    left, right, _, disparities = load_set(data, name)
    config = MatcherConfig.preset('five_sets', disparity_range=disparities, **changes)
    with StereoMatcher(config, 'cpu') as matcher:
        frame = matcher.compute(left, right)
    assert frame.disparity is not None
    return frame.disparity


def bad_pixels(disparity: np.ndarray, truth: np.ndarray) -> float:
    """Per cent of the pixels with known truth that are wrong by more than 1 pixel."""
    known = ~np.isnan(truth)
    return float(100 * (np.abs(disparity - truth)[known] > 1).mean())


def check_bounds(found: np.ndarray, exact: np.ndarray, truth: np.ndarray) -> None:
    """``docs/explanation/algorithms.md``: how far another order, type or normalisation may be."""
    assert (found == exact).mean() >= 0.994
    assert (np.abs(found - exact) > 1).mean() <= 0.002
    assert abs(bad_pixels(found, truth) - bad_pixels(exact, truth)) <= 0.1


INTERIOR = (slice(1, -1), slice(1, -1))


@pytest.mark.parametrize('name', ['tsukuba', 'cones_quarter'])
def test_exact_equals_the_reference_map_on_every_interior_pixel(data: pathlib.Path,
                                                                name: str) -> None:
    reference = cv2.imread(str(data / 'reference' / f'{name}_hbp_float32.png'),
                           cv2.IMREAD_GRAYSCALE)
    found = disparity_map(data, name, **EXACT)
    np.testing.assert_array_equal(found[INTERIOR], reference[INTERIOR])


@pytest.mark.parametrize('name', ['tsukuba', 'cones_quarter', *slow('cones_half')])
def test_fast_floats_agree_with_exact_ones(data: pathlib.Path, name: str) -> None:
    check_bounds(disparity_map(data, name, **FAST)[INTERIOR],
                 disparity_map(data, name, **EXACT)[INTERIOR], load_set(data, name)[2][INTERIOR])


@pytest.mark.slow
@pytest.mark.parametrize('name', ['tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half'])
def test_halves_agree_with_exact_floats(data: pathlib.Path, name: str) -> None:
    check_bounds(disparity_map(data, name, **HALF)[INTERIOR],
                 disparity_map(data, name, **EXACT)[INTERIOR], load_set(data, name)[2][INTERIOR])


@pytest.mark.slow
def test_halves_are_the_same_on_a_cpu_that_has_no_instruction_for_them(
        child: Callable[..., str]) -> None:
    source = ('import hashlib, numpy as np\n'
              'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
              'pair = np.random.default_rng(5).integers(0, 256, (2, 61, 97), dtype=np.uint8)\n'
              'config = MatcherConfig(disparity_range=9, message_type="float16")\n'
              'with StereoMatcher(config, "cpu") as matcher:\n'
              '    disparity = matcher.compute(*pair).disparity\n'
              'print(hashlib.sha256(disparity.tobytes()).hexdigest())')
    assert child(source) == child(source, NUMBA_CPU_NAME='generic')


def test_float16_is_refused_where_costs_overflow_it() -> None:
    with pytest.raises(ConfigError, match='largest number is 65504'):
        MatcherConfig(data_weight=20.0, **HALF)


@pytest.mark.parametrize('name', [
    'tsukuba', 'venus', 'barn1', 'cones_quarter', *slow('cones_half')])
def test_int16_agrees_with_exact_floats(data: pathlib.Path, name: str) -> None:
    check_bounds(disparity_map(data, name, **INT16)[INTERIOR],
                 disparity_map(data, name, **EXACT)[INTERIOR], load_set(data, name)[2][INTERIOR])


@pytest.mark.parametrize('kinds', [
    ({}, FAST, EXACT), *slow([HALF, {'discontinuity_slope': 5.0}])],
    ids=['whole numbers and floats', 'others'])
def test_the_number_of_threads_changes_no_pixel(child: Callable[..., str], kinds: Any) -> None:
    outcome = child(
        'import numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
        'pair = np.random.default_rng(5).integers(0, 256, (2, 131, 97), dtype=np.uint8)\n'
        f'for kind in {kinds}:\n'
        '    for iterations in (5, 11):\n'
        '        maps = []\n'
        '        for threads in (1, 2, 3, 4):\n'
        '            config = MatcherConfig(disparity_range=21, num_threads=threads,\n'
        '                                   border="keep", iterations=iterations, **kind)\n'
        '            with StereoMatcher(config, "cpu") as matcher:\n'
        '                maps.append(matcher.compute(*pair).disparity)\n'
        '        assert len(np.unique(maps[0])) > 20\n'
        '        print(all(np.array_equal(maps[0], other) for other in maps))',
        NUMBA_NUM_THREADS='4')
    assert outcome.split() == ['True'] * 2 * len(kinds)
