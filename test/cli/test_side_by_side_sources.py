"""Side-by-side folders, recordings and images come to the results of two images each."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import LAYOUTS
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.pairs import Pair, open_pairs
from test.cli import side_by_side as recorded

OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def pairs_of(path: pathlib.Path, layout: str = '', **topics: Any) -> list[Pair]:
    return list(open_pairs(path, StereoTopics(side_by_side=layout, **topics))[1])


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    capsys.readouterr()
    assert main(['evaluate', *arguments, *OPTIONS]) == 0
    return recorded.figures(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('kind', recorded.LOSSLESS)
def test_halves_are_the_images_of_two_topics_or_folders(
        kind: str, layout: str, tmp_path: pathlib.Path) -> None:
    expected = pairs_of(recorded.write_pairs(
        tmp_path / 'pairs', recorded.images(), recorded.stamps()))
    found = pairs_of(recorded.LOSSLESS[kind](tmp_path / 'source', layout), layout)
    assert [pair.stamp_ns for pair in found] == recorded.stamps()
    for one, other in zip(found, expected, strict=True):
        assert (one.name, one.stamp_ns) == (other.name, other.stamp_ns)
        assert one.calibration
        assert other.calibration
        assert one.calibration.baseline_m == pytest.approx(other.calibration.baseline_m)
        assert one.calibration.shift == pytest.approx(other.calibration.shift)
        for image, wanted in zip(one.images, other.images, strict=True):
            np.testing.assert_array_equal(image.pixels, wanted.pixels)


@pytest.mark.parametrize('kind', recorded.LOSSLESS)
def test_a_replay_sends_both_halves_as_left_and_right_images(
        kind: str, tmp_path: pathlib.Path) -> None:
    path = recorded.LOSSLESS[kind](tmp_path / 'source', 'right_left')
    source = open_source(path, topics=StereoTopics(side_by_side='right_left'))
    sent: dict[str, list[Any]] = {topic: [] for topic in source.types}
    for event in source.events():
        sent[event.topic].append(bags.STORE.deserialize_cdr(
            bytes(event.data), source.types[event.topic]))
    assert set(source.types.values()) == {bags.IMAGE, bags.CAMERA_INFO}
    for place, side in enumerate(('left', 'right')):
        for message, pair in zip(sent[f'{side}/image_rect'], recorded.images(), strict=True):
            np.testing.assert_array_equal(RawImage.from_message(message).pixels, pair[place])
        infos = sent[f'{side}/camera_info']
        assert len(infos) == len(recorded.stamps())
        assert {(info.width, info.height) for info in infos} == {(96, 64)}
        offset = 0.0 if side == 'left' else -recorded.STREET.focal_px * recorded.STREET.baseline_m
        assert infos[0].p[3] == pytest.approx(offset)
    stamps = [message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
              for message in sent['left/image_rect']]
    assert stamps == recorded.stamps()


def test_an_evaluation_finds_the_same(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
                                      ) -> None:
    pytest.importorskip('numba')
    pairs = recorded.write_pairs(tmp_path / 'pairs', recorded.images(), recorded.stamps())
    expected = evaluated(capsys, str(pairs))
    assert len(expected) == 4
    for name, write in recorded.LOSSLESS.items():
        path = write(tmp_path / name, 'top_bottom')
        assert evaluated(capsys, str(path), '--side-by-side', 'top_bottom') == expected, name


def test_a_truth_belongs_to_the_left_half(tmp_path: pathlib.Path) -> None:
    folder = recorded.write_images(tmp_path / 'set' / 'images')
    (folder / 'disparity').mkdir()
    for frame in recorded.STREET:
        files.write_pfm(folder / 'disparity' / f'{frame.stamp_ns}.pfm', frame.disparity)
    found = pairs_of(folder, 'left_right')
    assert len(found) == 4
    for pair, frame in zip(found, recorded.STREET, strict=True):
        np.testing.assert_array_equal(pair.truth, frame.disparity)
    assert len(pairs_of(folder.parent, 'left_right')) == 4      # disparity/ has no pairs


def test_a_single_image_is_a_pair_with_the_calibration_beside_it(tmp_path: pathlib.Path) -> None:
    path = sorted(recorded.write_images(tmp_path).glob('*.png'))[2]
    pair, = pairs_of(path, 'left_right')
    np.testing.assert_array_equal(pair.right, recorded.images()[2][1])
    assert pair.calibration
    with pytest.raises(ValueError, match='an image of both cameras needs --side-by-side'):
        pairs_of(path)


def test_a_given_calibration_is_of_one_half(tmp_path: pathlib.Path) -> None:
    path = recorded.write_bag(tmp_path / 'bag', infos=())
    calibration = recorded.write_calibration(tmp_path / 'cameras')
    with pytest.raises(StereoError, match=r'no message of camera_info'):
        pairs_of(recorded.write_bag(tmp_path / 'raw', infos=(), image='/stereo/image_raw'),
                 'left_right')
    found = pairs_of(path, 'left_right', calibration=str(calibration))
    assert found[0].calibration
    assert found[0].calibration.baseline_m == pytest.approx(recorded.STREET.baseline_m)
    events = list(open_source(path, topics=StereoTopics(
        side_by_side='left_right', calibration=str(calibration))).events())
    assert sum(one.topic == 'right/camera_info' for one in events) == 4


@pytest.mark.parametrize(('changes', 'words'), [
    ({'p': np.array([86.4, 0, 47.5, 0, 0, 86.4, 29, 0, 0, 0, 1, 0])},
     r'P\[3\] is 0: it has no baseline'),
    ({'d': np.array([-0.3, 0.1, 0, 0, 0])}, 'describes raw images')])
def test_one_camera_info_has_a_baseline_and_is_of_rectified_images(
        changes: dict[str, np.ndarray], words: str, tmp_path: pathlib.Path) -> None:
    path = recorded.write_bag(tmp_path / 'bag', image='/stereo/image_raw', changes=changes)
    with pytest.raises(StereoError, match=words):
        pairs_of(path, 'left_right')


def test_the_one_topic_is_named_where_there_are_several(tmp_path: pathlib.Path) -> None:
    from test.cli import recordings
    path = recordings.write(tmp_path / 'bag', recordings.pair(
        10**18, *recorded.images()[0], recorded.STREET.calibration))
    with pytest.raises(StereoError, match=r'several image topics: .*name the side-by-side one'):
        pairs_of(path, 'left_right')
    found = pairs_of(path, 'left_right', left_image='/left/image_rect',
                     left_info='/right/camera_info')
    assert found[0].images[0].width == 48


@pytest.mark.parametrize('option', ['--right', '--left-glob', '--right-glob'])
def test_options_of_two_images_exclude_side_by_side(
        option: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['evaluate', str(tmp_path), '--side-by-side', 'left_right', option, 'a']) == 2
    assert f'{option} and --side-by-side exclude each other' in capsys.readouterr().err


def test_images_without_equal_halves_are_an_error(tmp_path: pathlib.Path) -> None:
    files.write_image(tmp_path / '000000.png', np.zeros((64, 191), np.uint8))
    with pytest.raises(ValueError, match=r'000000\.png: .*width 191'):
        pairs_of(tmp_path, 'left_right')


def test_the_player_of_a_run_gets_the_layout() -> None:
    assert StereoTopics(side_by_side='top_bottom').options() == ['--side-by-side', 'top_bottom']
