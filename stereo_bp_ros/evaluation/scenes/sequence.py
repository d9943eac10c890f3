"""Synthetic road drives in stereo with exact ground truth.

A left and a right pinhole camera drive along a street with houses, parked and moving vehicles.
Both pictures are drawn from the same planes, and the disparity of a plane is affine in image
coordinates, so the ground truth is computed, never estimated.

>>> sequence = RoadSequence(width=320, height=240, frames=2)
>>> frame = sequence.frame(0)
>>> frame.left.shape, frame.disparity.dtype.name
((240, 320), 'float32')
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from stereo_bp_ros.evaluation.scenes import street
from stereo_bp_ros.evaluation.scenes.renderer import Camera, View, split_by_depth

CAMERA_HEIGHT_M = 1.45
HORIZON = 0.46
"""Where the horizon, and with it the principal point, lies: a fraction of the image's height."""

MARGIN = 0.96
"""The nearest surface is given this fraction of `max_disparity` when the baseline is chosen."""

PLAIN_SKIES = {'textureless': 215.0, 'saturated': 510.0}
"""Brightness of the skies without clouds, grey levels; a sensor reads 255 at most.

At 510 a sky stays saturated with half the exposure, and with any usual noise.
"""

HAZE_GREY = 205.0
HAZE_DISTANCE_M = 260.0


@dataclass(frozen=True)
class SceneFrame:
    """One stereo pair of a drive with its ground truth.

    index:       number in the sequence, from 0.
    stamp_ns:    time of both images, nanoseconds.
    left, right: uint8 H x W, grey levels.
    disparity:   float32 H x W, pixels: pixel (x, y) of the left image shows the same point as
                 (x - disparity, y) of the right one. Exact at pixel centres. The sky is infinitely
                 far and has disparity 0, a known value.
    occluded:    bool H x W, True where the left pixel's surface is hidden from the right camera
                 or outside its picture.
    sky:         bool H x W, True where the left pixel's centre shows the sky. Exact.
    """

    index: int
    stamp_ns: int
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    occluded: np.ndarray
    sky: np.ndarray


