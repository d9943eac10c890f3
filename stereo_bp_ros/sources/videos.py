"""Stereo pairs of videos that OpenCV opens: of one with both cameras side by side, or of two."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from stereo_bp_ros.errors import InputError, StereoError
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import split
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.datasets.entries import Pair, Unread, defer_calibration, list_folder
from stereo_bp_ros.sources.datasets.named import fitting
from stereo_bp_ros.sources.datasets.names import FIRST_STAMP_NS, FRAME_NS
from stereo_bp_ros.sources.given_calibration import GivenCalibration
from stereo_bp_ros.system.bounded import MAX_PIXELS, check_limit

#: Endings of the names of videos.
SUFFIXES = ('.avi', '.m4v', '.mkv', '.mov', '.mp4', '.mpeg', '.mpg', '.ogv', '.webm', '.wmv')

#: Frames per second of a video beyond which that of its header is rejected.
MAX_RATE_HZ = 10000.0

#: Seconds from one frame to the next beyond which its time is rejected.
MAX_STEP_S = 10.0

#: Frames that a header may count too many without a word: some formats have only a duration.
MAX_MISSING = 2

_log = logging.getLogger(__name__)


def is_video(path: Path) -> bool:
    """Whether a path has the name of a video."""
    return path.suffix.lower() in SUFFIXES


def find_videos(path: Path, topics: StereoTopics | None = None) -> tuple[Path, ...]:
    """The video of a source, or those of its left and right camera; () = it has none.

    These are a file, left.* and right.* in a folder, or the two that patterns find there.

    :raises ValueError: a pattern fits nothing.
    """
    if is_video(path) and not path.is_dir():
        return (path,)
    if not path.is_dir() or (topics and topics.side_by_side):
        return ()
    if topics and topics.globs:
        sides = [fitting(path, pattern) for pattern in topics.globs[:2]]
    else:
        sides = [[one for one in list_folder(path) if one.stem == side and is_video(one)]
                 for side in ('left', 'right')]
    found = tuple(one for side in sides for one in side)
    return found if len(found) == len(sides) == 2 and all(map(is_video, found)) else ()


@dataclasses.dataclass(frozen=True)
class _Header:
    """What is known of a video before its frames are read.

    frames: that can be decoded; counted: as its header says, 0 = it does not.
    rate_hz: frames per second; 0 = not known.
    """

    path: Path
    frames: int
    counted: int
    rate_hz: float
    width: int
    height: int


class StereoVideo:
    """The pairs of a video of a side-by-side camera, or of two videos, frame by frame.

    Names are numbers of frames. Stamps are the times of the left frames, or else by their rate.

    :param paths: one file with ``topics.side_by_side``, or those of the left and right camera.
    :param topics: how halves lie in a frame, and a calibration in place of that beside the file.
    :raises ValueError: there is no such file, or it is too large.
    :raises StereoError: it cannot be decoded, or the sizes of two differ.
    """

    is_sequence = True
    first_image = None

    def __init__(self, paths: Sequence[Path], topics: StereoTopics | None = None) -> None:
        topics = topics or StereoTopics()
        self._layout = topics.side_by_side
        if len(paths) == 1 and not self._layout:
            raise StereoError(f'{paths[0]} is one video: say with --side-by-side how both cameras '
                              'lie in it, or name a folder with left and right videos, '
                              f'left{paths[0].suffix} and right{paths[0].suffix}')
        if len(paths) == 2 and self._layout:
            raise StereoError(f'{paths[0]} and {paths[1]} are two videos: leave --side-by-side '
                              'out, or name one')
        self._headers = [_examine(path) for path in paths]
        first, *others = self._headers
        for other in others:
            if (first.width, first.height) != (other.width, other.height):
                raise StereoError(f'{first.path} is {first.width} x {first.height}, and '
                                  f'{other.path} is {other.width} x {other.height}')
        self._given = (GivenCalibration(topics) if topics.calibration or topics.rectification
                       else None)
        self._beside = functools.cache(
            defer_calibration(first.path.absolute().parent) or (lambda: None))
        self._period_ns = round(1e9 / first.rate_hz) if first.rate_hz else FRAME_NS

    @property
    def count(self) -> int:
        """Number of pairs."""
        return min(one.frames for one in self._headers)

    right_count = count

    def warnings(self) -> list[str]:
        """Sentences about frames that are missing, and videos that do not fit each other."""
        found = [f'{one.path} ends early: {one.frames} of the {one.counted} frames of its header '
                 'can be decoded'
                 for one in self._headers if one.counted - one.frames > MAX_MISSING]
        first, last = self._headers[0], self._headers[-1]
        if first.frames != last.frames:
            found.append(f'{first.path} has {first.frames} frames and {last.path} {last.frames}: '
                         f'the first {self.count} of both are pairs')
        if not math.isclose(first.rate_hz, last.rate_hz, rel_tol=0.01):
            found.append(f'{first.path} has {first.rate_hz:g} frames per second and {last.path} '
                         f'{last.rate_hz:g}: frames of equal number are pairs')
        if not first.rate_hz:
            found.append(f'{first.path} has no frame rate: its frames count as '
                         f'{1e9 / FRAME_NS:g} a second')
        return found

    def unread(self) -> Generator[Unread, None, None]:
        """The pairs in their order; a frame that cannot be decoded concerns its pair alone."""
        with contextlib.ExitStack() as opened:
            videos = [opened.enter_context(_opened(one.path)) for one in self._headers]
            stamp_ns = FIRST_STAMP_NS - self._period_ns
            is_apart = False
            for place in range(self.count):
                # A generator may be asked for a later pair before one is loaded.
                frames = [video.read()[1] for video in videos]
                times_ms = [video.get(cv2.CAP_PROP_POS_MSEC) for video in videos]
                stamp_ns = self._stamp(times_ms[0], stamp_ns)
                apart_ms = abs(times_ms[0] - times_ms[-1])
                if apart_ms > 0.5e-6 * self._period_ns and not is_apart:
                    is_apart = True
                    _log.warning('frame %d of %s is at %.3f s and that of %s at %.3f s: were '
                                 'frames dropped?', place + 1, self._headers[0].path,
                                 1e-3 * times_ms[0], self._headers[-1].path, 1e-3 * times_ms[-1])
                yield Unread(f'{place:06d}', functools.partial(
                    self._pair, place, frames, stamp_ns))

    def _stamp(self, time_ms: float, previous_ns: int) -> int:
        """The stamp of a frame, ns: its own time, where that follows the one before."""
        own_ns = FIRST_STAMP_NS + (round(1e6 * time_ms) if math.isfinite(time_ms) else 0)
        if 0 < own_ns - previous_ns <= MAX_STEP_S * 1e9:
            return own_ns
        return previous_ns + self._period_ns

    def _pair(self, place: int, frames: Sequence[np.ndarray | None], stamp_ns: int) -> Pair:
        """:raises StereoError: a frame could not be decoded, or has another size, or no halves."""
        images = []
        for one, frame in zip(self._headers, frames, strict=True):
            if frame is None:
                raise StereoError(f'frame {place + 1} of {one.path} cannot be decoded')
            if frame.shape[:2] != (one.height, one.width):
                raise StereoError(f'frame {place + 1} of {one.path} is {frame.shape[1]} x '
                                  f'{frame.shape[0]}, and the video {one.width} x {one.height}')
            images.append(RawImage.from_array(frame, 'bgr8' if frame.ndim == 3 else None))
        try:
            left, right = split(images[0], self._layout) if self._layout else images
        except InputError as error:
            raise StereoError(f'{self._headers[0].path}: {error}') from error
        pair = Pair(f'{place:06d}', left, right, calibration=self._beside(), stamp_ns=stamp_ns,
                    is_numbered=not self._headers[0].rate_hz)
        return self._given.applied(pair) if self._given else pair


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[cv2.VideoCapture]:
    if not path.is_file():
        raise ValueError(f'{path} is no regular file' if path.exists()
                         else f'there is no file {path}')
    # Without it FFmpeg writes lines of its own beside the error that is raised here.
    os.environ.setdefault('OPENCV_FFMPEG_LOGLEVEL', '-8')
    video = cv2.VideoCapture(os.fspath(path))
    try:
        if not video.isOpened():
            raise StereoError(f'{path} cannot be opened as a video: it is damaged, or OpenCV '
                              f'{cv2.__version__} has no decoder for it')
        yield video
    finally:
        video.release()


def _examine(path: Path) -> _Header:
    with _opened(path) as video:
        width, height, counted, rate_hz = (_number(video.get(name)) for name in (
            cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_COUNT,
            cv2.CAP_PROP_FPS))
        try:
            check_limit(int(width * height), MAX_PIXELS, f'pixels ({width:g} x {height:g})')
        except ValueError as error:
            raise ValueError(f'{path}: {error}') from error
        # Where the last frame is there, no other one is looked at.
        is_whole = counted >= 1 and video.set(cv2.CAP_PROP_POS_FRAMES, int(counted) - 1) and (
            video.grab())
    frames = int(counted) if is_whole else _count(path)
    if not frames:
        raise StereoError(f'{path} has no frame that can be decoded')
    return _Header(path, frames, int(counted), rate_hz if rate_hz <= MAX_RATE_HZ else 0.0,
                   int(width), int(height))


def _number(value: float) -> float:
    """A property of a video; 0 where it has none."""
    return value if 0 < value < math.inf else 0.0


def _count(path: Path) -> int:
    count = 0
    with _opened(path) as video:
        while video.grab():
            count += 1
    return count
