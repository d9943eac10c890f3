"""A recording of an evaluation, for Foxglove and other viewers of MCAP files.

Pictures are compressed and every figure of a frame is a topic of its own, all with one time. The
definitions of the messages lie in the file, which is written without ROS, through rosbags.
"""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import cv2
import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer

from stereo_bp_ros import pictures
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.bag_messages import (
    FRAME_IDS,
    STORE,
    header,
    message_type,
    serialize_camera_info,
)
from stereo_bp_ros.evaluation.bag_topics import CAMERA_INFO, COMPRESSED_IMAGE
from stereo_bp_ros.evaluation.frame_scores import WITHOUT_MEAN
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation, Matched

OPTIONS = {'jpeg': [cv2.IMWRITE_JPEG_QUALITY, 90], 'png': [cv2.IMWRITE_PNG_COMPRESSION, 6]}
"""How pictures are compressed: PNG where colours are steps, or a truth is sparse, else JPEG."""

STEP_NS = 10**9
"""From a frame to the next one where it has no later stamp, nanoseconds."""

LATEST_NS = 2**31 * 10**9
"""Messages have no stamp from here on, nanoseconds."""

FIGURES = '/evaluation'
"""Above the topics of figures, which have their names in the JSON of a pair."""

NOT_PLOTTED = WITHOUT_MEAN | {'regions', 'sky', 'by_distance', 'sparsification', 'width', 'height',
                              'disparity_range'}
"""Keys of a pair's JSON that get no topic: counts, extremes, and tables of their own."""

DIAGNOSTICS, NUMBER, TEXT = (
    'diagnostic_msgs/msg/DiagnosticArray', 'std_msgs/msg/Float64', 'std_msgs/msg/String')


class Recording:
    """Writes the frames of an evaluation into one new MCAP file; a context manager.

    The file is there once the context is left without an error.

    :raises StereoError: the file exists, or cannot be made.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        if path.exists():
            raise StereoError(f'{path} exists: recordings are not overwritten')
        self._time_ns = -STEP_NS
        self._topics: dict[str, Any] = {}

    def __enter__(self) -> Recording:
        try:
            # A bag is a folder with one file, which is all that a viewer needs.
            self._folder = tempfile.TemporaryDirectory(
                prefix='.stereo_bp_', dir=self._path.parent)
        except OSError as error:
            raise StereoError(f'{self._path} cannot be written: {error}') from error
        bag = pathlib.Path(self._folder.name) / 'evaluation'
        self._file = bag / 'evaluation.mcap'
        self._writer = Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._folder:
            self._writer.close()
            if kind is None:
                self._file.rename(self._path)

    def collect(self, place: int, evaluation: Evaluation, matched: Matched) -> None:
        """Write what an evaluation has judged last.

        Its time is the stamp of the pair where that is later than the frame before, else
        ``STEP_NS`` after it; the first such frame is at 0.

        :raises StereoError: the stamp does not fit a message.
        """
        pair, frame = matched.pair, matched.frame
        later_ns = self._time_ns + STEP_NS
        stamp_ns = pair.stamp_ns
        self._time_ns = (stamp_ns if stamp_ns is not None and stamp_ns > self._time_ns
                         and stamp_ns >= 0 else later_ns)
        if self._time_ns >= LATEST_NS:
            raise StereoError(f'a stamp of {self._time_ns // 10**9} s does not fit a message: is '
                              'the source damaged?')
        left, _ = pair.images
        if pair.calibration is not None:
            self._put('/left/camera_info', CAMERA_INFO, serialize_camera_info(
                self._time_ns, 'left', pair.calibration, left.width, left.height))
        assert frame.disparity is not None
        low, high = frame.min_disparity, frame.max_disparity
        self._picture('/left/image_rect', pictures.grey_picture(pair.left))
        self._picture('/disparity_color', pictures.disparity_picture(
            frame.disparity, frame.valid, low, high))
        if pair.truth is not None:
            self._picture(f'{FIGURES}/truth', pictures.disparity_picture(
                pair.truth, None, low, high), 'png', 'jpeg')
            self._picture(f'{FIGURES}/error', pictures.error_picture(
                frame.disparity, pair.truth, frame.valid), 'png')
        confidence = evaluation.confidence(matched)
        if confidence is not None:
            self._picture(f'{FIGURES}/confidence', pictures.confidence_picture(confidence))
        self._message(f'{FIGURES}/name', TEXT, data=matched.result.name)
        self._message('/latency', DIAGNOSTICS, header=header(self._time_ns, FRAME_IDS['left']),
                      status=[self._latency(matched.result)])
        for name, value in numbers(matched.result.to_dict()):
            self._message(f'{FIGURES}/{name}', NUMBER, data=value)

    def _picture(self, topic: str, picture: np.ndarray, *kinds: str) -> None:
        """Write a picture in the one of some kinds that takes the fewest bytes; none: JPEG."""
        kind, data = min(((one, cv2.imencode(f'.{one}', picture, OPTIONS[one])[1])
                          for one in kinds or ('jpeg',)), key=lambda found: found[1].size)
        self._message(topic, COMPRESSED_IMAGE, header=header(self._time_ns, FRAME_IDS['left']),
                      format=f'bgr8; {kind} compressed bgr8', data=data.reshape(-1))

    def _latency(self, result: Result) -> Any:
        """The last run's stages and their total, as the node's ``latency`` has them."""
        name, own = next(iter(result.matchers.items()))
        values = {**own.stages_ms, 'total': own.times_ms[-1]}
        return message_type('diagnostic_msgs/msg/DiagnosticStatus')(
            level=0, name=f'evaluation: {name}', hardware_id='', message='last run',
            values=[message_type('diagnostic_msgs/msg/KeyValue')(key=key, value=f'{value:.3f}')
                    for key, value in values.items()])

    def _message(self, topic: str, kind: str, **fields: Any) -> None:
        self._put(topic, kind, STORE.serialize_cdr(message_type(kind)(**fields), kind))

    def _put(self, topic: str, kind: str, data: bytes | memoryview) -> None:
        if topic not in self._topics:
            self._topics[topic] = self._writer.add_connection(topic, kind, typestore=STORE)
        self._writer.write(self._topics[topic], self._time_ns, data)


def numbers(figures: Mapping[str, Any], above: str = '') -> Iterator[tuple[str, float]]:
    """Names of topics and values of the figures of a pair (``Result.to_dict``).

    A name is the path in JSON, of letters, digits and ``_`` only: ``score/bad_0_5_known``.
    """
    for key, value in figures.items():
        name = above + re.sub(r'^(?=\d)', 'n', re.sub(r'\W', '_', key, flags=re.ASCII))
        if key in NOT_PLOTTED:
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f'{name}/')
        elif isinstance(value, int | float):
            yield name, float(value)
