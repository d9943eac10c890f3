"""What is fuzzed: a function for each border at which something comes from outside.

A target is called with the bytes of a case and with a folder of its own. It may raise what is
documented, and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.calibration_files import NAMES, find_calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.cli import main
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.mappings import all_settings, parse_assignments, split
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.evaluation.scenario import read_scenario
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.images import files
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.sources import bags
from test.fuzz import inputs, messages
from test.fuzz.inputs import Choices


class Target(NamedTuple):
    """One border.

    run:     takes the bytes of a case and a folder for its files.
    corpus:  makes sound inputs; () = the bytes choose values, see ``Choices``.
    errors:  the documented ones.
    share:   of the cases, relative to the others.
    file:    the name that every error has to tell, where there is one.
    crashes: the parser is another project's, which may end the process: that is counted.
    """

    run: Callable[[bytes, pathlib.Path], object]
    corpus: Callable[[], Sequence[bytes]]
    share: float
    errors: tuple[type[Exception], ...] = (ValueError,)
    file: str = ''
    crashes: bool = False


def bag(data: bytes, folder: pathlib.Path) -> None:
    """A recording of each storage, read to its end."""
    path = _written_bag(data, folder)
    with bags.StereoBag(path) as recording:
        recording.warnings()
        for pair in itertools.islice(recording.read(), 20):
            assert pair.left.pixels.ndim in (2, 3)
        for _ in itertools.islice(recording.raw(), 20):
            pass


@functools.cache
def _recordings() -> list[tuple[str, bytes]]:
    return inputs.recordings()


def _written_bag(data: bytes, folder: pathlib.Path) -> pathlib.Path:
    """The first byte of a case tells its kind."""
    suffix, _ = _recordings()[(data or b'\0')[0] % len(_recordings())]
    content = data[1:]
    path = folder / 'bag'
    if not suffix.startswith('.yaml'):
        path = path.with_suffix(suffix)
        path.write_bytes(content)
        return path
    path.mkdir(exist_ok=True)
    storage = suffix.removeprefix('.yaml')
    sound = dict(_recordings())[storage]
    for old in path.iterdir():
        old.unlink()
    (path / f'{storage[1:]}{storage}').write_bytes(sound)
    (path / 'metadata.yaml').write_bytes(content)
    return path


def pfm(data: bytes, folder: pathlib.Path) -> None:
    """A float map, which is written again where it is one."""
    path = _file(folder, 'map.pfm', data)
    found = files.read_pfm(path)
    files.write_pfm(path, found)
    np.testing.assert_array_equal(files.read_pfm(path), found)


def png(data: bytes, folder: pathlib.Path) -> None:
    """An image file as an image, a disparity and a mask."""
    path = _file(folder, 'image.png', data)
    _each(lambda: files.read_image(path), lambda: files.read_mask(path),
          lambda: files.read_disparity_png(path), lambda: files.read_disparity_png(path, 8.0))


def calibration(data: bytes, folder: pathlib.Path) -> None:
    """A calibration of any format, under a name that goes with it."""
    name = NAMES[len(data) % 2 * 2]
    (folder / ('right.yaml' if name == 'left.yaml' else 'P_right.txt')).write_bytes(data)
    path = _file(folder, name, data)
    assert find_calibration(folder) is not None
    with contextlib.suppress(ValueError):
        Rectification.from_file(path, (640, 480))
    Calibration.from_file(path)


def yaml(data: bytes, folder: pathlib.Path) -> None:
    """A parameter file and a scenario."""
    path = _file(folder, 'given.yaml', data)
    _each(lambda: load_parameter_file(path), lambda: read_scenario(path))
    with contextlib.suppress(ValueError):
        split(load_parameter_file(path))


def settings(data: bytes, _: pathlib.Path) -> None:
    """Settings as texts and as values: accepted, or refused."""
    from_ = Choices(data)
    config, _node = _configured(from_)
    assert MatcherConfig.from_mapping(config.to_mapping()) == config
    known = choice.known(config.replace(backend='cpu', num_threads=1))
    assert known is not None
    known.lay_out(*from_.pick(((64, 48), (1, 1), (3, 5))))


def _configured(from_: Choices) -> tuple[MatcherConfig, NodeConfig]:
    known = list(all_settings().values())
    values: dict[str, Any] = {}
    if from_.pick((0, 1)):
        values |= MatcherConfig.preset(from_.pick(preset_names())).to_mapping()
    for _ in range(from_.pick((1, 2, 3, 5, 8))):
        setting = from_.pick(known)
        values[setting.name] = _value(from_, setting)
    return split(values)


def _accepted(from_: Choices) -> MatcherConfig:
    """A configuration, changed by one setting after the other as far as they are accepted."""
    config = MatcherConfig.preset(from_.pick(preset_names())) if from_.pick((0, 1)) \
        else MatcherConfig()
    known = list(MatcherConfig.settings().values())
    for _ in range(from_.pick((1, 2, 3, 5, 8))):
        setting = from_.pick(known)
        with contextlib.suppress(ValueError):
            config = config.replace(**{setting.name: _value(from_, setting)})
    return config


def _value(from_: Choices, setting: Any) -> Any:
    """Most often one that the setting alone allows."""
    kind = from_.take(1)[0]
    if kind < 30:
        return from_.pick((True, None, [], {}, b'', 'x', -1, 2**70, 'nan', 1.5, np.float32(2)))
    if kind < 50:
        return parse_assignments([f'{setting.name}={os.fsdecode(from_.take(4)).strip(chr(0))}']
                                 )[setting.name]
    if setting.choices:
        return from_.pick(setting.choices)
    if setting.type is bool:
        return from_.pick((False, True))
    if setting.type is int:
        least, most = int(setting.minimum or 0), int(setting.maximum or 100)
        return from_.pick((least, most, setting.default, min(most, least + from_.take(1)[0]),
                           least + from_.whole() % (most - least + 1)))
    if setting.type is float:
        return from_.pick((setting.minimum, setting.maximum, setting.default, from_.float(),
                           1.0, 2, 0.5))
    return from_.pick(('', '3, 5, 5', '0', '1,' * 20, 'jet'))


def command(data: bytes, folder: pathlib.Path) -> None:
    """Arguments of ``stereo_bp``: a status, one line where it is 2, and no file left of it."""
    from_ = Choices(data)
    verb = from_.pick((*main.VERBS, 'match', 'info', '', '--version'))
    arguments = [verb, *(_argument(from_) for _ in range(from_.pick((0, 1, 2, 3, 5, 8))))]
    if verb == 'match' and from_.pick((0, 1, 1)):
        # What is left of an output counts only where the command began to match.
        arguments[1:1] = [str(_pair(folder) / f'{side}.png') for side in ('left', 'right')]
        arguments += ['-o', str(folder / 'out' / from_.pick(('d.pfm', 'd.png', 'd.x'))),
                      '--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set',
                      'disparity_range=8', '--set', 'num_threads=1']
    status, said = _called(arguments, {'match', 'info'} & {verb})
    assert status in (0, 1, 2), arguments
    assert 'Traceback' not in said, said
    lines = [line for line in said.splitlines() if line.startswith('stereo_bp')]
    assert len(lines) == (status == 2), (arguments, said)
    left = list((folder / 'out').glob('*')) if (folder / 'out').is_dir() else []
    for path in left:
        path.unlink()
    assert status == 0 or not left, (arguments, said, left)


def _pair(folder: pathlib.Path) -> pathlib.Path:
    (folder / 'out').mkdir(exist_ok=True)
    if not (folder / 'right.png').exists():
        for side in ('left', 'right'):
            (folder / f'{side}.png').write_bytes(inputs.encoded('.png'))
    return folder


def _argument(from_: Choices) -> str:
    name = from_.pick(list(all_settings()))
    return from_.pick((
        '--set', f'{name}={os.fsdecode(from_.take(3)).strip(chr(0))}', '--preset',
        from_.pick(preset_names()), '--backend', 'cpu', '--json', '-o', '--size', '64x48x16',
        '64x48', '--repeat', '1', '--truth-scale', 'nan', '9' * 400, '0', '-1', '--help',
        '--frames', '--disparities', '16', '--settings', '--ros-args', '-r', '--focal', '1e400',
        '--baseline', '--', '=', '--=', 'nothing.png', os.fsdecode(from_.take(6)).strip(chr(0)),
        f'--set={name}={from_.float()}', f'--set={name}={from_.whole()}', '--limit', '--rate'))


def _called(arguments: list[str], real: set[str]) -> tuple[int, str]:
    """Status and standard error; verbs beside ``real`` are taken in, not run."""
    out, err = io.StringIO(), io.StringIO()
    arguments = [word.replace('\0', '') for word in arguments]
    with contextlib.ExitStack() as stack:
        for name in set(main.VERBS) - real:
            stack.enter_context(mock.patch.object(main.verb_module(name), 'run',
                                                  return_value=0))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            status = main.main(arguments)
        except SystemExit as ended:
            status = int(ended.code or 0)
    return status, err.getvalue()


def matched(data: bytes, _: pathlib.Path) -> None:
    """A tiny pair by any settings: the same bits with 1, 2 and 3 threads, and on CUDA."""
    from_ = Choices(data)
    config = _accepted(from_)
    width = from_.pick((16, 17, 23, 32, 48, 1, 2, 5))
    height = from_.pick((16, 19, 24, 33, 1, 3, 4))
    small = {'backend': 'cpu', 'disparity_range': min(config.disparity_range, 32),
             'iterations': min(*config.iterations_of_levels, 3), 'rectify': False,
             'min_depth': 0.0,
             'outer_iterations': min(config.outer_iterations, 2),
             'inner_iterations': min(config.inner_iterations, 2),
             'memory_limit': 0, 'rectified_width': 0, 'rectified_height': 0}
    base = config.replace(**small)
    random = np.random.default_rng(from_.take(2)[0])
    left = random.integers(0, 256, (height, width), np.uint8)
    right = np.roll(left, -3, axis=1)
    found = [_match(base.replace(num_threads=threads), left, right) for threads in (1, 2, 3)]
    if _has_cuda() and base.message_type == 'int16':
        with contextlib.suppress(ConfigError):      # what CUDA has no program for
            found.append(_match(base.replace(backend='cuda'), left, right))
    for other in found[1:]:
        for name, values in other.items():
            np.testing.assert_array_equal(values, found[0][name], err_msg=name)


def _match(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    with StereoMatcher(config) as matcher:
        found = matcher.compute(left, right, calibration=inputs.CALIBRATION,
                                outputs=tuple(OUTPUTS))
    return {name: getattr(found, name) for name in OUTPUTS}


@functools.cache
def _has_cuda() -> bool:
    from stereo_bp_ros.engines.cuda.runtime import device
    return device.unavailable(0) is None


def _file(folder: pathlib.Path, name: str, data: bytes) -> pathlib.Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _each(*readers: Callable[[], object]) -> None:
    """All of them; the error of the last where all have one. Each error names its file."""
    failed = []
    for reader in readers:
        try:
            reader()
        except ValueError as error:
            failed.append(error)
    unnamed = [error for error in failed
               if not any(name in str(error) for name in ('image.png', 'given.yaml'))]
    if unnamed:
        raise AssertionError(f'the file is not named: {unnamed[0]}') from unnamed[0]
    if len(failed) == len(readers):
        raise failed[-1]


def _tagged(corpora: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Inputs of several kinds, the number of their kind before them."""
    return [bytes([number]) + one for number, corpus in enumerate(corpora) for one in corpus]


