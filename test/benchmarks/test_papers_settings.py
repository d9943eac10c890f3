"""Every experiment of the papers with settings that exist, and LCPC 2010's walk over occupancies.

Nothing is computed here: ``Planned`` checks what would be, and makes up how long it takes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.papers import bench as benches
from benchmarks.papers import catalogue, lcpc_2010, sad
from benchmarks.papers.images import SIZES, Images
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import metrics, timing
from stereo_bp_ros.papers.plain_steps import cuda_arrays, tune
from stereo_bp_ros.sources.datasets.entries import StereoPair
from test.cases import every

INITIAL_MS, BEST_MS, OTHER_MS = 7.0, 2.0, 3.5
#: The walk's seventh configuration is made the fastest.
BEST = 6


class Pictures(Images):
    """Empty images of all of the papers' sizes but some."""

    def __init__(self, absent=()):
        super().__init__(None)
        self._absent = absent

    def _look(self, name):
        if name in self._absent:
            return super()._look(name)
        width, height = SIZES[name] or (512, 512)
        empty = np.zeros((height, width), np.uint8)
        return StereoPair(name, empty, empty, empty.astype(np.float32))


def occupancy_walk(config, initial_values, max_values):
    return [(most, tune.settings_of(walked)) for most, walked in
            tune.candidates(tune.TYPICAL, config.disparity_range,
                                 initial_values=initial_values, max_values=max_values)]


class Planned(benches.Bench):
    """A bench of a machine with both back ends; notes what either would refuse."""

    def __init__(self, images):
        super().__init__(images)
        self.refused = []

    def _describe(self, config):
        return f'a {config.backend}'

    def _walk(self, config, initial_values, max_values):
        return occupancy_walk(config, initial_values, max_values)

    def _variant_times(self, config, left, right, repeats):
        return 8.0, {
            (streaming, pixel, is_unrolled, threads): 9.0 for streaming in sad.NAMES
            for pixel in ('int32', 'uint8') for is_unrolled in (False, True)
            for threads in sad.BLOCKS}

    def _config(self, settings, disparities):
        try:
            config = super()._config(settings, disparities)
            programs.check(config.backend, config, TYPICAL)
        except StereoError as error:
            self.refused.append(str(error))
            raise
        return config

    def _compare(self, image, disparities, variants):
        found = self.images.load(image)
        pair = timing.Pair(image, found.left, found.right, disparities)
        return {name: self._times(pair, name, self._config(settings, disparities))
                for name, settings in variants.items()}

    def _times(self, pair, name, config):
        kernels = [{'name': 'send_messages<Singles>', 'launches': 50, 'blocks': 90,
                    'threads': 128, 'registers': 34, 'occupancy': 0.75},
                   {'name': 'gaussian<uint8>', 'launches': 1, 'blocks': 900000,
                    'threads': 256, 'registers': 32, 'occupancy': 1.0}]
        return timing.Times(
            pair, name, config.backend, False, timing.ColdStart(0, 0, 0, {}),
            [self._milliseconds(config)], {}, 1000,
            kernels if (config.backend, config.program) == ('cuda', 'plain_steps') else [],
            (48, 48))

    def _milliseconds(self, config):
        if config.plain_steps.storage != 'hybrid':
            return INITIAL_MS
        walked = occupancy_walk(config, 12, 50)
        best = walked[BEST][1]
        return BEST_MS if best.items() <= config.to_mapping().items() else OTHER_MS

    def score(self, image, disparities, settings):
        found = self.images.load(image)
        self._config(settings, disparities)
        return metrics.score(found.truth, found.truth, thresholds=(0.0, 1.0, 3.0))


def run(bench, number, paper='lcpc_2010'):
    experiment, = catalogue.select([paper], [number])
    return experiment.run(bench)


def cells(result, name, column):
    return [row.cells[result.columns.index(column) - 1] for row in result.measured
            if row.name == name]


@pytest.mark.parametrize('experiment', catalogue.EXPERIMENTS.values(), ids=lambda one: (
    f'{one.published.paper} {one.published.number}'))
