"""Compressed topics as image_transport has them, made in a thread that no frame waits for."""

from __future__ import annotations

import array
import struct
import threading
from collections.abc import Callable

import cv2
import numpy as np
from sensor_msgs.msg import CompressedImage

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.node.frames import Result

#: Effort of PNG, 0 to 9: more takes several times as long and saves little.
PNG_LEVEL = 1

Job = Callable[[np.ndarray], None]


def compressed_color(pixels: np.ndarray, encoding: str, result: Result) -> CompressedImage:
    """What subscribers of the transport ``compressed`` read.

    :param pixels: uint8 H x W x 3.
    """
    settings = result.settings
    if settings.compressed_format == 'jpeg':
        name, options = '.jpg', [cv2.IMWRITE_JPEG_QUALITY, settings.jpeg_quality]
    else:
        name, options = '.png', [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL]
    return _message(result, f'{encoding}; {settings.compressed_format} compressed {encoding}',
                    _encoded(name, pixels, options))


def compressed_depth(pixels: np.ndarray, encoding: str, result: Result) -> CompressedImage:
    """What subscribers of the transport ``compressedDepth`` read: 12 bytes and a PNG of 16 bits.

    Metres are sent as the values q that become factor / (q - offset) again. The factor is that
    of sixteenths of a pixel, and the offset makes them whole: nothing is lost but the last bits
    of float32.

    :param pixels: uint16 (millimetres) or float32 (metres, NaN = none) H x W.
    """
    factor = offset = 0.0
    if encoding == '32FC1':
        factor, offset = quantisation(result.calibration)
        with np.errstate(divide='ignore'):
            steps = np.rint(np.float32(factor) / pixels + np.float32(offset))
        pixels = np.minimum(np.nan_to_num(steps), 65535).astype(np.uint16)
    header = struct.pack('<iff', 0, factor, offset)         # 0 = inverse depth
    return _message(result, f'{encoding}; compressedDepth png', header + _encoded(
        '.png', pixels, [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL]))


def quantisation(calibration: Calibration) -> tuple[float, float]:
    """Factor and offset with which factor / depth + offset is a whole number above 0.

    That is 16 disparities without a shift by principal points that is no whole sixteenth.
    """
    return (16 * calibration.focal_px * calibration.baseline_m, 16 * calibration.shift % 1)


class Compressor:
    """Runs jobs on copies of arrays, one after the other; of each topic only the newest counts.

    Its thread starts with the first job.

    :param on_error: is told of an exception that a job let through.
    """

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._changed = threading.Condition()
        self._waiting: dict[str, tuple[np.ndarray, Job]] = {}
        self._spare: dict[str, np.ndarray] = {}
        self._thread: threading.Thread | None = None
        self._stopping = False

    def offer(self, topic: str, pixels: np.ndarray, job: Job) -> None:
        """Have a job done with a copy of an array, in place of one of this topic that waits."""
        with self._changed:
            if self._stopping:
                return
            replaced = self._waiting.pop(topic, None)
            copy = replaced[0] if replaced else self._spare.pop(topic, None)
            if copy is None or copy.shape != pixels.shape or copy.dtype != pixels.dtype:
                copy = np.empty_like(pixels)
            np.copyto(copy, pixels)
            self._waiting[topic] = copy, job
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name='stereo_bp_compressor',
                                                daemon=True)
                self._thread.start()

    def stop(self, limit: float) -> bool:
        """End the thread; what waits is dropped.

        Returns whether it ended within ``limit`` seconds: OpenCV cannot be interrupted.
        """
        with self._changed:
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(limit)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._waiting)
                if self._stopping:
                    return
                topic = next(iter(self._waiting))
                pixels, job = self._waiting.pop(topic)
            try:
                job(pixels)
            except Exception as error:
                self._on_error(error)
            with self._changed:
                self._spare[topic] = pixels
            # Nothing of a frame must live on while the thread waits.
            del pixels, job


def _encoded(name: str, pixels: np.ndarray, options: list[int]) -> bytes:
    """A file of this name's type.

    :raises RuntimeError: OpenCV cannot write it.
    """
    done, content = cv2.imencode(name, pixels, options)
    if not done:
        raise RuntimeError(f'OpenCV cannot write {name} of {pixels.dtype} {pixels.shape}')
    return content.tobytes()


def _message(result: Result, format_name: str, content: bytes) -> CompressedImage:
    message = CompressedImage(format=format_name, data=array.array('B', content))
    message.header.stamp = result.stamp
    message.header.frame_id = result.frame_id
    return message
