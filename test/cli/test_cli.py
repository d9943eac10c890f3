"""The command line: verbs, their files, their errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import VERBS, main
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.backend import Resolved
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.images import files
from stereo_bp_ros.sources import bags

FAST = ['--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4',
        '--backend', 'cpu']


#: Calibrations of 60 px m whose principal points agree, and that differ by 20 pixels.
CALIBRATION = ('cam0=[100 0 48; 0 100 24; 0 0 1]\ncam1=[100 0 48; 0 100 24; 0 0 1]\ndoffs=0\n'
               'baseline=600\n')
SHIFTED = CALIBRATION.replace('cam1=[100 0 48', 'cam1=[100 0 68').replace('doffs=0', 'doffs=20')


@pytest.fixture
def pair(tmp_path, write_pair):
    """Left and right image files with a constant disparity of 6 pixels."""
    return [str(write_pair(tmp_path / 'pair') / f'{side}.png') for side in ('left', 'right')]


def report_of(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_a_verb_starts_without_the_others():
    source = ("import sys\n"
              "from stereo_bp_ros.cli import main\n"
              "try:\n    main.main(['match', '--help'])\nexcept SystemExit:\n    pass\n"
              "print(*(verb for verb in main.VERBS "
              "if f'stereo_bp_ros.cli.{verb}' in sys.modules))")
    done = subprocess.run([sys.executable, '-c', source], check=True, capture_output=True,
                          text=True)
    assert done.stdout.splitlines()[-1] == 'match'


@pytest.mark.parametrize('verb', VERBS)
def test_the_help_of_every_verb_shows_how_to_call_it_and_what_it_needs(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([verb, '--help'])
    assert exit_.value.code == 0
    printed = capsys.readouterr().out
    assert f'stereo_bp {verb}' in printed
    draws = verb in ('evaluate', 'replay', 'demo', 'calibrate-check')
    assert bool(re.search(r'needs? (jinja2 and )?matplotlib', ' '.join(printed.split()))) == draws
    for key in metrics.Score().as_dict():
        assert (f'\n  {key} ' in printed) == (verb in ('match', 'evaluate'))


def test_match_writes_the_disparity_and_a_picture_and_says_so(pair, tmp_path, capsys):
    output = tmp_path / 'result[b].pfm'
    arguments = ['match', *pair, '-o', str(output), '--truth',
                 str(tmp_path / 'pair/disparity.pfm'), *FAST]
    assert main([*arguments, '--json']) == 0
    disparity = files.read_pfm(output)
    valid = np.isfinite(disparity)
    assert disparity.shape == (48, 96)
    assert np.median(disparity[valid]) == pytest.approx(6, abs=0.5)
    assert cv2.imread(str(tmp_path / 'result[b]_picture.png')) is not None
    report = report_of(capsys)
    assert report['backend'] == 'cpu'
    assert report['valid_fraction'] == pytest.approx(valid.mean())
    assert {'convert', 'preprocess', 'messages', 'refine'} <= report['stages_ms'].keys()
    assert set(report['files'].values()) == {str(path) for path in tmp_path.glob('result*')}
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert 'matched in' in printed
    assert f'Wrote disparity: {output}' in printed
    assert f'Wrote picture: {tmp_path}/result[b]_picture.png' in printed
    for words in ('bad-1: pixels wrong by more than 1 px or without a disparity, of those with '
                  'truth', 'root mean square error'):
        row, = (line for line in printed.splitlines() if words in line)
        assert row.rstrip(' │').endswith((' %', ' px'))


def test_match_writes_16_bit_png_and_depth_and_scores_against_truth(pair, tmp_path, capsys):
    calibration = tmp_path / 'calib.txt'
    calibration.write_text(CALIBRATION)
    output, depth = tmp_path / 'result.png', tmp_path / 'depth.pfm'
    assert main(['match', *pair, '-o', str(output), '--depth', str(depth), '--calibration',
                 str(calibration), '--truth', str(tmp_path / 'pair/disparity.pfm'), '--json',
                 *FAST]) == 0
    assert report_of(capsys)['score']['bad_1_estimated'] < 1
    disparity = files.read_disparity_png(output)
    metres = files.read_pfm(depth)
    both = np.isfinite(disparity) & np.isfinite(metres)
    assert both.sum() > 1000
    assert np.allclose(metres[both], 60 / disparity[both], rtol=1e-2)
    assert main(['match', *reversed(pair), '-o', str(output), '--set', 'min_disparity=-12',
                 *FAST]) == 0
    assert 'disparities below 0 are unknown in ' in capsys.readouterr().err


def test_match_searches_as_far_as_min_depth_is_by_the_calibration(pair, tmp_path, capsys, caplog):
    (tmp_path / 'calib.txt').write_text(CALIBRATION)
    arguments = ['match', *pair, '-o', str(tmp_path / 'd.pfm'), '--json', *FAST, '--set',
                 'min_depth=3']
    calibrated = [*arguments, '--calibration', str(tmp_path / 'calib.txt')]
    for command, last in ((arguments, 15), (calibrated, 23)):       # 60 px m: 20 px at 3 m
        assert main(command) == 0
        assert report_of(capsys)['search'] == {'first': 0, 'last': last}
    assert [record.getMessage() for record in caplog.records] == [      # of the first alone
        'min_depth has no effect without --calibration; 16 disparities are searched']
    assert main([*calibrated, '--set', 'min_depth=0.1']) == 2
    assert capsys.readouterr().err.count('\n') == 1


@pytest.mark.parametrize('adjust', ['true', 'false'])
def test_a_calibration_shifts_what_match_writes_and_not_its_scores(pair, tmp_path, capsys, adjust):
    (tmp_path / 'calib.txt').write_text(SHIFTED)
    assert main(['match', *pair, '-o', str(tmp_path / 'd.pfm'), '--truth',
                 str(tmp_path / 'pair/disparity.pfm'), '--calibration',
                 str(tmp_path / 'calib.txt'),
                 '--set', f'pre_adjust_disparity={adjust}', '--json', *FAST]) == 0
    report = report_of(capsys)
    shift = -20 if adjust == 'true' else 0
    assert report['disparity_shift'] == shift
    assert report['disparity']['median'] == pytest.approx(6 - shift, abs=0.5)
    assert report['score']['bad_1_estimated'] < 1


def test_evaluate_and_match_agree_where_principal_points_differ(tmp_path, textured_pair, capsys):
    left, right = textured_pair(96, 48, 6)
    folder = tmp_path / 'set'
    folder.mkdir()
    names = [str(folder / name) for name in ('im0.png', 'im1.png')]
    for name, image in zip(names, (left, right), strict=True):
        cv2.imwrite(name, image)
    truth = np.full((48, 96), 6, np.float32)
    files.write_pfm(folder / 'disp0.pfm', truth)
    (folder / 'calib.txt').write_text(SHIFTED)
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.6, 48, 68, 24),
                   [(10**18, left, right, truth)])
    scores = []
    for arguments in (['evaluate', str(folder)], ['evaluate', str(tmp_path / 'bag')],
                      ['match', *names, '--truth', str(folder / 'disp0.pfm'), '-o',
                       str(tmp_path / 'd.pfm'), '--calibration', str(folder / 'calib.txt')]):
        assert main([*arguments, '--json', *FAST]) == 0
        report = report_of(capsys)
        scores.append(report.get('score') or report['all'])
    assert scores[0]['bad_1_estimated'] < 1
    for score in scores[1:]:
        assert score == pytest.approx(scores[0], abs=0.01)


def test_a_truth_of_8_bits_needs_its_scale(pair, tmp_path, capsys):
    truth = tmp_path / 'tsukuba' / 'disparity.png'
    truth.parent.mkdir()
    cv2.imwrite(str(truth), np.full((48, 96), 6 * 16, np.uint8))
    arguments = ['match', *pair, '-o', str(tmp_path / 'd.pfm'), '--truth', str(truth), '--json',
                 *FAST]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert 'disparity.png has 8 bits' in error
    assert '--truth-scale' in error
    assert not (tmp_path / 'd.pfm').exists()
    assert main([*arguments, '--truth-scale', '16']) == 0
    given = report_of(capsys)
    (tmp_path / 'sets.yaml').write_text('tsukuba: {disparities: 16, disparity_scale: 16}\n')
    assert main(arguments) == 0
    described = report_of(capsys)
    for report in (given, described):
        assert report['truth_scale'] == 16
        assert report['score']['bad_1_estimated'] < 1


@pytest.mark.parametrize(('arguments', 'text'), [
    (['--set', 'disparity_range=1'], 'disparity_range is 1'),
    (['--set', 'disparity_rang=32'], 'did you mean disparity_range?'),
    (['--preset', 'raod'], 'did you mean road?'),
    (['--set', 'queue_size=5'], 'it is a setting of the node, not of a matcher\n'),
    (['--cloud', 'x'], 'unrecognized arguments: --cloud x (stereo_bp match --help shows'),
    (['--backend', 'cuda', '--set', 'program=plain_steps', '--set',
      'plain_steps.vectorised=false'], 'use backend cpu'),
    (['--set', 'plain_steps.storage=register'], 'belongs to program plain_steps, and program is '
     'default'),
    (['-o', 'result.jpg'], 'a file of disparity must end in .pfm, .png, .tiff, .tif or .npy'),
    (['--depth', 'depth.pfm'], '--depth needs --calibration, or --rectify'),
    (['--points', 'cloud.npy'], 'a file of points must end in .ply or .pcd'),
    (['--rectify', 'a.yaml', '--calibration', 'b.yaml'], 'leave --calibration out'),
    (['--rectify', 'none.yaml'], 'none.yaml'),
    (['--truth-scale', '8'], '--truth-scale needs --truth'),
    (['-o', 'nowhere/d.pfm'], 'there is no folder nowhere'),
    (['--truth', 'none.pfm'], 'none.pfm'),
])
def test_a_mistake_is_one_line_and_status_2(pair, tmp_path, capsys, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    assert main(['match', *pair, *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.startswith('stereo_bp match: ')
    assert error.count('\n') == 1


def test_benchmark_times_every_variant_on_every_size(tmp_path, capsys):
    output = tmp_path / 'times.json'
    assert main(['benchmark', 'bp', '--backend', 'cpu', '--size', '64x48x8', '--size', '80x48x8',
                 '--frames', '3', '--variant', 'int16', '--variant',
                 'float:message_type=float32', '--json',
                 '--output', str(output)]) == 0
    report = report_of(capsys)
    assert json.loads(output.read_text()) == report
    assert [(r['set'], r['variant']) for r in report['results']] == [
        ('64x48x8', 'int16'), ('64x48x8', 'float'), ('80x48x8', 'int16'), ('80x48x8', 'float')]
    for row in report['results']:
        assert row['frames'] == 3
        assert 0 < row['minimum_ms'] <= row['median_ms'] <= row['p95_ms']
        assert row['frames_per_second'] == pytest.approx(1e3 / row['median_ms'])
        # Of three frames one of the quicker two takes at least the median of a stage.
        assert sum(row['stages_ms'].values()) <= 2 * row['median_ms']
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
    (['--size', '64x48'], 'WIDTHxHEIGHTxDISPARITIES'),
    (['--variant', 'a', '--variant', 'a'], 'two variants'),
    (['--variant', 'a:levels=99'], 'levels is 99'),
    (['--output', 'nowhere/times.json'], 'there is no folder nowhere'),
    (['--size', '64x48x8', '--backend', 'cpu', '--pinned'], 'cuda only')])
def test_a_mistake_in_a_benchmark_is_one_line(capsys, arguments, text):
    assert main(['benchmark', 'bp', *arguments]) == 2
    assert text in capsys.readouterr().err


def test_the_shared_pairs_give_the_errors_that_the_field_knows(data, capsys):
    assert main(['evaluate', str(data / 'middlebury'), '--preset', 'five_sets', '--limit', '4',
                 '--repeat', '1', '--json']) == 0
    bad = {p['name']: p['score']['bad_1_estimated'] for p in report_of(capsys)['pairs']}
    # Bad pixels (> 1 px) of the reference program on the same pairs, all pixels with truth; it
    # gives its border pixels a disparity, which are invalid here.
    for name, expected in {'tsukuba': 3.93, 'venus': 3.19, 'barn1': 4.70}.items():
        assert bad[name] == pytest.approx(expected, abs=1.1)


def test_a_warm_up_tells_what_it_has_compiled_and_fails_where_that_cannot_be_kept(
        capsys, monkeypatch):
    none = {'compiled': 0, 'kept': 0, 'disk': 0}
    counts = iter([none, {'compiled': 5, 'kept': 5, 'disk': 1},
                   none, {'compiled': 5, 'kept': 2, 'disk': 1}])
    monkeypatch.setattr(CpuBackend, 'origins', lambda _: next(counts))
    monkeypatch.setattr(CpuBackend, 'warm_up', lambda *_: None)
    command = ['info', '--warm-up', 'road', '--backend', 'cpu']
    assert main(command) == 0
    assert re.search(r'road +│ +cpu +│ +0.0 +│ +5 +│ +1 +│', capsys.readouterr().out)
    assert main(command) == 2
    assert 'road: 5 kernels were compiled, but 2 kept' in capsys.readouterr().err


def test_a_warm_up_on_cuda_needs_the_size(capsys, monkeypatch):
    monkeypatch.setattr(choice, 'resolve', lambda config: Resolved(
        config, config, CudaBackend(TYPICAL, 'found')))
    for name, words in (('road', '--warm-up needs --size'), ('roads', "'roads'")):
        assert main(['info', '--warm-up', name]) == 2
        assert words in capsys.readouterr().err


@pytest.fixture
def start(tmp_path, pair):
    """Starts ``match`` or other arguments in a new process with a cache of its own."""
    match = ['match', *pair, '--preset', 'sad_fast', '--backend', 'cpu', '--json', '-o',
             str(tmp_path / 'out.pfm')]
    return lambda arguments=match: subprocess.Popen(
        [sys.executable, '-m', 'stereo_bp_ros.cli.main', *arguments], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, 'XDG_CACHE_HOME': str(tmp_path / 'cache'),
             'COVERAGE_PROCESS_CONFIG': ''})


@pytest.mark.slow
def test_after_a_warm_up_the_first_match_of_a_new_process_compiles_nothing(tmp_path, pair, start):
    cv2.imwrite(pair[0], cv2.cvtColor(cv2.imread(pair[0], 0), cv2.COLOR_GRAY2BGR))
    with start(['info', '--warm-up', 'sad_fast', '--backend', 'cpu', '--json']) as child:
        out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    assert f'{tmp_path}/cache' in err
    (row,) = json.loads(out)['warm_up']
    assert (row['preset'], row['backend']) == ('sad_fast', 'cpu')
    assert row['kept'] == row['compiled'] > 0
    # What is compiled anew is another file in the place of the old one.
    kernels = [{file: file.stat().st_ino for file in (tmp_path / 'cache').rglob('*.nbc')}]
    with start() as child:
        out, err = child.communicate(timeout=300)
    assert (child.returncode, err) == (0, '')
    assert json.loads(out)['backend'] == 'cpu'
    kernels += [{file: file.stat().st_ino for file in (tmp_path / 'cache').rglob('*.nbc')}]
    assert kernels[0] == kernels[1]


def test_the_first_match_says_at_once_on_standard_error_that_it_compiles(tmp_path, start):
    with start() as child:
        said = child.stderr.readline()
        child.kill()                    # compiling takes 20 s
        assert child.stdout.read() == ''
    assert 'compiling kernels' in said
    assert f'{tmp_path}/cache' in said
