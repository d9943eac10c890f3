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

import math
import multiprocessing
import typing
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.sources.scenes import street, textures
from stereo_bp_ros.sources.scenes.meshes import Mesh, split_by_depth
from stereo_bp_ros.sources.scenes.misalignment import MAX_ERRORS, Misalignment
from stereo_bp_ros.sources.scenes.renderer import Camera, SceneFrame, View, find_occluded

CAMERA_HEIGHT_M = 1.45
#: Where the horizon, and with it the principal point, lies: a fraction of the image's height.
HORIZON = 0.46

#: The nearest surface is given this fraction of `max_disparity` when the baseline is chosen.
MARGIN = 0.96

#: Brightness of the skies without clouds, grey levels; a sensor reads 255 at most. At 510 a sky
#: stays saturated with half the exposure, and with any usual noise.
PLAIN_SKIES = {'textureless': 215.0, 'saturated': 510.0}

MAX_SLOPE = 0.2

#: Options of `RoadSequence.hard`.
HARD: dict[str, Any] = {
    'sky': 'saturated', 'noise_sigma': 2.0, 'exposure_gain': 0.9, 'exposure_offset': 6.0,
    'fence': True, 'poles': True, 'side_slope': 0.03}

HAZE_GREY = 205.0
HAZE_DISTANCE_M = 260.0

#: Minimum and maximum of options.
LIMITS: dict[str, tuple[float, float]] = {
    'width': (16, math.inf), 'height': (16, math.inf), 'max_disparity': (1, math.inf),
    'side_slope': (-MAX_SLOPE, MAX_SLOPE), **dict.fromkeys((
        'frames', 'seed', 'focal_px', 'baseline_m', 'noise_sigma', 'blur_sigma',
        'start_stamp_ns'), (0, math.inf))}

#: Labels that a matcher searches beyond the largest disparity of the truth.
SPARE_DISPARITIES = 2


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
    fence:          a balustrade along the right kerb and panels of bars across the pavements,
                    each with a period.
    poles:          poles and narrow signs on the kerbs, most of them 1 to 4 pixels wide.
    side_slope:     how far the street falls for every metre to the right, metres.
    misalignment:   of the right camera, whose picture alone it moves.

    Chosen numbers are stored, so `dataclasses.replace` keeps them unless they are given.

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
    fence: bool = False
    poles: bool = False
    side_slope: float = 0.0
    misalignment: Misalignment = field(default_factory=Misalignment)

    @classmethod
    def hard(cls, **options: Any) -> RoadSequence:
        """The street with all that makes real recordings hard (`HARD`), and other options."""
        return cls(**{**HARD, **options})

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if not value >= least:
                raise ValueError(f'{name} is {value}, but must be at least {least}')
            if not value <= most:
                raise ValueError(f'{name} is {value}, but must be at most {most}')
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
    def calibration(self) -> Calibration:
        """Of the perfect pair, whatever the misalignment."""
        return Calibration(self.focal_px, self.baseline_m, self.cx, self.cx, self.cy)

    @property
    def nearest_m(self) -> float:
        """Distance of the nearest surface that the left image can show, metres."""
        below = self.height - 1 - self.cy + abs(self.side_slope) * (self.cx + 0.5)
        road = self.focal_px * CAMERA_HEIGHT_M / below
        side = self.focal_px * street.NEAREST_SIDE_M / (self.cx + 0.5)
        return min(road, side)

    def stamp_ns(self, index: int) -> int:
        """Time of a frame, nanoseconds."""
        return self.start_stamp_ns + round(index * 1e9 / self.rate_hz)

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[SceneFrame]:
        return map(self.frame, range(self.frames))

    def frame(self, index: int) -> SceneFrame:
        """Draw one frame.

        :raises IndexError: the sequence has no such frame.
        """
        if not 0 <= index < self.frames:
            raise IndexError(f'frame {index} of a sequence of {self.frames}')
        cameras = [Camera(self.width, self.height, self.focal_px, self.cx, self.cy,
                          self.baseline_m, x) for x in (0.0, self.baseline_m)]
        mesh = split_by_depth(self.surfaces(index))
        views = [self._view(camera, mesh) for camera in cameras]
        lights = [self._light(*both) for both in zip(views, cameras, strict=True)]
        if self.misalignment:
            widened = self.misalignment.widened(cameras[1])
            light = self._light(self._view(widened, mesh), widened)
            lights[1] = self.misalignment.picture(light, widened, cameras[1])
        random = np.random.default_rng([self.seed, 3, index])
        left, right = views
        truth = left.truth()
        return SceneFrame(
            index, self.stamp_ns(index), self._sensor(lights[0], random),
            self._sensor(lights[1], random, self.exposure_gain, self.exposure_offset),
            truth, find_occluded(truth, right.disparity), truth == 0, left.labels())

    def surfaces(self, index: int) -> Mesh:
        """The street before the left camera at the time of a frame, in its coordinates."""
        mesh = street.street(self.seed).pose(
            index / self.rate_hz, CAMERA_HEIGHT_M, clearance=self.nearest_m + 2.5,
            ground=0.9 * self.nearest_m, focal_px=self.focal_px, fence=self.fence,
            poles=self.poles)
        return mesh.sheared(self.side_slope) if self.side_slope else mesh

    def _view(self, camera: Camera, mesh: Mesh) -> View:
        return camera.view(mesh, self._sky_picture(camera))

    def _sky_picture(self, camera: Camera) -> np.ndarray:
        """The sky's picture on the grid of half pixels that views are drawn on.

        A plain sky is black there and gets its brightness later.
        """
        if self.sky in PLAIN_SKIES:
            return np.zeros((2 * camera.height + 1, 2 * camera.width + 1), np.uint8)
        return _clouds(self.seed, camera.grid())

    def _light(self, view: View, camera: Camera) -> np.ndarray:
        """What reaches the lens, float32 H x W: grey levels, and a sky's may be above 255."""
        image = view.image()
        if self.sky in PLAIN_SKIES:
            image = image + np.float32(PLAIN_SKIES[self.sky]) * view.sky_share()
        # Haze grows with distance and leaves the sky, which has its own, as it is.
        disparity = view.truth()
        unit = self.focal_px * self.baseline_m / HAZE_DISTANCE_M
        haze = np.where(disparity > 0, unit / (unit + disparity), np.float32(0))
        return np.asarray(image + haze.astype(np.float32) * (np.float32(HAZE_GREY) - image))

    def _sensor(self, image: np.ndarray, random: np.random.Generator, gain: float = 1.0,
                offset: float = 0.0) -> np.ndarray:
        """Optics, exposure, noise and rounding: float32 to uint8 grey levels."""
        if self.blur_sigma > 0:
            image = cv2.GaussianBlur(image, (0, 0), self.blur_sigma,
                                     borderType=cv2.BORDER_REPLICATE)
        if gain != 1.0 or offset != 0.0:
            image = image * np.float32(gain) + np.float32(offset)
        if self.noise_sigma > 0:
            image = image + np.float32(self.noise_sigma) * random.standard_normal(
                image.shape, dtype=np.float32)
        return np.clip(np.rint(image), 0, 255).astype(np.uint8)


