"""stereo_bp evaluate --output: one page with everything that people ask of a run."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil

import numpy as np
import pytest

from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import metrics, report
from stereo_bp_ros.evaluation.showing import SPREAD, WORST
from stereo_bp_ros.images import files
from test.evaluation import pages

FAST = ('--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4',
        '--backend', 'cpu', '--repeat', '1')


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_pair):
    """Three pairs, of which the second has the most wrong pixels."""
    pytest.importorskip('numba')
    tmp_path = tmp_path_factory.mktemp('report')
    for name, disparity, wrong in (('one', 6, 0), ('two', 9, 50), ('three', 4, 20)):
        write_pair(tmp_path / 'sets' / name, disparity)
        truth = np.full((48, 96), disparity, np.float32)
        truth[:, 20:20 + wrong] += 5
        files.write_pfm(tmp_path / 'sets' / name / 'disparity.pfm', truth)
    return tmp_path / 'sets'


def written(folder, tmp_path, *arguments, fast=FAST) -> pages.Reader:
    for module in report.MODULES:
        pytest.importorskip(module)
    output = tmp_path / 'report'
    assert main(['evaluate', str(folder), '--output', str(output), *map(str, arguments),
                 *fast]) == 0
    assert sorted(path.name for path in output.iterdir()) == ['report.html', 'report.json']
    page = (output / 'report.html').read_text()
    assert pages.outside(page) == []
    return pages.Reader(page)


def plots_of(page: pages.Reader) -> list[str]:
    return [attributes['alt'] for tag, attributes in page.elements
            if tag == 'img' and attributes['src'].startswith('data:image/svg')
            and not attributes['alt'].startswith('Images of')]


def frames(page: pages.Reader) -> list[str]:
    return [attributes['data-label'].partition(':')[0] for tag, attributes in page.elements
            if tag == 'article']


def test_the_page_shows_figures_plots_frames_and_where_they_come_from(folder, tmp_path, capsys):
    page = written(folder, tmp_path, '--against', 'bm', '--confidence', '--focal', '96',
                   '--baseline', '1')
    for title in ('Overview', 'Plots', 'Frames', 'Where errors are', 'Figures', 'Times',
                  'Settings and machine', 'What the figures mean'):
        assert page.texts.count(title) >= 2         # the heading, and a link to it
    assert plots_of(page) == [
        'Wrong pixels, holes filled', 'Wrong pixels, est',
        'Wrong pixels by distance', 'Error in metres by distance', 'Sparsification',
        'Wrong pixels over frames', 'Time over frames']
    assert frames(page) == ['two', 'three', 'one']      # the worst first
    assert {'Images of 96 x 48 pixels, bp', 'Images of 96 x 48 pixels, bm'} <= {*page.texts}
    assert page.texts.count('EPE, mean absolute error') == 1       # a row with all matchers
    assert 'Sparsification, mean of 3' in page.texts
    for words, _ in metrics.meanings().values():
        assert words in page.texts
    figures = json.loads((tmp_path / 'report/report.json').read_text())
    for text in (*figures['versions'], *map(str, figures['machine'].values()), 'Settings of bm',
                 'messages', *figures['settings']):
        assert text in page.texts
    assert figures['metrics']['meanings']['mae'] == {
        'meaning': metrics.meanings()['mae'][0], 'unit': 'px'}
    assert figures['metrics']['meanings']['depth.mean_m']['unit'] == 'm'
    assert {'memory of the engine', 'memory of the process'} <= {*page.texts}
    assert figures['engine_bytes'] > 0
    assert figures['process_bytes'] > figures['engine_bytes']
    assert figures['against']['bm']['engine_bytes'] is None
    assert 'condition' not in page.text         # there are none, and no room for them


def test_frames_without_truth_are_shown_by_their_holes(folder, tmp_path, capsys):
    sets = shutil.copytree(folder, tmp_path / 'sets')
    for truth in sets.glob('*/disparity.pfm'):
        truth.unlink()
    page = written(sets, tmp_path)
    assert plots_of(page) == [
        'Pixels without a disparity over frames', 'Time over frames']
    assert len(frames(page)) == 3


@pytest.mark.parametrize('settings', [
    ('stereo_algorithm=tiled_bp',), ('program=plain_steps', 'message_type=float32'),
    ('stereo_algorithm=sad', 'program=streamed_sad')])
def test_every_way_to_match_has_a_page(folder, tmp_path, capsys, settings):
    page = written(folder, tmp_path, '--limit', '1',
                   *(word for one in settings for word in ('--set', one)),
                   fast=('--set', 'disparity_range=16', '--backend', 'cpu', '--repeat', '1'))
    assert frames(page) == ['one']
    assert 'image, disparity, error and confidence of one' in page.attributes('alt')


def test_a_long_sequence_gives_a_short_page(tmp_path, textured_pair, capsys):
    pytest.importorskip('numba')
    count = WORST + SPREAD + 14
    for side in ('left', 'right'):
        (tmp_path / 'drive' / side).mkdir(parents=True)
    for number in range(count):
        for side, image in zip(('left', 'right'), textured_pair(48, 32, 4, seed=number),
                               strict=True):
            files.write_image(tmp_path / 'drive' / side / f'{number:06d}.png', image)
    page = written(tmp_path / 'drive', tmp_path)
    shown = frames(page)
    assert WORST <= len(shown) <= WORST + SPREAD
    assert len(set(shown)) == len(shown)
    assert f'{len(shown)} of {count} frames: the 8 worst, and 8 evenly spread over the ' \
        'sequence.' in page.texts


@pytest.mark.parametrize('module', report.MODULES)
def test_without_the_extra_the_run_says_before_it_starts_that_there_is_no_page(
        folder, tmp_path, capsys, caplog, monkeypatch, module):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, 'find_spec',
                        lambda name, *rest: None if name == module else found(name, *rest))
    assert main(['evaluate', str(folder), '--output', str(tmp_path / 'report'), *FAST]) == 0
    assert [path.name for path in (tmp_path / 'report').iterdir()] == ['report.json']
    assert caplog.messages[0].startswith(
        f'report.html is not written: that needs {module}: pip install {module}, or the extra')


@pytest.mark.parametrize(('verb', 'file'), [
    ('calibrate-check', 'calibration.svg'), ('evaluate', 'report.html')])
def test_without_matplotlib_every_verb_says_so_before_it_matches(
        folder, tmp_path, capsys, caplog, monkeypatch, verb, file):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name, *rest: (
        None if name == 'matplotlib' else found(name, *rest)))

    def started(*_, **__):
        raise KeyboardInterrupt
    monkeypatch.setattr(progress.Bar, 'add_task', started)      # the run begins
    with contextlib.suppress(KeyboardInterrupt):
        main([verb, str(folder), '--output', str(tmp_path / 'out'), '--backend', 'cpu'])
    assert caplog.messages[0].startswith(
        f'{file} is not written: that needs matplotlib: pip install matplotlib, or the extra')


def test_rows_that_the_table_leaves_out_have_a_place_that_is_told(folder, capsys, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.cli.evaluate_tables.ROWS', 2)
    command = ['evaluate', str(folder), '--set', 'stereo_algorithm=sad', '--set',
               'disparity_range=16', '--backend', 'cpu', '--repeat', '1']
    assert main(command) == 0
    assert 'The rows of all 3 pairs: --output DIR or --json.' in capsys.readouterr().out
    monkeypatch.undo()
    assert main(command) == 0
    assert 'The rows of all' not in capsys.readouterr().out
