"""The border of Python: forms whose meaning is certain work, all others are rejected in words."""

from __future__ import annotations

import concurrent.futures
import enum
import inspect
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
import stereo_bp_ros
from stereo_bp_ros import (
    Calibration,
    ConfigError,
    DisparityFrame,
    InputError,
    IssueCode,
    IssueLevel,
    MatcherConfig,
    OpenCvStereoMatcher,
    Pending,
    RawCamera,
    RawImage,
    Rectification,
    StereoError,
    StereoMatcher,
    StereoStream,
    ValidWindow,
    examine_pair,
)
from stereo_bp_ros.matcher.opencv_interface import SETTINGS
from test.cases import every
from test.core.class_table import LEFT_OUT
from test.raw_cameras import HEIGHT, WIDTH, camera_info, rectification, write_ros

SMALL = {'backend': 'cpu', 'stereo_algorithm': 'sad', 'disparity_range': 16}
CONFIG = MatcherConfig(**SMALL, row_correction='correct')
CALIBRATION = Calibration(100.0, 0.5, 32.0, 32.0, 16.0)
PROJECTIONS = [np.array([[100.0, 0, 32, -100 * baseline], [0, 100, 16, 0], [0, 0, 1, 0]])
               for baseline in (0, 0.5)]
Q = [[1, 0, 0, -32], [0, 1, 0, -16], [0, 0, 0, 100], [0, 0, 2, 0]]

#: In place of each argument in turn.
WRONG = {'None': None, 'a text': 'nonsense', 'NaN': float('nan'), 'a negative number': -1,
         'nothing': (), 'a cube': np.zeros((2, 2, 2)), 'zeros': np.zeros((3, 3)),
         'something': object()}

#: Arguments that are not looked at: fields of results, and words for errors.
ANY_VALUE = {
    'DisparityFrame', 'Issue', 'PointCloud', 'StreamResult', 'ValidWindow', 'Pending',
    'RawCamera(model)', 'RawImage(big_endian)', 'RawCamera.from_camera_info(side)',
    # Of arrays on a device alone.
    'StereoMatcher.compute(stream)', 'StereoMatcher.submit(stream)'}

#: What an error calls an argument, where it is not by its name.
WORDS = {'config': 'preset', 'name': 'preset', 'info': 'camera_info',
         'disparity': 'fixed_disparity'}

#: Arguments that may be the path of a file: there is none, says a ValueError that names it.
PATHS = {'path', 'calibration', 'rectification'}


def frame() -> DisparityFrame:
    disparity = np.zeros((32, 64), np.float32)
    return DisparityFrame(disparity, None, None, 0.0, 15.0, 1 / 16, ValidWindow(0, 0, 64, 32), {},
                          'cpu')


def pending() -> Pending:
    future: concurrent.futures.Future[DisparityFrame] = concurrent.futures.Future()
    future.set_result(frame())
    return Pending(future)


def observing(pair: dict[str, np.ndarray]) -> StereoStream:
    stream = StereoStream(CONFIG)
    stream.observe(**pair)
    return stream


