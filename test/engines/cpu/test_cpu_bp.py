"""Hierarchical belief propagation on the CPU: the reference maps, the definition, the bounds."""

from __future__ import annotations

import collections
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test.cases import examples, slow
from test.engines.support import naive_bp

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.hierarchical import labels
from stereo_bp_ros.engines.cpu.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cpu.matching import Matches
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.errors import ConfigError
from test.engines.support.pairs import parts_of

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
    found = {name: arrays[name] for name in Matches._fields[:5]}
    with runtime.frame(config.num_threads):
        Hierarchical(plan, arrays).match(
            plan.config, Matches(**found, with_costs=True, with_right=True),
            collections.defaultdict(float))
    return found


def check(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
          parts: partitions.Partitioning | None = None, needs_all_partners: bool = True
          ) -> dict[str, Any]:
    """Compare every match with the definition's, and return what was found."""
    beliefs = naive_bp.belief_propagation(left, right, config, parts)
    label = naive_bp.labels(beliefs)
    is_other = np.abs(np.arange(config.disparity_range) - label[..., np.newaxis]) > 1
    second = np.where(is_other, beliefs, beliefs.dtype.type(NO_SECOND)).min(axis=2)
    found = matches(left, right, config, parts)
    for name, values in (
            ('label', label), ('best', beliefs.min(axis=2)), ('second', second),
            ('fraction', naive_bp.fractions(beliefs))):
        expected = values if name == 'label' else np.where(label < 0, 0, values)
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
    np.testing.assert_array_equal(found['right_label'], naive_bp.offered(
        beliefs, config.min_disparity, needs_all_partners=needs_all_partners)[1])
    return found


@st.composite
def cases(draw: Callable[..., Any], wide: bool) -> dict[str, Any]:
    """Small pairs of any shape, and settings: ``wide`` ones need messages or costs of 16 bits."""
    return {
        'width': draw(st.integers(1, 150)), 'height': draw(st.integers(1, 40)),
        'seed': draw(st.integers(0, 99)), 'smooth': draw(st.booleans()),
        'min_disparity': draw(st.integers(-9, 9)), 'disparity_range': draw(st.integers(2, 19)),
        'levels': draw(st.integers(1, 5)),
        'data_weight': draw(st.sampled_from([0.07, 0.1, *[1.0] * wide])),
        'data_truncation': draw(st.sampled_from([5.0, 15.0])),
        'discontinuity_slope': draw(st.sampled_from([0.5, 1.0, *[40.0] * wide])),
        'discontinuity_truncation': draw(st.sampled_from([0.0, 1.7, 6.0])),
        'first_step': draw(st.sampled_from([0.0, 0.04, 0.5, 1.0])),
        'iterations': draw(st.lists(st.integers(0, 19), min_size=1, max_size=5))}


def pair_and_config(case: dict[str, Any], **changes: Any
                    ) -> tuple[np.ndarray, np.ndarray, MatcherConfig]:
    values = dict(case)
    width, height, seed, smooth = (values.pop(name)
                                   for name in ('width', 'height', 'seed', 'smooth'))
    first_step = values.pop('first_step') * values['discontinuity_slope']
    if changes['message_type'] == 'int16':
        values['discontinuity_first_step'] = first_step
    values['iterations'] = ', '.join(map(str, values['iterations'][:values['levels']]))
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(0, 60, (2, height, width)).astype(np.float32)
    if not smooth:                      # whole grey values: many ties
        left, right = np.floor(left), np.floor(right)
    return left, right, MatcherConfig(preprocessing='none', **values, **changes)


#: Compiled code for 16 bits takes a processor twenty seconds more.
both_widths = pytest.mark.parametrize('wide', [False, *slow(True)], ids=['narrow', 'wide'])


@both_widths
@pytest.mark.parametrize('kind', [INT16, EXACT], ids=['int16', 'exact'])
@settings(max_examples=examples(100))
@given(data=st.data(), columns=st.integers(1, 4), rows=st.integers(1, 3),
       padding=st.integers(1, 9))
def test_every_match_is_that_of_the_definition_in_each_partition(
        kind: dict[str, Any], wide: bool, data: st.DataObject, columns: int, rows: int,
        padding: int) -> None:
    left, right, config = pair_and_config(data.draw(cases(wide)), **kind)
    check(left, right, config, parts_of(*left.shape[::-1], columns, rows, padding,
                                        partitions.alignment(config)))


@both_widths
@settings(max_examples=examples(40), suppress_health_check=[
    HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), columns=st.integers(1, 3))
