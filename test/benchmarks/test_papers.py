"""The papers' tables: transcribed whole, measured beside, and honest about what is missing."""

from __future__ import annotations

import dataclasses
import json

import cv2
import numpy as np
import pytest

pytest.importorskip('numba')
from benchmarks.papers import catalogue, gpu_cpu, report, sad
from benchmarks.papers.bench import Bench, fastest, speedup
from benchmarks.papers.images import SIZES, Images
from benchmarks.papers.table import (
    PUBLISHED,
    Cell,
    Missing,
    Row,
    Table,
    combined,
    figure,
    joined,
    merge,
)
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import BackendUnavailable, StereoError
from stereo_bp_ros.sources.datasets.entries import StereoPair
from test.cases import every


class TinyImages(Images):
    """Small textured pairs in place of all images but some."""

    def __init__(self, pair, absent=()):
        super().__init__(None)
        self._pair, self._absent = pair, absent

    def load(self, name):
        if name in self._absent:
            return super().load(name)
        left, right = self._pair(72, 40, 5)
        return StereoPair(name, left, right, np.full((40, 72), 5, np.float32))


@pytest.fixture(scope='module')
def bench(textured_pair):
    return Bench(TinyImages(textured_pair, {'cones_full', 'red_barrel'}), frames=2,
                 backend='cpu')


@pytest.fixture(scope='module')
def times(bench):
    """Table 1 of the comparison of GPU and CPU."""
    return run(bench, 'gpu_cpu', '1')


def run(bench, paper, number):
    experiment, = catalogue.select([paper], [number])
    return experiment.run(bench)


def cells(result, row, column):
    """Measured cells of a column, of the rows of one name."""
    return [one.cells[result.columns.index(column) - 1] for one in result.measured
            if one.name == row]


def test_tables_have_the_papers_rows_columns_and_figures():
    tables = PUBLISHED.values()
    assert len(tables) == 26
    assert sum(len(table.rows) for table in tables) == 98
    assert sum(1 + len(row.cells) for table in tables for row in table.rows) == 481
    assert every(len({row.name for row in table.rows}) == len(table.rows) and table.section
                 for table in tables)
    assert PUBLISHED['gpu_cpu', 'table 12'].rows[4].cells[1].text == '1044.5 (598.2)'


def test_a_row_with_a_cell_too_few_is_refused():
    with pytest.raises(ValueError, match='1 cells for 2 columns in row 1'):
        Table.transcribe('p', 'table 1', {
            'title': 't', 'section': 's', 'columns': 'a | b | c', 'rows': '1 | 2'})
    with pytest.raises(ValueError, match='1 cells for 4 columns in row here'):
        PUBLISHED['gpu_cpu', 'table 1'].beside([Row('', (Cell((1.0,)),), 'here')], (), ())


@pytest.mark.parametrize(('value', 'text'), [
    (None, 'N/A'), (15716, '15716'), (0.0, '0'), (0.07512, '0.0751'), (9.876, '9.88'),
    (47.04, '47.0'), (1234.5, '1234'), (-3.21, '-3.21')])
