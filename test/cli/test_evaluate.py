"""stereo_bp evaluate: figures of the field, OpenCV's matchers beside it, tables that fit."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from rich.console import Console

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli import options
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags, files

FAST = ['--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4',
        '--backend', 'cpu', '--repeat', '1']


@pytest.fixture
def folder(tmp_path, textured_pair):
    """Two pairs of one disparity each, the first with truth, vehicles and a sky."""
    pytest.importorskip('numba')
    for name, disparity in (('one', 6), ('two', 9)):
        (tmp_path / 'sets' / name).mkdir(parents=True)
        for side, image in zip(('left', 'right'), textured_pair(96, 48, disparity), strict=True):
            files.write_image(tmp_path / 'sets' / name / f'{side}.png', image)
    truth = np.full((48, 96), 6, np.float32)
    truth[:, 40:60] = 12                # wrong on purpose: matched with 6
    files.write_pfm(tmp_path / 'sets' / 'one' / 'disparity.pfm', truth)
    for name, columns in (('vehicles', slice(30, 60)), ('sky', slice(60, 90))):
        mask = np.zeros((48, 96), np.uint8)
        mask[:, columns] = 7
        files.write_image(tmp_path / 'sets' / 'one' / f'{name}.png', mask)
    return tmp_path / 'sets'


def evaluated(capsys, *arguments) -> dict:
    assert main(['evaluate', *map(str, arguments), '--json', *FAST]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_part_of_a_frame_is_scored(folder, capsys):
    report = evaluated(capsys, folder, '--focal', '96', '--baseline', '1')
    first, second = report['pairs']
    regions = first['regions']
    assert first['filled']['density'] == 100
    assert regions['vehicles']['filled']['d1_known'] == pytest.approx(100 * 20 / 30, abs=1)
    assert regions['background']['filled']['d1_known'] < 1
    # 96 px metres: 16 m at a disparity of 6, 8 m where the truth is 12.
    assert {name: one['score']['known'] for name, one in regions.items()
            if name.endswith('_m') and one['score']['known']} == {
        '8_16_m': 48 * 20, '16_32_m': 48 * 76}
    assert first['sky']['coverage'] > 80
    assert first['sky']['bad_3_estimated'] == 100
    assert (second['regions'], 'sky' in second, second['score']['mae']) == ({}, False, None)


def test_the_mean_counts_frames_and_all_counts_pixels(folder, capsys):
    (folder / 'two' / 'disparity.pfm').write_bytes(b'')
    files.write_pfm(folder / 'two' / 'disparity.pfm', np.where(
        np.arange(96) < 40, np.float32(9), np.float32(np.inf)) * np.ones((48, 1), np.float32))
    report = evaluated(capsys, folder)
    one, two = (pair['filled'] for pair in report['pairs'])
    assert report['mean']['filled']['bad_3_known'] == pytest.approx(
        (one['bad_3_known'] + two['bad_3_known']) / 2)
    assert report['filled']['bad_3_known'] == pytest.approx(
        (96 * one['bad_3_known'] + 40 * two['bad_3_known']) / 136)
    assert report['all']['known'] == 48 * 136
    assert report['frames'] == 2


def test_a_report_says_where_its_figures_come_from(folder, capsys):
    report = evaluated(capsys, folder, '--limit', '1')
    assert report['settings']['disparity_range'] == 16
    assert {'stereo_bp_ros', 'python', 'numpy'} <= report['versions'].keys()
    assert report['machine']['processor']
    assert report['date'].startswith('20')
    assert (report['matcher'], report['against']) == ('bp', {})


def test_opencvs_matchers_are_scored_by_the_same_rules(folder, capsys):
    report = evaluated(capsys, folder, '--against', 'sgbm,bm', '--set', 'num_threads=1')
    assert list(report['against']) == ['sgbm', 'bm']
    for name, peer in report['against'].items():
        pair = report['pairs'][0]['against'][name]
        assert (peer['settings']['PreFilterCap'], peer['threads']) == (31, 1)
        assert pair['filled']['bad_3_known'] == pytest.approx(
            report['pairs'][0]['filled']['bad_3_known'], abs=2)
        assert pair['filled']['density'] == 100
        assert pair['score']['density'] < 100
        assert pair['regions'].keys() == report['pairs'][0]['regions'].keys()
        assert peer['mean']['filled'] == pytest.approx(
            {key: value for key, value in pair['filled'].items()
             if key not in ('pixels', 'matched', 'known', 'estimated', 'coverage')}
            | {'coverage': peer['mean']['filled']['coverage']})
        assert peer['median_ms'] > 0


def test_opencvs_matchers_take_colour_and_16_bits_from_a_bag(tmp_path, textured_pair, capsys):
    left, right = textured_pair(96, 48, 6)
    truth = np.full((48, 96), 6, np.float32)
    for name, convert in (('colour', lambda image: cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)),
                          ('wide', lambda image: image.astype(np.uint16) * 256)):
        pair = tmp_path / name / 'pair'
        pair.mkdir(parents=True)
        for side, image in (('left', left), ('right', right)):
            files.write_image(pair / f'{side}.png', convert(image))
        files.write_pfm(pair / 'disparity.pfm', truth)
        report = evaluated(capsys, pair, '--against', 'sgbm', '--set', 'mono16_scale=0.00390625')
        assert report['against']['sgbm']['mean']['score']['bad_1_estimated'] < 1
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.5, 48, 48, 24),
                   [(10**18, left, right, truth)])
    report = evaluated(capsys, tmp_path / 'bag', '--against', 'bm')
    assert report['against']['bm']['mean']['score']['bad_1_estimated'] < 1
    assert report['regions']['8_16_m']['score']['known'] == 48 * 96


def test_the_confidence_is_judged_where_it_is_asked_for(folder, capsys):
    assert 'sparsification' not in evaluated(capsys, folder)['pairs'][0]
    report = evaluated(capsys, folder, '--confidence', '--against', 'bm')
    found = report['pairs'][0]['sparsification']['bad_3']
    assert found['curve'][-1] == pytest.approx(report['pairs'][0]['score']['bad_3_estimated'])
    assert 0 < found['oracle_area'] < found['area']
    assert report['mean']['sparsification']['bad_3'] == found
    assert 'sparsification' not in report['pairs'][0]['against']['bm']
    assert len(report['metrics']['sparsification_shares']) == len(found['curve'])


@pytest.mark.parametrize('arguments', [[], ['--against', 'sgbm,bm']])
def test_80_columns_hold_every_important_figure(folder, capsys, monkeypatch, arguments):
    monkeypatch.setattr(options, '_console', lambda: Console(width=80, markup=False))
    (folder / 'one').rename(folder / 'a_name_that_is_much_too_long_for_a_terminal_of_80_columns')
    assert main(['evaluate', str(folder), *arguments, '--confidence', *FAST]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    table = printed[:printed.index('By region')]
    heads = [word for line in table.splitlines() if '┃' in line
             for word in line.replace('┃', ' ').split()]
    assert heads.count('filled') >= 2
    assert {'frame', 'D1', 'bad-3', 'valid', 'density', 'EPE', 'ms'} <= set(heads)
    assert '…' not in printed
    assert 'mean of 2' in table
    assert 'all 2' in table
    for text in ('near edges', 'vehicles', 'sky', 'AUSE'):
        assert text in printed


def test_pairs_without_truth_get_a_table_without_accuracy(folder, capsys):
    assert main(['evaluate', str(folder / 'two'), *FAST]) == 0
    printed = capsys.readouterr().out
    assert '96 x 48' in printed
    assert 'There is no truth' in printed
    for word in ('filled', 'EPE', 'By region'):
        assert word not in printed


def test_a_wider_terminal_shows_more_columns_in_their_order(monkeypatch):
    columns, rows = ['a', 'b', 'cc\nc', 'd'], [['1', '2', '3', '44444']]
    chosen = {}
    for width in (5, 13, 16, 22):
        monkeypatch.setattr(options, '_console', lambda width=width: Console(width=width))
        chosen[width] = options.fitting(columns, rows, [0, 2, 1, 3])
    assert chosen == {5: [0], 13: [0, 2], 16: [0, 1, 2], 22: [0, 1, 2, 3]}


@pytest.mark.parametrize(('arguments', 'text'), [
    (['--against', 'sgm'], "'sgm' is none of sgbm, bm"),
    (['--against', ''], "'' is none of sgbm, bm"),
    (['--focal', '700'], '--focal and --baseline need each other'),
    (['--baseline', '0.5'], '--focal and --baseline need each other'),
    (['--against', 'bm', '--set', 'reference_image=right'], 'needs reference_image left')])
def test_a_mistake_is_one_line(folder, capsys, arguments, text):
    assert main(['evaluate', str(folder), *arguments, *FAST]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count('\n') == 1


def test_an_opencv_without_stereo_is_one_line_before_anything_is_matched(folder, capsys,
                                                                         monkeypatch):
    monkeypatch.delattr(cv2, 'StereoBM')
    assert main(['evaluate', str(folder), '--against', 'bm', *FAST]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count('\n')) == ('', 1)
    assert 'was built without StereoBM' in error


def test_the_report_has_regions_and_every_matcher(folder, tmp_path, capsys):
    output = tmp_path / 'report'
    report = evaluated(capsys, folder, '--against', 'bm', '--output', output)
    assert json.loads((output / 'report.json').read_text()) == report
    page = (output / 'report.html').read_text()
    for text in ('By region, mean of 2', 'away from edges', '<td>bm</td>', 'once filled'):
        assert text in page


def test_the_five_real_road_frames_have_the_figures_that_the_page_quotes(data, repository, capsys):
    pytest.importorskip('numba')
    assert main(['evaluate', str(data / 'kitti2012'), '--preset', 'road', '--backend', 'cpu',
                 '--against', 'sgbm,bm', '--repeat', '1', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    page = (repository / 'docs/explanation/accuracy.md').read_text()
    rows = {cells[0]: [float(cell) for cell in cells[1:]]
            for line in page.splitlines() if line.startswith(('| 0000', '| 0001', '| mean of 5'))
            and len(cells := [cell.strip(' *') for cell in line.strip('|').split('|')]) == 7}
    assert len(rows) == 6
    for frame in [*report['pairs'], {'name': 'mean of 5', **report['mean'], 'against': {
            name: peer['mean'] for name, peer in report['against'].items()}}]:
        own, _, _, _, *others = rows[frame['name']]
        assert frame['filled']['bad_3_known'] == pytest.approx(own, abs=0.01)
        # Other versions of OpenCV give slightly other maps.
        assert [peer['filled']['bad_3_known'] for peer in frame['against'].values()
                ] == pytest.approx(others, abs=1.5)
