"""The kernels of multi-feature costs and path aggregation, run on the host, do what is defined."""

from __future__ import annotations

import shutil
from typing import Any, NamedTuple

import numpy as np
import pytest

from test.cases import slow
from test.engines.support import naive_costs

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import fractions, stage
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.engines.partitions import Partition, Partitioning
from test.engines.support.host_arena import HostArena
from test.engines.support.host_cuda import HostKernels
from test.engines.support.pairs import parts_of

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

PIXELS = {'uint8': 'uint8', 'float32': 'float'}

CENSUS, SOBEL = {'census_weight': 0.8}, {'sobel_weight': 1.37, 'sobel_bound': 20}
GREY = {'grey_weight': 0.5}
SPARSE = {'sparse_census_weight': 0.6}
ALL = CENSUS, SPARSE, SOBEL, GREY
PATHS = {'path_aggregation': True}


@pytest.fixture(autouse=True)
def together(host_kernels: HostKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a configuration launches, in one library."""
    def kernels(config: MatcherConfig, image: str) -> list[tuple[str, str]]:
        names = known(config, image)
        host_kernels.load(*names, fractions.kernel(config))
        return names
    known = stage.kernels
    monkeypatch.setattr(stage, 'kernels', kernels)


def pair(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Two related grey images with steps, noise, and both ends of the range."""
    rng = np.random.default_rng(width * height)
    left = np.clip(np.kron(rng.integers(0, 256, (-(-height // 4), -(-width // 5))),
                           np.ones((4, 5), int))[:height, :width]
                   + rng.integers(-9, 10, (height, width)), 0, 255)
    right = np.clip(np.roll(left, -3, 1) + rng.integers(-4, 5, left.shape), 0, 255)
    return left.astype(np.uint8), right.astype(np.uint8)


class Frame:
    """The stage over a pair of images; what it leaves, partition by partition."""

    def __init__(self, config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                 parts: Partitioning | None = None) -> None:
        height, width = left.shape
        self._config = config
        self._images = np.ascontiguousarray(left), np.ascontiguousarray(right)
        self.parts = parts or partitions.whole(width, height)
        self.arena = HostArena(plan_of(config, width, height, parts=self.parts).memory)
        context = Context(TYPICAL, config, width, height, self.arena)
        self._stage = stage.CombinedCost(context, self.parts)
        self._stage.load(PIXELS[left.dtype.name])
        self._fractions = fractions.Fractions(context, self.parts)
        self._fractions.load()

    def run(self, part: Partition) -> None:
        self._stage.enqueue(0, PIXELS[self._images[0].dtype.name], True,
                            *(image.ctypes.data for image in self._images), part, None)

    def fractions(self, labels: np.ndarray) -> np.ndarray:
        """Fractions H x W of the image from its labels, filled part by part."""
        self.arena.view('label')[:] = labels
        for part in self.parts.partitions:
            self.run(part)
            self._fractions.enqueue(0, part)
        return self.arena.view('fraction').copy()

    def volume(self) -> np.ndarray:
        """Data costs H x W x D; what pads them costs 255."""
        labels = self._config.disparity_range
        found = self.arena.view('data_cost')
        assert (found[..., labels:] == 255).all()
        return found[..., :labels]

    def level(self, k: int) -> np.ndarray:
        """Costs H x W x D of a level, as messages read them; padded labels are 0."""
        kind = {'Bytes': np.uint8, 'Int16': np.uint16}[CostFormat.of(self._config, k).name]
        kept = self.arena.view(f'cost_{k}').view(kind)
        height, _, chunks, columns, _ = kept.shape
        width = -(-self.parts.width // 2 ** k)
        y, x = np.mgrid[:height, :width]
        pairs = kept.reshape(height, 2, chunks, columns, 4, 2)[y, (x + y) % 2, :, x // 2]
        low, high = (pairs[..., side].reshape(height, width, 4 * chunks) for side in (0, 1))
        labels = np.concatenate([low, high[..., ::-1]], -1)
        assert not labels[..., self._config.disparity_range:].any()
        if k == 0:
            y, x = np.mgrid[:height, width:2 * columns]
            assert not kept[y, (x + y) % 2, :, x // 2].any()
        return labels[..., :self._config.disparity_range]


def check(config: MatcherConfig, width: int, height: int,
          parts: Partitioning | None = None) -> None:
    """Every array of every partition is what is defined."""
    left, right = pair(width, height)
    whole = naive_costs.combined_cost(left, right, config)
    frame = Frame(config, left, right, parts)
    for part in frame.parts.partitions:
        frame.run(part)
        expected = whole[part.y:part.y + frame.parts.height, part.x:part.x + frame.parts.width]
        assert np.array_equal(frame.volume(), expected)
        if config.path_aggregation:
            expected = naive_costs.path_aggregation(expected, config)
        for k in range(config.levels):
            if k:
                expected = naive_costs.coarser(expected, int(config.truncation))
            assert np.array_equal(frame.level(k), expected), k


def configured(disparities: int, *weights: dict[str, Any], **changes: Any) -> MatcherConfig:
    values = {'levels': 3, 'discontinuity_slope': 20, 'discontinuity_truncation': 120}
    for weight in weights:
        values |= weight
    return MatcherConfig(disparity_range=disparities, **{**values, **changes})


@pytest.mark.parametrize(('disparities', 'size', 'weights', 'changes'), [
    # One cost and all, with weights at both ends.
    *((16, (71, 9), weights, {'min_disparity': -5, 'levels': 1, **changes})
      for weights, changes in (
        ((CENSUS,), {'census_window': '7x5'}),
        ((SPARSE,), {'census_window': '9x7'}), ((SPARSE, GREY), {'census_window': '5x5'}),
        (ALL, {'census_weight': 3.0}), (ALL, {'census_weight': 0.02}))),
    *slow(*((16, (71, 9), weights, {'min_disparity': -5, 'levels': 1, **changes})
            for weights, changes in (
        ((CENSUS,), {'census_window': '5x5'}),
        ((CENSUS, SPARSE), {'census_window': '7x5'}),
        ((CENSUS,), {'census_window': '9x7', 'outside_cost': 0}),
        ((SOBEL,), {'prefilter_cap': 0.0, 'sobel_scale': 0.37}),
        ((GREY,), {'grey_bound': 255, 'outside_cost': 255})))),
    # Path aggregation and the pyramid.
    *((disparities, size, (CENSUS, SOBEL, PATHS), {'min_disparity': least})
      for disparities, least, size in ((21, 0, (37, 7)), (128, 0, (40, 9)), (300, -150, (17, 4)))),
    *slow(*((disparities, size, (CENSUS, SOBEL, PATHS), {'min_disparity': least})
            for disparities, least, size in (
        (2, 0, (17, 5)), (16, -7, (19, 6)), (64, 3, (33, 5)), (192, -60, (18, 5))))),
    *((21, (25, 13), (CENSUS, SOBEL, PATHS), {
        'levels': 1, 'census_weight': 4.0, 'path_step_penalty': step, 'path_jump_penalty': jump})
      for step, jump in ((0, 0), (255, 255), (3, 9)))], ids=str)
def test_costs_are_what_is_defined(disparities: int, size: tuple[int, int], weights: Any,
                                   changes: dict[str, Any]) -> None:
    check(configured(disparities, *weights, **changes), *size)


def test_coarse_costs_are_cut_at_four_truncations() -> None:
    for truncation, levels in ((20.0, 4), (2047.0, 5)):
        check(configured(21, CENSUS, GREY, discontinuity_truncation=truncation, levels=levels,
                         census_weight=16.0), 45, 19)


def test_partitions_see_whole_images_and_sum_up_their_own_paths() -> None:
    check(configured(21, CENSUS, SPARSE, SOBEL, PATHS, min_disparity=-3, levels=1), 45, 24,
          parts_of(45, 24, 2, 2, 4, 4))


def test_smoothed_images_are_rounded_half_up() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.uniform(-3, 260, (9, 21)).astype(np.float32) for _ in range(2))
    left[0, :7] = 0.5, np.nextafter(np.float32(0.5), np.float32(0)), 254.5, 255.5, -0.5, 1.5, 300
    config = configured(16, CENSUS, SPARSE, GREY, levels=1, grey_bound=255)
    grey = [np.clip(np.floor(image.astype(np.float64) + 0.5), 0, 255).astype(np.uint8)
            for image in (left, right)]
    assert grey[0][0, :7].tolist() == [1, 0, 255, 255, 0, 2, 255]
    frame = Frame(config, left, right)
    frame.run(frame.parts.partitions[0])
    assert np.array_equal(frame.arena.view('left_grey_feature'), grey[0])
    assert np.array_equal(frame.volume(), naive_costs.combined_cost(*grey, config))


@pytest.mark.parametrize(('disparities', 'min_disparity', 'width', 'height', 'cuts'), [
    (2, 0, 17, 5, (1, 1)), (21, -3, 75, 40, (3, 2)), (128, 0, 40, 9, (1, 1)),
    *slow((16, -7, 43, 20, (1, 1)), (64, 3, 65, 17, (1, 1)), (300, -150, 33, 17, (1, 1)))])
def test_fractions_are_what_is_defined(disparities: int, min_disparity: int, width: int,
                                       height: int, cuts: tuple[int, int]) -> None:
    """Their windows are replicated beyond a partition."""
    config = configured(disparities, CENSUS, SOBEL, min_disparity=min_disparity, levels=1)
    left, right = pair(width, height)
    parts = parts_of(width, height, *cuts, 0)
    assert parts.count == cuts[0] * cuts[1]
    whole = naive_costs.combined_cost(left, right, config)
    # Those of least cost mostly, and any others.
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((height, width)) < 0.7, whole.argmin(-1),
                      rng.integers(-1, config.disparity_range, (height, width)))
    found = Frame(config, left, right, parts).fractions(labels)
    for part in parts.partitions:
        own = np.s_[part.y:part.y + parts.height, part.x:part.x + parts.width]
        expected = np.full((height, width), 99)
        expected[own] = naive_costs.fractions(whole[own], labels[own])
        x, y, end_x, end_y = part.kept
        assert np.array_equal(found[y:end_y, x:end_x], expected[y:end_y, x:end_x])
    assert config.disparity_range == 2 or np.unique(found).size > 5


@pytest.mark.parametrize('padding', [0, 16])
@pytest.mark.parametrize('has_fractions', [False, True])
def test_fractions_come_after_the_labels_and_before_anything_is_published(
        has_fractions: bool, padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[tuple[str, Any]] = []

    class Recorded(NamedTuple):
        name: str

        def launch(self, *arguments: Any) -> None:
            launched.append((self.name.partition('<')[0], arguments[4]))

    monkeypatch.setattr(compiler, 'kernel', lambda _device, _file, name: Recorded(name))
    config = configured(21, CENSUS, SOBEL, subpixel=has_fractions)
    parts = parts_of(128, 40, 2, 1, padding, 8) if padding else partitions.whole(128, 40)
    plan = plan_of(config, 128, 40, parts=parts)
    context = Context(TYPICAL, config, 128, 40, HostArena(plan.memory))
    publishes = Hierarchical.of(context, plan).enqueue(
        0, 'grey', True, refine.steps(config, ['disparity']), refine.Refine(context).frame())
    assert publishes == (not has_fractions and not padding)
    names = [name for name, _ in launched]
    assert names.count('take_fractions') == (parts.count if has_fractions else 0)
    assert (names[-1] == 'take_fractions') == has_fractions
    for name, argument in launched:
        if hasattr(argument, 'matches'):
            # Nobody else writes fractions: no kernel has to read the beliefs again for them.
            assert not argument.matches.fraction, name
            assert not argument.publishes or publishes
