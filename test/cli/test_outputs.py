"""No verb writes over what it reads, or twice into one file; it says so before it computes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import yaml

from stereo_bp_ros.cli import outputs
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images import files

SAD = ['--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16', '--backend', 'cpu']


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
         write_pair: Callable[..., pathlib.Path]) -> pathlib.Path:
    """The working folder, with a pair and what `match` reads beside it."""
    monkeypatch.chdir(tmp_path)
    (write_pair(tmp_path, 4, 64, 32) / 'disparity.pfm').rename('truth.pfm')
    pathlib.Path('calib.txt').write_text(
        'cam0=[100 0 32; 0 100 16; 0 0 1]\ncam1=[100 0 32; 0 100 16; 0 0 1]\nbaseline=100\n'
        'doffs=0\nwidth=64\nheight=32\nndisp=16\n')
    parameters('settings.yaml')
    return tmp_path


def parameters(path: str) -> None:
    pathlib.Path(path).write_text(yaml.safe_dump(
        {'/**': {'ros__parameters': {'stereo_algorithm': 'sad', 'disparity_range': 16}}}))


@pytest.fixture
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ('stereo_bp_ros.matcher.stereo_matcher.StereoMatcher.__init__',
                 'stereo_bp_ros.evaluation.runs.Evaluation.__init__',
                 'stereo_bp_ros.evaluation.timing.measure'):
        monkeypatch.setattr(name, None)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob('*')) if path.is_file()}


def linked(there: str, kind: str, name: str) -> None:
    (os.symlink if kind == 'symbolic' else os.link)(there, name)


@pytest.mark.parametrize(('made', 'arguments', 'words'), [
    ((), ['-o', 'left.png'], '-o left.png would overwrite what is read from left.png'),
    ((), ['--depth', 'truth.pfm', '--truth', 'truth.pfm', '--calibration', 'calib.txt'],
     '--depth truth.pfm would overwrite'),
    ((), ['--picture', 'right.png'], '--picture right.png would overwrite'),
    (('symbolic', 'a.png'), ['-o', 'a.png'], '-o a.png would overwrite what is read from left'),
    (('hard', 'a.png'), ['-o', 'a.png'], '-o a.png would overwrite what is read from left'),
    # The default name of the picture.
    (('hard', 'a_picture.png'), ['-o', 'a.pfm'], '--picture a_picture.png would overwrite'),
    ((), ['-o', 'a.png', '--picture', 'a.png'], '-o a.png and --picture a.png are one file'),
    ((), ['-o', 'a_picture.png', '--picture', 'sub/../a_picture.png'], 'are one file'),
    ((), ['-o', 'a.pfm', '--picture', 'a.txt'], 'the name of a picture must end in .png'),
    ((), ['-o', 'folder.png'], 'folder.png cannot be written: it is a folder'),
    ((), ['-o', 'none/a.png'], 'there is no folder none')])
def test_match_keeps_its_inputs_and_every_output(
        here, capsys, nothing_is_computed, made, arguments, words):
    (here / 'sub').mkdir()
    (here / 'folder.png').mkdir()
    if made:
        linked('left.png', *made)
    before = contents(here)
    assert main(['match', 'left.png', 'right.png', *arguments]) == 2
    assert words in capsys.readouterr().err
    assert contents(here) == before


def test_a_link_that_leads_nowhere_yet_is_the_file_that_it_will_be(here):
    linked('depth.pfm', 'symbolic', 'a.pfm')
    with pytest.raises(ValueError, match='are one file'):
        outputs.check_files({'-o': here / 'a.pfm', '--depth': here / 'depth.pfm'})


def test_outputs_of_an_earlier_run_are_written_again(here, capsys):
    for _ in range(2):
        assert main(['match', 'left.png', 'right.png', *SAD, '-o', 'a.png']) == 0
    assert (here / 'a_picture.png').is_file()


@pytest.mark.parametrize(('verb', 'made'), [
    (['benchmark', 'sad', '--size', '64x32x8', '--params-file', 'settings.yaml', '--output',
      'settings.yaml'], None),
    (['benchmark', 'sad', 'data', '--output', 'data/one/left.png'], None),
    (['evaluate', 'data', '--params-file', 'p.yaml', '--output', 'out'], 'report.json'),
    (['calibrate-check', 'data', '--params-file', 'p.yaml', '--output', 'out'],
     'calibration.json'),
    (['evaluate', '--scenario', 'p.yaml', '--output', 'out'], 'report.html')])
def test_verbs_that_write_beside_what_they_read_keep_it(
        here, capsys, nothing_is_computed, verb, made):
    (here / 'data/one').mkdir(parents=True)
    for name in ('left.png', 'right.png'):
        os.rename(name, f'data/one/{name}')
    (here / 'out').mkdir()
    if made:
        parameters(f'out/{made}')
        if '--scenario' in verb:
            (here / f'out/{made}').write_text(yaml.safe_dump(
                {'inputs': [str(here / 'data')], 'conditions': ['mean.score.density >= 1']}))
        linked(f'out/{made}', 'symbolic', 'p.yaml')
    before = contents(here)
    assert main(verb) == 2
    assert 'would overwrite what is read from' in capsys.readouterr().err
    assert contents(here) == before


@pytest.mark.parametrize('verb', [['demo', '--images'], ['replay']])
@pytest.mark.parametrize('place', ['report', 'report/bp/input', 'link'])
def test_a_report_is_not_replaced_while_its_folder_holds_the_input(
        here, capsys, monkeypatch, verb, place):
    """What an earlier demo has rendered is in its folder: it may well be played again."""
    pytest.importorskip('rclpy', reason='both need rclpy')
    pytest.importorskip('rosbags', reason='both need rosbags')
    (here / 'report/bp/input').mkdir(parents=True)
    (here / 'report/.demo').touch()
    os.symlink('report/bp/input', 'link')
    pairs = here / 'report' / ('bp/input' if place != 'report' else '')
    for name in ('left.png', 'right.png', 'calib.txt'):
        os.rename(name, pairs / name)
    before = contents(here)
    assert main([*verb, place, '--output', 'report']) == 2
    assert 'which is read' in capsys.readouterr().err
    assert contents(here) == before


def test_only_what_a_demo_or_a_replay_leaves_is_replaced(tmp_path):
    report = tmp_path / 'report'
    (report / 'replay_2').mkdir(parents=True)
    (report / 'report.json').touch()
    outputs.replace_folder(report)
    assert [path.name for path in report.iterdir()] == ['.demo']
    (report / 'thesis.txt').touch()
    with pytest.raises(StereoError, match=r'not the output of .*thesis\.txt'):
        outputs.replace_folder(report)
    assert (report / 'thesis.txt').is_file()


def test_a_truth_without_a_known_pixel_scores_nothing_and_that_is_said(here, caplog):
    files.write_pfm('truth.pfm', np.full((32, 64), np.inf, np.float32))
    assert main(['match', 'left.png', 'right.png', *SAD, '--truth', 'truth.pfm']) == 0
    assert 'nothing is scored: truth.pfm has no pixel with a known disparity' in caplog.text
