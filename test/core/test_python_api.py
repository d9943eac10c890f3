"""What makes the Python API short to use: presets by name, reprs, colours, clouds and files."""

from __future__ import annotations

import base64
import dataclasses
import re

import cv2
import numpy as np
import pytest

import stereo_bp_ros
from stereo_bp_ros import (
    Calibration,
    ConfigError,
    InputError,
    MatcherConfig,
    StereoError,
    StereoMatcher,
)
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.images import files, pictures
from stereo_bp_ros.images.output_files import ENDINGS

SMALL = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'backend': 'cpu'}
CALIBRATION = Calibration(100.0, 0.5, 32.0, 30.0, 16.0)


@pytest.fixture
def frame(textured_pair):
    with StereoMatcher(**SMALL) as matcher:
        return matcher.compute(*textured_pair(64, 32, 5), calibration=CALIBRATION,
                               outputs=tuple(OUTPUTS))


def test_a_matcher_takes_a_preset_by_its_name_and_settings():
    named = [StereoMatcher('sad_fast', 'cpu', disparity_range=32),
             StereoMatcher(preset='sad_fast', backend='cpu', disparity_range=32),
             StereoMatcher(MatcherConfig.preset('sad_fast', backend='cpu'), disparity_range=32)]
    wanted = MatcherConfig.preset('sad_fast', backend='cpu', disparity_range=32)
    assert [matcher.config for matcher in named] == [wanted] * 3
    assert StereoMatcher(backend='cpu', levels=3).config == MatcherConfig(backend='cpu', levels=3)
    with pytest.raises(ConfigError, match='give one of the two'):
        StereoMatcher('sad_fast', preset='road')


@pytest.mark.parametrize(('size', 'text'), [
    ((1242.0, 375), r'size\[0\] is 1242\.0; it must be a whole number'),
    ((1242, -375), r'size\[1\] is -375; .* at least 1'), ((1242, 375, 3), 'width, height'),
    (1242, 'width, height')])
def test_auto_refuses_what_is_no_size(size, text):
    with pytest.raises(ValueError, match=text):
        StereoMatcher('auto', size=size, backend='cpu')


def test_auto_is_the_best_preset_for_the_size_that_is_given(monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 2)
    matcher = StereoMatcher('auto', 'cpu', size=(320, 240), num_threads=2, speckle_size=3)
    assert matcher.config == MatcherConfig.preset('road', backend='cpu', num_threads=2,
                                                  speckle_size=3)
    large = StereoMatcher(preset='auto', backend='cpu', size=(1242, 375), num_threads=2)
    assert large.config == MatcherConfig.preset('road_fast', backend='cpu', num_threads=2)


def test_auto_without_a_size_is_chosen_for_the_first_pair_and_stays(textured_pair, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 2)
    with StereoMatcher(backend='cpu') as matcher:
        assert (matcher.backend, matcher.size, matcher.memory_plan) == ('cpu', None, None)
        assert repr(matcher) == "StereoMatcher('auto') on cpu"
        for call in (lambda: matcher.config, matcher.prepare, lambda: matcher.correct_rows(
                np.eye(3))):
            with pytest.raises(RuntimeError, match='the first pair'):
                call()
        left, right = textured_pair(64, 32, 5)
        with pytest.raises(InputError):
            matcher.compute(left, right[:-1])           # what is rejected chooses nothing
        matcher.compute(left, right)
        assert matcher.config == MatcherConfig.preset('road', backend='cpu')
        matcher.choose_preset(1242, 375)
        matcher.prepare(400, 300)
        assert matcher.config == MatcherConfig.preset('road', backend='cpu')
    with StereoMatcher(backend='cpu') as matcher:
        assert matcher.reconfigure('sad_fast')
        assert matcher.config == MatcherConfig.preset('sad_fast', backend='cpu')
    with pytest.raises(ConfigError, match='did you mean disparity_range'):
        StereoMatcher('auto', disparty_range=3)


def picture_of(page):
    return cv2.imdecode(np.frombuffer(base64.b64decode(
        re.search(r'base64,([^"]+)"', page)[1]), np.uint8), cv2.IMREAD_COLOR)


