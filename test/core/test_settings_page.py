"""The page of settings: every setting in one group, and what is ignored really is."""

from __future__ import annotations

import collections
import functools
import re
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli.settings_page import GROUPS, settings_reference
from stereo_bp_ros.config import matcher_settings as declared
from stereo_bp_ros.config.node import NodeConfig

SAD = {'stereo_algorithm': 'sad', 'correlation_window_size': 7}
BP = {'stereo_algorithm': 'bp', 'levels': 3, 'iterations': 4}
COMBINED = {**BP, 'census_weight': 1.0, 'sobel_weight': 0.5, 'grey_weight': 0.2}
TILED = {'stereo_algorithm': 'tiled_bp'}

#: Configurations in which settings are ignored, by the words that say so.
IGNORED_WITH: dict[str, list[dict[str, Any]]] = {
    declared.SAD: [SAD], declared.NOT_BP: [SAD, TILED], declared.NOT_TILED: [SAD, BP],
    declared.COMBINED: [COMBINED], declared.NOT_COMBINED: [SAD, BP],
    declared.SAD_OR_COMBINED: [SAD, COMBINED],
    'unless preprocessing is residual, and with multi-feature costs': [SAD, BP, COMBINED],
    'without path_aggregation': [SAD, BP, COMBINED],
    'unless discontinuity_edge_threshold is above 0': [SAD, BP, COMBINED],
    'unless stereo_algorithm is sad or texture_threshold is above 0': [BP, COMBINED, TILED],
    'unless speckle_size is above 0': [SAD, BP], 'unless bilateral_passes is above 0': [SAD, BP],
    'unless filling is none': [{**SAD, 'filling': 'plane'}, {**BP, 'filling': 'background'}],
    'with filling background': [{**SAD, 'filling': 'background'}]}

#: Configurations in which they count, and the disparity changes.
COUNTED: dict[str, dict[str, Any]] = {
    'levels': BP, 'iterations': BP, 'data_weight': BP, 'tile_size': TILED,
    'preprocessing': SAD, 'census_window': COMBINED, 'outside_cost': COMBINED,
    'correlation_window_size': SAD, 'contrast_threshold': SAD, 'confidence_threshold': SAD,
    'speckle_range': {**SAD, 'speckle_size': 100},
    'bilateral_sigma': {**SAD, 'bilateral_passes': 2, 'filling': 'plane'},
    'path_jump_penalty': {**COMBINED, 'path_aggregation': True},
    'residual_window_size': {**SAD, 'preprocessing': 'residual'}}

#: Values that change much.
OTHER = {'contrast_threshold': 60.0, 'confidence_threshold': 0.5, 'path_jump_penalty': 30,
         'residual_window_size': 9, 'outside_cost': 200, 'data_weight': 0.5, 'speckle_range': 3.0,
         'bilateral_sigma': 8.0, 'correlation_window_size': 11,
         'discontinuity_edge_truncation': 2.0}


def changed(name: str) -> Any:
    """A value of a setting that is not its default."""
    one = MatcherConfig.settings()[name]
    if one.choices:
        return next(choice for choice in one.choices if choice != one.default)
    return OTHER.get(name, 2 if one.type is int else 2.0)


@pytest.fixture(scope='module')
def disparity(textured_pair: Any) -> Any:
    """The disparity of a noisy pair with a flat patch, by settings."""
    pytest.importorskip('numba')
    left, right = (image.copy() for image in textured_pair(96, 48, 6))
    left[12:30, 10:40] = 128
    noise = np.random.default_rng(3).normal(0, 8, left.shape)
    left = np.clip(left + noise, 0, 255).astype(np.uint8)

    @functools.cache
    def found(settings: tuple[tuple[str, Any], ...]) -> Any:
        config = MatcherConfig.from_mapping({
            'backend': 'cpu', 'disparity_range': 16, **dict(settings)})
        with StereoMatcher(config) as matcher:
            frame = matcher.compute(left, right)
            return np.where(frame.valid, frame.disparity, -1000.0)
    return lambda settings: found(tuple(sorted(settings.items())))


CASES = [(name, base) for name, one in MatcherConfig.settings_of('default').items()
         for base in IGNORED_WITH.get(one.ignored, ())]


@pytest.mark.parametrize(('name', 'base'), CASES)
def test_a_setting_changes_nothing_where_it_is_ignored(
        name: str, base: dict[str, Any], disparity: Any) -> None:
    np.testing.assert_array_equal(disparity(base), disparity({**base, name: changed(name)}))


@pytest.mark.parametrize(('name', 'base'), COUNTED.items())
def test_a_setting_that_is_ignored_elsewhere_counts_here(
        name: str, base: dict[str, Any], disparity: Any) -> None:
    assert MatcherConfig.settings()[name].ignored
    assert (disparity(base) != disparity({**base, name: changed(name)})).any()


def test_most_words_of_what_is_ignored_are_tried_here() -> None:
    words = {one.ignored for one in MatcherConfig.settings_of('default').values()} - {''}
    assert words >= IGNORED_WITH.keys()
    assert words - IGNORED_WITH.keys() == {     # of devices, cameras and other images
        'on the CPU', 'on CUDA', 'with images of 8 bits', 'unless row_correction is correct',
        'with min_depth, once a calibration is known'}


def test_every_setting_is_in_one_group() -> None:
    counted = collections.Counter(name for names in GROUPS.values() for name in names)
    wanted = [*MatcherConfig.settings_of('default'), *NodeConfig.settings()]
    assert counted == collections.Counter(wanted)


def test_the_ten_settings_of_users_come_first_and_those_of_papers_last() -> None:
    page = settings_reference()
    titles = re.findall(r'^## (.*)$', page, re.MULTILINE)
    assert titles[0] == 'The ten to know'
    assert len(GROUPS[titles[0]]) == 10
    appendix = [title.startswith('Appendix') for title in titles]
    assert appendix == sorted(appendix)
    assert [title for title in titles if 'program' in title] == titles[-3:]
    assert '(ignored with stereo_algorithm sad and tiled_bp) |' in page
