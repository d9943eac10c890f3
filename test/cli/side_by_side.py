"""A drive through the rendered street as side-by-side recordings, folders and videos."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.images import files
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.cli import recordings

#: Four pairs of 96 x 64 pixels at 10 Hz. Widths and heights are multiples of 16, so that blocks of
#: JPEG, which videos have, do not reach over the border of halves.
STREET = RoadSequence(width=96, height=64, max_disparity=14, frames=4)

#: Left and right images, uint8 H x W.
Images = Sequence[tuple[np.ndarray, np.ndarray]]


def images() -> Images:
    return [(frame.left, frame.right) for frame in STREET]


def stamps() -> list[int]:
    return [frame.stamp_ns for frame in STREET]


def joined(left: np.ndarray, right: np.ndarray, layout: str = 'left_right') -> np.ndarray:
    first, second = (right, left) if layout == 'right_left' else (left, right)
    return np.concatenate((first, second), axis=0 if layout == 'top_bottom' else 1)


def write_calibration(folder: pathlib.Path) -> pathlib.Path:
    """P of one half; returns that of the left camera."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, shift in (('left', 0.0), ('right', -STREET.focal_px * STREET.baseline_m)):
        np.savetxt(folder / f'P_{side}.txt', [
            [STREET.focal_px, 0, STREET.cx, shift], [0, STREET.focal_px, STREET.cy, 0],
            [0, 0, 1, 0]])
    return folder / 'P_left.txt'


def write_pairs(folder: pathlib.Path, pairs: Images, names: Iterable[object]) -> pathlib.Path:
    """A sequence of two images each, with its calibration."""
    write_calibration(folder)
    for name, pair in zip(names, pairs, strict=True):
        for side, image in zip(('left', 'right'), pair, strict=True):
            (folder / side).mkdir(exist_ok=True)
            files.write_image(folder / side / f'{name}.png', image)
    return folder


def write_images(folder: pathlib.Path, layout: str = 'left_right') -> pathlib.Path:
    """Side-by-side images named by their stamps, with their calibration."""
    write_calibration(folder)
    for stamp_ns, pair in zip(stamps(), images(), strict=True):
        files.write_image(folder / f'{stamp_ns}.png', joined(*pair, layout))
    return folder


def write_bag(path: pathlib.Path, layout: str = 'left_right', *, infos: Sequence[str] = ('',),
              image: str = '/stereo/image_rect', compressed: bool = False, kind: str = 'mcap',
              changes: Mapping[str, np.ndarray] = MappingProxyType({})) -> pathlib.Path:
    """A recording of one image topic.

    :param infos: '' = one camera_info of both cameras; left, right: one of each.
    :param changes: other values of fields of camera_infos.
    """
    recorded = []
    for stamp_ns, pair in zip(stamps(), images(), strict=True):
        for side in infos:
            topic = f'/stereo/{side}/camera_info'.replace('//', '/')
            info = bags.STORE.deserialize_cdr(bytes(bags.serialize_camera_info(
                stamp_ns, side or 'right', STREET.calibration, STREET.width, STREET.height)),
                bags.CAMERA_INFO)
            recorded.append((topic, stamp_ns, dataclasses.replace(info, **changes)))
        whole = joined(*pair, layout)
        if compressed:
            _, png = cv2.imencode('.png', whole)
            message = bags.STORE.types[bags.COMPRESSED_IMAGE](
                header=recordings.header(stamp_ns, 'camera'), format='png', data=png.reshape(-1))
        else:
            message = bags.STORE.deserialize_cdr(bytes(bags.serialize_image(
                stamp_ns, 'left', whole, 'mono8', 'camera')), bags.IMAGE)
        recorded.append((image + '/compressed' * compressed, stamp_ns, message))
    return recordings.write(path, recorded, kind)


def write_video(path: pathlib.Path, frames: Iterable[np.ndarray], rate_hz: float = 10.0
                ) -> pathlib.Path:
    """Motion JPEG, which every OpenCV writes and reads."""
    writer = None
    for frame in frames:
        colour = cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR)
        writer = writer or cv2.VideoWriter(
            str(path), cv2.VideoWriter.fourcc(*'MJPG'), rate_hz, colour.shape[1::-1])
        writer.write(colour)
    assert writer is not None
    writer.release()
    return path


def decoded(path: pathlib.Path) -> list[np.ndarray]:
    """The frames of a video, bgr8."""
    video, found = cv2.VideoCapture(str(path)), []
    while (frame := video.read()[1]) is not None:
        found.append(frame)
    video.release()
    return found


def figures(report: Mapping[str, Any]) -> list[Any]:
    """What an evaluation says of each pair, without its times."""
    return [[pair[name] for name in ('name', 'score', 'filled', 'disparity_range')]
            for pair in report['pairs']] + report['issues']


#: Sources of side-by-side images, lossless, with a calibration beside their images.
LOSSLESS: dict[str, Callable[[pathlib.Path, str], pathlib.Path]] = {
    'folder': write_images,
    'bag of one camera_info': lambda path, layout: write_bag(path, layout),
    'bag of two camera_infos': lambda path, layout: write_bag(
        path, layout, infos=('left', 'right')),
    'compressed bag': lambda path, layout: write_bag(path, layout, compressed=True),
    'ROS 1 bag': lambda path, layout: write_bag(path, layout, kind='ros1')}
