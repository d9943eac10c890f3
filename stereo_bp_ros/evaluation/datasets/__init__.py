"""One face for the layouts in which stereo pairs are stored.

``docs/reference/files.md`` lists the files of each. The first layout of ``LAYOUTS`` that a
folder has is taken; a folder that has none is a folder of such folders, at most ``MAX_LEVELS``
deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from stereo_bp_ros import files
from stereo_bp_ros.bounded import resolved
from stereo_bp_ros.evaluation.datasets import driving, middlebury, plain, synthetic
from stereo_bp_ros.evaluation.datasets.entries import (
    GROUND_TRUTH,
    TRUTH_NAME,
    Entry,
    StereoPair,
    list_folder,
    list_folders,
)
from stereo_bp_ros.evaluation.datasets.plain import MAX_SCALE, read_truth, truth_scale

__all__ = ['LAYOUTS', 'MAX_SCALE', 'Dataset', 'Layout', 'StereoPair', 'open_dataset',
           'read_truth', 'truth_scale']

#: Levels of folders in which pairs are looked for, below the one that is named.
MAX_LEVELS = 4

#: Folders that are looked into.
MAX_FOLDERS = 10000

#: What people name a folder of truths beside a folder of images.
OUTSIDE_NAME = re.compile(rf'{GROUND_TRUTH.pattern}|^disp(?!lay)|^depths?$', re.IGNORECASE)

#: Names that are none for all that: pictures of ``match``, and text.
NO_TRUTH = re.compile(r'_picture\.png$|\.(txt|ya?ml|json|md|html)$')


class Layout(NamedTuple):
    """A way to store pairs.

    name:  in words.
    look:  the entries of a folder that has this layout, or None.
    files: what such a folder has, in words.
    truth: where its ground truth is expected, in words; '' = it has none.
    caution: what is wrong with that truth, in words; '' = nothing.
    """

    name: str
    look: Callable[..., list[Entry] | None]
    files: str
    truth: str = ''
    caution: str = ''


LAYOUTS = (
    Layout('described sets', plain.described, 'sets.yaml', 'NAME/disparity.png'),
    Layout('Middlebury 2001, tsukuba', middlebury.tsukuba,
           'scene1.row3.col3 with scene1.row3.col4', 'truedisp.row3.col3.pgm'),
    Layout('Middlebury 2001 or 2003', middlebury.from_2001_or_2003, 'im2 with im6', 'disp2'),
    Layout('Middlebury 2005 or 2006', middlebury.from_2005_or_2006, 'view1 with view5',
           'disp1.png'),
    Layout('Middlebury since 2014 or ETH3D', middlebury.since_2014, 'im0.png with im1.png',
           'disp0GT.pfm or disp0.pfm, beside the images or in a folder of the same name below '
           'two_view_training_gt/, trainingQ_gt/ or MiddEval3-GT0-Q/'),
    Layout('KITTI 2012 or odometry', driving.kitti_grey, 'image_0/ with image_1/',
           'disp_occ/ or disp_noc/, with the names of the left images'),
    Layout('KITTI 2012 in colour', driving.kitti_grey_in_colour, 'colored_0/ with colored_1/',
           'disp_occ/ or disp_noc/, with the names of the left images',
           'the truth is that of the grey left camera (image_0/), 6 cm beside the colour one'),
    Layout('KITTI 2015 or odometry in colour', driving.kitti_colour, 'image_2/ with image_3/',
           'disp_occ_0/ or disp_noc_0/, with the names of the left images'),
    Layout('KITTI raw or KITTI-360', driving.kitti_raw, 'image_00/data/ with image_01/data/'),
    Layout('DrivingStereo', driving.driving_stereo,
           'left-image-half-size/ with right-image-half-size/', 'disparity-map-half-size/'),
    Layout('Argoverse stereo', driving.argoverse,
           'stereo_front_left_rect/ with stereo_front_right_rect/',
           'disparity_maps_v1.1/ beside rectified_stereo_images_v1.1/'),
    Layout('Virtual KITTI 2', synthetic.virtual_kitti, 'frames/rgb/',
           'frames/depth/ and intrinsic.txt'),
    Layout('SceneFlow', synthetic.scene_flow,
           'frames_cleanpass/ or frames_finalpass/ with left/ and right/ below',
           'disparity/ beside it, with the same folders and names as .pfm'),
    Layout('Sintel stereo', synthetic.sintel, 'clean_left/ or final_left/',
           'disparities/, with the folders and names of the images'),
    Layout('TartanAir', synthetic.tartan_air, 'image_left/ with image_right/',
           'depth_left/NAME_left_depth.npy'),
    Layout('Falling Things', synthetic.falling_things, 'NAME.left.jpg with NAME.right.jpg',
           'NAME.left.depth.png and _camera_settings.json'),
    Layout('sequence', plain.sequence, 'left/ with right/, or cam0/data/ with cam1/data/',
           'disparity/, with the names of the images as .pfm, or .png of 16 bits'),
    Layout('pair', plain.pair, 'left.png with right.png',
           'disparity.pfm or disparity.png, or left_disp.png with right_disp.png of InStereo2K'),
    Layout('pairs side by side', plain.side_by_side,
           'NAME_left.png with NAME_right.png, or left_NAME.png with right_NAME.png',
           'NAME_left.disp.png'),
)


@dataclass(frozen=True)
class Dataset:
    """Stereo pairs in a folder; a pair is read when it is asked for, and not kept.

    name:     the folder's name.
    path:     the folder.
    layout:   in words.
    warnings: sentences about what is in the folder and is not read.
    """

    name: str
    path: Path
    layout: str
    _entries: tuple[Entry, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()

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


def open_dataset(path: files.PathLike, tolerance_s: float = 0.0,
                 globs: tuple[str, str] | None = None) -> Dataset:
    """Find out how a folder stores stereo pairs. No image is read yet.

    :param tolerance_s: most seconds between the stamps of a pair whose images are named by them.
    :param globs: patterns of the left and the right images, relative to the folder, which are
        pairs in their order whatever the layout; None: one of ``LAYOUTS``.
    :raises ValueError: no such folder, no known layout, or one with parts missing.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f'{folder} is a file, not a folder' if folder.exists()
                         else f'there is no folder {folder}')
    folder = resolved(folder)
    if globs:
        return Dataset(folder.name, folder, 'named files', tuple(plain.by_globs(folder, *globs)))
    parts = list(_walk(folder, MAX_LEVELS, {_identity(folder)}, tolerance_s))
    if not parts:
        wanted = ', '.join(layout.files for layout in LAYOUTS)
        raise ValueError(f'no stereo pairs in {folder}: neither it nor one of its subfolders, '
                         f'{MAX_LEVELS} levels deep, has one of {wanted}')
    if parts[0].path == folder:
        return replace(parts[0], warnings=_warnings(parts))
    entries = []
    for part in parts:
        inside = part.path.relative_to(folder).as_posix()
        for entry in part._entries:
            alone = len(part) == 1 and entry.name == part.name
            entries.append(replace(entry, name=inside if alone else f'{inside}/{entry.name}'))
    layouts = dict.fromkeys(part.layout for part in parts)
    return Dataset(folder.name, folder, 'folder of ' + ', '.join(layouts), tuple(entries),
                   _warnings(parts))


