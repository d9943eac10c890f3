"""How raw images become rectified ones: the cameras of a pair, and the maps between pixels.

No ROS package is imported: a message is read through its field names alone.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stereo_bp_ros.cameras.calibration import (
    Calibration,
    Intrinsics,
    check_camera_info,
    image_size,
    in_image_pixels,
    projection,
)
from stereo_bp_ros.config.arguments import (
    array_of,
    choice_of,
    is_path,
    numbers_of,
    path_of,
    size_of,
    whole,
)
from stereo_bp_ros.errors import InputError, quoted, shown
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.system.atomic_files import PathLike

#: How many coefficients each distortion model of ROS may have; none = no distortion.
COEFFICIENTS = {'plumb_bob': (0, 4, 5, 8, 12, 14), 'rational_polynomial': (0, 4, 5, 8, 12, 14),
                'equidistant': (0, 4)}

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

#: Maximum difference of R x R^T from the identity: numbers of a file have a few digits.
ROTATION_TOLERANCE = 1e-3

#: Maximum side of an image, pixels: ``cv2.remap`` has 16 bits for a column or a row.
MAX_SIDE = 2**15 - 2

#: Farthest that a ``RightWarp`` may move a corner of the image, pixels.
MAX_WARP = 64.0

#: Columns and rows of the raw pixel, and 32nds of a pixel beyond it: see ``RawCamera.maps``.
Maps = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class RawCamera:
    """Intrinsics and distortion of one camera, in pixels of its images.

    model: distortion model by its name in ``sensor_msgs``: plumb_bob, rational_polynomial
           (which OpenCV computes alike), or equidistant (OpenCV's fisheye).
    d:     its coefficients in OpenCV's order: 4, 5, 8, 12 or 14 (equidistant: 4); () = none.
    k:     3 x 3, row by row: focal lengths and principal point of the raw image.
    r:     3 x 3: rotation from the camera to the rectified one; all 0 = none.
    p:     3 x 4: projection of the rectified image.
    """

    model: str
    d: Sequence[float]
    k: Sequence[float]
    r: Sequence[float]
    p: Sequence[float]

    def __post_init__(self) -> None:
        for name in ('d', 'k', 'r', 'p'):
            values = array_of(name, getattr(self, name)).reshape(-1).tolist()
            object.__setattr__(self, name, tuple(values))
        object.__setattr__(self, 'model', str(self.model))
        if not any(self.r):
            object.__setattr__(self, 'r', IDENTITY)

    @classmethod
    def from_camera_info(cls, side: str, info: Any) -> RawCamera:
        """Read a ``sensor_msgs/CameraInfo`` for its images, with binning and region of interest.

        :raises InputError: bad calibration.
        """
        check_camera_info(side, info, 'distortion_model d k r')
        numbers_of(f'{side} K', info.k, 9)
        return cls(info.distortion_model, info.d, in_image_pixels(info, info.k, 3), info.r,
                   projection(side, info))

    def check(self, side: str) -> None:
        """Refuse what no image can be rectified with.

        :raises InputError: bad calibration, naming the side and the field.
        """
        counts = COEFFICIENTS.get(self.model)
        if counts is None:
            raise InputError(
                IssueCode.BAD_CALIBRATION, f'{side} distortion model is {quoted(self.model)}',
                'rectify needs one of ' + ', '.join(COEFFICIENTS))
        for name, values, known in (('D', self.d, counts), ('K', self.k, (9,)),
                                    ('R', self.r, (9,)), ('P', self.p, (12,))):
            numbers_of(f'{side} {name}', values, *known)
        for name, values, index in (('K', self.k, 0), ('K', self.k, 4), ('P', self.p, 0),
                                    ('P', self.p, 5)):
            if values[index] <= 0:
                raise InputError(
                    IssueCode.BAD_CALIBRATION, f'{side} {name}[{index}] is {values[index]:g}',
                    'the focal length must be > 0: is the camera calibrated?')
        r = np.reshape(self.r, (3, 3))
        if (np.abs(r).max() > 2 or np.linalg.det(r) < 0
                or np.abs(r @ r.T - np.eye(3)).max() > ROTATION_TOLERANCE):
            raise InputError(IssueCode.BAD_CALIBRATION, f'{side} R is {list(self.r)}',
                             'it must be a rotation, or all 0 for none')

    def maps(self, width: int, height: int, warp: npt.ArrayLike = IDENTITY) -> Maps:
        """OpenCV's fixed-point maps for rectified images of this size, as ``cv2.remap`` has them.

        :param warp: what is applied to rectified pixels first, as of ``RightWarp``.
        :returns: int16 H x W x 2, column and row of the raw pixel up and left of where a
            rectified pixel lies; uint16 H x W, how far: 32nds of a pixel to the right + 32 x
            those downwards.
        :raises InputError: as ``check`` and ``RightWarp``; bad size.
        """
        import cv2  # not above: importing the package is quick without it

        width, height = whole('width', width, 1), whole('height', height, 1)
        numbers = numbers_of('warp', warp, 9, 12)
        _check_warp(numbers, width, height)
        self.check('camera')
        k, r = np.reshape(self.k, (3, 3)), np.reshape(self.r, (3, 3))
        p, d = np.reshape(self.p, (3, 4))[:, :3], np.array(self.d)
        # OpenCV inverts P R: any 3 x 3 matrix may stand for P.
        p = np.linalg.inv(np.reshape(numbers[:9], (3, 3))) @ p
        model: Any = cv2
        if self.model == 'equidistant':
            model, d = cv2.fisheye, d if self.d else np.zeros(4)
        if len(numbers) == 9:
            return model.initUndistortRectifyMap(k, d, r, p, (width, height), cv2.CV_16SC2)
        enough = max(2, height)     # rows, for a step from one to the next
        columns, lines = model.initUndistortRectifyMap(
            k, d, r, p, (width, enough), cv2.CV_32FC1)
        rows = _keystone_rows(numbers, np.arange(width, dtype=np.float32),
                              np.arange(enough, dtype=np.float32)[:, None])
        # The maps are smooth, and these rows few: to first order.
        for one in (columns, lines):
            steps = np.diff(one, axis=0)
            one[1:] += rows[1:] * steps
            one[0] += rows[0] * steps[0]
        return cv2.convertMaps(columns[:height], lines[:height], cv2.CV_16SC2)


@dataclasses.dataclass(frozen=True)
class Rectification:
    """What raw images of a pair are rectified with; equal and hashed by value.

    left, right:   the cameras, in pixels of the raw images.
    width, height: of the raw images, pixels.
    rectified_width, rectified_height: of the rectified images, pixels; 0 = as the raw ones. The
                   first two rows of P are scaled by their ratio to the raw images, as binning
                   does.
    intrinsics:    as of ``Calibration``; () = K, of the raw images.

    :raises InputError: bad calibration, zero baseline or swapped cameras; bad size; too large.
    """

    left: RawCamera
    right: RawCamera
    width: int
    height: int
    rectified_width: int = 0
    rectified_height: int = 0
    intrinsics: tuple[Intrinsics, ...] = dataclasses.field(
        default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ('width', 'height'):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1))
        for name, raw in (('rectified_width', self.width), ('rectified_height', self.height)):
            object.__setattr__(self, name, whole(name, getattr(self, name), 0) or raw)
        if max(self.width, self.height, self.rectified_width, self.rectified_height) > MAX_SIDE:
            raise InputError(
                IssueCode.TOO_LARGE,
                f'{self.width} x {self.height} to be rectified to '
                f'{self.rectified_width} x {self.rectified_height}',
                f'sides may have 1 to {MAX_SIDE} pixels')
        for side in SIDES:
            if not isinstance(camera := self.camera(side), RawCamera):
                raise InputError(IssueCode.BAD_CALIBRATION, f'{side} is {shown(camera)}',
                                 'it must be a RawCamera')
            camera.check(side)
        # What is said of the rectified images is refused now, not in the middle of a frame.
        _ = self.calibration

    @classmethod
    def from_camera_info(cls, left: Any, right: Any, rectified_width: int = 0,
                         rectified_height: int = 0) -> Rectification:
        """Read a pair of ``sensor_msgs/CameraInfo`` (or anything with their fields).

        :param rectified_width, rectified_height: as of the class.
        :raises InputError: size mismatch, or as the class.
        """
        for side, info in zip(SIDES, (left, right), strict=True):
            check_camera_info(side, info)
        size = image_size(left)
        if image_size(right) != size:
            raise InputError(IssueCode.SIZE_MISMATCH, 'camera_info describes images of '
                             '{} x {} and {} x {}'.format(*size, *image_size(right)),
                             'both images of a pair must have one size')
        found = cls(RawCamera.from_camera_info('left', left),
                    RawCamera.from_camera_info('right', right), *size, rectified_width,
                    rectified_height)
        described = (('P', 'left', left), ('K', 'left', left), ('K', 'right', right))
        object.__setattr__(found, 'intrinsics', tuple(
            Intrinsics.of_info(*one) for one in described))
        found.__dict__.pop('calibration', None)     # was made without them
        return found

    @classmethod
    def from_file(cls, path: PathLike, size: tuple[int, int] = (0, 0),
                  rectified_width: int = 0, rectified_height: int = 0) -> Rectification:
        """Read D, K, R and P of both cameras in any format of ``docs/reference/files.md``.

        A file of one camera (left.yaml) is read with that of the other one beside it.

        :param size: width and height of the raw images, where the file does not say it; pixels.
        :param rectified_width, rectified_height: as of the class.
        :raises ValueError: no such file, a matrix is missing, it is damaged, or as the class; the
            text names the file.
        """
        from stereo_bp_ros.cameras import rectification_files  # not above: it loads OpenCV
        size = size_of('size', size)
        rectified_width = whole('rectified_width', rectified_width, 0)
        rectified_height = whole('rectified_height', rectified_height, 0)
        cameras = rectification_files.read_cameras(path_of('path', path))
        sizes = {camera.size for camera in cameras} - {(0, 0)} or {size}
        if len(sizes) > 1 or sizes == {(0, 0)}:
            known = ' and '.join('{} x {}'.format(*one) for one in sorted(sizes - {(0, 0)}))
            raise ValueError(f'calibration {path} is of images of ' + (
                f'different sizes: {known}' if known else 'unknown size: give it'))
        try:
            left, right = (RawCamera(*camera[:5]) for camera in cameras)
            return cls(left, right, *sizes.pop(), rectified_width, rectified_height)
        except ValueError as error:
            raise ValueError(f'calibration {path}: {error}') from error

    def camera(self, side: str) -> RawCamera:
        """The camera of a side, 'left' or 'right'."""
        return self.left if choice_of('side', side, SIDES) == 'left' else self.right

    @functools.cached_property
    def calibration(self) -> Calibration:
        """That of the rectified images."""
        found = Calibration.from_projections(
            self.projection('left'), self.projection('right'),
            (self.rectified_width, self.rectified_height))
        object.__setattr__(found, 'intrinsics', self.intrinsics or tuple(
            Intrinsics.of_matrix('K', side, self.camera(side).k, (self.width, self.height))
            for side in SIDES))
        return found

    def maps(self, side: str, warp: npt.ArrayLike = IDENTITY) -> Maps:
        """Where the pixels of the rectified image of a side lie in its raw image.

        :param warp: what is applied to rectified pixels first, as of ``RightWarp``.

        Both arrays have the rectified size; see ``RawCamera.maps``.
        """
        camera = dataclasses.replace(self.camera(side), p=self.projection(side))
        return camera.maps(self.rectified_width, self.rectified_height, warp)

    def projection(self, side: str) -> tuple[float, ...]:
        """P of a side in pixels of the rectified image."""
        scales = (self.rectified_width / self.width, self.rectified_height / self.height, 1.0)
        p = np.reshape(self.camera(side).p, (3, 4)) * np.array(scales)[:, None]
        return tuple(p.reshape(-1).tolist())


def rectification_of(rectification: Any, size: tuple[int, int], rectified_size: tuple[int, int]
                     ) -> Rectification | None:
    """A rectification as it is, or that of a file; None: there is none.

    :param size, rectified_size: of the images, as ``Rectification.from_file`` takes them.
    :raises InputError: bad calibration: it is none of these.
    :raises ValueError: as ``Rectification.from_file``.
    """
    if rectification is None or isinstance(rectification, Rectification):
        return rectification
    if is_path(rectification):
        return Rectification.from_file(rectification, size, *rectified_size)
    raise InputError(IssueCode.BAD_CALIBRATION, f'rectification is {shown(rectification)}',
                     'it must be a Rectification, or a path that Rectification.from_file reads')


def remapped(image: RawImage, maps: Maps) -> np.ndarray:
    """The grey values of a raw image where the maps say, as with the setting ``rectify``.

    :param maps: of ``Rectification.maps``.
    :returns: uint8 or uint16 H x W: bilinear, 0 where the raw image does not reach.
    """
    import cv2  # not above: importing the package is quick without it

    from stereo_bp_ros.images.grey import grey_values

    return np.asarray(cv2.remap(grey_values(image), *maps, cv2.INTER_LINEAR,
                                borderMode=cv2.BORDER_CONSTANT, borderValue=0))


class RightWarp:
    """A homography of the right rectified image with its maps, which are computed once.

    :param numbers: 9 of the homography, row by row: from a pixel (x, y, 1) of the warped image to
        its place in the rectified image. Then none, or 3, k, column and row: the place lies
        ``k (x - column) (y - row)`` lower.
    :raises InputError: bad calibration: not 9 or 12 finite numbers.
    """

    #: The camera of an image that is rectified already.
    CAMERA = RawCamera('plumb_bob', (), IDENTITY, IDENTITY, (1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0))

    def __init__(self, numbers: npt.ArrayLike) -> None:
        self.numbers = tuple(numbers_of('homography', numbers, 9, 12))
        self._prepared: tuple[Rectification | None, int, int] | None = None
        self._maps: Maps

    @property
    def maps(self) -> Maps:
        """Where the pixels of the warped image lie in the image as it comes.

        As ``RawCamera.maps``, of what it was last prepared for.
        """
        return self._maps

    def prepare(self, rectification: Rectification | None, width: int, height: int) -> None:
        """Compute the maps, unless they are of such images already.

        :param rectification: of raw images; None = they come rectified.
        :param width, height: of the rectified images, pixels.
        :raises InputError: it moves a corner by more than ``MAX_WARP``, or sides have more than
            ``MAX_SIDE`` pixels.
        """
        wanted = rectification, width, height
        if wanted == self._prepared:
            return
        maps = (self.CAMERA.maps(width, height, self.numbers) if rectification is None
                else rectification.maps('right', self.numbers))
        self._prepared = None       # while the maps are those of others
        self._maps, self._prepared = maps, wanted


def _check_warp(warp: Sequence[float], width: int, height: int) -> None:
    """:raises InputError: as ``RightWarp.prepare``."""
    if max(width, height) > MAX_SIDE:
        raise InputError(IssueCode.TOO_LARGE, f'{width} x {height} to be warped',
                         f'sides may have at most {MAX_SIDE} pixels')
    corners = np.array([(x, y, 1.0) for x in (0, width - 1) for y in (0, height - 1)])
    homography = np.reshape(warp[:9], (3, 3))
    x, y, scale = (corners @ homography.T).T
    if scale.min() > 0 and np.linalg.det(homography) > 0:
        rows = _keystone_rows(warp, corners[:, 0], corners[:, 1])
        moved = float(np.hypot(x / scale - corners[:, 0],
                               y / scale + rows - corners[:, 1]).max())
        if moved <= MAX_WARP:
            return
        text = f'moves a corner by {moved:.1f} pixels'
    else:
        text = 'cannot be inverted or turns the image over'
    raise InputError(IssueCode.BAD_CALIBRATION, f'the homography (warp) {text}',
                     f'it may be {MAX_WARP:g} pixels')


def _keystone_rows(warp: Sequence[float], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows by which the last numbers of a warp move pixels."""
    if len(warp) == 9:
        return np.zeros(())
    k, column, row = warp[9:]
    return k * (x - column) * (y - row)


def rectified_info(info: Any, rectification: Rectification, side: str) -> Any:
    """A copy of a side's CameraInfo that describes its rectified images: no D, and K is of P."""
    found = copy.copy(info)
    p = rectification.projection(side)
    found.width, found.height = rectification.rectified_width, rectification.rectified_height
    found.distortion_model, found.d, found.r = 'plumb_bob', [0.0] * 5, list(IDENTITY)
    found.k, found.p = [*p[0:3], *p[4:7], *p[8:11]], list(p)
    found.binning_x = found.binning_y = 0
    found.roi = type(info.roi)()
    return found
