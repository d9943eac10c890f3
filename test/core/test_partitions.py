"""Where images are cut, and into how many partitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning, choose, split, whole
from stereo_bp_ros.errors import ConfigError, InputError, MemoryLimitError
from test.cases import every


def plan_of(parts: Partitioning) -> MemoryPlan:
    """A byte for every pixel of the image, and a thousand for every pixel of a partition."""
    width, height = parts.columns.bounds[-1], parts.rows.bounds[-1]
    return MemoryPlan.lay_out([('image', (height, width), 'uint8'),
                               ('partition', (parts.height, parts.width, 1000), 'uint8')])


@given(length=st.integers(16, 3000), count=st.integers(2, 40), levels=st.integers(1, 8),
       padding=st.integers(1, 200))
def test_pieces_cover_a_side_with_their_padding(length: int, count: int, levels: int,
                                                padding: int) -> None:
    step = 2 ** levels
    made = split(length, count, step, padding)
    if made is None:                # so short that two pieces would begin at the same pixel
        assert length - 2 * padding < step * count or step + 2 * padding < 16
        return
    assert len(made.starts) == count
    assert every(start % step == 0 for start in made.starts)
    assert made.starts[0] == made.bounds[0] == 0
    assert made.starts[-1] + made.size == made.bounds[-1] == length
    for i in range(count):
        first, end = made.bounds[i:i + 2]
        assert first < end
        assert i == 0 or first - made.starts[i] >= padding
        assert i == count - 1 or made.starts[i] + made.size - end >= padding
    # No smaller pieces would do: the last one begins at a multiple of the step.
    steps = (length - made.size) // step + 1
    assert step * -(-steps // (count - 1)) + 2 * padding > made.size - step


@given(width=st.integers(16, 900), height=st.integers(16, 700), columns=st.integers(1, 5),
       rows=st.integers(1, 5), levels=st.integers(1, 5), padding=st.integers(1, 64))
def test_every_pixel_is_kept_once(width: int, height: int, columns: int, rows: int, levels: int,
                                  padding: int) -> None:
    sides = [split(length, count, 2 ** levels, padding)
             for length, count in ((width, columns), (height, rows))]
    if None in sides:
        return
    parts = Partitioning(*sides)                                    # type: ignore[arg-type]
    seen = np.zeros((height, width), int)
    for x, y, kept in parts.partitions:
        assert x <= kept.left < kept.right <= x + parts.width <= width
        assert y <= kept.top < kept.bottom <= y + parts.height <= height
        seen[kept.top:kept.bottom, kept.left:kept.right] += 1
    assert (seen == 1).all()
    assert parts.count == len(parts.partitions) == columns * rows
    assert parts.padding >= padding or parts.count == 1


def test_no_partitions_are_sought_for_an_image_that_no_engine_takes() -> None:
    config = MatcherConfig(max_image_width=1000, max_image_height=500, disparity_range=8,
                           downscale=2, backend='cpu')
    matcher = StereoMatcher(config)
    for width, height in ((1001, 500), (1000, 501), (10**6, 10**6)):
        with pytest.raises(InputError, match=f'too large: {width} x {height}; .*1000 x 500'):
            matcher.prepare(width, height)


@pytest.mark.parametrize(('width', 'height', 'part'), [
    (1280, 720, 0.9), (1280, 720, 0.2), (300, 2001, 0.5), (4096, 511, 0.1)])
def test_of_the_partitions_that_fit_those_with_the_fewest_nodes_are_chosen(
        width: int, height: int, part: float) -> None:
    config = MatcherConfig(levels=4, partition_padding=32)
    allowed = int(part * plan_of(whole(width, height)).total)
    parts = choose(config, width, height, allowed, plan_of)
    assert plan_of(parts).total <= allowed
    for columns in range(1, 20):
        for rows in range(1, 20):
            sides = [split(length, count, 16, 32) for length, count in
                     ((width, columns), (height, rows))]
            if None in sides or min(side.size for side in sides) < 96:      # type: ignore
                continue
            other = Partitioning(*sides)                            # type: ignore[arg-type]
            assert other.nodes >= parts.nodes or plan_of(other).total > allowed


@pytest.mark.parametrize(('length', 'padding', 'finest'), [
    (97, 1, 33), (1280, 5, 32), (300, 32, 108)])
def test_the_finest_partitions_of_thrice_their_padding_are_found(
        length: int, padding: int, finest: int) -> None:
    """What needs least memory is thought of, and named where not even that fits."""
    config = MatcherConfig(levels=4, partition_padding=padding)
    with pytest.raises(MemoryLimitError) as error:
        choose(config, length, length, 1, plan_of)
    smallest = min((made for count in range(2, length)
                    if (made := split(length, count, 16, padding)) and made.size >= 3 * padding),
                   key=lambda made: made.size)
    assert smallest.size == finest
    assert error.value.needed == plan_of(Partitioning(smallest, smallest)).total
    assert error.value.allowed == 1


def test_the_numbers_of_columns_and_rows_can_be_asked_for() -> None:
    config = MatcherConfig(partition_columns=5, partition_rows=5, partition_padding=20)
    parts = choose(config, 1800, 1500, 2**60, plan_of)
    assert parts.count == 25
    assert parts.padding >= 20
    rows = choose(config.replace(partition_columns=0, partition_rows=3), 900, 750, 2**60, plan_of)
    assert (rows.count, rows.width) == (3, 900)


def test_more_partitions_than_fit_into_an_image_are_refused_in_words() -> None:
    for name, size in (('partition_rows', (640, 150)), ('partition_columns', (150, 640))):
        with pytest.raises(ConfigError, match=f'{name} is 3, but with padding 64 and 5 levels 15'):
            choose(MatcherConfig(**{name: 3}), *size, 2**60, plan_of)


def test_an_image_that_fits_is_not_cut_nor_one_that_is_not_for_belief_propagation() -> None:
    parts = choose(MatcherConfig(), 640, 480, plan_of(whole(640, 480)).total, plan_of)
    assert parts == whole(640, 480)
    assert parts.partitions == [(0, 0, (0, 0, 640, 480))]
    config = MatcherConfig(stereo_algorithm='sad', partition_rows=3)
    assert choose(config, 640, 480, 2**60, plan_of) == whole(640, 480)
    with pytest.raises(MemoryLimitError):
        choose(config, 640, 480, 1000, plan_of)


def test_the_choice_reads_the_plan_of_few_partitions_however_large_the_image_is() -> None:
    asked: list[Any] = []

    def counted(parts: Partitioning) -> MemoryPlan:
        asked.append(dataclasses.astuple(parts))
        return plan_of(parts)

    assert choose(MatcherConfig(), 4096, 3072, 2**31, counted).count > 1
    config = MatcherConfig(max_image_width=65536, max_image_height=65536, levels=1,
                           partition_padding=1)
    assert choose(config, 65536, 65536, 5 * 2**30, counted).count > 1000
    assert len(asked) < 50