def test_both_back_ends_have_every_setting_of_an_experiment(experiment):
    bench = Planned(Pictures())
    result = experiment.run(bench)
    assert not bench.refused
    reasons = {cell.missing for row in result.measured for cell in row.cells
               if cell.missing and cell.missing != lcpc_2010.FAST
               and cell.missing != lcpc_2010.NO_KERNELS}
    assert [reason for reason in reasons if 'Jetson' not in reason] == []


def test_the_walk_ends_with_its_fastest_configuration():
    bench = Planned(Pictures())
    three, four = run(bench, 'table 3'), run(bench, 'figure 4')
    name = '12 to 50 values in registers'
    occupancy, settings = occupancy_walk(bench._config({}, 65), 12, 50)[BEST]
    assert [cell.values for cell in (
        cells(three, name, column)[0] for column in three.columns[1:4])] == [
            (occupancy,), (BEST_MS,), (INITIAL_MS / BEST_MS,)]
    difference, = cells(three, name, three.columns[4])
    assert difference.values == (pytest.approx(100 * (OTHER_MS / BEST_MS - 1)),)
    at_best = next(row for row in four.measured if row.name == f'{occupancy:.2f}')
    split = [settings['plain_steps.registers'], settings['plain_steps.shared']]
    assert [cell.text for cell in at_best.cells[2:]] == [
        f'32 X {settings["plain_steps.block_height"]}',
        '-'.join(map(str, [*split, 65 - sum(split)])), name]
    walks = [len(occupancy_walk(bench._config({}, 65), *constants))
             for constants in lcpc_2010.WALKS.values()]
    assert len(four.measured) == sum(walks) > 80
    assert len(run(bench, 'figure 3').measured) == 10 + 10 + 9 + 9


def test_split_images_are_timed_part_by_part_and_missing_ones_named():
    bench = Planned(Pictures({'cones_full'}))
    result = run(bench, 'table 4')
    time, = cells(result, '12 to 50 values in registers', 'Running Time')
    assert time.values == (3 * BEST_MS, None)
    assert time.missing.startswith('the image cones_full (1800 x 1500) is not among the data')
    gain, = cells(result, '12 to 50 values in registers', 'Speed-up over initial CUDA imp.')
    assert gain.values == (INITIAL_MS / BEST_MS, None)
    names = bench.images.cut('cones_half', 1, 3, 20)
    assert {bench.images.load(name).left.shape for name in names} == {(277, 900)}
    tops = [int(name.split('(0, ')[1].rstrip(')')) for name in names]
    assert (tops[0], tops[-1], len(set(names))) == (0, 750 - 277, 3)
    assert every(before + 277 - after >= 40 for before, after in itertools.pairwise(tops))
    with pytest.raises(ValueError, match='cannot be cut into 1 x 800 parts'):
        bench.images.cut('cones_half', 1, 800, 20)


def test_loads_and_stores_are_those_that_the_storage_asks_for():
    result = run(Planned(Pictures()), 'table 1')
    for column in ('Num local loads', 'Num local stores'):
        asked, = cells(result, 'Initial CUDA imp.', column)
        assert asked.values == (48,)
    default, = cells(result, 'default', 'Num local loads')
    assert default.missing
    assert any('derived, not counted' in note for note in result.notes)


def test_the_walk_needs_cuda():
    bench = Planned(Pictures())
    bench.absent['cuda'] = 'no device here'
    del bench.devices['cuda']
    bench.backend = 'cpu'
    for number in ('table 3', 'figure 3', 'figure 4'):
        assert every('no device here' in cell.missing
                     for row in run(bench, number).measured for cell in row.cells)
    row = run(bench, 'table 4').measured[-1]
    assert (row.name, row.cells[1].values) == (lcpc_2010.DEFAULT, (INITIAL_MS, INITIAL_MS))


def test_whatever_an_engine_loads_is_compiled_beforehand():
    config = benches.MatcherConfig(program='plain_steps', smoothing_sigma=1.0)
    for changes, pixels in (({}, {'float'}), ({'smoothing_sigma': 0.0}, {'float'}),
                            ({'smoothing_sigma': 0.0, 'preprocessing': 'none'},
                             {'uint8', 'float'})):
        names = cuda_arrays.all_kernels(config.replace(**changes))
        assert {name.split(', ')[1] for name in names if name.startswith('store_costs')} == pixels
