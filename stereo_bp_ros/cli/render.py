"""Render a drive along a street: stereo pairs with exact truth, for `stereo_bp evaluate`.

Noise, exposure, blur and errors of calibration have known sizes, and the truth is always that of
a perfect pair of cameras. The same options and seed give the same files.

  stereo_bp render --output street/
  stereo_bp render --output noisy/ --noise 8 --frames 20
  stereo_bp render --output pitched/ --street hard --pitch 0.1
  stereo_bp evaluate pitched/ --preset road
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import yaml

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.errors import shown
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes import sequence as scenes
from stereo_bp_ros.sources.scenes.misalignment import MAX_ERRORS
from stereo_bp_ros.sources.scenes.renderer import SceneFrame
from stereo_bp_ros.system import atomic_files

HELP = 'render pairs of a street with exact truth: noise, exposure, errors of calibration'
NEEDS = ()

MAX_SIDE = 8192
#: So many frames are drawn before other processes have started.
MAX_FRAMES_IN_ONE_PROCESS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    hard = scenes.HARD
    parser.add_argument('--output', type=pathlib.Path, required=True, metavar='DIR',
                        help='folder for the pairs, which must be empty or not there yet')
    parser.add_argument('--frames', type=shared.whole(1, 100000), default=10, metavar='N',
                        help='how many pairs (default 10)')
    parser.add_argument('--size', default='640x480', metavar='WxH',
                        help='image size in pixels (default 640x480)')
    parser.add_argument('--disparities', type=shared.whole(4, 512), default=64, metavar='D',
                        help='disparities to search: the baseline is chosen for them (default 64)')
    parser.add_argument('--rate', type=shared.real(0.01, 1000), default=10.0, metavar='HZ',
                        dest='rate_hz',
                        help='pairs a second, at a speed of 8 m/s (default 10)')
    parser.add_argument('--seed', type=shared.whole(0), default=1, metavar='S',
                        help='another street, traffic and noise (default 1)')
    parser.add_argument('--street', choices=('plain', 'hard'), default='plain',
                        help='hard has fences, poles, a slope, a white sky, noise and another '
                             'exposure (default: plain)')
    parser.add_argument('--sky', choices=('clouds', *scenes.PLAIN_SKIES),
                        help='clouds, one grey level, or so bright that it is white '
                             f'(default: clouds; hard: {hard["sky"]})')
    group = parser.add_argument_group('cameras')
    _number(group, '--noise', 'noise_sigma', 'SIGMA', 0, 255,
            f'sensor noise, grey levels (default 1; hard: {hard["noise_sigma"]:g})')
    _number(group, '--exposure', 'exposure_gain', 'GAIN', 0.01, 100,
            'exposure of the right camera against the left (default 1; hard: '
            f'{hard["exposure_gain"]} and {hard["exposure_offset"]:g} grey levels more)')
    _number(group, '--blur', 'blur_sigma', 'SIGMA', 0, 100, 'blur of the optics, pixels '
            '(default 0)')
    group = parser.add_argument_group('errors of the right camera, which the truth leaves out')
    _error(group, '--vertical-offset', 'vertical_offset_px', 'PX',
           'its picture lies lower by so many rows')
    _error(group, '--pitch', 'pitch_deg', 'DEG', 'it looks up: its picture lies lower')
    _error(group, '--yaw', 'yaw_deg', 'DEG', 'it looks right: disparities are larger')
    _error(group, '--roll', 'roll_deg', 'DEG', 'it leans right: its picture turns left')
    _error(group, '--focal-error', 'focal_error_percent', 'PERCENT',
           'its focal length is longer: its picture is larger')


def _number(group: Any, option: str, name: str, unit: str, low: float, high: float, text: str
            ) -> None:
    group.add_argument(option, type=shared.real(low, high), dest=name, metavar=unit, help=text)


def _error(group: Any, option: str, name: str, unit: str, text: str) -> None:
    high = MAX_ERRORS[name]
    group.add_argument(option, type=shared.real(-high, high), dest=name, metavar=unit,
                       default=0.0, help=f'{text}, -{high:g} to {high:g} (default 0)')


def run(options: argparse.Namespace) -> int:
    sequence = chosen_sequence(options)
    folder: pathlib.Path = options.output
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'{folder} is a file: name a folder')
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f'{folder} is not empty: name another folder, or remove it')
    progress.tell(f'rendering {options.frames} pairs')
    with atomic_files.folder(folder) as made:
        _write(made, sequence, options)
    shared.say(f'{folder}: {options.frames} pairs of {sequence.width} x {sequence.height}, '
               f'{options.disparities} disparities, focal length {sequence.focal_px:g} px, '
               f'baseline {sequence.baseline_m:g} m')
    return 0


def _write(folder: pathlib.Path, sequence: scenes.RoadSequence, options: argparse.Namespace
           ) -> None:
    sets = {}
    with progress.Bar('render') as bar:
        for frame in bar.track(scenes.render(sequence, workers_for(options.frames)),
                               total=options.frames, description='Rendering'):
            name = f'{frame.index:06}'
            _write_frame(frame, sequence, folder / name)
            # The scale is that of a disparity.png, which a set may have instead.
            sets[name] = {'disparities': options.disparities,
                          'disparity_scale': int(files.KITTI_SCALE), 'stamp_ns': frame.stamp_ns}
    shared.write_json(folder / 'scene.json', dataclasses.asdict(sequence))
    atomic_files.write_text(folder / 'sets.yaml', yaml.safe_dump(sets, sort_keys=False))


def _write_frame(frame: SceneFrame, sequence: scenes.RoadSequence, folder: pathlib.Path) -> None:
    """Images, disparity.pfm, masks (255 where they are), and calibrations of the perfect pair."""
    (folder / 'classes' if frame.classes else folder).mkdir(parents=True)
    pictures = {'left': frame.left, 'right': frame.right}
    masks = {name: getattr(frame, name) for name in ('vehicles', 'sky', 'occluded')}
    masks |= {f'classes/{name}': mask for name, mask in frame.classes.items()}
    pictures |= {name: np.uint8(255) * mask for name, mask in masks.items()}
    for name, picture in pictures.items():
        files.write_image(folder / f'{name}.png', picture)
    files.write_pfm(folder / 'disparity.pfm', frame.disparity)
    focal = sequence.focal_px
    for side, x in (('left', 0.0), ('right', -focal * sequence.baseline_m)):
        atomic_files.write_text(
            folder / f'P_{side}.txt',
            f'{focal!r} 0 {sequence.cx!r} {x!r}\n0 {focal!r} {sequence.cy!r} 0\n0 0 1 0\n')


def size_of(text: str) -> tuple[int, int]:
    """Width and height of --size.

    :raises ValueError: it is none, or too large to be drawn.
    """
    width, height = shared.parse_size(text, 'WIDTHxHEIGHT', (64, 48))
    if max(width, height) > MAX_SIDE:
        raise ValueError(f'--size is {shown(text)}, but must be at most '
                         f'{MAX_SIDE}x{MAX_SIDE}')
    return width, height


def workers_for(frames: int) -> int:
    """Processes that draw so many frames; 0 = this one."""
    cores = len(os.sched_getaffinity(0))
    return min(4, cores) if cores > 1 and frames > MAX_FRAMES_IN_ONE_PROCESS else 0


def chosen_sequence(options: argparse.Namespace) -> scenes.RoadSequence:
    """The drive that the command line describes: the street's options, and its own.

    :raises ValueError: there is no such picture.
    """
    width, height = size_of(options.size)
    # The other options have the names that a street gives them.
    values = {name: value for name, value in vars(options).items()
              if name in scenes.KINDS and value is not None}
    return scenes.sequence_of({
        **values, 'hard': options.street == 'hard', 'width': width, 'height': height,
        'max_disparity': options.disparities - scenes.SPARE_DISPARITIES})


def render_bag(sequence: scenes.RoadSequence, path: pathlib.Path, bar: progress.Bar) -> None:
    """Draw a street into a bag with its truth; ``bar`` shows how far it is."""
    from stereo_bp_ros.sources import bags
    frames = bar.track(scenes.render(sequence, workers_for(len(sequence))), total=len(sequence),
                       description=f'Rendering {sequence.width} x {sequence.height}')
    bags.write_bag(path, sequence.calibration, (
        (frame.stamp_ns, frame.left, frame.right, frame.disparity) for frame in frames))
