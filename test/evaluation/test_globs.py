"""Folders whose images are named in any way: pairs by the numbers in the names that fit."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.bag_topics import Globs, StereoTopics
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import open_pairs
from test.evaluation.layouts import build

GLOBS = Globs('front/a_*.png', 'front/b_*.png')


@pytest.fixture
def folder(tmp_path: pathlib.Path, textured_pair: Callable[..., Any]) -> pathlib.Path:
    """a_8, a_9, a_10 with b_8, b_9, b_10, and the truth and calibration beside."""
    for directory in ('front', 'disparity'):
        (tmp_path / directory).mkdir()
    for number in (8, 9, 10):
        left, right = textured_pair(64, 48, number - 5)
        cv2.imwrite(str(tmp_path / f'front/a_{number}.png'), left)
        cv2.imwrite(str(tmp_path / f'front/b_{number}.png'), right)
    files.write_pfm(tmp_path / 'disparity/a_9.pfm', np.full((48, 64), 4, np.float32))
    (tmp_path / 'P_left.txt').write_text('100 0 32 0 0 100 24 0 0 0 1 0')
    (tmp_path / 'P_right.txt').write_text('100 0 32 -10 0 100 24 0 0 0 1 0')
    return tmp_path


def test_pairs_are_in_the_order_of_their_numbers_with_truth_and_calibration(
        folder: pathlib.Path) -> None:
    with pytest.raises(ValueError, match='no stereo pairs'):
        open_dataset(folder)
    dataset = open_dataset(folder, globs=GLOBS)
    assert dataset.names == ('a_8', 'a_9', 'a_10')
    pairs = list(dataset)
    assert [pair.truth is not None for pair in pairs] == [False, True, False]
    assert pairs[0].calibration is not None
    assert pairs[0].calibration.baseline_m == pytest.approx(0.1)
    np.testing.assert_array_equal(
        pairs[2].right, files.read_image(folder / 'front/b_10.png'))


@pytest.mark.parametrize(('globs', 'sentence'), [
    (('front/a_*.png', 'front/*.png'), r'front/a_\S*.png fits both'),
    (('front/a_*.png', 'front/c_*.png'), "no file in .* fits 'front/c_"),
    (('front/a_*.png', '/b_*.png'), 'is no pattern of names below')])
def test_patterns_that_tell_no_pairs_are_an_error(
        folder: pathlib.Path, globs: tuple[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        open_dataset(folder, globs=Globs(*globs))


@pytest.mark.parametrize('other', [None, 'b_11'])
def test_an_image_without_a_partner_of_its_number_is_counted_and_named(
        folder: pathlib.Path, other: str | None) -> None:
    path = folder / 'front/b_9.png'
    if other:                   # as many on each side
        path.rename(path.with_stem(other))
    else:
        path.unlink()
    dataset = open_dataset(folder, globs=GLOBS)
    assert dataset.names == ('a_8', 'a_10')
    np.testing.assert_array_equal(
        dataset[1].right, files.read_image(folder / 'front/b_10.png'))
    text = dataset.warnings[0]
    assert '1 of 3 left images have no partner, which is a_9.png' in text
    assert ('1 of 3 right images have no partner, which is b_11.png' in text) == bool(other)
    for number in (8, 10):
        (folder / f'front/b_{number}.png').unlink()
    with pytest.raises(ValueError, match=r'front/\w*\.png has no partner|no file in'):
        open_dataset(folder, globs=GLOBS)


def test_a_truth_that_no_pattern_names_is_said(folder: pathlib.Path) -> None:
    (folder / 'disparity').rename(folder / 'disparities')
    warning, = open_dataset(folder, globs=GLOBS).warnings
    assert 'disparities looks like a ground truth and was not read' in warning
    assert '--truth-glob names it' in warning


def test_hidden_files_of_another_system_fit_no_pattern(folder: pathlib.Path) -> None:
    for path in list((folder / 'front').iterdir()):
        path.with_name(f'._{path.name}').write_bytes(b'\0\5\x16\7')
    globs = Globs('front/*a_*.png', 'front/*b_*.png')
    assert open_dataset(folder, globs=globs).names == ('a_8', 'a_9', 'a_10')


@pytest.mark.parametrize('form', ['cam{side}/{number}.png', 'run1/cam{side}_{number}_10.png',
                                  '{number}/{side}.png', 'run{number}/cam{side}/0.png'])
def test_numbers_of_cameras_and_folders_tell_no_other_pairs(
        tmp_path: pathlib.Path, form: str) -> None:
    build(tmp_path, {form.format(side=side, number=number): 10 * side + number
                     for side in (1, 2) for number in (7, 8, 11)})
    pairs = list(open_dataset(tmp_path, globs=Globs(*(
        form.format(side=side, number='*') for side in (1, 2)))))
    assert [(pair.left[0, 0], pair.right[0, 0]) for pair in pairs] == [
        (17, 27), (18, 28), (21, 31)]


def test_names_without_numbers_are_pairs_by_their_order_with_a_warning(
        tmp_path: pathlib.Path) -> None:
    build(tmp_path, {f'{side}/{name}.png': 1 for side in 'lr' for name in ('street', 'yard')})
    dataset = open_dataset(tmp_path, globs=Globs('l/*.png', 'r/*.png'))
    assert dataset.names == ('street', 'yard')
    assert 'their order does, street.png with street.png' in dataset.warnings[0]
    (tmp_path / 'r/yard.png').unlink()
    with pytest.raises(ValueError, match=r"'l/\*\.png' fits 2 images and 'r/\*\.png' 1, and no"):
        open_dataset(tmp_path, globs=Globs('l/*.png', 'r/*.png'))


def test_a_truth_of_any_name_and_scale_belongs_to_the_image_of_its_number(
        tmp_path: pathlib.Path) -> None:
    build(tmp_path, {**{f'cam{side}/x{number}.png': 1 for side in 'lr' for number in (1, 2, 3)},
                     'gt/2_disp.png': 640, 'gt/3_disp.png': 320})
    found = list(open_dataset(tmp_path, truth_scale=64.0,
                              globs=Globs('caml/*', 'camr/*', 'gt/*_disp.png')))
    assert [None if pair.truth is None else pair.truth[0, 0] for pair in found] == [None, 10, 5]
    for truth, sentence in (('gt/*.pfm', "no file in .* fits 'gt/"), ('*/x1.png', 'no numbers')):
        with pytest.raises(ValueError, match=sentence):
            open_dataset(tmp_path, globs=Globs('caml/x[23]*', 'camr/x[23]*', truth))


def test_equal_names_in_two_folders_are_told_apart(folder: pathlib.Path) -> None:
    for left in (folder / 'front').glob('a_*.png'):
        target = folder / 'days' / left.stem
        target.mkdir(parents=True)
        for side in 'ab':
            (folder / 'front' / f'{side}{left.name[1:]}').rename(target / f'{side}.png')
    assert open_dataset(folder, globs=Globs('days/*/a.png', 'days/*/b.png')).names == (
        'days/a_8/a', 'days/a_9/a', 'days/a_10/a')


def test_evaluate_takes_them_and_one_alone_is_a_mistake(
        folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ['evaluate', str(folder), '--set', 'disparity_range=8', '--set',
               'stereo_algorithm=sad', '--repeat', '1', '--json', '--left-glob', GLOBS[0]]
    assert main([*command, '--right-glob', GLOBS[1]]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [frame['name'] for frame in report['pairs']] == ['a_8', 'a_9', 'a_10']
    assert report['mean']['score']['bad_3_estimated'] < 5
    assert main(command) == 2
    assert '--left-glob and --right-glob go together' in capsys.readouterr().err
    assert main(['evaluate', str(folder), '--truth-glob', '4']) == 2
    assert '--truth-glob needs --left-glob' in capsys.readouterr().err


def test_the_player_of_a_run_finds_the_same_pairs(folder: pathlib.Path) -> None:
    topics = StereoTopics(globs=GLOBS._replace(truth='gt/*.png'), truth_scale=0.5)
    assert topics.options() == ['--left-glob', GLOBS.left, '--right-glob', GLOBS.right,
                                '--truth-glob', 'gt/*.png', '--truth-scale', '0.5']
    topics = StereoTopics(globs=GLOBS)
    assert open_pairs(folder, topics)[0] == 3
    pytest.importorskip('rosbags')
    from stereo_bp_ros.replay.source import open_source
    source = open_source(folder, topics=topics)
    assert source.pairs == 3
    assert sum(event.topic == 'left/image_rect' for event in source.events()) == 3


def test_numbered_frames_are_played_one_period_after_the_other(folder: pathlib.Path) -> None:
    for number in (8, 9, 10):
        (folder / f'front/a_{number}.png').rename(folder / f'front/{number:06}.png')
    pytest.importorskip('rosbags')
    from stereo_bp_ros.replay.source import open_source
    source = open_source(folder, period_s=0.25, topics=StereoTopics(
        globs=Globs('front/0*.png', 'front/b_*.png')))
    times = [event.time_ns for event in source.events() if event.topic == 'left/image_rect']
    assert [time - times[0] for time in times] == [0, 250_000_000, 500_000_000]