class Border:
    """Valid arguments of everything that is public, and the instances of methods."""

    def __init__(self, pair: tuple[np.ndarray, np.ndarray], folder: pathlib.Path) -> None:
        left, right = pair
        images = {'left': left, 'right': right}
        infos = {side: camera_info(side) for side in images}
        for side, projection in zip(images, PROJECTIONS, strict=True):
            np.savetxt(folder / f'P_{side}.txt', projection)
        self.calibration = folder / 'P_left.txt'
        self.rectification = write_ros(folder)
        window = {'x_offset': 0, 'y_offset': 0, 'width': 1, 'height': 1}
        camera = {'model': 'plumb_bob', 'd': (), 'k': np.eye(3), 'r': np.eye(3),
                  'p': PROJECTIONS[0]}
        rectified = rectification()
        self.instances: dict[str, Callable[[], Any]] = {
            'Calibration': lambda: CALIBRATION, 'DisparityFrame': frame,
            'MatcherConfig': lambda: CONFIG, 'Pending': pending,
            'OpenCvStereoMatcher': lambda: StereoMatcher(CONFIG).as_opencv(),
            'RawCamera': lambda: RawCamera(**camera), 'Rectification': lambda: rectified,
            'StereoMatcher': lambda: StereoMatcher(CONFIG),
            'StereoStream': lambda: observing(images)}
        self.arguments: dict[str, dict[str, Any]] = {
            'Calibration': {'focal_px': 100.0, 'baseline_m': 0.5, 'cx_left': 32.0,
                            'cx_right': 32.0, 'cy': 16.0},
            'Calibration.from_camera_info': infos, 'Rectification.from_camera_info': infos,
            'Calibration.from_file': {'path': self.calibration},
            'Calibration.from_projections': dict(zip(images, PROJECTIONS, strict=True)),
            'Calibration.from_q': {'q': Q},
            'DisparityFrame': {
                'disparity': None, 'depth': None, 'confidence': None, 'min_disparity': 0.0,
                'max_disparity': 1.0, 'delta_d': 1.0, 'valid_window': ValidWindow(**window),
                'timings': {}, 'backend': 'cpu'},
            'DisparityFrame.save': {'path': folder / 'saved.npy'},
            'Issue': {'code': IssueCode.YAW, 'level': IssueLevel.WARN, 'text': 'wrong'},
            'MatcherConfig.from_mapping': {'values': {}},
            'MatcherConfig.preset': {'name': 'sad_fast'},
            'OpenCvStereoMatcher': {'matcher': StereoMatcher(CONFIG)},
            'OpenCvStereoMatcher.compute': images,
            'Pending': {'future': None}, 'PointCloud': {'xyz': None, 'rgb': None},
            'RawCamera': camera,
            'RawCamera.from_camera_info': {'side': 'left', 'info': infos['left']},
            'RawCamera.maps': {'width': 64, 'height': 32},
            'RawImage': {'data': bytes(4), 'height': 2, 'width': 2, 'step': 2,
                         'encoding': 'mono8'},
            'RawImage.from_array': {'array': left}, 'RawImage.from_dlpack': {'array': left},
            'RawImage.from_message': {'message': None},
            'Rectification': {'left': rectified.left, 'right': rectified.right, 'width': WIDTH,
                              'height': HEIGHT},
            'Rectification.from_file': {'path': self.rectification},
            'Rectification.maps': {'side': 'left'},
            'StereoMatcher': {'config': 'auto', 'size': (64, 32), 'backend': 'cpu'},
            'StereoMatcher.compute': images, 'StereoMatcher.submit': images,
            'StereoMatcher.correct_rows': {'homography': np.eye(3)},
            'StereoMatcher.prepare': {'width': 64, 'height': 32},
            'StereoMatcher.choose_preset': {'width': 64, 'height': 32},
            'StereoMatcher.reconfigure': {'config': CONFIG},
            'StereoStream': {'backend': 'cpu'},
            'StereoStream.add': images, 'StereoStream.observe': images,
            'StereoStream.reconfigure': {'config': CONFIG},
            'StreamResult': {'frame': None, 'issues': [], 'corrected_px': 0.0},
            'ValidWindow': window,
            'examine_pair': {**images, 'config': CONFIG}}

    def call(self, name: str, /, **changes: Any) -> Any:
        """Call what is public with valid arguments, but for some."""
        outer, _, inner = name.partition('.')
        function = getattr(stereo_bp_ros, outer)
        if inner:
            function = getattr(function, inner, None)
            if not inspect.ismethod(function):              # else a class method
                function = getattr(self.instances[outer](), inner)
        if inner in SETTERS:
            return function(*changes.values())
        found = function(**{**self.arguments.get(name, {}), **changes})
        return found.result() if inner == 'submit' else found


SETTERS = [f'set{word}' for word in SETTINGS if word != 'BlockSize'] + ['setBlockSize']


@pytest.fixture
def border(textured_pair, tmp_path):
    return Border(textured_pair(64, 32, 5), tmp_path)