@lru_cache(maxsize=4)
def _clouds(seed: int, grid: Camera) -> np.ndarray:
    """The street's sky on the grid of half pixels."""
    columns = (np.arange(grid.width) - grid.cx) / grid.focal_px
    rows = (grid.cy - np.arange(grid.height)) / grid.focal_px
    return textures.sky(np.random.default_rng([seed, 2]), columns, rows)


def render(sequence: RoadSequence, workers: int = 0) -> Iterator[SceneFrame]:
    """Draw all frames, in several processes, and yield them in order.

    workers: processes; 0 draws in this one. They are spawned, so a script that asks for some
             must guard its main part with ``if __name__ == '__main__'``.

    At most two frames per process are drawn ahead of the one that is taken.
    """
    if workers <= 0:
        yield from sequence
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), cv2.setNumThreads,
                               (1,))
    try:
        waiting: deque[Future[SceneFrame]] = deque()
        for index in range(len(sequence)):
            waiting.append(pool.submit(sequence.frame, index))
            if len(waiting) == 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


#: Type of every option: those of `RoadSequence`, those of `Misalignment` for its right camera, and
#: `hard`, which begins with `HARD`.
KINDS: dict[str, type] = {
    **{name: kind for name, kind in typing.get_type_hints(RoadSequence).items()
       if kind in (bool, int, float, str)},
    **dict.fromkeys(MAX_ERRORS, float), 'hard': bool}


def sequence_of(options: Mapping[str, Any]) -> RoadSequence:
    """The street that these options describe; single ones win over `hard`.

    :raises ValueError: one sentence that names the option and what is known.
    """
    values = {name: _value(name, value) for name, value in options.items()}
    errors = {name: values.pop(name) for name in MAX_ERRORS if name in values}
    begin = HARD if values.pop('hard', False) else {}
    return RoadSequence(**{**begin, **values}, misalignment=Misalignment(**errors))


def _value(name: str, value: Any) -> Any:
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f'a street has no option {shown(name)}, but ' + ', '.join(KINDS)
                         + did_you_mean(str(name), KINDS))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number and math.isfinite(value):
        return float(value)
    is_huge = isinstance(value, int) and abs(value) >= 2**63
    if type(value) is kind and kind is not float and not is_huge:
        return value
    raise ValueError(f'{name} of a street is {shown(value)}, but must be of type {kind.__name__}')