def test_pixels_can_offer_labels_whose_partner_exists_to_the_other_image(
        wide: bool, data: st.DataObject, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with multi-feature costs."""
    left, right, config = pair_and_config({**data.draw(cases(wide)), 'levels': 2}, **INT16)
    with monkeypatch.context() as patched:
        patched.setattr(labels, 'selection', lambda *given, select=labels.selection: (
            select(*given)._replace(needs_all_partners=False)))
        check(left, right, config, parts_of(*left.shape[::-1], columns, 1, 5,
                                            partitions.alignment(config)),
              needs_all_partners=False)


#: int16 with S = 1, so that slope and truncation are messages' units.
WHOLE_STEPS = {'data_weight': 1.0, 'data_truncation': 60.0, 'levels': 2,
               'discontinuity_slope': 100.0, 'discontinuity_truncation': 2700.0, **INT16}
FIRST_STEP = {**WHOLE_STEPS, 'iterations': '2, 3', 'data_weight': 10.0,
              'discontinuity_slope': 20.0, 'discontinuity_first_step': 10.0,
              'discontinuity_truncation': 120.0}
WIDE_FIRST_STEP = {**WHOLE_STEPS, 'iterations': '2, 3', 'discontinuity_slope': 200.0,
                   'discontinuity_first_step': 70.0}
SHORT = {'min_disparity': -5, 'levels': 3, 'iterations': 3}


@pytest.mark.parametrize(('changes', 'messages', 'costs'), [
    *(({**WHOLE_STEPS, 'discontinuity_slope': 127.0, 'disparity_range': disparities,
        'data_weight': 4.0, 'levels': 1}, 'int8', 'uint8') for disparities in (12, 40)),
    ({**WHOLE_STEPS, 'data_truncation': 255.4, 'disparity_range': 9}, 'int8', 'uint8'),
    *(({**FIRST_STEP, 'disparity_range': disparities}, 'int8', None)
      for disparities in (21, 64, 130)),
    *(({**INT16, **SHORT, 'disparity_range': disparities}, 'int8', None)
      for disparities in (2, 31, 32, 512)),
    *(({**EXACT, **SHORT, 'disparity_range': disparities}, 'float32', None)
      for disparities in (3, 32, 512)),
    *slow(({**WHOLE_STEPS, 'discontinuity_slope': 128.0, 'disparity_range': 40,
            'data_weight': 10.0, 'levels': 1}, 'uint16', 'uint16'),
          ({**WHOLE_STEPS, 'data_truncation': 255.5, 'disparity_range': 9}, 'int8', 'uint16'),
          *(({**WIDE_FIRST_STEP, 'disparity_range': disparities}, 'uint16', None)
            for disparities in (16, 64, 300)))], ids=str)
def test_the_ends_of_types_and_ranges_lose_nothing(changes: dict[str, Any], messages: str,
                                                   costs: str | None) -> None:
    config = MatcherConfig(preprocessing='none', **changes)
    assert memory.message_dtype(config) == messages
    assert costs in (None, memory.cost_dtype(config, 0))
    left, right = np.random.default_rng(7).uniform(
        0, 60 if costs is None else 600, (2, 7, config.disparity_range + 33)).astype(np.float32)
    found = check(np.floor(left), np.floor(right), config)
    assert len(np.unique(found['label'])) > 2
    if config.discontinuity_first_step:
        plain = config.replace(discontinuity_first_step=0.0)
        assert not np.array_equal(found['best'], matches(left, right, plain)['best'])


@pytest.mark.parametrize('threads', [1, 2, 3, 4])
@pytest.mark.parametrize('iterations', [0, 1, 7, 8, 9])
@pytest.mark.parametrize('height', [1, 3, 16, 67, 200])
def test_rows_that_are_in_use_at_once_have_slots_of_their_own(
        monkeypatch: pytest.MonkeyPatch, height: int, iterations: int, threads: int) -> None:
    monkeypatch.setattr(memory, 'available_threads', lambda: 4)
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


def test_float16_is_refused_where_costs_overflow_it() -> None:
    with pytest.raises(ConfigError, match='maximum is 65504'):
        MatcherConfig(data_weight=20.0, **HALF)


# --- real images, without the border

@functools.cache
def disparity_map(data: pathlib.Path, name: str, message_type: str, exact: bool = False
                  ) -> np.ndarray:
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    pair = (cv2.imread(str(data / 'middlebury' / name / f'{side}.png'), cv2.IMREAD_GRAYSCALE)
            for side in ('left', 'right'))
    config = MatcherConfig.preset('five_sets', disparity_range=entry['disparities'],
                                  message_type=message_type, exact=exact)
    with StereoMatcher(config, 'cpu') as matcher:
        frame = matcher.compute(*pair)
    assert frame.disparity is not None
    return frame.disparity[1:-1, 1:-1]


def bad_pixels(data: pathlib.Path, name: str, disparity: np.ndarray) -> float:
    """Per cent of the pixels with known truth that are wrong by more than 1 pixel."""
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    true = cv2.imread(str(data / 'middlebury' / name / 'disparity.png'),
                      cv2.IMREAD_GRAYSCALE)[1:-1, 1:-1]
    errors = np.abs(disparity - true / np.float32(entry['disparity_scale']))
    return float(100 * (errors[true > 0] > 1).mean())


@pytest.mark.parametrize('name', ['tsukuba', 'cones_quarter'])
def test_exact_equals_the_reference_map_on_every_interior_pixel(data: pathlib.Path,
                                                                name: str) -> None:
    reference = cv2.imread(str(data / 'reference' / f'{name}_hbp_float32.png'),
                           cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(disparity_map(data, name, 'float32', True),
                                  reference[1:-1, 1:-1])


@pytest.mark.parametrize(('message_type', 'name'), [
    ('float32', 'tsukuba'), ('int16', 'tsukuba'), ('int16', 'cones_quarter'), *slow(
        ('float32', 'cones_half'), *((message_type, name) for message_type in ('int16', 'float16')
                                     for name in ('venus', 'barn1', 'cones_half')))])
def test_every_message_type_agrees_with_exact_floats(data: pathlib.Path, message_type: str,
                                                     name: str) -> None:
    """``docs/explanation/algorithms.md``: how far another order, type or normalisation may be."""
    found = disparity_map(data, name, message_type)
    exact = disparity_map(data, name, 'float32', True)
    assert (found == exact).mean() >= 0.994
    assert (np.abs(found - exact) > 1).mean() <= 0.002
    assert abs(bad_pixels(data, name, found) - bad_pixels(data, name, exact)) <= 0.1
