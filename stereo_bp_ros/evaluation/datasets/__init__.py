"""One face for the layouts in which stereo pairs are stored.

``docs/reference/files.md`` lists the files of each. The first layout of ``_LAYOUTS`` that a
folder has is taken; a folder that has none is a folder of such folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.datasets import driving, middlebury, plain
from stereo_bp_ros.evaluation.datasets.entries import Entry, StereoPair
from stereo_bp_ros.evaluation.datasets.plain import LARGEST_SCALE, read_truth, truth_scale

__all__ = ['LARGEST_SCALE', 'Dataset', 'StereoPair', 'open_dataset', 'read_truth', 'truth_scale']

_LAYOUTS: Mapping[str, Callable[..., list[Entry] | None]] = {
    'described sets': plain.described,
    'Middlebury 2001, tsukuba': middlebury.tsukuba,
    'Middlebury 2001 or 2003': middlebury.from_2001_or_2003,
    'Middlebury 2005 or 2006': middlebury.from_2005_or_2006,
    'Middlebury since 2014 or ETH3D': middlebury.since_2014,
    'KITTI 2012': driving.kitti2012,
    'KITTI 2015': driving.kitti2015,
    'DrivingStereo': driving.driving_stereo,
    'Virtual KITTI 2': driving.virtual_kitti,
    'sequence': plain.sequence,
    'pair': plain.pair,
}

_WANTED = ('sets.yaml, im0.png with im1.png, im2 with im6, view1 with view5, image_0/ with '
           'image_1/, image_2/ with image_3/, left-image-half-size/ with right-image-half-size/, '
           'frames/rgb/, left/ with right/, or left.png with right.png')


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
    _entries: tuple[Entry, ...] = field(repr=False)

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


def open_dataset(path: files.PathLike, tolerance_s: float = 0.0) -> Dataset:
    """Find out how a folder stores stereo pairs. No image is read yet.

    :param tolerance_s: most seconds between the stamps of a pair whose images are named by them.
    :raises ValueError: no such folder, no known layout, or one with parts missing.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f'{folder} is a file, not a folder' if folder.exists()
                         else f'there is no folder {folder}')
    folder = folder.resolve()
    found = _direct(folder, tolerance_s)
    if found is not None:
        return found
    parts = [part for child in sorted(folder.iterdir())
             if child.is_dir() and (part := _direct(child, tolerance_s)) is not None]
    if not parts:
        raise ValueError(f'no stereo pairs in {folder}: neither it nor one of its subfolders has '
                         f'{_WANTED}')
    entries = []
    for part in parts:
        for entry in part._entries:
            alone = len(part) == 1 and entry.name == part.name
            entries.append(entry if alone else replace(entry, name=f'{part.name}/{entry.name}'))
    layouts = dict.fromkeys(part.layout for part in parts)
    return Dataset(folder.name, folder, 'folder of ' + ', '.join(layouts), tuple(entries))


def _direct(folder: Path, tolerance_s: float) -> Dataset | None:
    """The data set that a folder itself is, or None."""
    for layout, look in _LAYOUTS.items():
        entries = look(folder, tolerance_s) if look is plain.sequence else look(folder)
        if entries is not None:
            return Dataset(folder.name, folder, layout, tuple(entries))
    return None
