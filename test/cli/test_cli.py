"""The command line: verbs, their files, their errors."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import VERBS, main
from stereo_bp_ros.errors import BackendUnavailable
from stereo_bp_ros.evaluation import bags, files

FAST = ['--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4',
        '--backend', 'cpu']


@pytest.fixture
def pair(tmp_path, textured_pair):
    """Left and right image files with a constant disparity of 6 pixels."""
    paths = tmp_path / 'left.png', tmp_path / 'right.png'
    for path, image in zip(paths, textured_pair(96, 48, 6), strict=True):
        cv2.imwrite(str(path), image)
    return [str(path) for path in paths]


def report_of(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize('verb', VERBS)
def test_the_help_of_every_verb_shows_how_to_call_it(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([verb, '--help'])
    assert exit_.value.code == 0
    assert f'stereo_bp {verb}' in capsys.readouterr().out


def test_match_writes_the_disparity_and_a_picture(pair, tmp_path, capsys):
    output = tmp_path / 'result.pfm'
    assert main(['match', *pair, '-o', str(output), '--json', *FAST]) == 0
    disparity = files.read_pfm(output)
    valid = np.isfinite(disparity)
    assert disparity.shape == (48, 96)
    assert np.median(disparity[valid]) == pytest.approx(6, abs=0.5)
    assert cv2.imread(str(tmp_path / 'result_picture.png')) is not None
    report = report_of(capsys)
    assert report['backend'] == 'cpu'
    assert report['valid_fraction'] == pytest.approx(valid.mean())
    assert {'convert', 'preprocess', 'messages', 'refine'} <= report['stages_ms'].keys()


def test_match_writes_16_bit_png_and_depth_and_scores_against_truth(pair, tmp_path, capsys):
    calibration = tmp_path / 'calib.txt'
    calibration.write_text('cam0=[100 0 48; 0 100 24; 0 0 1]\ncam1=[100 0 48; 0 100 24; 0 0 1]\n'
                           'doffs=0\nbaseline=600\n')
    truth = tmp_path / 'truth.pfm'
    files.write_pfm(truth, np.full((48, 96), 6, np.float32))
    output, depth = tmp_path / 'result.png', tmp_path / 'depth.pfm'
    assert main(['match', *pair, '-o', str(output), '--depth', str(depth), '--calibration',
                 str(calibration), '--truth', str(truth), '--json', *FAST]) == 0
    assert report_of(capsys)['score']['bad_1_estimated'] < 1
    disparity = files.read_disparity_png(output)
    metres = files.read_pfm(depth)
    both = np.isfinite(disparity) & np.isfinite(metres)
    assert both.sum() > 1000
    assert np.allclose(metres[both], 60 / disparity[both], rtol=1e-2)


def test_match_prints_a_table_for_people(pair, tmp_path, capsys):
    assert main(['match', *pair, '-o', str(tmp_path / 'r.pfm'), *FAST]) == 0
    assert 'matched in' in capsys.readouterr().out


@pytest.mark.parametrize(('arguments', 'text'), [
    (['--set', 'disparity_range=1'], 'disparity_range is 1'),
    (['--set', 'nonsense=1'], 'no setting of this name'),
    (['--set', 'queue_size=5'], 'setting of the node'),
    (['--preset', 'motorway'], 'must be one of'),
    (['--backend', 'cuda', '--set', 'message_type=float32', '--set', 'exact=true'], 'exact'),
    (['-o', 'result.tiff'], 'must end in .pfm or .png'),
    (['--depth', 'depth.pfm'], '--depth needs --calibration'),
    (['--repeat', '0'], '--repeat is 0'),
])
def test_a_mistake_is_one_line_and_status_2(pair, tmp_path, capsys, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    assert main(['match', *pair, *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.startswith('stereo_bp match: ')
    assert error.count('\n') == 1


def test_a_missing_image_is_named(tmp_path, capsys):
    assert main(['match', str(tmp_path / 'none.png'), str(tmp_path / 'none.png')]) == 2
    assert 'none.png' in capsys.readouterr().err


def test_evaluate_scores_every_pair_of_a_folder(tmp_path, textured_pair, capsys):
    for name, shift in (('one', 4), ('two', 9)):
        folder = tmp_path / 'sets' / name
        folder.mkdir(parents=True)
        left, right = textured_pair(96, 48, shift, seed=shift)
        cv2.imwrite(str(folder / 'left.png'), left)
        cv2.imwrite(str(folder / 'right.png'), right)
        cv2.imwrite(str(folder / 'disparity.png'), np.full((48, 96), shift * 8, np.uint8))
    (tmp_path / 'sets' / 'sets.yaml').write_text(
        'one: {disparities: 8, disparity_scale: 8}\ntwo: {disparities: 12, disparity_scale: 8}\n')
    output = tmp_path / 'report'
    assert main(['evaluate', str(tmp_path / 'sets'), '--output', str(output), '--json',
                 '--set', 'levels=3', '--set', 'iterations=4']) == 0
    report = report_of(capsys)
    assert [p['name'] for p in report['pairs']] == ['one', 'two']
    assert [p['disparity_range'] for p in report['pairs']] == [8, 12]
    assert report['all']['bad_1_estimated'] < 2
    assert json.loads((output / 'report.json').read_text()) == report
    page = (output / 'report.html').read_text()
    for pair in report['pairs']:
        assert f'src="{pair["picture"]}"' in page
        assert (output / pair['picture']).is_file()


def test_a_range_that_the_user_names_wins_over_the_data_sets(tmp_path, textured_pair, capsys):
    for name, image in zip(('left', 'right'), textured_pair(64, 32, 4), strict=True):
        (tmp_path / 's').mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / 's' / f'{name}.png'), image)
    cv2.imwrite(str(tmp_path / 's' / 'disparity.png'), np.full((32, 64), 4, np.uint8))
    (tmp_path / 'sets.yaml').write_text('s: {disparities: 8, disparity_scale: 1}\n')
    assert main(['evaluate', str(tmp_path), '--json', *FAST]) == 0
    assert report_of(capsys)['pairs'][0]['disparity_range'] == 16


def test_evaluate_matches_the_pairs_of_a_bag_against_its_truth(tmp_path, textured_pair, capsys):
    left, right = textured_pair(96, 48, 6)
    truth = np.full((48, 96), 6, np.float32)
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.5, 48, 48, 24),
                   ((10**18 + i, left, right, truth) for i in range(3)))
    assert main(['evaluate', str(tmp_path / 'bag'), '--json', *FAST]) == 0
    report = report_of(capsys)
    assert len(report['pairs']) == 3
    assert report['all']['bad_1_estimated'] < 2


def test_benchmark_times_every_variant_on_every_size(tmp_path, capsys):
    output = tmp_path / 'times.json'
    assert main(['benchmark', 'bp', '--size', '64x48x8', '--size', '80x48x8', '--frames', '3',
                 '--variant', 'int16', '--variant', 'float:message_type=float32', '--json',
                 '--output', str(output)]) == 0
    report = report_of(capsys)
    assert json.loads(output.read_text()) == report
    assert [(r['set'], r['variant']) for r in report['results']] == [
        ('64x48x8', 'int16'), ('64x48x8', 'float'), ('80x48x8', 'int16'), ('80x48x8', 'float')]
    for row in report['results']:
        assert row['frames'] == 3
        assert 0 < row['minimum_ms'] <= row['median_ms'] <= row['p95_ms']
        assert row['frames_per_second'] == pytest.approx(1e3 / row['median_ms'])
        assert sum(row['stages_ms'].values()) <= 1.5 * row['median_ms']
        for stage, median in row['stages_ms'].items():
            assert 0 <= median <= row['stages_p95_ms'][stage]
        assert row['device_ms'] is None         # the CPU has no clock of its own
        cold = row['cold_start']
        assert min(cold['compile_ms'], cold['allocate_ms'], cold['first_ms']) > 0
        assert row['memory_bytes'] > 0


def test_benchmark_prints_frames_stages_and_cold_start(capsys):
    assert main(['benchmark', 'sad', '--backend', 'cpu', '--size', '64x48x8', '--frames', '3',
                 '--kernels']) == 0
    printed = capsys.readouterr().out
    for text in ('frames/s', 'p95', 'Stages', 'messages', 'Cold start', 'first frame',
                 'no kernels to show'):
        assert text in printed


@pytest.mark.parametrize(('arguments', 'text'), [
    (['--size', '64x48'], 'WIDTHxHEIGHTxDISPARITIES'), (['--frames', '0'], '--frames is 0'),
    (['--variant', 'a', '--variant', 'a'], 'two variants'),
    (['--variant', 'a:levels=99'], 'levels is 99'),
    (['--size', '64x48x8', '--backend', 'cpu', '--pinned'], 'cuda only')])
def test_a_mistake_in_a_benchmark_is_one_line(capsys, arguments, text):
    assert main(['benchmark', 'bp', *arguments]) == 2
    assert text in capsys.readouterr().err


def test_info_prints_the_memory_plan_with_the_papers_bound(capsys):
    assert main(['info', '--size', '640x480', '--disparities', '32', '--backend', 'cpu',
                 '--json']) == 0
    report = report_of(capsys)
    memory = report['memory']
    assert memory['paper_bound_bytes'] == 4 * (5 + 320) * 640 * 480
    assert sum(a['bytes'] for a in memory['arrays']) <= memory['total_bytes']
    assert report['backend']['backend'] == 'cpu'
    assert report['settings']['disparity_range'] == 32


def test_info_tells_how_an_image_that_does_not_fit_is_cut(capsys):
    arguments = ['info', '--size', '900x750', '--disparities', '128', '--backend', 'cpu',
                 '--set', 'memory_limit=200000000']
    assert main([*arguments, '--json']) == 0
    memory = report_of(capsys)['memory']
    found = memory['partitions']
    assert found['columns'] * found['rows'] == len(found['kept']) > 1
    assert found['padding'] >= 64
    assert memory['total_bytes'] <= memory['allowed_bytes'] == 200000000
    assert main(arguments) == 0
    assert (f'{found["columns"]} x {found["rows"]} partitions of {found["width"]} x '
            f'{found["height"]} pixels') in ' '.join(capsys.readouterr().out.split())


def test_info_refuses_a_size_that_fits_in_no_partition(capsys):
    assert main(['info', '--size', '900x750', '--backend', 'cpu', '--set',
                 'memory_limit=1000000']) == 2
    assert 'memory_limit allows 1.0 MiB' in capsys.readouterr().err


def test_tune_says_that_the_cpu_has_nothing_to_tune(capsys):
    assert main(['tune', '--backend', 'cpu']) == 0
    assert 'nothing to tune' in capsys.readouterr().out


def test_tune_refuses_a_size_that_is_none(capsys):
    assert main(['tune', '--backend', 'cpu', '--size', '640x480']) == 2
    assert 'WIDTHxHEIGHTxDISPARITIES' in capsys.readouterr().err


def test_info_says_in_full_why_the_cpu_computes(capsys, monkeypatch):
    problem = BackendUnavailable('a reason of many words ' * 12, 'and a remedy of many more')
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.device.unavailable', lambda index: problem)
    assert main(['info', '--backend', 'auto']) == 0
    printed = capsys.readouterr().out
    words = ' '.join(printed.replace('│', ' ').split())
    assert 'and a remedy of many more' in words
    assert 'available memory MiB' in words


def test_info_refuses_a_size_that_is_none(capsys):
    assert main(['info', '--size', 'large']) == 2
    assert 'WIDTHxHEIGHT' in capsys.readouterr().err


def test_the_shared_pairs_give_the_errors_that_the_field_knows(data, capsys):
    assert main(['evaluate', str(data / 'middlebury'), '--preset', 'five_sets', '--limit', '4',
                 '--repeat', '1', '--json']) == 0
    bad = {p['name']: p['score']['bad_1_estimated'] for p in report_of(capsys)['pairs']}
    # Bad pixels (> 1 px) of the reference program on the same pairs, all pixels with truth; it
    # gives its border pixels a disparity, which are invalid here.
    for name, expected in {'tsukuba': 3.93, 'venus': 3.19, 'barn1': 4.70}.items():
        assert bad[name] == pytest.approx(expected, abs=1.1)