def public() -> Iterator[tuple[str, str]]:
    """Everything that is public and takes arguments, with each of these."""
    for name in stereo_bp_ros.__all__:
        thing = getattr(stereo_bp_ros, name)
        if not inspect.isclass(thing):
            yield from arguments(name, thing)
        elif not issubclass(thing, (Exception, enum.Enum)):     # the package makes them
            yield from arguments(name, thing)
            for key, value in inspect.getmembers(thing, inspect.isroutine):
                if key[0] != '_' and key not in LEFT_OUT and str(
                        getattr(value, '__module__', '')).startswith('stereo_bp_ros'):
                    yield from arguments(f'{name}.{key}', value)
    yield from ((f'OpenCvStereoMatcher.{setter}', 'value') for setter in SETTERS)


def arguments(name: str, function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            yield from ((name, setting) for setting in ('levels', 'program'))
        elif one.name != 'self':
            yield name, one.name


@pytest.mark.parametrize(('name', 'argument'), [
    pytest.param(*one, id='{}({})'.format(*one)) for one in public()])
def test_a_wrong_argument_is_named_in_an_error_of_the_package(border, name, argument):
    errors: dict[str, BaseException] = {}
    for what, value in WRONG.items():
        try:
            border.call(name, **{argument: value})
        except Exception as error:
            errors[what] = error
    word = SETTINGS.get(name.rpartition('set')[2], WORDS.get(argument, argument))
    wrong = {what: repr(error) for what, error in errors.items()
             if not is_named(argument, word, error) and not is_missing_file(argument, what, error)}
    assert wrong == {}
    if not ANY_VALUE & {name, f'{name}({argument})'}:
        assert 'something' in errors


def is_named(argument: str, word: str, error: BaseException) -> bool:
    return isinstance(error, StereoError) and bool(
        re.search(rf'\b({argument}|{word})\b', str(error), re.IGNORECASE))


def is_missing_file(argument: str, what: str, error: BaseException) -> bool:
    """Whether a text was taken for the path of a file, and the error names it."""
    return (argument in PATHS and what == 'a text' and isinstance(error, ValueError)
            and WRONG[what] in str(error))


def test_the_walk_finds_what_is_public():
    found = {name for name, _ in public()}
    assert {'StereoMatcher', 'StereoMatcher.compute', 'StereoStream.add', 'Calibration.from_file',
            'MatcherConfig', 'OpenCvStereoMatcher.setNumDisparities', 'examine_pair'} <= found
    assert len([*public()]) > 150


def test_valid_arguments_are_accepted(border):
    for name in sorted({name for name, _ in public()} - {'RawImage.from_message'}):
        if not name.rpartition('.')[2].startswith('set'):
            border.call(name)


@pytest.mark.parametrize('call', [
    lambda left: StereoMatcher(CONFIG).compute(left, None),
    lambda left: StereoMatcher(CONFIG).submit(left, None).result(),
    lambda left: StereoMatcher(CONFIG).as_opencv().compute(left, None),
    lambda left: StereoStream(CONFIG).add(left, None),
    lambda left: examine_pair(left, None, CONFIG)])
def test_an_image_that_is_none_says_that_the_file_was_not_read(border, call):
    with pytest.raises(InputError, match=r'right: .* None; the file was not read: .*cv2.imread'):
        call(border.arguments['examine_pair']['left'])


def test_a_text_is_one_output(border):
    wanted = border.call('StereoMatcher.compute', outputs=('fixed_disparity',))
    found = border.call('StereoMatcher.compute', outputs='fixed_disparity')
    assert np.array_equal(found.fixed_disparity, wanted.fixed_disparity)
    assert found.disparity is None
    assert border.call('StereoStream.add', outputs='fixed_disparity').frame.disparity is None
    assert border.call('StereoStream.match', outputs='fixed_disparity').disparity is None


def test_a_preset_by_its_name_is_a_configuration_everywhere(border):
    for matcher in StereoMatcher(CONFIG, memory_limit=2**30), StereoStream(
            CONFIG, memory_limit=2**30):
        assert matcher.reconfigure('sad_fast')
        assert matcher.config == MatcherConfig.preset('sad_fast', backend='cpu',
                                                      memory_limit=2**30)
    images = border.arguments['StereoMatcher.compute']
    assert [one.text for one in examine_pair(**images, config='sad_fast')] == [
        one.text for one in examine_pair(**images, config=MatcherConfig.preset('sad_fast'))]


def test_auto_is_taken_again_where_the_size_of_images_is_known(border):
    with StereoMatcher(CONFIG) as matcher:
        with pytest.raises(ConfigError, match='what is best depends on the images'):
            matcher.reconfigure('auto')
        matcher.prepare(64, 32)
        matcher.reconfigure('auto')
        assert matcher.config == StereoMatcher('auto', 'cpu', size=(64, 32)).config


@pytest.mark.parametrize('kind', [str, pathlib.Path])
def test_a_path_is_a_calibration_everywhere(border, kind):
    path, images = kind(border.calibration), border.arguments['StereoMatcher.compute']
    read = Calibration.from_file(path)
    depth = border.call('StereoMatcher.compute', calibration=read, outputs='depth').depth
    for call in (border.call('StereoMatcher.compute', calibration=path, outputs='depth'),
                 border.call('StereoMatcher.submit', calibration=path, outputs='depth'),
                 border.call('StereoStream.add', calibration=path, outputs='depth').frame,
                 StereoStream(CONFIG, calibration=path).add(**images, outputs='depth').frame):
        assert np.array_equal(call.depth, depth, equal_nan=True)
    with StereoMatcher(CONFIG) as matcher:
        matcher.prepare(64, 32, path)
        assert matcher.calibration == read
        matcher.reconfigure(CONFIG.replace(disparity_range=64, min_depth=5.0), path)
        assert matcher.effective_config.disparity_range < 64
    border.call('examine_pair', calibration=path)


def test_a_path_is_a_rectification(border):
    images = [np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
              for seed in (1, 2)]
    with StereoMatcher(CONFIG.replace(rectify=True)) as matcher:
        wanted, found = (matcher.compute(*images, rectification=one).disparity for one in (
            Rectification.from_file(border.rectification), str(border.rectification)))
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize('shape', [(375, 1242, 3), (375,)])
def test_a_shape_in_place_of_a_size_is_told_what_to_write(shape):
    for call in (lambda: StereoMatcher('auto', 'cpu', size=shape),
                 lambda: Calibration.from_projections(*PROJECTIONS, shape),
                 lambda: Calibration.from_q(Q, shape),
                 lambda: Rectification.from_file('left.yaml', shape)):
        with pytest.raises(StereoError, match=r'write size=image\.shape\[1::-1\]'):
            call()
    found = StereoMatcher('auto', 'cpu', size=np.array([1242, 375]))
    assert found.config == StereoMatcher('auto', 'cpu', size=(1242, 375)).config


def test_a_homography_is_an_array_or_its_numbers(border):
    images = border.arguments['StereoMatcher.compute']
    moved = np.array([[1, 0, 0], [0, 1, 1.5], [0, 0, 1.0]])
    found = []
    for homography in (moved, moved.tolist(), moved.reshape(-1), tuple(moved.reshape(-1))):
        with StereoMatcher(CONFIG) as matcher:
            matcher.correct_rows(homography)
            found.append(matcher.compute(**images).disparity)
    assert not np.array_equal(found[0], border.call('StereoMatcher.compute').disparity)
    assert every(np.array_equal(one, found[0]) for one in found)
    maps = [rectification().maps('right', warp) for warp in (moved, moved.reshape(-1))]
    assert every(np.array_equal(*both) for both in zip(*maps, strict=True))
    with pytest.raises(InputError, match=r'homography has the shape \(3, 4\)'):
        StereoMatcher(CONFIG).correct_rows(PROJECTIONS[0])


def test_auto_rejects_wrong_settings_before_the_first_pair():
    with pytest.raises(ConfigError, match='did you mean disparity_range'):
        StereoStream(disparty_range=3)
    with pytest.raises(ConfigError, match='levels is -1'):
        StereoStream(levels=-1)
    with pytest.raises(RuntimeError, match='no pair was observed'):
        StereoStream(CONFIG).match()


def test_bytes_of_an_image_lie_one_after_the_other():
    with pytest.raises(InputError, match='C-contiguous'):
        RawImage(np.zeros((8, 8), np.uint8)[:, ::2], 8, 4, 4, 'mono8')


def test_the_interface_of_opencv_needs_a_matcher():
    with pytest.raises(ConfigError, match=r'matcher is .*as_opencv\(\)'):
        OpenCvStereoMatcher(object())