@dataclass(frozen=True)
class RoadSequence:
    """A drive along a street; `frame(i)` draws any frame, the same one every time.

    width, height:  image size, pixels.
    focal_px:       focal length, pixels; 0 chooses 0.9 times the width.
    baseline_m:     metres; 0 chooses one with which `max_disparity` is just not reached.
    max_disparity:  pixels; nothing in the left image has a larger disparity.
    rate_hz:        frames per second.
    frames:         length of the sequence.
    seed:           the street, its traffic and the noise.
    noise_sigma:    sensor noise of either camera, standard deviation in grey levels.
    exposure_gain, exposure_offset: right image = gain * what it would be + offset, grey levels.
    blur_sigma:     Gaussian blur of the optics of both cameras, pixels.
    start_stamp_ns: time of frame 0, nanoseconds.
    sky:            'clouds'; 'textureless', one grey level and the sensor's noise; or 'saturated',
                    so bright that both images have 255 there, without noise, as an overexposed
                    sky has in a real camera.

    Chosen numbers are stored, so `dataclasses.replace` keeps them unless told otherwise.

    :raises ValueError: a size or rate makes no picture, the baseline is too long for
        `max_disparity`, or there is no such sky.
    """

    width: int = 640
    height: int = 480
    focal_px: float = 0.0
    baseline_m: float = 0.0
    max_disparity: int = 60
    rate_hz: float = 10.0
    frames: int = 100
    seed: int = 1
    noise_sigma: float = 1.0
    exposure_gain: float = 1.0
    exposure_offset: float = 0.0
    blur_sigma: float = 0.0
    start_stamp_ns: int = 1_000_000_000
    sky: str = 'clouds'

    def __post_init__(self) -> None:
        for name, least in (('width', 16), ('height', 16), ('max_disparity', 1), ('frames', 0),
                            ('seed', 0), ('focal_px', 0), ('baseline_m', 0), ('noise_sigma', 0),
                            ('blur_sigma', 0), ('start_stamp_ns', 0)):
            value = getattr(self, name)
            if not value >= least:
                raise ValueError(f'{name} is {value}, but must be at least {least}')
        if not self.rate_hz > 0:
            raise ValueError(f'rate_hz is {self.rate_hz}, but must be above 0')
        if self.sky not in ('clouds', *PLAIN_SKIES):
            raise ValueError(f'sky is {self.sky!r}, but must be one of clouds, '
                             + ', '.join(PLAIN_SKIES))
        object.__setattr__(self, 'focal_px', float(self.focal_px or 0.9 * self.width))
        limit = self.max_disparity * self.nearest_m / self.focal_px
        if not self.baseline_m:
            chosen = MARGIN * limit
            rounded = int(chosen * 1000) / 1000
            object.__setattr__(self, 'baseline_m', rounded if rounded > 0.02 else chosen)
        if self.baseline_m > limit:
            raise ValueError(
                f'baseline_m is {self.baseline_m}, but the nearest surface, {self.nearest_m:.2f} '
                f'm away, then has more than max_disparity = {self.max_disparity} pixels: at '
                f'most {limit:.3f} fits')

    @property
    def cx(self) -> float:
        """Column of the principal point of both cameras, pixels."""
        return (self.width - 1) / 2

    @property
    def cy(self) -> float:
        """Row of the principal point of both cameras, which is also the horizon's, pixels."""
        return float(round(HORIZON * (self.height - 1)))

    @property
    def nearest_m(self) -> float:
        """Distance of the nearest surface that the left image can show, metres."""
        road = self.focal_px * CAMERA_HEIGHT_M / (self.height - 1 - self.cy)
        side = self.focal_px * street.NEAREST_SIDE_M / (self.cx + 0.5)
        return min(road, side)

    def stamp_ns(self, index: int) -> int:
        """Time of a frame, nanoseconds."""
        return self.start_stamp_ns + round(index * 1e9 / self.rate_hz)

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[SceneFrame]:
        for index in range(self.frames):
            yield self.frame(index)

    def frame(self, index: int) -> SceneFrame:
        """Draw one frame.

        :raises IndexError: the sequence has no such frame.
        """
        if not 0 <= index < self.frames:
            raise IndexError(f'frame {index} of a sequence of {self.frames}')
        cameras = [Camera(self.width, self.height, self.focal_px, self.cx, self.cy,
                          self.baseline_m, x) for x in (0.0, self.baseline_m)]
        mesh = split_by_depth(street.street(self.seed).pose(
            index / self.rate_hz, CAMERA_HEIGHT_M, clearance=self.nearest_m + 2.5,
            ground=0.9 * self.nearest_m))
        left, right = (camera.view(mesh, self._clouds()) for camera in cameras)
        truth = left.truth()
        random = np.random.default_rng([self.seed, 3, index])
        return SceneFrame(
            index, self.stamp_ns(index),
            self._sensor(self._light(left), truth, random),
            self._sensor(self._light(right), right.truth(), random, self.exposure_gain,
                         self.exposure_offset),
            truth, _hidden(truth, right.disparity), truth == 0)

    def _clouds(self) -> np.ndarray:
        """The sky's picture on the grid of half pixels that views are drawn on."""
        if self.sky in PLAIN_SKIES:
            return np.zeros((2 * self.height + 1, 2 * self.width + 1), np.uint8)
        return _clouds(self.seed, self.width, self.height, self.focal_px, self.cx, self.cy)

    def _light(self, view: View) -> np.ndarray:
        """What reaches the sensor, float32 H x W: grey levels, and a sky's may be above 255."""
        if self.sky in PLAIN_SKIES:
            return view.image() + np.float32(PLAIN_SKIES[self.sky]) * view.sky_share()
        return view.image()

    def _sensor(self, image: np.ndarray, disparity: np.ndarray, random: np.random.Generator,
                gain: float = 1.0, offset: float = 0.0) -> np.ndarray:
        """Haze, optics, exposure, noise and rounding: float32 to uint8 grey levels."""
        # Haze grows with distance and leaves the sky, which has its own, as it is.
        unit = self.focal_px * self.baseline_m / HAZE_DISTANCE_M
        haze = np.where(disparity > 0, unit / (unit + disparity), np.float32(0))
        image = image + haze.astype(np.float32) * (np.float32(HAZE_GREY) - image)
        if self.blur_sigma > 0:
            image = cv2.GaussianBlur(image, (0, 0), self.blur_sigma,
                                     borderType=cv2.BORDER_REPLICATE)
        if gain != 1.0 or offset != 0.0:
            image = image * np.float32(gain) + np.float32(offset)
        if self.noise_sigma > 0:
            image = image + np.float32(self.noise_sigma) * random.standard_normal(
                image.shape, dtype=np.float32)
        return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def _hidden(truth: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left pixels whose point is not in the right picture, whose disparities are at half pixels.

    A point is hidden when both neighbouring samples of the right camera lie in front of it; on a
    surface that both cameras see, one of them always lies on it or behind.
    """
    width = truth.shape[1]
    place = np.arange(width, dtype=np.float32) - truth
    sample = 2.0 * np.clip(place, 0, width - 1) + 1.0
    below = np.floor(sample).astype(np.intp)
    rows = right[1::2]
    behind = np.minimum(np.take_along_axis(rows, below, axis=1),
                        np.take_along_axis(rows, below + 1, axis=1))
    return (place < 0) | (behind > truth + 0.01)


@lru_cache(maxsize=2)
def _clouds(seed: int, width: int, height: int, focal_px: float, cx: float, cy: float
            ) -> np.ndarray:
    """The street's sky on the grid of half pixels."""
    columns = (np.arange(2 * width + 1) / 2 - 0.5 - cx) / focal_px
    rows = (cy - np.arange(2 * height + 1) / 2 + 0.5) / focal_px
    return street.street(seed).sky(columns, rows)


def _draw(sequence: RoadSequence, index: int) -> SceneFrame:
    return sequence.frame(index)


def _one_thread() -> None:
    cv2.setNumThreads(1)


def render(sequence: RoadSequence, workers: int = 0,
           progress: Callable[[int, int], None] | None = None) -> Iterator[SceneFrame]:
    """Draw all frames, in several processes, and yield them in order.

    workers:  processes; 0 draws in this one. They are spawned, so a script that asks for some
              must guard its main part with ``if __name__ == '__main__'``.
    progress: called with (frames done, frames in all) after each frame.

    At most two frames per process are drawn ahead of the one that is taken.
    """
    total = len(sequence)
    if workers <= 0:
        for frame in sequence:
            if progress is not None:
                progress(frame.index + 1, total)
            yield frame
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), _one_thread)
    waiting: deque[Future[SceneFrame]] = deque()
    try:
        for index in range(total + 2 * workers):
            if index < total:
                waiting.append(pool.submit(_draw, sequence, index))
            if waiting and (index >= 2 * workers - 1 or index >= total):
                frame = waiting.popleft().result()
                if progress is not None:
                    progress(frame.index + 1, total)
                yield frame
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
