"""Calibration of a rectified pair, from numbers or from anything CameraInfo-like.

No ROS package is imported: a message is read through its field names alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stereo_bp_ros.config.arguments import (
    check_fields,
    is_path,
    numbers_of,
    path_of,
    size_of,
    whole,
)
from stereo_bp_ros.errors import InputError, shown
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.system.atomic_files import PathLike

#: Bounds of the numbers of messages: the maximum of float32, and its minimum of full precision.
MAX_FLOAT32, MIN_FLOAT32 = (2 - 2**-23) * 2.0**127, 2.0**-126

#: A baseline that is none, metres: what rounding leaves of numbers that should be equal.
ZERO_BASELINE = 1e-9

#: Below every positive disparity, pixels: a difference of two numbers of 24 bits around 1 / 16.
MIN_DISPARITY = 2.0**-30


class Intrinsics(NamedTuple):
    """Numbers of a matrix, and the image that they should describe; pixels.

    name: 'K' or 'P' of a camera.
    width, height: of the full image: not binned, and without a region of interest.
    """

    name: str
    focal: float
    cx: float
    cy: float
    width: int
    height: int

    @classmethod
    def of_matrix(cls, name: str, side: str, matrix: Sequence[float], size: tuple[int, int]
                  ) -> Intrinsics:
        """Of K or P, row by row."""
        columns = len(matrix) // 3
        return cls(f'{name} of the {side} camera', float(matrix[0]), float(matrix[2]),
                   float(matrix[columns + 2]), *size)

    @classmethod
    def of_info(cls, name: str, side: str, info: Any) -> Intrinsics:
        """Of K or P of a ``sensor_msgs/CameraInfo``."""
        return cls.of_matrix(name, side, getattr(info, name.lower()),
                             (int(info.width), int(info.height)))


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Intrinsics of a rectified pair at the resolution of its images.

    focal_px:   focal length, pixels.
    baseline_m: distance between the cameras, metres, > 0.
    cx_left, cx_right: column of the principal points, pixels; they differ in some data sets
                (Middlebury 2014) and then shift every disparity by ``cx_left - cx_right``.
    cy:         row of the principal point, pixels.
    focal_y_px: vertical focal length, pixels; 0 = ``focal_px``. It differs where rows and columns
                are binned differently, and only ``points`` depend on it.
    width, height: size of the images that it describes, pixels; 0 = not known.
    projections: P of the left and right camera, 12 numbers each; None: not known.
    intrinsics: what it was made of, where that describes other images than these.

    :raises InputError: a number is not finite, focal length or baseline is not positive, or
        float32, which messages have, does not hold a number or what is computed with it; or the
        size is no whole number.
    """

    focal_px: float
    baseline_m: float
    cx_left: float
    cx_right: float
    cy: float
    focal_y_px: float = 0.0
    # Not compared: they say of which images it is, and what it was made of.
    width: int = dataclasses.field(default=0, compare=False)
    height: int = dataclasses.field(default=0, compare=False)
    projections: tuple[Sequence[float], Sequence[float]] | None = dataclasses.field(
        default=None, compare=False, repr=False)
    intrinsics: tuple[Intrinsics, ...] = dataclasses.field(
        default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for field in (one for one in dataclasses.fields(self) if one.init):
            if field.name == 'projections':
                self._check_projections()
                continue
            if field.name in ('width', 'height'):
                object.__setattr__(self, field.name,
                                   whole(field.name, getattr(self, field.name), 0))
                continue
            given = getattr(self, field.name)
            try:
                value = float(given)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if not math.isfinite(value):
                raise InputError(IssueCode.BAD_CALIBRATION, f'{field.name} is {shown(given)}',
                                 'every calibration value must be a finite number')
            object.__setattr__(self, field.name, value)
        if self.focal_px <= 0:
            raise InputError(IssueCode.BAD_CALIBRATION, f'focal_px is {self.focal_px}',
                             'the focal length must be > 0 pixels')
        if self.focal_y_px < 0:
            raise InputError(IssueCode.BAD_CALIBRATION,
                             f'focal_y_px is {self.focal_y_px}',
                             'the vertical focal length must be > 0 pixels')
        object.__setattr__(self, 'focal_y_px', self.focal_y_px or self.focal_px)
        if self.baseline_m <= 0:
            raise InputError(IssueCode.ZERO_BASELINE, f'baseline_m is {self.baseline_m}',
                             'the baseline must be > 0 m')
        self._check_float32()

    def _check_projections(self) -> None:
        if self.projections is None:
            return
        try:
            left, right = self.projections
        except (TypeError, ValueError):
            raise InputError(
                IssueCode.BAD_CALIBRATION, f'projections is {shown(self.projections)}',
                'it must be P of the left and of the right camera, or None') from None
        object.__setattr__(self, 'projections', (
            numbers_of('projections[0]', left, 12), numbers_of('projections[1]', right, 12)))

    def _check_float32(self) -> None:
        for name, value, low, high in (
                ('focal_px', self.focal_px, MIN_FLOAT32, MAX_FLOAT32),
                ('focal_y_px', self.focal_y_px, MIN_FLOAT32, MAX_FLOAT32),
                ('baseline_m', self.baseline_m, MIN_FLOAT32, MAX_FLOAT32),
                ('cx_left', self.cx_left, 0, MAX_FLOAT32),
                ('cx_right', self.cx_right, 0, MAX_FLOAT32),
                ('cx_left - cx_right', self.shift, 0, MAX_FLOAT32),
                ('cy', self.cy, 0, MAX_FLOAT32),
                ('focal_px x baseline_m', self.focal_px * self.baseline_m, 0,
                 MAX_FLOAT32 * MIN_DISPARITY)):
            if not low <= abs(value) <= high:
                raise InputError(IssueCode.BAD_CALIBRATION, f'{name} is {value:g}',
                                 'messages have float32, which does not hold it')

    @property
    def shift(self) -> float:
        """``cx_left - cx_right`` in pixels: subtracted from a disparity as the last step."""
        return self.cx_left - self.cx_right

    @classmethod
    def from_camera_info(cls, left: Any, right: Any) -> Calibration:
        """Read the projection matrices of a pair of ``sensor_msgs/CameraInfo``.

        Binning and region of interest are applied (0 counts as 1): the result is in pixels
        of the images as they arrive.

        :raises InputError: as ``from_projections``.
        """
        found = cls.from_projections(projection('left', left), projection('right', right),
                                     image_size(left))
        object.__setattr__(found, 'intrinsics', (Intrinsics.of_info('P', 'left', left),))
        return found

    @property
    def Q(self) -> np.ndarray:  # noqa: N802  (OpenCV's name)
        """Float64 4 x 4, as ``cv2.stereoRectify`` has it for ``cv2.reprojectImageTo3D``.

        It is of unshifted disparities: ``fixed_disparity``, or those of
        ``StereoMatcher.as_opencv``. With ``pre_adjust_disparity`` other disparities lack
        ``shift``: set Q[3, 3] to 0 for them.
        """
        return np.array([[1, 0, 0, -self.cx_left],
                         [0, self.focal_px / self.focal_y_px, 0,
                          -self.cy * self.focal_px / self.focal_y_px],
                         [0, 0, 0, self.focal_px],
                         [0, 0, 1 / self.baseline_m, -self.shift / self.baseline_m]])

    @classmethod
    def from_file(cls, path: PathLike, image: PathLike | None = None) -> Calibration:
        """Read a calibration; its content determines the format (``docs/reference/files.md``).

        A file of one camera (P_left.txt, left.yaml) is read with that of the other one beside it.

        :param image: the left image: of KITTI's four cameras its folder determines the pair.
            Without it, or in another folder, a warning says which pair was taken.
        :raises ValueError: no such file, no known format, raw cameras, it is damaged, or as
            ``from_projections``; the text names the file.
        """
        from stereo_bp_ros.cameras import calibration_files  # not above: it loads OpenCV
        path_of('path', path)
        if image is not None:
            path_of('image', image)
        return calibration_of_file(path, *calibration_files.read_projections(path, image))

    @classmethod
    def from_q(cls, q: npt.ArrayLike, size: tuple[int, int] = (0, 0)) -> Calibration:
        """From Q of ``cv2.stereoRectify``: 4 x 4, its baseline in metres.

        :param size: as of ``from_projections``.
        :raises InputError: as ``from_projections``.
        """
        from stereo_bp_ros.cameras import calibration_files  # not above: it loads OpenCV
        numbers = numbers_of('q', q, 16)
        try:
            projections = calibration_files.projections_of_q(numbers)
        except ValueError as error:
            raise InputError(IssueCode.BAD_CALIBRATION, str(error),
                             'write what cv2.stereoRectify returns') from error
        return cls.from_projections(*projections, size)

    @classmethod
    def from_projections(cls, left: npt.ArrayLike, right: npt.ArrayLike,
                         size: tuple[int, int] = (0, 0)) -> Calibration:
        """From P of each camera, 3 x 4 or its 12 numbers row by row, in pixels of the images.

        The focal length is the right camera's. Both cameras may be displaced from the origin of
        the rig, as the colour cameras of KITTI are: ``t = P_l[3] / P_l[0] - P_r[3] / P_r[0]``.

        :param size: width and height of the images, pixels; 0 = not known.
        :raises InputError: with the reason bad calibration (not finite, or all zero), zero
            baseline, swapped cameras (a baseline below 0), or vertical pair.
        """
        left, right = numbers_of('left P', left, 12), numbers_of('right P', right, 12)
        size = size_of('size', size)
        for side, p in (('left', left), ('right', right)):
            if p[0] <= 0:
                raise InputError(
                    IssueCode.BAD_CALIBRATION, f'{side} P[0] is {p[0]}',
                    'the focal length must be > 0: is the camera calibrated?')
        baseline = left[3] / left[0] - right[3] / right[0]
        vertical = (left[7] - right[7]) / right[0]
        numbers = f'P[3] is {left[3]:g} (left) and {right[3]:g} (right)'
        if abs(vertical) > abs(baseline):
            raise InputError(
                IssueCode.VERTICAL_PAIR, f'the cameras are {abs(vertical):g} m above each other '
                f'and {abs(baseline):g} m beside each other (P[7], P[3])',
                'only cameras beside each other can be matched: turn both images by 90 degrees '
                'and calibrate them so')
        if baseline < -ZERO_BASELINE:
            raise InputError(
                IssueCode.SWAPPED_CAMERAS, f'the baseline is {baseline:g} m; {numbers}',
                'the right camera must be to the right of the left one: are the camera_infos of '
                'the two cameras exchanged?')
        if baseline <= ZERO_BASELINE:
            raise InputError(
                IssueCode.ZERO_BASELINE, f'the baseline is {baseline:g} m; {numbers}',
                'right P[3] must be -focal length x baseline, below 0: is the pair calibrated as '
                'a pair?')
        return cls(focal_px=right[0], baseline_m=baseline, cx_left=left[2], cx_right=right[2],
                   cy=left[6], focal_y_px=left[5], width=size[0], height=size[1],
                   projections=(left, right))


def calibration_of_file(path: PathLike, left: Sequence[float],
                        right: Sequence[float], size: tuple[int, int] = (0, 0)) -> Calibration:
    """The calibration of projections that a file has.

    :raises ValueError: as ``Calibration.from_projections``; the text names the path.
    """
    try:
        return Calibration.from_projections(left, right, size)
    except ValueError as error:
        raise ValueError(f'calibration {path}: {error}') from error


def calibration_of(calibration: Any) -> Calibration | None:
    """A calibration as it is, or that of a file; None: there is none.

    :raises InputError: bad calibration: it is none of these.
    :raises ValueError: as ``Calibration.from_file``.
    """
    if calibration is None or isinstance(calibration, Calibration):
        return calibration
    if is_path(calibration):
        return Calibration.from_file(calibration)
    raise InputError(IssueCode.BAD_CALIBRATION, f'calibration is {shown(calibration)}',
                     'it must be a Calibration, or a path that Calibration.from_file reads')


def check_camera_info(side: str, info: Any, more: str = '') -> None:
    """Reject what is no ``sensor_msgs/CameraInfo``.

    :param more: fields that are needed beside those of every image.
    :raises InputError: bad calibration.
    """
    check_fields(f'{side} camera_info', info, 'sensor_msgs/CameraInfo',
                 IssueCode.BAD_CALIBRATION, 'p width height binning_x binning_y roi.x_offset '
                 f'roi.y_offset roi.width roi.height {more}')


def projection(side: str, info: Any) -> tuple[float, ...]:
    """The 12 numbers of P, row by row, in pixels of the images that a CameraInfo describes.

    :raises InputError: bad calibration.
    """
    check_camera_info(side, info)
    numbers_of(f'{side} P', info.p, 12)
    _check_region(side, info)
    return in_image_pixels(info, info.p, 4)


def _check_region(side: str, info: Any) -> None:
    """Refuse a region of interest that is no part of the full image, and binning of too much.

    :raises InputError: bad calibration, naming the field. Nothing is known of an image whose
        size is 0.
    """
    roi = info.roi
    for full, what, axis, offset, size, binning in (
            (info.width, 'width', 'x', roi.x_offset, roi.width, info.binning_x),
            (info.height, 'height', 'y', roi.y_offset, roi.height, info.binning_y)):
        end = offset + (size or 1)      # without a size it is that of the full image
        if full and end > full:
            raise InputError(
                IssueCode.BAD_CALIBRATION, f'roi of the {side} camera_info ends at {axis} = '
                f'{end} ({axis}_offset {offset}, {what} {size}), and {what} is {full}',
                'it must lie within the full image')
        if (size or full) and binning > (size or full):
            raise InputError(
                IssueCode.BAD_CALIBRATION, f'binning_{axis} of the {side} camera_info is '
                f'{binning}, and its images have a {what} of {size or full} before it',
                'nothing is left of them')


def in_image_pixels(info: Any, matrix: Sequence[float], columns: int) -> tuple[float, ...]:
    """A camera matrix of the full sensor (K or P), row by row, in pixels of the images.

    The region of interest moves the principal point, then binning divides the first two rows.

    :param columns: of the matrix, whose third one has the principal point.
    """
    found = [float(value) for value in matrix]
    for row, offset, binning in ((0, info.roi.x_offset, info.binning_x),
                                 (1, info.roi.y_offset, info.binning_y)):
        start = row * columns
        found[start + 2] -= offset
        found[start:start + columns] = [
            value / _binning(binning) for value in found[start:start + columns]]
    return tuple(found)


def _binning(value: int) -> int:
    return max(1, int(value))


def image_size(info: Any) -> tuple[int, int]:
    """Width and height in pixels of the images that a CameraInfo describes.

    The region of interest (the full sensor where its size is 0) divided by the binning.
    """
    width = info.roi.width or info.width
    height = info.roi.height or info.height
    return int(width) // _binning(info.binning_x), int(height) // _binning(info.binning_y)