def _noise() -> list[bytes]:
    """Bytes that choose: nothing but defaults, and anything."""
    return [b'', *(np.random.default_rng(seed).bytes(120) for seed in range(20))]


def _images() -> list[bytes]:
    """Bytes that choose sound pairs in every encoding."""
    return [2 * bytes([7, 6, number, 0, step, 0, 4])
            for number, name in enumerate(messages.ENCODING_NAMES) if name in ENCODINGS
            for step in (0, 1, 2)]


def _messages() -> list[bytes]:
    return _tagged(list(inputs.messages().values()))


TARGETS = {
    'image': Target(messages.image, _images, 16),
    'camera_info': Target(messages.camera_info, _noise, 14),
    'compressed': Target(messages.compressed, inputs.pictures, 12),
    'frames': Target(messages.frames, _noise, 2),
    'cdr': Target(messages.cdr, _messages, 10),
    'cdr_of_ros': Target(messages.cdr_of_ros, _messages, 0.2, crashes=True),
    'bag': Target(bag, lambda: _tagged([[content] for _, content in _recordings()]), 1,
                  (StereoError,), 'bag'),
    'pfm': Target(pfm, inputs.float_maps, 12, file='map.pfm'),
    'png': Target(png, inputs.pictures, 12, file='image.png'),
    'calibration': Target(calibration, inputs.calibrations, 12),
    'yaml': Target(yaml, inputs.parameter_files, 2, file='given.yaml'),
    'settings': Target(settings, _noise, 6),
    'command': Target(command, _noise, 0.9, errors=()),
    'matched': Target(matched, _noise, 0.1),
}
