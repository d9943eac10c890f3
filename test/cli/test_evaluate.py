"""stereo_bp evaluate: figures of the field, OpenCV's matchers beside it, tables that fit."""

from __future__ import annotations

import contextlib
import html
import io
import json
import shutil

import numpy as np
import pytest
from rich.console import Console

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.cli import options
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages.convert import to_grey
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.images import files
from stereo_bp_ros.images.grey import to_8_bits as grey_of
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.system import process

FAST = ['--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4',
        '--backend', 'cpu', '--repeat', '1']


@pytest.fixture(scope='module')
def sets(tmp_path_factory, write_pair):
    """Two pairs of one disparity each, the first with truth, vehicles, a sky and a class."""
    pytest.importorskip('numba')
    folder = tmp_path_factory.mktemp('evaluate') / 'sets'
    write_pair(folder / 'one')
    (write_pair(folder / 'two', 9) / 'disparity.pfm').unlink()
    truth = np.full((48, 96), 6, np.float32)
    truth[:, 40:60] = 12                # wrong on purpose: matched with 6
    files.write_pfm(folder / 'one/disparity.pfm', truth)
    for name, columns in (('vehicles', slice(30, 60)), ('sky', slice(60, 90))):
        mask = np.zeros((48, 96), np.uint8)
        mask[:, columns] = 7
        files.write_image(folder / f'one/{name}.png', mask)
    (folder / 'one/classes').mkdir()
    files.write_image(folder / 'one/classes/pole.png', np.uint8(truth == 12))
    return folder


@pytest.fixture
def folder(sets, tmp_path):
    """The same, to be changed."""
    return shutil.copytree(sets, tmp_path / 'sets')


EVERYTHING = ['--against', 'sgbm,bm', '--confidence', '--focal', '96', '--baseline', '1']


@pytest.fixture(scope='module')
def everything(sets, tmp_path_factory):
    """Everything that evaluate judges, of three runs of each pair: figures, and the page."""
    output = tmp_path_factory.mktemp('everything')
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(['evaluate', str(sets), *EVERYTHING, '--output', str(output), '--json', *FAST,
                     '--repeat', '3', '--set', 'num_threads=1']) == 0
    report = json.loads(out.getvalue())
    assert json.loads((output / 'report.json').read_text()) == report
    return report, (output / 'report.html').read_text()


@pytest.mark.parametrize('workers', [[], ['--workers', '1']])
def test_what_was_done_before_an_error_is_reported(folder, tmp_path, capsys, workers):
    path = folder / 'two' / 'right.png'
    path.write_bytes(path.read_bytes()[:-200])
    arguments = ['evaluate', str(folder), *FAST, *workers]
    assert main([*arguments, '--output', str(tmp_path / 'report')]) == 2
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith('stereo_bp evaluate: pair 2')
    assert 'one' in out
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    assert [one['name'] for one in report['pairs']] == ['one']
    assert report['stopped'] in err
    assert f'Not all pairs: {report["stopped"]}.' in html.unescape(
        (tmp_path / 'report' / 'report.html').read_text())
    # Nothing is done yet: nothing is reported.
    (folder / 'one' / 'left.png').write_bytes(b'')
    assert main([*arguments, '--output', str(tmp_path / 'none')]) == 2
    assert capsys.readouterr().out == ''
    assert not (tmp_path / 'none' / 'report.json').exists()


def test_what_was_done_before_an_interruption_is_reported(folder, tmp_path, capsys, monkeypatch):
    judge = Evaluation.judge

    def interrupted(self, pair):
        if pair.name == 'two':
            raise KeyboardInterrupt
        return judge(self, pair)

    monkeypatch.setattr(Evaluation, 'judge', interrupted)
    assert main(['evaluate', str(folder), *FAST, '--json']) == process.INTERRUPTED
    report = json.loads(capsys.readouterr().out)
    assert (len(report['pairs']), report['stopped']) == (1, 'interrupted')
    monkeypatch.undo()
    assert evaluated(capsys, folder)['stopped'] is None


