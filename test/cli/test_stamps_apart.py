"""Left and right stamps of a recording that differ: paired by the node's rule, or the reason."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.images.stamps import Image, PairFinder
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import Sources, inputs_of
from test.cli import recordings

CALIBRATION = Calibration(400.0, 0.25, 47.5, 47.5, 24.0)
COUNT, START, PERIOD = 4, 10**18, 10**8
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def record(path: pathlib.Path, apart_ns: int, without_right: tuple[int, ...] = (),
           count: int = COUNT) -> pathlib.Path:
    """A bag whose right stamps are later; some pairs have no right image."""
    found = []
    for index in range(count):
        wall = np.random.default_rng(index).integers(0, 255, (48, 102), np.uint8)
        stamp_ns = START + index * PERIOD
        pair = recordings.pair(stamp_ns, wall[:, :96], wall[:, 6:], CALIBRATION)
        for topic, time_ns, message in pair:
            if topic.startswith('/right'):
                message.header = recordings.header(stamp_ns + apart_ns, 'right')
            if topic != '/right/image_rect' or index not in without_right:
                found.append((topic, time_ns, message))
    return recordings.write(path, found)


def stamps(report: dict) -> list[int]:
    return [int(pair['name']) for pair in report['pairs']]


@pytest.mark.parametrize(('apart_ns', 'words'), [(1, '0.000000001'), (-4_000_000, '0.004000')])
def test_evaluate_says_how_far_stamps_are_apart_and_pairs_them_within_a_tolerance(
        tmp_path, capsys, apart_ns, words):
    path = record(tmp_path / 'bag', apart_ns)
    assert main(['evaluate', str(path), *OPTIONS]) == 2
    assert (f'images of both sides, but no pair: the closest stamps differ by {words} s, '
            'approximate_sync is off') in capsys.readouterr().err
    assert main(['evaluate', str(path), *OPTIONS, '--approximate-sync', '0.005']) == 0
    assert stamps(json.loads(capsys.readouterr().out)) == [
        START + index * PERIOD for index in range(COUNT)]


def test_a_parameter_file_of_a_node_says_which_images_are_a_pair(tmp_path, capsys):
    path, own = record(tmp_path / 'bag', 12_000), tmp_path / 'node.yaml'
    command = ['evaluate', str(path), *OPTIONS, '--params-file', str(own)]
    own.write_text(yaml.safe_dump({'/**': {'ros__parameters': {'approximate_sync': True}}}))
    assert main(command) == 0
    assert len(stamps(json.loads(capsys.readouterr().out))) == COUNT
    # What the command line says wins, as for every setting.
    assert main([*command, '--approximate-sync', '1e-6']) == 2
    assert 'approximate_sync_tolerance_seconds is 1e-06' in capsys.readouterr().err
    own.write_text(yaml.safe_dump({'/**': {'ros__parameters': {
        'approximate_sync': True, 'approximate_sync_tolerance_seconds': 0}}}))
    assert main(command) == 2
    assert 'approximate_sync_tolerance_seconds is 0.0, but with' in capsys.readouterr().err
    assert main(['evaluate', str(path), *OPTIONS, '--set', 'approximate_sync=true']) == 2
    assert 'use --approximate-sync SECONDS' in capsys.readouterr().err


@pytest.mark.parametrize(('apart_ns', 'behind'), [(90 * 10**9, 'left'), (-90 * 10**9, 'right')])
def test_a_clock_that_is_wrong_is_told_as_such(tmp_path, apart_ns, behind):
    with bags.StereoBag(record(tmp_path / 'bag', apart_ns)) as bag, \
            pytest.raises(StereoError, match=rf'the stamps of {behind} images are 90.000 s behind '
                          'those of .*: is one clock wrong'):
        list(bag.read())


def test_a_side_without_images_is_named(tmp_path):
    path = record(tmp_path / 'bag', 0, without_right=tuple(range(1, COUNT)))
    with bags.StereoBag(path) as bag:
        assert len(list(bag.read())) == 1
    found = PairFinder(0.0)
    found.add(Image('left', 5, 5, None))
    assert found.why_none() == 'there are no right images'


def test_images_without_a_partner_are_told_once_if_they_are_more_than_a_few(tmp_path, caplog):
    path = record(tmp_path / 'bag', 0, without_right=(1, 2), count=10)
    sources = Sources(inputs_of([path]))
    for _ in range(2):
        list(sources.pairs())
    assert caplog.text.count('2 of 10 left images have no partner (approximate_sync is off)') == 1
    caplog.clear()
    list(Sources(inputs_of([path]), limit=1).pairs())
    list(Sources(inputs_of([record(tmp_path / 'whole', 0)])).pairs())
    assert caplog.text == ''


def folder(path: pathlib.Path, left: list[int], right: list[int]) -> pathlib.Path:
    for side, names in (('left', left), ('right', right)):
        (path / side).mkdir(parents=True)
        for name in names:
            files.write_image(path / side / f'{name}.png', np.full((8, 16), 9, np.uint8))
    return path


def test_a_folder_of_stamped_images_is_paired_by_the_same_rule(tmp_path, caplog):
    left = [START + index * PERIOD for index in range(COUNT)]
    path = folder(tmp_path / 'a', left, [stamp + 12_000 for stamp in left])
    with pytest.raises(ValueError, match=r'no pair: the closest stamps differ by 0.000012 s, '
                       'approximate_sync is off'):
        open_dataset(path)
    assert [pair.stamp_ns for pair in open_dataset(path, 0.001)] == left
    assert open_source(path, topics=StereoTopics(tolerance_s=0.001)).pairs == COUNT
    lacking = folder(tmp_path / 'b', left, [stamp - 5_000 for stamp in left[1:]])
    dataset = open_dataset(lacking, 0.001)
    assert [pair.stamp_ns for pair in dataset] == left[1:]
    assert f'1 of {COUNT} left images have no partner' in dataset.warnings[0]
    assert main(['evaluate', str(lacking), *OPTIONS, '--approximate-sync', '0.001']) == 0
    assert f'1 of {COUNT} left images have no partner' in caplog.text
    with pytest.raises(ValueError, match=r'left images are 0.1 s apart by their names'):
        open_dataset(lacking, 0.2)
    # Numbers of frames are no stamps that a tolerance could be for.
    numbered = folder(tmp_path / 'c', [1, 2, 3], [1, 3])
    for tolerance_s in (0.0, 0.01):
        assert open_dataset(numbered, tolerance_s).names == ('1', '3')


def test_right_images_without_a_partner_count_too(tmp_path, caplog):
    found = [one for index in range(COUNT) for one in recordings.pair(
        START + index * PERIOD, *2 * [np.full((8, 16), index, np.uint8)], CALIBRATION)
        if (index, one[0]) != (1, '/left/image_rect')]
    list(Sources(inputs_of([recordings.write(tmp_path / 'bag', found)])).pairs())
    assert f'1 of {COUNT} right images have no partner' in caplog.text


def test_a_replay_says_before_it_plays_that_no_stamps_are_equal(tmp_path):
    path = record(tmp_path / 'bag', 12_000)
    warning, = open_source(path).warnings
    assert 'the closest stamps differ by 0.000012 s' in warning
    assert 'the node pairs them with approximate_sync' in warning
    assert open_source(path, topics=StereoTopics(tolerance_s=0.01)).warnings == ()


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize('way', ['file', 'option'])
def test_a_replay_judges_the_pairs_that_its_node_has_made(
        tmp_path, capsys, caplog, ros_environment, monkeypatch, way):
    for name in ('ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE'):
        monkeypatch.setenv(name, ros_environment[name])
    path = record(tmp_path / 'bag', 4_000_000)
    options = ['--approximate-sync', '0.02']
    if way == 'file':
        (tmp_path / 'node.yaml').write_text(yaml.safe_dump({'/**': {'ros__parameters': {
            'approximate_sync': True, 'approximate_sync_tolerance_seconds': 0.02}}}))
        options = ['--params-file', str(tmp_path / 'node.yaml')]
    assert main(['replay', str(path), '--output', str(tmp_path / 'out'), '--json', '--preset',
                 'sad_fast', '--set', 'disparity_range=16', '--backend', 'cpu', *options]) == 0
    assert 'no pair' not in caplog.text
    report = json.loads(capsys.readouterr().out)
    run = report['runs']['replay']
    assert len(report['pairs']) == run['frames']['recorded'] > 0
    assert set(stamps(report)) <= {START + index * PERIOD for index in range(COUNT)}
    assert report['all']['coverage'] > 40
    assert 'not judged' not in caplog.text