@pytest.mark.parametrize(('call', 'words'), [
    (lambda: StereoMatcher('road', size=(8, 8)), 'only the preset auto takes it'),
    (lambda: StereoMatcher('raod'), 'did you mean road'),
    (lambda: StereoMatcher(preset='indor'), 'did you mean indoor'),
    (lambda: StereoMatcher(disparty_range=3), 'did you mean disparity_range'),
    (lambda: MatcherConfig(disparty_range=3), 'did you mean disparity_range'),
    (lambda: MatcherConfig().replace(levls=3), 'did you mean levels'),
    (lambda: NodeConfig(queue_siz=3), 'did you mean queue_size'),
    (lambda: StereoMatcher(filling='backgroud'), 'did you mean background'),
    (lambda: StereoMatcher(concurrent='queue'), 'one of raise, wait')])
def test_unknown_names_suggest_the_closest(call, words):
    with pytest.raises(ConfigError, match=words):
        call()


def test_an_unknown_output_or_encoding_suggests_the_closest(textured_pair, frame):
    with StereoMatcher(**SMALL) as matcher, pytest.raises(InputError, match='did you mean bgr8'):
        matcher.compute(*textured_pair(64, 32, 5), encoding='bgr')
    with StereoMatcher(**SMALL) as matcher, pytest.raises(StereoError, match='mean confidence'):
        matcher.compute(*textured_pair(64, 32, 5), outputs=('confidance',))
    with pytest.raises(StereoError, match='did you mean depth'):
        frame.save('depth.npy', 'dept')


def test_reprs_are_short_and_say_what_differs():
    config = MatcherConfig(disparity_range=32, subpixel=False)
    assert repr(config) == 'MatcherConfig(disparity_range=32, subpixel=False)'
    assert eval(repr(config), vars(stereo_bp_ros)) == config
    with StereoMatcher(backend='cpu', levels=3) as matcher:
        assert repr(matcher) == "StereoMatcher(MatcherConfig(levels=3, backend='cpu')) on cpu"


def test_help_tells_every_setting_with_default_meaning_and_limits():
    for kind in (MatcherConfig, NodeConfig):
        text = ' '.join(kind.__doc__.split())
        for name, setting in kind.settings().items():
            meaning = ' '.join(setting.meaning.split())
            assert f'* ``{name}`` = {setting.default!r}: {meaning}' in text
    assert 'a whole number from 2 to 512 pixels' in text or kind is NodeConfig


def test_a_frame_says_what_it_holds_and_shows_itself_in_a_notebook(frame):
    assert re.fullmatch(
        r'DisparityFrame\(64 x 32 pixels, disparities -2 to 13 px, \d+\.\d % valid; disparity, '
        r'.*points; \d+\.\d ms \(cpu\)\)', repr(frame)), repr(frame)
    page = frame._repr_html_()
    assert 'src="data:image/' in page
    assert re.search(r'depth \d+\.\d\d to \d+\.\d\d m', page)
    without = dataclasses.replace(frame, depth=None)._repr_html_()
    assert picture_of(page).shape[0] > 1.2 * picture_of(without).shape[0]
    depth = np.array([[1.0, 10.0, 100.0, np.nan]])
    blue, _, red = pictures.depth_picture(depth, 1, 100)[0].astype(int).T
    assert (red[0] > blue[0], red[2] < blue[2], (blue[3], red[3])) == (
        True, True, pictures.INVALID[::2])
    assert len(page) < 500_000