def _walk(folder: Path, levels: int, seen: set[tuple[int, int]], tolerance_s: float
          ) -> Iterator[Dataset]:
    """A folder that is a data set, or else those below it, in the order of their names.

    :param seen: folders that were looked into: a link may lead back to one.
    :raises ValueError: there are more than ``MAX_FOLDERS``.
    """
    for layout in LAYOUTS:
        entries = (layout.look(folder, tolerance_s) if layout.look is plain.sequence
                   else layout.look(folder))
        if entries is not None:
            yield Dataset(folder.name, folder, layout.name, tuple(entries))
            return
    for child in list_folders(folder) if levels else ():
        identity = _identity(child)
        if identity in seen:
            continue
        seen.add(identity)
        if len(seen) > MAX_FOLDERS:
            raise ValueError(f'{folder} and the folders before it are more than {MAX_FOLDERS}: '
                             'name one that has the pairs')
        yield from _walk(child, levels - 1, seen, tolerance_s)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _warnings(parts: list[Dataset]) -> tuple[str, ...]:
    """One sentence at most about each layout that has no truth, or a doubtful one."""
    found = []
    for layout in LAYOUTS:
        own = [part for part in parts if part.layout == layout.name]
        if any(part.has_truth for part in own):
            found += [f'{own[0].path} ({layout.name}): {layout.caution}'] * bool(layout.caution)
            continue
        # Folders beside each other have the same neighbours.
        firsts = {part.path.parent: part.path for part in reversed(own)}
        sentences = (_unread_truth(place, layout) for place in reversed(firsts.values()))
        found += list(filter(None, [next(filter(None, sentences), None)]))
    return tuple(found)


def _unread_truth(folder: Path, layout: Layout) -> str:
    """A sentence about a truth that may be meant, where a folder of pairs has none; or ''.

    Looked at are the folder, the folders beside it, and those beside the two above it.
    """
    found = [path for path in list_folder(folder)
             if TRUTH_NAME.search(path.name) and not NO_TRUTH.search(path.name)]
    for own in (folder, *folder.parents[:2]):
        beside = [path for path in list_folder(own.parent) if path != own]
        found += [path for path in beside if OUTSIDE_NAME.search(path.name) and path.is_dir()
                  and not any(path.name.startswith(other.name) for other in beside
                              if other != path)]
    if not found:
        return ''
    needed = f'needs {layout.truth}' if layout.truth else \
        'has none: write left.png, right.png and disparity.pfm of each pair to a folder'
    return (f'{found[0]} looks like a ground truth and was not read: the layout of {folder} '
            f'({layout.name}) {needed}')
