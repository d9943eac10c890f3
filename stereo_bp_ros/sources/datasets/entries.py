"""Stereo pairs, and where they are stored; what every layout is made of."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from stereo_bp_ros.cameras import calibration_files
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks.truth_checks import TruthScale
from stereo_bp_ros.errors import InputError, shown
from stereo_bp_ros.images import files
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import split
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.sources.natural_order import natural_key

IMAGE_SUFFIXES = ('.png', '.pgm', '.ppm', '.jpg', '.jpeg', '.bmp', '.tif', '.tiff')

#: What people name a truth beside images.
TRUTH_NAME = re.compile(r'disp(?!lay)|depth|truth|(?<![a-z])gt\d*(?![a-z])', re.IGNORECASE)

#: What they name a tree of truths.
GROUND_TRUTH = re.compile(r'(?<![a-z])gt\d*(?![a-z])|ground_?truth', re.IGNORECASE)

#: Reads H x W when it is called: a truth (float32, pixels) or a mask (bool).
Reader = Callable[[], np.ndarray]

#: Name of a class to bool H x W: where it is.
Classes = Mapping[str, np.ndarray]

#: Classes by their numbers in Cityscapes, which KITTI's semantic benchmark shares; below 4 there
#: is nothing that a class is given to.
CITYSCAPES = dict(enumerate((
    'static', 'dynamic', 'ground', 'road', 'sidewalk', 'parking', 'rail_track', 'building', 'wall',
    'fence', 'guard_rail', 'bridge', 'tunnel', 'pole', 'polegroup', 'traffic_light',
    'traffic_sign', 'vegetation', 'terrain', 'sky', 'person', 'rider', 'car', 'truck', 'bus',
    'caravan', 'trailer', 'train', 'motorcycle', 'bicycle'), start=4))

T = TypeVar('T')


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
                 camera does not see them; None where the source does not say.
    classes:     name to bool H x W, pixels of the left image that show this class; of those that
                 the source has, without the sky.
    input:       name of its source, where there are several; then ``name`` begins with it.
    is_numbered: whether files have the frame's number and no time: ``stamp_ns`` is at 10 Hz.
    truth_scale: by which the truth was read, where that is known.
    issues:      what raw images have shown before they were rectified.
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
    is_numbered: bool = False
    truth_scale: TruthScale | None = None
    issues: tuple[Issue, ...] = ()

    @property
    def images(self) -> tuple[RawImage, RawImage]:
        """Left and right as the matcher takes them."""
        left, right = (image if isinstance(image, RawImage) else RawImage.from_array(image)
                       for image in (self.left, self.right))
        return left, right


class Unread(NamedTuple):
    """A pair that is not read yet.

    name: as ``Pair.name``.
    load: reads or draws it, while its source is open; raises StereoError or ValueError where it
          cannot be read, which concerns no other pair.
    """

    name: str
    load: Callable[[], Pair]


@dataclass(frozen=True)
class StereoPair(Pair):
    """One of a data set, whose images are arrays."""

    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Entry:
    """Where a pair is stored; nothing is read before `load`.

    side_by_side: how both images lie in that of ``left``, which ``right`` is then, too; '' = each
                  file has one.
    """

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
    classes: Callable[[], Classes] | None = None
    is_numbered: bool = False
    truth_scale: float | None = None
    side_by_side: str = ''

    def load(self) -> StereoPair:
        """Read the pair.

        :raises ValueError: a file is missing or damaged, or sizes differ.
        """
        if self.side_by_side:
            left, right = read_side_by_side(self.left, self.side_by_side)
        else:
            left, right = files.read_image(self.left), files.read_image(self.right)
        if left.shape != right.shape:
            raise ValueError(f'{self.left} is {left.shape[1]} x {left.shape[0]} and {self.right} '
                             f'is {right.shape[1]} x {right.shape[0]}, or their colours differ')

        def checked(what: str, found: np.ndarray | None) -> np.ndarray | None:
            if found is not None and found.shape != left.shape[:2]:
                raise ValueError(f'the {what} of {self.left} is {found.shape[1]} x '
                                 f'{found.shape[0]}, the image {left.shape[1]} x {left.shape[0]}')
            return found

        classes = dict(self.classes()) if self.classes else {}
        for name, found in classes.items():
            checked(f'mask of the class {name}', found)
        seen = classes.pop('sky', None)
        return StereoPair(
            self.name, left, right, checked('ground truth', self.truth and self.truth()),
            self.disparities, self.calibration and self.calibration(), self.stamp_ns,
            checked('mask of vehicles', self.vehicles and self.vehicles()),
            checked('mask of the sky', self.sky()) if self.sky else seen,
            checked('mask of occluded pixels', self.occluded and self.occluded()), classes,
            is_numbered=self.is_numbered,
            truth_scale=TruthScale(self.truth_scale) if self.truth_scale else None)


def read_side_by_side(path: Path, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Left and right image of a file that holds both, as of ``files.read_image``.

    :raises ValueError: it cannot be read, or has no equal halves.
    """
    try:
        left, right = split(RawImage.from_array(files.read_image(path)), layout)
    except InputError as error:
        raise ValueError(f'{path}: {error}') from error
    return left.pixels, right.pixels


def defer(read: Callable[..., T], *paths: Path | None, **options: object
          ) -> Callable[[], T] | None:
    """What reads these files when it is called; None where one of them is missing."""
    if all(path is not None and path.is_file() for path in paths):
        return functools.partial(read, *paths, **options)
    return None


def read_classes(folder: Path) -> Classes:
    """Masks NAME.png of classes in a folder; none where there is no folder."""
    paths = sorted(folder.glob('*.png'))
    for path in paths:
        if not re.fullmatch(r'[a-z][a-z0-9_]*', path.stem):
            raise ValueError(f'{path}: a class is named {shown(path.stem)}, but a name has small '
                             'letters, digits and _, and begins with a letter')
    return {path.stem: files.read_mask(path) for path in paths}


def read_cityscapes(path: Path) -> Classes:
    """The classes that are in a grey image with numbers of Cityscapes."""
    return _masks(files.read_grey(path), CITYSCAPES)


def _masks(codes: np.ndarray, names: Mapping[int, str]) -> Classes:
    return {names[code]: codes == code for code in np.unique(codes).tolist() if code in names}


def find_image(folder: Path, stem: str) -> Path | None:
    """The image of a name without its suffix, or None."""
    # Every folder of a tree is asked for a dozen names: pathlib would take most of the time.
    paths = (os.path.join(folder, stem + suffix) for suffix in IMAGE_SUFFIXES)
    return next((Path(path) for path in paths if os.path.isfile(path)), None)


def defer_calibration(folder: Path) -> Callable[[], Calibration] | None:
    """Reader of the calibration beside images, by the names that it may have, or None."""
    return defer(Calibration.from_file, calibration_files.find_calibration(folder))


def list_folder(folder: Path) -> list[Path]:
    """What is in a folder and not hidden, in order; nothing where it may not be read.

    Hidden are also the files that macOS writes beside those of other file systems.
    """
    try:
        return sorted((path for path in folder.iterdir() if not path.name.startswith('.')),
                      key=lambda path: natural_key(path.name))
    except OSError:
        return []


def list_folders(folder: Path) -> list[Path]:
    """The folders in a folder, in order."""
    return [path for path in list_folder(folder) if os.path.isdir(path)]


def list_images(folder: Path) -> dict[str, Path]:
    """The images in a folder by their names."""
    return {path.name: path for path in list_folder(folder)
            if path.suffix.lower() in IMAGE_SUFFIXES}