def test_a_parameter_file_gives_the_settings_of_the_matcher(folder, tmp_path, capsys):
    path = tmp_path / 'car.yaml'
    path.write_text("""\
/**:
  ros__parameters:
    preset: sad_fast
    speckle_size: 7
    image_width: 640
    use_sim_time: true
    qos_overrides: {/disparity: {publisher: {depth: 9}}}
""")
    found = evaluated(capsys, folder, '--preset', 'sad_venus', '--params-file', str(path))
    assert found['matcher'] == 'car'
    assert (found['settings']['stereo_algorithm'], found['settings']['speckle_size'],
            found['settings']['disparity_range']) == ('sad', 7, 16)       # --set wins
    for name, words in (('disparty_range: 16', 'did you mean disparity_range?'),
                        ('sad_variant: plain', 'did you mean streamed_sad.variant?')):
        path.write_text(f'/**: {{ros__parameters: {{{name}}}}}\n')
        assert main(['evaluate', str(folder), '--params-file', str(path)]) == 2
        assert words in capsys.readouterr().err


def test_a_parameter_file_of_stereo_image_proc_gives_its_settings(
        sets, tmp_path, capsys, caplog):
    path = tmp_path / 'stereo.yaml'
    path.write_text("""\
/stereo/disparity_node:
  ros__parameters: {stereo_algorithm: 0, speckle_range: 4, sgbm_mode: 2, disp12MaxDiff: 1,
                    use_image_transport_camera_info: true, full_dp: false}
/stereo/point_cloud_node: {ros__parameters: {use_color: true}}
""")
    found = evaluated(capsys, sets, '--params-file', path)['settings']
    assert (found['stereo_algorithm'], found['speckle_range']) == ('sad', 0.25)
    for words in ('/stereo/point_cloud_node', 'counts sixteenths', 'sgbm_mode has no effect',
                  'disp12MaxDiff is left out; its name here is disp12_max_diff',
                  'use_image_transport_camera_info has no effect', 'full_dp has no effect'):
        assert words in caplog.text


