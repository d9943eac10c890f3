"""Fuzzed messages: what the node makes of images, camera_infos and serialised bytes."""

from __future__ import annotations

import functools
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from stereo_bp_ros import examine_pair
from stereo_bp_ros.cameras import rectification
from stereo_bp_ros.cameras.calibration import image_size
from stereo_bp_ros.checks import checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.node import camera_infos, input_images
from stereo_bp_ros.node.input_images import calibrate
from stereo_bp_ros.sources import bag_messages, bags
from test.fuzz.inputs import NUMPY_SCALAR, Choices
from test.node.stand_ins import NOW, Bench, make_image, make_info, make_stamped

#: Most pixels of a side that the node is told to accept.
MAX_SIDE = 640

ENCODING_NAMES = (*sorted(ENCODINGS), '', 'rgb48', '32FC1', 'mono8\0', '\u00e4\n')


def image(data: bytes, _: pathlib.Path) -> None:
    """``sensor_msgs/Image`` as the node wraps it, and what it says of a pair."""
    from_ = Choices(data)
    pair = []
    for _side in range(2):
        width, height = from_.whole(), from_.whole()
        message = types.SimpleNamespace(
            width=width, height=height, encoding=from_.pick(ENCODING_NAMES),
            step=from_.pick((width, 2 * width, 3 * width, from_.whole())),
            is_bigendian=from_.pick((0, 1, 255)), data=bytes(from_.pick((192, 0, 1, 100, 4096))))
        pair.append(input_images.from_image(message, MAX_SIDE, MAX_SIDE))
    for raw in pair:
        assert raw.pixels.shape[:2] == (raw.height, raw.width)
    examine_pair(pair[0], pair[1], MatcherConfig(max_image_width=MAX_SIDE,
                                                 max_image_height=MAX_SIDE))
    checks.FrozenCameras().examine(pair[0], pair[1], 1)


def camera_info(data: bytes, _: pathlib.Path) -> None:
    """``sensor_msgs/CameraInfo`` of both sides: pairing, calibration and rectification."""
    from_ = Choices(data)
    infos = [_info(from_, side) for side in ('left', 'right')]
    together = camera_infos.CameraInfos()
    for number, info in enumerate((*infos, *reversed(infos))):
        together.add(('left', 'right', 'right', 'left')[number], info, 10**9 * number,
                     0.1 * number)
    together.of_pair(0, 10**9, 1.0, overdue=True)
    size = image_size(infos[0])
    config = MatcherConfig(rectify=from_.pick((False, True)))
    calibration, found = calibrate(*infos, config)
    checks.check_image_size('left', infos[0], *size)
    for info in infos:
        assert not info.width or info.roi.x_offset + info.roi.width <= info.width
    checks.examine_calibration(calibration, calibration.width, calibration.height)
    assert np.isfinite(np.float32(calibration.focal_px * calibration.baseline_m))
    if found is not None:
        rectification.rectified_info(infos[0], found, 'left')
        if max(found.rectified_width, found.rectified_height) <= 64:
            found.maps('left')


def _info(from_: Choices, side: str) -> Any:
    """A sound camera_info with a few numbers of it changed."""
    info = make_info(side=side)
    for _ in range(from_.pick((0, 1, 2, 3, 5))):
        name = from_.pick(('p', 'k', 'r', 'd', 'd', 'size', 'roi', 'binning', 'model', 'frame'))
        if name in ('p', 'k', 'r', 'd'):
            values = list(getattr(info, name))
            if name == 'd':
                values = [0.01] * from_.pick((0, 4, 5, 8, 12, 14, 3, 100))
            for _change in range(from_.pick((1, 2))):
                if values:
                    values[from_.take(1)[0] % len(values)] = from_.float()
            setattr(info, name, values if name == 'd' else np.array(values))    # as ROS has them
        elif name == 'size':
            info.width, info.height = from_.whole(), from_.whole()
        elif name == 'roi':
            info.roi = types.SimpleNamespace(x_offset=from_.whole(), y_offset=from_.whole(),
                                             width=from_.whole(), height=from_.whole())
        elif name == 'binning':
            info.binning_x, info.binning_y = from_.whole(), from_.whole()
        elif name == 'model':
            info.distortion_model = from_.pick(('plumb_bob', 'rational_polynomial',
                                                'equidistant', '', 'fisheye\n'))
        else:
            info.header.frame_id = from_.pick(('', 'camera', '\0', '\u00e4' * 300))
    return info