def test_figures_have_three_digits_that_count_and_counts_have_all(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(('paper', 'number', 'row', 'column'), [
    ('lcpc_2010', 'table 1', 'default', 'Total running time'),
    ('ai_2009', 'times', 'road', 'CPU'), ('sad', 'figure 8', 'CPU engine', 'blocks of its own')])
def test_a_table_of_each_paper_is_measured(bench, paper, number, row, column):
    cell, = cells(run(bench, paper, number), row, column)
    time, = cell.values
    assert time > 0
    assert not cell.missing
    assert time in [one['median_ms'] for one in bench.runs]


def test_figures_stand_under_their_own_heads_when_others_are_missing(bench, times):
    # The same comparison is made once.
    again = gpu_cpu.compare(bench, 'Tsukuba', {
        'CPU': gpu_cpu.ONE_THREAD, 'initial': gpu_cpu.INITIAL, **gpu_cpu.DEFAULTS})
    for name in gpu_cpu.DEFAULTS:
        cell, = cells(times, 'Tsukuba', name)
        assert cell.values == (again[name].median,)
    cell, = cells(times, 'Tsukuba', 'Init CUDA time')
    assert (cell.values, cell.missing) == ((), 'only cpu was asked for')


def test_accuracy_and_memory_are_measured_beside_the_times(bench):
    found, = cells(run(bench, 'thesis_2019', '5.2'), 'bp, tsukuba_2010', 'Number of Mismatches')
    count, = found.values
    assert isinstance(count, int)
    # The pair has one disparity everywhere, which no pixel near the left border can show.
    assert 0 < count < 40 * 72 / 2
    result = run(bench, 'ai_2009', 'preprocessing')
    for name in ('original', 'Sobel', 'residual'):
        for head in ('bad 1 px, same exposure', 'bad 3 px, other exposure'):
            cell, = cells(result, name, head)
            assert 0 <= cell.values[0] <= 100
    result = run(bench, 'ai_2009', 'memory')
    bound, int16, float32 = (cells(result, 'Tsukuba', head)[0].values[0] for head in (
        'bound', 'CPU engine, int16', 'CPU engine, float32'))
    assert bound == 4 * (5 + 10 * 16) * 72 * 40 / 1e6
    assert 0 < int16 < float32


def test_what_cannot_be_measured_says_why(bench):
    result = run(bench, 'thesis_2019', '5.3')
    assert every(cell.missing.startswith('the image red_barrel is not among the data')
                 for row in result.measured for cell in row.cells)
    assert '(1) the image red_barrel is not' in report.markdown([result])
    for number in ('7', '13'):
        assert every('Jetson' in cell.missing and not cell.written()
                     for row in run(bench, 'gpu_cpu', number).measured for cell in row.cells)


def test_images_are_found_in_the_folder_or_its_subfolder_and_never_of_another_size(tmp_path):
    for path, size in (('venus', SIZES['venus']), ('middlebury/barn1', SIZES['barn1']),
                       ('middlebury/tsukuba', (192, 144))):
        (tmp_path / path).mkdir(parents=True)
        for side in ('left', 'right'):
            cv2.imwrite(str(tmp_path / path / f'{side}.png'),
                        np.zeros((size[1], size[0]), np.uint8))
    images = Images(tmp_path)
    assert images.load('venus').left.shape == (383, 434)
    assert images.load('barn1').left.shape == (381, 432)
    with pytest.raises(Missing, match=r'tsukuba .384 x 288. is 192 x 144 among the data'):
        images.load('tsukuba')
    with pytest.raises(Missing, match=r'cones_full .1800 x 1500. is not among the data'):
        images.load('cones_full')
    with pytest.raises(ValueError, match='there is no folder'):
        Images(tmp_path / 'none')


def test_the_road_is_drawn_in_the_papers_size():
    road, other = Images(None).load('road'), Images(None).load('road, other exposure')
    assert road.left.shape == (480, 640)
    assert road.truth.max() <= 32
    assert np.array_equal(road.left, other.left)
    assert other.right.mean() != pytest.approx(road.right.mean(), abs=5)


def test_markdown_has_the_papers_rows_and_bold_measured_ones_under_them(bench, times):
    text = report.markdown([times])
    lines = text.splitlines()
    place = lines.index('| Venus | 434 X 383 | 21 | 305.1 | 9.4 |  |  |')
    assert lines[place + 1].startswith(f'| **Venus, {bench.device}** | **434 X 383** | **21** |')
    assert {line.count('|') for line in lines if line.startswith('|')} == {8}
    copy = Table.from_dict(json.loads(json.dumps(dataclasses.asdict(times))))
    assert copy == times
    with pytest.raises(ValueError, match='no table of a paper'):
        Table.from_dict({'paper': {}})


def test_reports_of_two_machines_stand_side_by_side(bench, times):
    other = dataclasses.replace(times, rows=times.printed + tuple(
        dataclasses.replace(row, on='elsewhere') for row in times.measured))
    both = merge([times, other])
    names = [texts[0] for _, texts in report.texts_of(both)[0][:3]]
    assert names == ['Tsukuba', f'Tsukuba, {bench.device}', 'Tsukuba, elsewhere']
    assert both.notes == times.notes
    with pytest.raises(ValueError, match='different versions'):
        merge([times, run(bench, 'thesis_2019', '5.3')])
    # A row of reasons gives way to another machine's figures.
    parts = [PUBLISHED['thesis_2019', 'table 5.2'].beside(
        [Row(name, (cell, Cell()), on) for name, cell in zip('ab', row, strict=True)], (), ())
        for on, row in (('here', (Cell((1.0,)), Cell(missing='why'))),
                        ('there', (Cell(missing='why'), Cell(missing='why not'))))]
    assert [(row.name, row.on) for row in merge(parts).measured] == [
        ('a', 'here'), ('b', 'here'), ('b', 'there')]


class CudaBench(Bench):
    """A bench on a machine whose CUDA device times the ways of streaming, and nothing else."""

    def _describe(self, config):
        if config.backend == 'cpu':
            raise BackendUnavailable('no Numba', 'install it')
        return 'a GPU'

    def _variant_times(self, config, left, right, repeats):
        """Microseconds that a device could need: only the round robin of one thread rises."""
        times = {}
        for streaming in sad.NAMES:
            for pixel in ('int32', 'uint8'):
                for threads in sad.BLOCKS:
                    rises = streaming == 'shared_one'
                    times[streaming, pixel, True, threads] = (
                        None if pixel == 'int32' and threads == 512
                        else 10.0 * threads if rises else 3200.0 / threads)
        return 8.0, times


def test_the_ways_of_streaming_become_figures_8_and_9(textured_pair):
    cuda_bench = CudaBench(TinyImages(textured_pair))
    eight = run(cuda_bench, 'sad', '8')
    times = next(one.cells[:5] for one in eight.measured
             if one.name == 'distributed local, 8 bit, unrolled')
    assert [cell.values[0] for cell in times] == [0.1, 0.05, 0.025, 0.0125, 0.00625]
    default, = cells(eight, 'default', 'blocks of its own')
    assert default.values == (0.008,)
    wide, = cells(eight, 'global, 32 bit, unrolled', '512')
    assert 'do not fit' in wide.missing
    nine = run(cuda_bench, 'sad', '9')
    for name, expected in (('global', 50.0), ('centralized local', -100.0)):
        found, = cells(nine, f'{name}, 8 bit, unrolled', '128')
        assert found.values == (expected,)
    assert cuda_bench.absent['cpu'].startswith('no Numba')


def test_a_machine_without_any_back_end_says_why(monkeypatch):
    def refuse(config):
        raise BackendUnavailable('nothing here', 'buy something')
    monkeypatch.setattr(choice, 'choose', refuse)
    with pytest.raises(StereoError, match='nothing here'):
        Bench(Images(None))


def test_figures_made_of_missing_ones_are_missing(bench):
    times = bench.compare('venus', 16, {'slow': {'iterations': 8}, 'none': {'tiles': 3}})
    reason = 'tiles is 3, but there is no setting of this name; did you mean tile_size?'
    assert str(times['none']) == reason
    assert speedup(times['slow'], times['none']).missing == reason
    assert speedup(times['none'], times['slow']).missing == reason
    assert speedup(times['slow'], times['slow']).values == (1.0,)
    assert fastest(times['none'], times['slow']) is times['slow']
    assert fastest(times['none'], times['none']) is times['none']
    assert combined(min, Cell((1.0,)), Cell((2.0,))).values == (1.0,)
    assert combined(min, Cell((1.0,)), Cell(missing='why')) == Cell(missing='why')
    both = joined('{} / {}', Cell((1.0,)), Cell(missing='why'))
    assert (both.written(), both.missing) == ('1.00 / N/A', 'why')


def test_numbers_without_their_word_name_tables_and_figures():
    chosen = catalogue.select(['lcpc_2010'], ['3'])
    assert [one.published.number for one in chosen] == ['figure 3', 'table 3']
    assert [one.published for one in catalogue.select()] == list(PUBLISHED.values())
    with pytest.raises(ValueError, match="--table is '9', but must be one of table 1"):
        catalogue.select(['lcpc_2010'], ['9'])