def evaluated(capsys, *arguments) -> dict:
    assert main(['evaluate', *map(str, arguments), '--json', *FAST]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_part_of_a_frame_is_scored(everything):
    report, page = everything
    first, second = report['pairs']
    regions = first['regions']
    assert first['filled']['density'] == 100
    assert regions['vehicles']['filled']['d1_all'] == pytest.approx(100 * 20 / 30, abs=1)
    assert regions['background']['filled']['d1_all'] < 1
    assert regions['class_pole']['filled']['d1_all'] > 95
    assert report['mean']['regions']['class_pole']['filled']['density'] == 100
    # 16 m at a disparity of 6, 8 m where the truth is 12.
    assert {name: one['score']['known'] for name, one in regions.items()
            if name.endswith('_m') and one['score']['known']} == {
        '8_16_m': 48 * 20, '16_32_m': 48 * 76}
    # Matched at 16 m: where the truth is 8 m the error is 8 m, elsewhere next to nothing.
    assert regions['8_16_m']['depth']['mean_m'] == pytest.approx(8, abs=0.2)
    assert regions['8_16_m']['depth']['relative_mean'] == pytest.approx(100, abs=2)
    assert regions['16_32_m']['depth']['p90_m'] < 0.5
    assert first['depth']['compared'] == first['score']['estimated']
    assert first['sky']['coverage'] > 80
    assert first['sky']['bad_3_estimated'] == 100
    assert (second['regions'], 'sky' in second, second['score']['mae']) == ({}, False, None)
    for text in ('By region, mean of 2', 'away from edges', '<td>bm</td>', 'once filled'):
        assert text in page


def test_opencvs_matchers_are_scored_by_the_same_rules(everything):
    report, _ = everything
    assert list(report['against']) == ['sgbm', 'bm']
    for name, peer in report['against'].items():
        pair = report['pairs'][0]['against'][name]
        assert (peer['settings']['PreFilterCap'], peer['threads']) == (31, 1)
        assert pair['filled']['bad_3_all'] == pytest.approx(
            report['pairs'][0]['filled']['bad_3_all'], abs=2)
        assert pair['filled']['density'] == 100
        assert pair['score']['density'] < 100
        assert pair['regions'].keys() == report['pairs'][0]['regions'].keys()
        assert peer['mean']['filled'] == pytest.approx(
            {key: value for key, value in pair['filled'].items()
             if key not in ('pixels', 'matched', 'known', 'estimated', 'coverage')}
            | {'coverage': peer['mean']['filled']['coverage']})
        assert peer['median_ms'] > 0


def test_times_of_all_runs_have_percentiles(everything):
    report, _ = everything
    times = [ms for pair in report['pairs'] for ms in pair['times_ms']]
    assert len(times) == 6
    assert report['latency_ms']['total'] == pytest.approx({
        **{f'p{share}': np.percentile(times, share) for share in (50, 95, 99, 99.9)},
        'max': max(times)})
    assert report['latency_ms']['messages']['p50'] > 0
    assert list(report['against']['bm']['latency_ms']) == ['total']


def test_the_confidence_is_judged_where_that_is_asked_for(sets, everything, capsys):
    report, _ = everything
    first = report['pairs'][0]
    found = first['sparsification']['bad_3']
    assert found['curve'][-1] == pytest.approx(first['score']['bad_3_estimated'])
    assert 0 < found['oracle_area'] < found['area']
    assert report['mean']['sparsification']['bad_3'] == found
    assert 'sparsification' not in first['against']['bm']
    assert len(report['metrics']['sparsification_shares']) == len(found['curve'])
    assert 'sparsification' not in evaluated(capsys, sets / 'one')['pairs'][0]


@pytest.mark.parametrize('options_', [[], EVERYTHING])
def test_80_columns_hold_every_important_figure(folder, capsys, monkeypatch, options_):
    monkeypatch.setattr(options, '_console', lambda: Console(width=80, markup=False))
    (folder / 'one').rename(folder / 'a_name_that_is_much_too_long_for_a_terminal_of_80_columns')
    assert main(['evaluate', str(folder), *options_, '--focal', '96', '--baseline', '1', *FAST,
                 ]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    table = printed[:printed.index('By region')]
    heads = [word for line in table.splitlines() if '┃' in line
             for word in line.replace('┃', ' ').split()]
    assert heads.count('filled') >= 2
    assert {'frame', 'D1', 'bad-3', 'est', 'density', 'EPE', 'ms'} <= set(heads)
    assert '…' not in printed
    assert 'mean of 2' in table
    assert 'all 2' in table
    for text in ('near edges', 'vehicles', 'sky', 'Error in metres', '16-32 m'):
        assert text in printed
    assert ('AUSE' in printed) == bool(options_)


def test_several_paths_are_judged_apart_and_together(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('COLUMNS', '100')
    paths = [folder / name for name in ('one', 'two')]
    report = evaluated(capsys, *paths)
    assert [(one['name'], one['input']) for one in report['pairs']] == [
        ('one/one', 'one'), ('two/two', 'two')]
    assert {name: one['frames'] for name, one in report['by_input'].items()} == {
        'one': 1, 'two': 1}
    assert report['by_input']['one']['mean']['score']['mae'] == report['pairs'][0]['score']['mae']
    assert report['source'] == f'{paths[0]}, {paths[1]}'
    assert evaluated(capsys, paths[0])['by_input'] == {}
    output = tmp_path / 'report'
    assert main(['evaluate', *map(str, paths), '--output', str(output), *FAST]) == 0
    out = capsys.readouterr().out
    assert 'one and 1 more on cpu' in out
    page = (output / 'report.html').read_text()
    for text in (out, page):
        assert 'one, mean of 1' in text
        assert 'two, mean of 1' in text
    assert main(['evaluate', str(paths[0]), str(paths[0]), *FAST]) == 2
    assert 'is there twice' in capsys.readouterr().err


def test_min_depth_ends_the_search_by_the_calibration_of_each_pair(folder, capsys):
    (folder / 'two' / 'calib.txt').write_text(
        'cam0=[100 0 48; 0 100 24; 0 0 1]\ncam1=[100 0 48; 0 100 24; 0 0 1]\ndoffs=0\n'
        'baseline=900\n')
    arguments = ('--set', 'min_depth=3')
    assert [pair['disparity_range'] for pair in evaluated(capsys, folder, *arguments)['pairs']
            ] == [16, 32]               # not known, and 30 px at 3 m
    known = evaluated(capsys, folder, *arguments, '--focal', '100', '--baseline', '0.6')
    assert [pair['disparity_range'] for pair in known['pairs']] == [24, 32]
    assert [pair['disparity_range'] for pair in evaluated(capsys, folder)['pairs']] == [16, 16]


def test_another_configuration_is_judged_on_the_same_pairs(sets, capsys):
    report = evaluated(capsys, sets, '--against', 'one_step:iterations=1,levels=1',
                       '--against', 'sad_fast:disparity_range=16', '--against', 'bm')
    assert list(report['against']) == ['one_step', 'sad_fast', 'bm']
    peer = report['against']['one_step']
    assert peer['settings'] == report['settings'] | {'iterations': 1, 'levels': 1}
    # The preset with a change, not these settings under its name.
    sad = report['against']['sad_fast']['settings']
    assert (sad['stereo_algorithm'], sad['disparity_range']) == ('sad', 16)
    pair = report['pairs'][0]
    assert pair['against']['one_step']['score']['known'] == pair['score']['known']
    assert pair['against']['one_step']['filled'] != pair['filled']


@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_opencvs_matchers_see_the_grey_values_that_the_cpu_engine_matches(encoding):
    layout = ENCODINGS[encoding]
    shape = (layout.rows(12), 16 * layout.pixel_bytes)
    data = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    for big_endian in (False, True):
        raw = RawImage(data, 12, 16, shape[1], encoding, big_endian)
        grey = np.empty((12, 16), np.float32)
        to_grey(raw, grey, MatcherConfig().mono16_scale, {
            name: np.empty(size, kind) for name, size, kind in scratch.convert(16, 12)})
        seen = grey_of(raw, MatcherConfig().mono16_scale)
        assert seen.dtype == np.uint8
        np.testing.assert_array_equal(seen, np.clip(np.rint(grey), 0, 255))


def test_pairs_without_truth_get_a_table_without_accuracy(sets, capsys):
    assert main(['evaluate', str(sets / 'two'), *FAST]) == 0
    printed = capsys.readouterr().out
    assert '96 x 48' in printed
    assert 'No truth was read.' in printed
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
    (['--against', 'sgm'], "'sgm' is none of sgbm, sgbm_hh, bm"),
    (['--against', 'x:y=1'], 'no setting of this name'), (['--against', 'bp:levels=1'], 'bp'),
    (['--against', 'sgbm:levels=1'], 'sgbm'),
    (['--against', 'sad_fast,sad_fast:levels=1'], 'sad_fast'),
    (['--focal', '700'], '--focal and --baseline need each other'),
    (['--against', 'bm', '--set', 'reference_image=right'], 'needs reference_image left')])
def test_a_mistake_is_one_line_before_anything_is_matched(sets, capsys, arguments, text):
    assert main(['evaluate', str(sets), *arguments, *FAST]) == 2
    out, error = capsys.readouterr()
    assert text in error
    assert (out, error.count('\n')) == ('', 1)


def test_the_five_real_road_frames_have_the_figures_that_the_page_quotes(data, repository, capsys):
    pytest.importorskip('numba')
    assert main(['evaluate', str(data / 'kitti2012'), '--preset', 'road_full', '--backend', 'cpu',
                 '--against', 'road,sgbm,sgbm_hh,bm', '--repeat', '1', '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    page = (repository / 'docs/explanation/accuracy.md').read_text()
    rows = {cells[0]: [float(cell) for cell in cells[1:]]
            for line in page.splitlines() if line.startswith(('| 0000', '| 0001', '| mean of 5'))
            and '(' not in line
            and len(cells := [cell.strip(' *') for cell in line.strip('|').split('|')]) == 8}
    assert len(rows) == 6
    for frame in [*report['pairs'], {'name': 'mean of 5', **report['mean'], 'against': {
            name: peer['mean'] for name, peer in report['against'].items()}}]:
        own, *others = rows[frame['name']]
        # Of road_full, road, road_fast, road_sobel, SGBM 3WAY, SGBM HH and BM.
        band, others = others[0], others[3:]
        assert frame['filled']['bad_3_all'] == pytest.approx(own, abs=0.01)
        found = [peer['filled']['bad_3_all'] for peer in frame['against'].values()]
        assert found[0] == pytest.approx(band, abs=0.01)
        # Other versions of OpenCV give slightly other maps.
        assert found[1:] == pytest.approx(others, abs=1.5)
