"""One face for the layouts in which stereo pairs are stored.

============================  ====================================================================
layout                        what makes it one
============================  ====================================================================
folder of described sets      sets.yaml: name -> disparities, disparity_scale; name/left.png ...,
                              name/disparity.png in disparity_scale grey levels per pixel
Middlebury 2014               im0.png, im1.png, and if there disp0.pfm, calib.txt
KITTI 2012                    image_0/, image_1/, also in training/; disp_occ/, calib/ if there
KITTI 2015                    image_2/, image_3/, also in training/; disp_occ_0/, obj_map/, calib/
                              if there
sequence                      left/, right/ with images of the same names; a name that is a number
                              is the stamp in nanoseconds; P_left.txt, P_right.txt if there
pair                          left.png, right.png, and if there disparity.pfm or disparity.png
                              (16 bits in 1/256 pixel, or any with disparity_scale in
                              ../sets.yaml), vehicles.png, sky.png (masks, not 0 where they are)
folder of such                subfolders, each one of the above
============================  ====================================================================
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import files

IMAGE_SUFFIXES = ('.png', '.pgm', '.ppm', '.jpg', '.jpeg', '.bmp', '.tif', '.tiff')

LARGEST_SCALE = 65535
"""Most grey levels that one pixel of disparity can be, and more disparities than there are."""

LAYOUTS = ('sets.yaml, im0.png with im1.png, image_0/ with image_1/, image_2/ with image_3/, '
           'left/ with right/, or left.png with right.png')


@dataclass(frozen=True)
class StereoPair:
    """One rectified pair with what is known about it.

    name:        unique in its data set.
    left, right: uint8 or uint16 H x W, or uint8 H x W x 3 (rgb8).
    truth:       float32 H x W, disparity of the left image in pixels, not finite where unknown;
                 None without ground truth.
    stamp_ns:    time of both images, nanoseconds, or None.
    calibration: of both cameras, or None.
    disparities: number of disparities to search from 0, where the data set says so, or None.
    vehicles, sky: bool H x W, pixels of the left image that show vehicles or the sky; None where
                 the data set has no such mask.
    """

    name: str
    left: np.ndarray
    right: np.ndarray
    truth: np.ndarray | None = None
    stamp_ns: int | None = None
    calibration: Calibration | None = None
    disparities: int | None = None
    vehicles: np.ndarray | None = None
    sky: np.ndarray | None = None


@dataclass(frozen=True)
class _Entry:
    """Where a pair is stored; nothing is read before `load`."""

    name: str
    left: Path
    right: Path
    truth: Callable[[], np.ndarray] | None = None
    stamp_ns: int | None = None
    calibration: Callable[[], Calibration] | None = None
    disparities: int | None = None
    vehicles: Path | None = None
    sky: Path | None = None

    def load(self) -> StereoPair:
        left, right = files.read_image(self.left), files.read_image(self.right)
        if left.shape != right.shape:
            raise ValueError(f'{self.left} is {left.shape[1]} x {left.shape[0]} and {self.right} '
                             f'is {right.shape[1]} x {right.shape[0]}, or their colours differ')
        truth = None if self.truth is None else self.truth()
        if truth is not None and truth.shape != left.shape[:2]:
            raise ValueError(f'the ground truth of {self.left} is {truth.shape[1]} x '
                             f'{truth.shape[0]}, the image {left.shape[1]} x {left.shape[0]}')
        return StereoPair(self.name, left, right, truth, self.stamp_ns,
                          None if self.calibration is None else self.calibration(),
                          self.disparities, *(_read_mask(mask, left)
                                              for mask in (self.vehicles, self.sky)))


def _read_mask(path: Path | None, image: np.ndarray) -> np.ndarray | None:
    if path is None:
        return None
    mask = files.read_mask(path)
    if mask.shape != image.shape[:2]:
        raise ValueError(f'the mask {path} is {mask.shape[1]} x {mask.shape[0]}, the image '
                         f'{image.shape[1]} x {image.shape[0]}')
    return mask


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


@dataclass(frozen=True)
class Dataset:
    """Stereo pairs in a folder; a pair is read when it is asked for, and not kept.

    name:   the folder's name.
    path:   the folder.
    layout: in words.
    """

    name: str
    path: Path
    layout: str
    _entries: tuple[_Entry, ...] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all pairs, in order."""
        return tuple(entry.name for entry in self._entries)

    @property
    def has_truth(self) -> bool:
        """Whether any pair has ground truth."""
        return any(entry.truth is not None for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> StereoPair:
        """Read one pair.

        :raises IndexError: there is no such pair.
        :raises ValueError: a file is missing or damaged, or the sizes of its images differ.
        """
        return self._entries[index].load()

    def __iter__(self) -> Iterator[StereoPair]:
        for entry in self._entries:
            yield entry.load()


def open_dataset(path: files.PathLike) -> Dataset:
    """Find out how a folder stores stereo pairs. No image is read yet.

    :raises ValueError: no such folder, no known layout, or one with parts missing.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f'{folder} is a file, not a folder' if folder.exists()
                         else f'there is no folder {folder}')
    folder = folder.resolve()
    found = _direct(folder)
    if found is not None:
        return found
    parts = [part for child in sorted(folder.iterdir())
             if child.is_dir() and (part := _direct(child)) is not None]
    if not parts:
        raise ValueError(f'no stereo pairs in {folder}: neither it nor one of its subfolders has '
                         f'{LAYOUTS}')
    entries = []
    for part in parts:
        for entry in part._entries:
            alone = len(part) == 1 and entry.name == part.name
            entries.append(entry if alone else replace(entry, name=f'{part.name}/{entry.name}'))
    layouts = dict.fromkeys(part.layout for part in parts)
    return Dataset(folder.name, folder, 'folder of ' + ', '.join(layouts), tuple(entries))


def _direct(folder: Path) -> Dataset | None:
    """The data set that a folder itself is, or None."""
    for layout, look in _LAYOUTS.items():
        entries = look(folder)
        if entries is not None:
            return Dataset(folder.name, folder, layout, tuple(entries))
    return None


def _image(folder: Path, stem: str) -> Path | None:
    for suffix in IMAGE_SUFFIXES:
        path = folder / (stem + suffix)
        if path.is_file():
            return path
    return None


def _described(folder: Path) -> list[_Entry] | None:
    if not (folder / 'sets.yaml').is_file():
        return None
    entries = []
    for name in _descriptions(folder):
        found = _pair(folder / name)
        if found is None:
            raise ValueError(f'{folder / "sets.yaml"} describes {name}, but {folder / name} has '
                             'no left.png and right.png')
        entries += found
    if not entries:
        raise ValueError(f'{folder / "sets.yaml"} describes no set')
    return entries


def _descriptions(folder: Path) -> dict[str, Mapping[str, float]]:
    path = folder / 'sets.yaml'
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    if not isinstance(content, dict):
        raise ValueError(f'{path} is not a table of sets')
    for name, description in content.items():
        if not isinstance(description, dict) or not all(
                isinstance(description.get(key), (int, float))
                and 0 < description[key] <= LARGEST_SCALE
                for key in ('disparities', 'disparity_scale')):
            raise ValueError(f'{path}: {shown(name)} needs disparities and disparity_scale, '
                             f'numbers above 0 and at most {LARGEST_SCALE}')
    return {str(name): description for name, description in content.items()}


def truth_scale(path: files.PathLike) -> float | None:
    """Grey levels per pixel of disparity of a truth, where a sets.yaml describes its set.

    :raises ValueError: there is a sets.yaml, which cannot be read.
    """
    path = Path(path).resolve()
    sets = path.parent.parent
    if path.name != 'disparity.png' or not (sets / 'sets.yaml').is_file():
        return None
    return _descriptions(sets).get(path.parent.name, {}).get('disparity_scale')


def read_truth(path: files.PathLike, scale: float | None = None) -> np.ndarray:
    """Read a true disparity: float32 H x W, pixels, not finite where unknown.

    :param scale: grey levels per pixel of an image; None: as sets.yaml or the file's bits say.
    :raises ValueError: no PFM file or disparity image, or one of 8 bits without a scale.
    """
    if Path(path).suffix.lower() == '.pfm':
        if scale is not None:
            raise ValueError(f'{path} is a PFM file, which holds pixels: it has no scale')
        return files.read_pfm(path)
    return files.read_disparity_png(path, truth_scale(path) if scale is None else scale)


def _pair(folder: Path) -> list[_Entry] | None:
    left, right = _image(folder, 'left'), _image(folder, 'right')
    if left is None or right is None:
        return None
    description: Mapping[str, float] = {}
    if (folder.parent / 'sets.yaml').is_file():
        description = _descriptions(folder.parent).get(folder.name, {})
    truth: Callable[[], np.ndarray] | None = None
    for name in ('disparity.png', 'disparity.pfm'):
        if (folder / name).is_file():
            truth = functools.partial(read_truth, folder / name)
    disparities = description.get('disparities')
    return [_Entry(folder.name, left, right, truth, calibration=_calibration(folder),
                   disparities=None if disparities is None else int(disparities),
                   vehicles=_existing(folder / 'vehicles.png'),
                   sky=_existing(folder / 'sky.png'))]


def _calibration(folder: Path) -> Callable[[], Calibration] | None:
    left, right = folder / 'P_left.txt', folder / 'P_right.txt'
    if left.is_file() and right.is_file():
        return lambda: files.read_projection_calibration(left, right)
    if (folder / 'calib.txt').is_file():
        return lambda: files.read_middlebury_calibration(folder / 'calib.txt')
    return None


def _middlebury2014(folder: Path) -> list[_Entry] | None:
    left, right = _image(folder, 'im0'), _image(folder, 'im1')
    if left is None or right is None:
        return None
    truth = None
    if (folder / 'disp0.pfm').is_file():
        def truth() -> np.ndarray:
            return files.read_pfm(folder / 'disp0.pfm')
    return [_Entry(folder.name, left, right, truth, calibration=_calibration(folder),
                   disparities=_ndisp(folder / 'calib.txt'))]


def _ndisp(path: Path) -> int | None:
    if not path.is_file():
        return None
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        name, _, value = line.partition('=')
        if name.strip() == 'ndisp':
            if not re.fullmatch(r'[0-9]{1,5}', value.strip()):
                raise ValueError(f'{path}: ndisp is {shown(value.strip())}, but must be a whole '
                                 'number')
            return int(value)
    return None


def _kitti(folder: Path, left_name: str = 'image_0', right_name: str = 'image_1',
           truth_name: str = 'disp_occ', cameras: tuple[int, int] = (0, 1)
           ) -> list[_Entry] | None:
    if (folder / 'training' / left_name).is_dir():
        folder = folder / 'training'
    if not ((folder / left_name).is_dir() and (folder / right_name).is_dir()):
        return None
    entries = []
    for left, right in _partners(folder / left_name, folder / right_name):
        disparity = folder / truth_name / f'{left.stem}.png'
        numbers = folder / 'calib' / f'{left.stem.split("_")[0]}.txt'
        entries.append(_Entry(
            left.stem, left, right, _reader(disparity) if disparity.is_file() else None,
            calibration=_kitti_numbers(numbers, cameras) if numbers.is_file() else None,
            vehicles=_existing(folder / 'obj_map' / f'{left.stem}.png')))
    return entries


def _kitti2015(folder: Path) -> list[_Entry] | None:
    return _kitti(folder, 'image_2', 'image_3', 'disp_occ_0', (2, 3))


def _reader(path: Path) -> Callable[[], np.ndarray]:
    return lambda: files.read_disparity_png(path)


def _kitti_numbers(path: Path, cameras: tuple[int, int]) -> Callable[[], Calibration]:
    return lambda: files.read_kitti_calibration(path, cameras)


def _sequence(folder: Path) -> list[_Entry] | None:
    if not ((folder / 'left').is_dir() and (folder / 'right').is_dir()):
        return None
    numbers = _calibration(folder)
    entries = [
        _Entry(left.stem, left, right, calibration=numbers,
               stamp_ns=int(left.stem) if left.stem.isdecimal() else None)
        for left, right in _partners(folder / 'left', folder / 'right')]
    # Names are numbers of any length: their order as text is not the order in time.
    return sorted(entries, key=lambda entry: (entry.stamp_ns is None, entry.stamp_ns or 0,
                                              entry.name))


def _partners(left: Path, right: Path) -> list[tuple[Path, Path]]:
    """Images of the same name in two folders.

    :raises ValueError: there are none, or one has no partner.
    """
    images = [{path.name: path for path in sorted(side.iterdir())
               if path.suffix.lower() in IMAGE_SUFFIXES} for side in (left, right)]
    if not images[0] and not images[1]:
        raise ValueError(f'no images in {left} and {right}')
    for own, other, folder in ((images[0], images[1], right), (images[1], images[0], left)):
        alone = sorted(own.keys() - other.keys())
        if alone:
            raise ValueError(f'{own[alone[0]]} has no partner {folder / alone[0]}'
                             + (f' (and {len(alone) - 1} more)' if len(alone) > 1 else ''))
    return [(path, images[1][name]) for name, path in images[0].items()]


_LAYOUTS: Mapping[str, Callable[[Path], list[_Entry] | None]] = {
    'described sets': _described,
    'Middlebury 2014': _middlebury2014,
    'KITTI 2012': _kitti,
    'KITTI 2015': _kitti2015,
    'sequence': _sequence,
    'pair': _pair,
}
