"""From messages to what is matched: raw, compressed and foreign images, and calibrations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.errors import InputError, quoted
from stereo_bp_ros.images import encoded_images, side_by_side
from stereo_bp_ros.images.raw_images import ENCODINGS, RawImage, check_limits
from stereo_bp_ros.issues import IssueCode

#: Formats of compressed images.
FORMATS = ('PNG', 'JPEG')


def calibrate(left_info: Any, right_info: Any, config: MatcherConfig
              ) -> tuple[Calibration, Rectification | None]:
    """Calibration of the rectified images, and with ``rectify`` how raw ones become such.

    :raises InputError: as ``Calibration.from_camera_info`` and ``Rectification``.
    """
    if not config.rectify:
        return Calibration.from_camera_info(left_info, right_info), None
    rectification = Rectification.from_camera_info(
        left_info, right_info, config.rectified_width, config.rectified_height)
    return rectification.calibration, rectification


def images_of_pair(left: Any, right: Any, config: MatcherConfig, settings: NodeConfig
                   ) -> tuple[RawImage, RawImage]:
    """Left and right image of the messages of a pair, raw or compressed.

    Of a side-by-side camera both are the same message: it is wrapped or decoded once, and the
    images are views of it. Limits are those of one camera's image.

    :raises InputError: as ``from_image`` and ``from_compressed``, or as ``side_by_side.split``.
    """
    layout = settings.side_by_side if settings.is_side_by_side else ''

    def image_of(message: Any) -> RawImage:
        convert = from_compressed if hasattr(message, 'format') else from_image
        return convert(message, config.max_image_width, config.max_image_height, layout)

    if layout:
        return side_by_side.split(image_of(left), layout)
    return image_of(left), image_of(right)


def _check_limits(width: int, height: int, max_width: int, max_height: int, layout: str) -> None:
    """Reject what is larger than the image of one camera may be."""
    if layout == 'top_bottom':
        height = -(-height // 2)
    elif layout:
        width = -(-width // 2)
    check_limits(width, height, max_width, max_height)


def from_image(message: Any, max_width: int, max_height: int, layout: str = '') -> RawImage:
    """Wrap a ``sensor_msgs/Image`` without a copy, or convert it where its encoding is foreign.

    :param max_width, max_height: of the image of one camera, pixels.
    :param layout: of a side-by-side image; '' = it is of one camera.
    :raises InputError: too large, or as ``RawImage``.
    """
    _check_limits(message.width, message.height, max_width, max_height, layout)
    if message.encoding in ENCODINGS:
        return RawImage.from_message(message)
    bridge = cv_bridge()
    if bridge is None:
        raise InputError(IssueCode.UNKNOWN_ENCODING, quoted(message.encoding),
                         'supported without cv_bridge are ' + ', '.join(sorted(ENCODINGS)))
    try:
        grey = bridge.imgmsg_to_cv2(message, desired_encoding='mono8')
    except Exception as error:
        raise InputError(IssueCode.UNKNOWN_ENCODING, quoted(message.encoding),
                         f'cv_bridge cannot convert it to mono8 ({quoted(error)}); supported '
                         'without it are ' + ', '.join(sorted(ENCODINGS))) from error
    return RawImage.from_array(grey, 'mono8')


@functools.cache
def cv_bridge() -> Any:
    """A CvBridge, or None where it cannot be imported for whatever reason.

    Builds for another NumPy fail with exceptions of many kinds.
    """
    try:
        from cv_bridge import CvBridge
        return CvBridge()
    except Exception:
        return None


def from_compressed(message: Any, max_width: int, max_height: int, layout: str = ''
                    ) -> RawImage:
    """Decode a ``sensor_msgs/CompressedImage`` of PNG or JPEG.

    No other format reaches a decoder. The size is read and checked against the limits first, and
    what is decoded then is bounded by it. An original encoding named in ``format`` is kept where
    the decoded channels allow it, so that Bayer images stay Bayer.

    :param max_width, max_height, layout: as of ``from_image``.
    :raises InputError: bad compression, too large, or as ``RawImage``.
    """
    data, description = bytes(message.data), str(message.format)
    if 'compressedDepth' in description:
        raise _bad(data, description, 'this is compressedDepth; PNG and JPEG are supported')
    try:
        pixels = encoded_images.decode(
            data, FORMATS,
            lambda width, height: _check_limits(width, height, max_width, max_height, layout))
    except InputError:
        raise
    except ValueError as error:
        raise _bad(data, description, str(error)) from error
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if pixels.dtype == np.uint16 and channels > 1:
        pixels = np.right_shift(pixels, 8, out=pixels).astype(np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16) or channels not in (1, 3, 4):
        raise InputError(IssueCode.BAD_COMPRESSION, f'{pixels.dtype} of {channels} channels',
                         '8 bits, or 16 bits of one channel, are supported')
    return RawImage.from_array(pixels, _decoded_encoding(description, pixels, channels))


def _bad(data: bytes, description: str, why: str) -> InputError:
    return InputError(IssueCode.BAD_COMPRESSION,
                      f'{len(data)} bytes, {quoted(description)}', why)


def _decoded_encoding(description: str, pixels: np.ndarray, channels: int) -> str:
    original = description.split(';')[0].strip()
    is_mosaic = original.startswith('bayer_') and original.endswith(str(8 * pixels.itemsize))
    if channels == 1 and is_mosaic:
        return original
    if channels == 1:
        return 'mono8' if pixels.dtype == np.uint8 else 'mono16'
    # imdecode orders colours as OpenCV does, whatever the original was.
    return 'bgr8' if channels == 3 else 'bgra8'
