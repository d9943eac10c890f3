"""Videos, side by side or of two files, as sources of pairs."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import LAYOUTS
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import Globs, StereoTopics
from stereo_bp_ros.sources.pairs import Input, Pair, Sources, open_pairs
from stereo_bp_ros.sources.videos import StereoVideo
from test.cli import side_by_side as recorded

OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def pairs_of(path: pathlib.Path, layout: str = '', **topics: Any) -> list[Pair]:
    return list(open_pairs(path, StereoTopics(side_by_side=layout, **topics))[1])


@pytest.fixture
def video(tmp_path: pathlib.Path) -> pathlib.Path:
    """Side by side, left_right, with the calibration of a half beside it."""
    recorded.write_calibration(tmp_path)
    return recorded.write_video(tmp_path / 'street.avi', (
        recorded.joined(*pair) for pair in recorded.images()))


@pytest.fixture
def videos(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of left.avi and right.avi with their calibration."""
    folder = recorded.write_calibration(tmp_path / 'videos').parent
    for place, side in enumerate(('left', 'right')):
        recorded.write_video(folder / f'{side}.avi', (pair[place] for pair in recorded.images()))
    return folder


def check(found: list[Pair], expected: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Names, stamps at 10 Hz, calibration and the very pixels."""
    assert [pair.name for pair in found] == ['000000', '000001', '000002', '000003']
    stamps = [pair.stamp_ns for pair in found]
    np.testing.assert_allclose(np.diff(np.array(stamps)), 1e8, rtol=1e-3)
    for pair, images in zip(found, expected, strict=True):
        assert pair.calibration
        assert pair.calibration.baseline_m == pytest.approx(recorded.STREET.baseline_m)
        for image, pixels in zip(pair.images, images, strict=True):
            assert image.encoding == 'bgr8'
            np.testing.assert_array_equal(image.pixels, pixels)


@pytest.mark.parametrize('layout', LAYOUTS)
def test_halves_of_frames_are_the_pairs(layout: str, tmp_path: pathlib.Path) -> None:
    recorded.write_calibration(tmp_path)
    path = recorded.write_video(tmp_path / 'street.avi', (
        recorded.joined(*pair, layout) for pair in recorded.images()))
    expected = []
    for frame in recorded.decoded(path):
        first, second = np.split(frame, 2, axis=0 if layout == 'top_bottom' else 1)
        expected.append((second, first) if layout == 'right_left' else (first, second))
    found = pairs_of(path, layout)
    check(found, expected)
    for pair, (left, _) in zip(found, recorded.images(), strict=True):
        difference = cv2.absdiff(cv2.cvtColor(pair.images[0].pixels, cv2.COLOR_BGR2GRAY), left)
        assert difference.mean() < 4        # JPEG


def test_frames_of_equal_number_of_two_videos_are_the_pairs(videos: pathlib.Path) -> None:
    expected = list(zip(*(recorded.decoded(videos / f'{side}.avi') for side in ('left', 'right')),
                        strict=True))
    check(pairs_of(videos), expected)
    named = Sources([Input('ab', videos / 'left.avi', videos / 'right.avi')])
    check(list(named.pairs()), expected)
    assert named.paths == [videos / 'left.avi', videos / 'right.avi']
    for side in ('left', 'right'):
        (videos / f'{side}.avi').rename(videos / f'camera_{side[0]}.avi')
    check(pairs_of(videos, globs=Globs('*_l.avi', '*_r.avi')), expected)


def test_an_evaluation_finds_what_it_finds_of_the_decoded_images(
        video: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip('numba')
    frames = recorded.decoded(video)
    # Names of frames count at 10 Hz, as the video has them.
    pairs = recorded.write_pairs(tmp_path / 'pairs', [
        (frame[:, :96], frame[:, 96:]) for frame in frames], [f'{k:06}' for k in range(4)])
    found = []
    for arguments in ([str(pairs)], [str(video), '--side-by-side', 'left_right']):
        capsys.readouterr()
        assert main(['evaluate', *arguments, *OPTIONS]) == 0
        found.append(recorded.figures(json.loads(capsys.readouterr().out)))
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_a_replay_sends_the_frames_of_both_cameras(videos: pathlib.Path, video: pathlib.Path
                                                   ) -> None:
    for source, right in (
            (open_source(videos), recorded.decoded(videos / 'right.avi')),
            (open_source(video, topics=StereoTopics(side_by_side='left_right')),
             [frame[:, 96:] for frame in recorded.decoded(video)])):
        assert source.pairs == 4
        events = list(source.events())
        sent = [bags.STORE.deserialize_cdr(bytes(one.data), bags.IMAGE) for one in events
                if one.topic == 'right/image_rect']
        for message, frame in zip(sent, right, strict=True):
            np.testing.assert_array_equal(RawImage.from_message(message).pixels, frame)
        assert {one.topic for one in events} == set(source.types)


def test_one_video_needs_a_layout_and_two_need_none(video: pathlib.Path, videos: pathlib.Path
                                                    ) -> None:
    with pytest.raises(StereoError, match=r'street\.avi is one video: say with --side-by-side'):
        pairs_of(video)
    with pytest.raises(StereoError, match='are two videos: leave --side-by-side out'):
        StereoVideo([videos / 'left.avi', videos / 'right.avi'],
                    StereoTopics(side_by_side='left_right'))


def test_a_video_that_ends_early_is_read_up_to_there_and_said(video: pathlib.Path) -> None:
    frames = [recorded.joined(*pair) for pair in recorded.images()] * 5
    recorded.write_video(video, frames)
    content = video.read_bytes()
    video.write_bytes(content[:len(content) // 2])
    found = Sources([Input('street', video)], StereoTopics(side_by_side='left_right'))
    warning, = found.warnings
    assert f'street.avi ends early: {found.count} of the 20 frames of its header' in warning
    assert 5 < found.count < 15
    assert len(list(found.pairs())) == found.count


@pytest.mark.parametrize('content', [b'', b'no video', b'RIFF' + bytes(96)], ids=len)
def test_what_is_no_video_is_an_error(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / 'street.mp4'
    path.write_bytes(content)
    with pytest.raises(StereoError, match=r'street\.mp4 cannot be opened as a video'):
        pairs_of(path, 'left_right')
    with pytest.raises(ValueError, match='there is no file'):
        pairs_of(path.with_name('other.mp4'), 'left_right')


def test_an_error_about_a_video_is_one_line_whatever_its_decoder_says(tmp_path: pathlib.Path
                                                                      ) -> None:
    path = tmp_path / 'street.mp4'
    path.write_bytes(b'no video')
    done = subprocess.run(
        [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'evaluate', str(path),
         '--side-by-side', 'left_right', *OPTIONS], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_videos_of_different_length_or_rate_are_said_and_of_size_rejected(videos: pathlib.Path
                                                                          ) -> None:
    rights = [right for _, right in recorded.images()]
    recorded.write_video(videos / 'right.avi', rights[:3], rate_hz=20)
    found = Sources([Input('videos', videos)])
    length, rate = found.warnings
    assert 'has 4 frames and' in length
    assert 'the first 3 of both are pairs' in length
    assert 'has 10 frames per second and' in rate
    assert len(list(found.pairs())) == 3
    recorded.write_video(videos / 'right.avi', (right[:32] for right in rights))
    with pytest.raises(StereoError, match=r'left\.avi is 96 x 64, and .*right\.avi is 96 x 32'):
        pairs_of(videos)


def test_frames_at_different_times_are_said(videos: pathlib.Path,
                                            caplog: pytest.LogCaptureFixture) -> None:
    recorded.write_video(videos / 'right.avi', (right for _, right in recorded.images()),
                         rate_hz=5)
    assert len(pairs_of(videos)) == 4
    assert [record.getMessage() for record in caplog.records if 'were frames dropped' in
            record.getMessage()] == [
        f'frame 2 of {videos / "left.avi"} is at 0.100 s and that of {videos / "right.avi"} at '
        '0.200 s: were frames dropped?']


def test_a_frame_without_equal_halves_is_an_error(tmp_path: pathlib.Path) -> None:
    path = recorded.write_video(tmp_path / 'odd.avi', [np.zeros((48, 66), np.uint8)] * 2)
    assert len(pairs_of(path, 'left_right')) == 2
    path = recorded.write_video(tmp_path / 'odd.avi', [np.zeros((50, 66), np.uint8)] * 2)
    assert len(pairs_of(path, 'top_bottom')) == 2
    path = recorded.write_video(tmp_path / 'odd.avi', [np.zeros((48, 67), np.uint8)] * 2)
    if recorded.decoded(path)[0].shape[1] % 2:
        with pytest.raises(StereoError, match=r'odd\.avi: .*width 67'):
            pairs_of(path, 'left_right')
