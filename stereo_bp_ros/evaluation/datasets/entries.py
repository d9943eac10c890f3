"""Stereo pairs, and where they are stored; what every layout is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.evaluation import calibrations, files
from stereo_bp_ros.evaluation.datasets.classes import Classes, ClassReader
from stereo_bp_ros.images import RawImage

IMAGE_SUFFIXES = ('.png', '.pgm', '.ppm', '.jpg', '.jpeg', '.bmp', '.tif', '.tiff')

Reader = Callable[[], np.ndarray]
"""Reads H x W when it is called: a truth (float32, pixels) or a mask (bool)."""


@dataclass(frozen=True)
class Pair:
    """One rectified pair of any source with what is known about it.

    name:        unique in its source.
    left, right: uint8 or uint16 H x W, uint8 H x W x 3 (rgb8), or as a message of a bag had it.
    truth:       float32 H x W, disparity of the left image in pixels, not finite where unknown;
                 None without ground truth.
    disparities: number of disparities to search from 0, where the source says so, or None.
    calibration: of both cameras, or None.
    stamp_ns:    time of both images, nanoseconds, or None.
    vehicles, sky: bool H x W, pixels of the left image that show vehicles or the sky; None where
                 the source has no such mask.
    occluded:    bool H x W, pixels of the left image whose truth is known although the right
                 camera does not see them; None where the source does not tell.
    classes:     name to bool H x W, pixels of the left image that show this class; of those that
                 the source tells, without the sky.
    input:       name of its source, where there are several; then ``name`` begins with it.
    """

    name: str
    left: np.ndarray | RawImage
    right: np.ndarray | RawImage
    truth: np.ndarray | None = None
    disparities: int | None = None
    calibration: Calibration | None = None
    stamp_ns: int | None = None
    vehicles: np.ndarray | None = None
    sky: np.ndarray | None = None
    occluded: np.ndarray | None = None
    classes: Classes = field(default_factory=dict)
    input: str = ''

    @property
    def images(self) -> tuple[RawImage, RawImage]:
        """Left and right as the matcher takes them."""
        left, right = (image if isinstance(image, RawImage) else RawImage.from_array(image)
                       for image in (self.left, self.right))
        return left, right


@dataclass(frozen=True)
class StereoPair(Pair):
    """One of a data set, whose images are arrays."""

    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Entry:
    """Where a pair is stored; nothing is read before `load`."""

    name: str
    left: Path
    right: Path
    truth: Reader | None = None
    stamp_ns: int | None = None
    calibration: Callable[[], Calibration] | None = None
    disparities: int | None = None
    vehicles: Reader | None = None
    sky: Reader | None = None
    occluded: Reader | None = None
    classes: ClassReader | None = None

    def load(self) -> StereoPair:
        """Read the pair.

        :raises ValueError: a file is missing or damaged, or sizes differ.
        """
        left, right = files.read_image(self.left), files.read_image(self.right)
        if left.shape != right.shape:
            raise ValueError(f'{self.left} is {left.shape[1]} x {left.shape[0]} and {self.right} '
                             f'is {right.shape[1]} x {right.shape[0]}, or their colours differ')
        classes = {} if self.classes is None else {
            name: self._checked(f'mask of the class {name}', found, left)
            for name, found in self.classes().items()}
        seen = classes.pop('sky', None)
        sky = self._read('mask of the sky', self.sky, left) if self.sky else seen
        return StereoPair(
            self.name, left, right, self._read('ground truth', self.truth, left),
            self.disparities, None if self.calibration is None else self.calibration(),
            self.stamp_ns,
            self._read('mask of vehicles', self.vehicles, left),
            sky, self._read('mask of occluded pixels', self.occluded, left), classes)

    def _read(self, what: str, reader: Reader | None, image: np.ndarray) -> np.ndarray | None:
        return None if reader is None else self._checked(what, reader(), image)

    def _checked(self, what: str, found: np.ndarray, image: np.ndarray) -> np.ndarray:
        if found.shape != image.shape[:2]:
            raise ValueError(f'the {what} of {self.left} is {found.shape[1]} x {found.shape[0]}, '
                             f'the image {image.shape[1]} x {image.shape[0]}')
        return found


def mask(path: Path) -> Reader | None:
    """Reader of a mask that is not 0 at its pixels; None where there is no such file."""
    return (lambda: files.read_mask(path)) if path.is_file() else None


def image(folder: Path, stem: str) -> Path | None:
    """The image of a name without its suffix, or None."""
    for suffix in IMAGE_SUFFIXES:
        path = folder / (stem + suffix)
        if path.is_file():
            return path
    return None


def calibration(folder: Path) -> Callable[[], Calibration] | None:
    """Reader of the calibration beside images, by the names that it may have, or None."""
    path = calibrations.find_calibration(folder)
    return None if path is None else lambda: calibrations.read_calibration(path)


def partners(left: Path, right: Path) -> list[tuple[Path, Path]]:
    """Images of the same name in two folders.

    :raises ValueError: there are none, or one has no partner.
    """
    own, other = ({path.name: path for path in images(side)} for side in (left, right))
    return matched(own, other, left, right)


def images(folder: Path) -> list[Path]:
    """The images in a folder, by their names."""
    return [path for path in sorted(folder.iterdir()) if path.suffix.lower() in IMAGE_SUFFIXES]


def matched(left: dict[str, Path], right: dict[str, Path], left_folder: Path, right_folder: Path
            ) -> list[tuple[Path, Path]]:
    """Images of the same name, of two tables from names to images.

    :raises ValueError: there are none, or one has no partner.
    """
    if not left and not right:
        raise ValueError(f'no images in {left_folder} and {right_folder}')
    for own, other, folder in ((left, right, right_folder), (right, left, left_folder)):
        alone = sorted(own.keys() - other.keys())
        if alone:
            raise ValueError(f'{own[alone[0]]} has no partner {folder / alone[0]}'
                             + (f' (and {len(alone) - 1} more)' if len(alone) > 1 else ''))
    return [(path, right[name]) for name, path in left.items()]