def test_colour_images_of_opencv_are_right_with_bgr8(textured_pair):
    grey = textured_pair(64, 32, 5)
    bgr = [np.stack([image, image // 2, image // 3], -1) for image in grey]
    with StereoMatcher(**SMALL) as matcher:
        wanted = matcher.compute(*(image[:, :, ::-1].copy() for image in bgr)).disparity
        as_opencv = matcher.compute(*bgr, encoding='bgr8').disparity
        assert np.array_equal(as_opencv, wanted)
        assert np.array_equal(matcher.submit(*bgr, encoding='bgr8').result().disparity, wanted)
        alpha = [np.dstack([image[:, :, ::-1], image[:, :, :1]]) for image in bgr]
        assert np.array_equal(matcher.compute(*alpha).disparity, wanted)
        assert not np.array_equal(matcher.compute(*bgr).disparity, wanted)
        with pytest.raises(InputError, match='bgr8 needs'):
            matcher.compute(*grey, encoding='bgr8')


def test_a_point_cloud_has_the_valid_points_and_their_colours(frame):
    cloud = frame.point_cloud()
    known = np.isfinite(frame.points[..., 2])
    assert cloud.xyz.shape == cloud.rgb.shape == (known.sum(), 3)
    assert np.array_equal(cloud.xyz, frame.points[known][:, :3])
    bits = frame.points[..., 3].view(np.uint32)[known]
    assert np.array_equal(cloud.rgb @ np.array([1 << 16, 1 << 8, 1]), bits)
    assert len(set(cloud.rgb[:, 0].tolist())) > 10


def test_points_of_colour_images_of_opencv_are_red_where_these_are(textured_pair):
    bgr = [np.stack([image // 4, image // 2, image], -1) for image in textured_pair(64, 32, 5)]
    with StereoMatcher(**SMALL) as matcher:
        frame = matcher.compute(*bgr, encoding='bgr8', calibration=CALIBRATION,
                                outputs=('points',))
    known = np.isfinite(frame.points[..., 2])
    assert known.sum() > 500
    assert np.array_equal(frame.point_cloud().rgb, bgr[0][known][:, ::-1])


def test_every_output_that_is_told_can_be_saved(frame, tmp_path):
    assert ENDINGS.keys() == OUTPUTS.keys()
    for output, endings in ENDINGS.items():
        for ending in endings:
            path = tmp_path / f'{output}{ending}'
            frame.save(path, output)
            assert path.stat().st_size > 0
    disparity = np.where(frame.valid, frame.disparity, np.nan)
    assert np.array_equal(np.load(tmp_path / 'disparity.npy'), disparity, equal_nan=True)
    tiff = cv2.imread(str(tmp_path / 'disparity.tiff'), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(tiff, disparity, equal_nan=True)
    assert np.array_equal(files.read_pfm(tmp_path / 'disparity.pfm'),
                          np.where(frame.valid, disparity, np.inf))
    depth = cv2.imread(str(tmp_path / 'depth.png'), cv2.IMREAD_UNCHANGED)
    assert depth.dtype == np.uint16
    assert np.array_equal(depth, frame.depth_mm)
    confidence = cv2.imread(str(tmp_path / 'confidence.png'), cv2.IMREAD_UNCHANGED) / 65535
    assert np.abs(confidence - frame.confidence).max() < 1e-5


def test_clouds_are_binary_with_colours(frame, tmp_path):
    xyz, rgb = frame.point_cloud()
    frame.save(tmp_path / 'cloud.ply')
    header, _, body = (tmp_path / 'cloud.ply').read_bytes().partition(b'end_header\n')
    assert header.startswith(b'ply\nformat binary_little_endian 1.0\n')
    assert b'element vertex %d\n' % len(xyz) in header
    read = np.frombuffer(body, [('xyz', '<f4', 3), ('rgb', 'u1', 3)])
    assert np.array_equal(read['xyz'], xyz)
    assert np.array_equal(read['rgb'], rgb)
    frame.save(tmp_path / 'cloud.pcd')
    header, _, body = (tmp_path / 'cloud.pcd').read_bytes().partition(b'DATA binary\n')
    assert b'POINTS %d\n' % len(xyz) in header
    read = np.frombuffer(body, [('xyz', '<f4', 3), ('bgr', 'u1', 4)])
    assert np.array_equal(read['xyz'], xyz)
    assert np.array_equal(read['bgr'][:, 2::-1], rgb)


def test_a_file_of_another_ending_or_output_is_rejected_in_a_sentence(frame, tmp_path,
                                                                     textured_pair):
    with pytest.raises(ValueError, match=r'a file of disparity must end in .pfm, .png, .*npy'):
        frame.save(tmp_path / 'disparity.jpg')
    with pytest.raises(ValueError, match=r'a file of points must end in .ply or .pcd'):
        frame.save(tmp_path / 'cloud.npy', 'points')
    with StereoMatcher(**SMALL) as matcher:
        bare = matcher.compute(*textured_pair(64, 32, 5))
    for call in (bare.point_cloud, lambda: bare.save(tmp_path / 'cloud.ply')):
        with pytest.raises(ValueError, match='without the points output'):
            call()