def compressed(data: bytes, _: pathlib.Path) -> None:
    """``sensor_msgs/CompressedImage`` as the node decodes it."""
    description = ('mono8; png compressed ', 'bayer_rggb8; png', 'compressedDepth', '', '\0;',
                   'bayer_rggb16; png')[len(data) % 6]
    message = types.SimpleNamespace(data=data, format=description)
    assert input_images.from_compressed(message, MAX_SIDE, MAX_SIDE).width <= MAX_SIDE


def frames(data: bytes, _: pathlib.Path) -> None:
    """A pair on its whole way through the worker: published, or dropped for a reason."""
    from_ = Choices(data)
    bench = _bench()
    bench.outputs.published.clear()
    bench.outputs.latencies.clear()
    bench.logged.clear()
    bench.left_info, bench.right_info = (_info(from_, side) for side in ('left', 'right'))
    pair = []
    for side in ('left', 'right'):
        message = make_image(NOW, np.full((24, 32), 7, np.uint8))
        for name in ('width', 'height', 'step'):
            if from_.take(1)[0] < 25:
                setattr(message, name, from_.whole())
        if from_.take(1)[0] < 50:
            message.encoding = from_.pick(ENCODING_NAMES)
        if side == 'right' and from_.take(1)[0] < 25:
            message = make_stamped(NOW, data=from_.rest(), format='png')
        pair.append(message)
    bench.now += 10**6
    bench.process(bench.now, left=pair[0], right=pair[1])
    for level, text in bench.logged:
        assert 'Traceback' not in text, (level, text)
        assert not NUMPY_SCALAR.search(text), text
    assert not bench.texts('engine'), bench.texts('engine')


@functools.cache
def _bench() -> Bench:
    return Bench(MatcherConfig(disparity_range=8, max_image_width=MAX_SIDE,
                               max_image_height=MAX_SIDE))


CDR_TYPES = (bags.IMAGE, bags.CAMERA_INFO, bags.COMPRESSED_IMAGE)


def cdr(data: bytes, _: pathlib.Path) -> None:
    """A serialised message as rosbags reads it, used by the node."""
    _use(data, bag_messages.STORE.deserialize_cdr)


def cdr_of_ros(data: bytes, _: pathlib.Path) -> None:
    """The same as ROS deserialises it, where rclpy is installed."""
    _use(data, _ros_deserialize())


def _use(data: bytes, deserialize: Callable[[bytes, str], Any]) -> None:
    kind, content = CDR_TYPES[(data or b'\0')[0] % 3], data[1:]
    try:
        message = deserialize(content, kind)
    except Exception:       # of another library, which says nothing of its errors
        return
    if kind == bags.IMAGE:
        input_images.from_image(message, MAX_SIDE, MAX_SIDE)
    elif kind == bags.COMPRESSED_IMAGE:
        input_images.from_compressed(message, MAX_SIDE, MAX_SIDE)
    else:
        camera_infos.content(message)
        calibrate(message, make_info(side='right'), MatcherConfig())


@functools.cache
def _ros_deserialize() -> Callable[[bytes, str], Any]:
    try:
        from rclpy.serialization import deserialize_message
        from sensor_msgs import msg
    except ImportError:
        return bag_messages.STORE.deserialize_cdr
    return lambda data, kind: deserialize_message(data, getattr(msg, kind.rpartition('/')[2]))
