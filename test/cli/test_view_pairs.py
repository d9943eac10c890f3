"""``stereo_bp view`` of what it matches itself: two images, folders, bags; and what is none."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

pytest.importorskip('rerun')
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.replay import viewing
from test.cli.rerun_files import curve, image, rows, value
from test.cli.test_view import FAST, said


def test_two_images_are_matched_and_shown_with_truth_error_and_points(street, tmp_path, capsys):
    pair, path = street / '000000', tmp_path / 'pair.rrd'
    assert main(['view', str(pair / 'left.png'), str(pair / 'right.png'), '--calibration',
                 str(pair / 'P_left.txt'), '--truth', str(pair / 'disparity.pfm'),
                 '--save', str(path), *FAST]) == 0
    found = rows(path)
    assert {'match/camera', 'match/camera/left', 'match/disparity', 'match/confidence',
            'match/truth', 'match/error', 'match/points', 'match/bad_3',
            'match/latency_ms/total'} <= set(found)
    assert image(found['match/error'][0]).shape == (64, 96, 3)
    told = capsys.readouterr().err
    assert 'shown: 1 of 1 pairs of left.png\n' in told
    assert f'Wrote view: {path}\n' in told


def test_two_images_alone_have_neither_truth_nor_points(street, tmp_path):
    pair, path = street / '000000', tmp_path / 'pair.rrd'
    assert main(['view', str(pair / 'left.png'), str(pair / 'right.png'), '--save', str(path),
                 *FAST]) == 0
    found = {name for name in rows(path) if name.startswith('match/')}
    assert 'match/disparity' in found
    assert not {'match/camera', 'match/truth', 'match/error', 'match/points'} & found


def test_every_pair_of_a_folder_is_matched_and_scored_as_evaluate_does(street, tmp_path, capsys):
    path = tmp_path / 'folder.rrd'
    assert main(['view', str(street), '--limit', '3', '--save', str(path), *FAST]) == 0
    capsys.readouterr()
    assert main(['evaluate', str(street), '--limit', '3', '--repeat', '1', '--json', *FAST]) == 0
    expected = [pair['score']['bad_3_all'] for pair in json.loads(capsys.readouterr().out)[
        'pairs']]
    found = rows(path)
    wrong = sorted(curve(found['match/bad_3']), key=lambda row: row['frame'])
    assert [row['frame'] for row in wrong] == [1, 2, 3]
    assert [value(row, 'scalars') for row in wrong] == pytest.approx(expected)
    by_badness = sorted(wrong, key=lambda row: row['worst_first'])
    assert [value(row, 'scalars') for row in by_badness] == sorted(expected, reverse=True)
    assert len(found['match/points']) == 3


def test_a_bag_is_matched_and_shown_pair_by_pair(street, tmp_path, capsys):
    bags = pytest.importorskip('stereo_bp_ros.sources.bags')
    image_, truth = np.zeros((24, 40), np.uint8), np.full((24, 40), 3, np.float32)
    image_[:, ::3] = 255
    bags.write_bag(tmp_path / 'bag', Calibration(50, 0.1, 20, 20, 12), [
        (10**18 + number * 10**8, image_, image_, truth) for number in range(2)])
    path = tmp_path / 'bag.rrd'
    assert main(['view', str(tmp_path / 'bag'), '--save', str(path), *FAST]) == 0
    found = rows(path)
    assert [row['stamp'] for row in found['match/disparity']] == [10**18, 10**18 + 10**8]
    assert 'shown: 2 of 2 pairs of bag' in capsys.readouterr().err


@pytest.mark.parametrize('source', ['side-by-side', 'two', 'image', 'images'])
def test_videos_and_side_by_side_images_are_shown_pair_by_pair(source, tmp_path, capsys):
    pytest.importorskip('rosbags')
    from test.cli import side_by_side as drive
    left, right = zip(*drive.images(), strict=True)
    count, words = len(left), ['--side-by-side', 'left_right']
    if source == 'two':
        words = []
        names = [str(drive.write_video(tmp_path / f'{side}.avi', frames))
                 for side, frames in (('left', left), ('right', right))]
    elif source == 'images':
        names = [str(drive.write_images(tmp_path / 'images'))]
    else:
        joined = [drive.joined(*pair) for pair in drive.images()]
        names = [str(tmp_path / 'both.png')]
        if source == 'image':
            count = 1
            files.write_image(names[0], joined[0])
        else:
            names = [str(drive.write_video(tmp_path / 'both.avi', joined))]
    words += ['--calibration', str(drive.write_calibration(tmp_path / 'calibration'))]
    path = tmp_path / 'view.rrd'
    assert main(['view', *names, *words, '--save', str(path), *FAST]) == 0
    assert f'shown: {count} of {count} pairs' in capsys.readouterr().err
    found = rows(path)
    assert [image(row).shape for row in found['match/disparity']] == [(64, 96)] * count
    assert len(found['match/points']) == count


def test_a_closed_viewer_ends_the_matching(street, tmp_path, monkeypatch, capsys):
    real = viewing.Sink.__init__
    monkeypatch.setattr(viewing.Sink, '__init__', lambda self, **given: real(
        self, **{**given, 'is_open': lambda: False}))
    path = tmp_path / 'folder.rrd'
    assert main(['view', str(street), '--save', str(path), *FAST]) == 0
    assert 'shown: 1 of 7 pairs' in capsys.readouterr().err


@pytest.mark.parametrize(('name', 'words'), [
    ('cloud.ply', '{} cannot be viewed: view takes no source (running nodes), a recording'),
    ('left.png', '{} cannot be viewed: view takes no source'),
    ('nowhere', 'there is no {}')])
def test_what_has_no_pairs_is_a_sentence_that_says_what_view_takes(
        name, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if name != 'nowhere':
        pathlib.Path(name).write_bytes(b'ply')
    assert words.format(name) in said(['view', name, '--save', 'x.rrd'], capsys)
    assert not pathlib.Path('x.rrd').exists()


@pytest.mark.parametrize(('arguments', 'words'), [
    (['run.rrd', '--seconds', '3'], '--seconds is for a node, not for a recording'),
    (['run.rrd', '--limit', '3'], '--limit is for pairs, not for a recording'),
    (['run.rrd', '--save', 'other.rrd'], '--save is for a node or pairs, not for a recording'),
    (['run.rrd', 'other.rrd'], 'run.rrd is a recording: view opens one'),
    (['street', '--namespace', 'front'], '--namespace is for a node, not for pairs'),
    (['street', '--truth', 'x.pfm'], '--truth is for two images'),
    (['--preset', 'road'], '--preset is for pairs, not for a node'),
    (['--left', '/image'], '--left is for pairs, not for a node'),
    (['--set', 'levels=3'], '--set is for pairs, not for a node')])
def test_an_option_of_another_source_is_rejected(arguments, words, capsys):
    assert words in said(['view', *arguments], capsys)
