"""How public and private sets store stereo pairs: a row of patterns each, and their one reader."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.datasets import truths
from stereo_bp_ros.sources.datasets.entries import (
    Entry,
    defer,
    defer_calibration,
    find_image,
    list_folders,
    list_images,
    read_cityscapes,
    read_classes,
)
from stereo_bp_ros.sources.datasets.names import (
    Images,
    Paired,
    in_order,
    pair_files,
    read_stamps,
    timed,
)
from stereo_bp_ros.sources.datasets.truths import Scale
from stereo_bp_ros.sources.directions import names_beside, why_apart

#: Folders between the first folder of a pattern and its images: FlyingThings3D has
#: TRAIN/A/0000/left, Driving 15mm_focallength/scene_forwards/fast/left.
MAX_DEEP = 5


class Layout(NamedTuple):
    """A way to store pairs: patterns of paths below the folder that has them.

    In a pattern {name} is the name of an image without its suffix, {number} the part of it before
    the first _, {deep} the folders in between, if any, {part} the name of the folder above, and
    {folder} its own. Images may have any suffix.

    name:        in words.
    left, right: of the images; right is '' where that of left holds both.
    truth:       of the ground truth; the first that is there is taken.
    scale:       of the truth, as of ``truths.read_scaled``.
    calibration: the first that is there is taken; (): by the names that one has beside images.
    is_cropped:  whether the calibration is the number of columns by which images are cropped.
    ndisp:       of a file that says how many disparities there are.
    stamps:      of a file with the time of each image.
    is_sequence: whether numbers that are names are stamps or frames.
    masks:       by the field of ``Entry`` a reader and the patterns of the files that it needs;
                 {truth} is the truth that was found, {beside} its folder.
    caution:     what is wrong with the truth, in words; '' = nothing.
    """

    name: str
    left: str
    right: str
    truth: tuple[str, ...] = ()
    scale: Scale = None
    calibration: tuple[str, ...] = ()
    is_cropped: bool = False
    ndisp: str = ''
    stamps: str = ''
    is_sequence: bool = False
    masks: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    caution: str = ''

    @property
    def files(self) -> str:
        """What a folder has, in words."""
        return in_words(self.left) + (f' with {in_words(self.right)}' if self.right else '')


def in_words(pattern: str) -> str:
    """A pattern as a page or an error shows it."""
    return re.sub(r'\{(\w+)\}', lambda field: '...' if field[1] == 'deep' else field[1].upper(),
                  pattern)


_CALIB = ('calib/{number}.txt', 'calib_cam_to_cam/{number}.txt', 'calib.txt',
          'calib_cam_to_cam.txt', '../calib_cam_to_cam.txt')


def _kitti(name: str, left: str, right: str, suffix: str = '', **others: Any) -> Layout:
    """Both truths of KITTI: that of all pixels, and that of those which the right camera sees."""
    known, visible = (f'disp_{which}{suffix}/{{name}}.png' for which in ('occ', 'noc'))
    return Layout(name, f'{left}/{{name}}', f'{right}/{{name}}', (known, visible), 256.0, _CALIB,
                  stamps='times.txt', masks={
                      'vehicles': (files.read_mask, 'obj_map/{name}.png'),
                      'occluded': (truths.occluded_of_kitti, known, visible),
                      'classes': (read_cityscapes, 'semantic/{name}.png')}, **others)


def _driving_stereo(folders: str, size: str, scale: float) -> Layout:
    """Folders of a kind of images each: {} is left-image, right-image or disparity-map."""
    left, right, truth = (f'{folders.replace("{}", kind)}/{{name}}' for kind in (
        'left-image', 'right-image', 'disparity-map'))
    drive = f'{size}-image-calib/{{number}}.txt'
    return Layout('DrivingStereo', left, right, (f'{truth}.png',), scale,
                  tuple(f'{above}{folder}{drive}' for above in ('', '../')
                        for folder in ('', 'calib/', 'train-calib/', 'test-calib/')))


LAYOUTS = (
    Layout('Middlebury 2001, tsukuba', 'scene1.row3.col3', 'scene1.row3.col4',
           ('truedisp.row3.col3',), 16.0),
    Layout('Middlebury 2001 or 2003', 'im2', 'im6', ('disp2',), truths.scale_of_2003),
    Layout('Middlebury 2005 or 2006', 'view1', 'view5', ('disp1',), truths.scale_of_2006,
           ('dmin.txt',), is_cropped=True),
    Layout('Middlebury since 2014 or ETH3D', 'im0', 'im1',
           ('disp0.pfm', 'disp0GT.pfm', '../../{part}_gt/{folder}/disp0GT.pfm'),
           ndisp='calib.txt', masks={'occluded': (
               truths.occluded_of_middlebury, '{truth}', '{beside}/mask0nocc.png')}),
    _kitti('KITTI 2012 or odometry', 'image_0', 'image_1'),
    _kitti('KITTI 2015 or odometry in colour', 'image_2', 'image_3', '_0'),
    _kitti('KITTI 2012 in colour', 'colored_0', 'colored_1', caution=(
        'the truth is that of the grey left camera (image_0/), 6 cm beside the colour one')),
    *(Layout('KITTI raw', f'image_{left}/data/{{name}}', f'image_{right}/data/{{name}}',
             calibration=_CALIB, stamps=f'image_{left}/timestamps.txt')
      for left, right in (('00', '01'), ('02', '03'))),
    *(_driving_stereo(f'{place}{{}}-{size}-size', size, scale)
      for place in ('', 'test-{}/') for size, scale in (('half', 256.0), ('full', 128.0))),
    *(_driving_stereo(f'{part}-{{}}/{{deep}}', 'half', 256.0) for part in ('train', 'test')),
    # The whole set, its samples, and the subset of FlyingThings3D, whose truth has the other sign.
    *(Layout('SceneFlow', f'{images}/{{deep}}/left/{{name}}', f'{images}/{{deep}}/right/{{name}}',
             ('disparity/{deep}/left/{name}.pfm', 'disparity/{deep}/{name}.pfm'), scale)
      for images, scale in (('frames_cleanpass', None), ('frames_finalpass', None),
                            ('RGB_cleanpass', None), ('RGB_finalpass', None),
                            ('image_clean', -1.0), ('image_final', -1.0))),
    Layout('sequence', 'left/{name}', 'right/{name}',
           ('disparity/{name}.pfm', 'disparity/{name}.png'), is_sequence=True),
    Layout('sequence of EuRoC', 'cam0/data/{name}', 'cam1/data/{name}',
           calibration=('cam0/sensor.yaml',), is_sequence=True),
    Layout('pairs side by side', '{name}_left', '{name}_right'),
)

#: A set of its own files, which a sets.yaml may describe.
PAIR = Layout('pair', 'left', 'right', ('disparity.pfm', 'disparity.png'), masks={
    **{name: (files.read_mask, f'{name}.png') for name in ('vehicles', 'sky', 'occluded')},
    'classes': (read_classes, 'classes')})


#: Images that hold those of both cameras, where the user says so.
SIDE_BY_SIDE = Layout('side-by-side images', '{name}', '',
                      ('disparity/{name}.pfm', 'disparity/{name}.png'), is_sequence=True)


def read(layout: Layout, folder: Path, tolerance_s: float = 0.0,
         description: Mapping[str, float] | None = None
         ) -> tuple[list[Entry], list[str]] | None:
    """The pairs of a folder in a layout, and sentences about images without a partner; or None.

    Reads no file but times and ``ndisp``.

    :param tolerance_s: most seconds between stamps that are names; 0 = they have to be equal.
    :param description: of a sets.yaml: disparity_scale, disparities and stamp_ns.
    :raises ValueError: no image has a partner, or a file that is read is damaged.
    """
    base, deep = _base(layout, folder)
    lefts = _images(base, deep, layout.left)
    rights = _images(base, deep, layout.right) if layout.right else lefts
    if not lefts or not rights:
        return None
    description = description or {}
    stamp_ns, disparities = (None if value is None else int(value) for value in map(
        description.get, ('stamp_ns', 'disparities')))
    if layout.ndisp:
        disparities = truths.read_ndisp(base / layout.ndisp)
    if 'disparity_scale' in description:
        layout = layout._replace(scale=description['disparity_scale'])
    stamps = read_stamps(base / layout.stamps) if layout.stamps else []
    beside = defer_calibration(base)
    top = base / layout.left.partition('/{deep}')[0]
    found = []
    pairs, warnings = pair_files(lefts, rights, tolerance_s)
    _reject_rings(pairs)
    for (inner, name), left, right in pairs:
        fields = {'deep': inner, 'name': name, 'number': name.split('_')[0],
                  'folder': base.name, 'part': base.parent.name}
        start = (top / inner).relative_to(folder).as_posix() if deep is not None else inner
        is_numbered = name.isdecimal() and int(name) < len(stamps)
        found.append(Entry(
            (Path(start) / name).as_posix() if name else folder.name, left, right,
            stamp_ns=stamps[int(name)] if is_numbered else stamp_ns, disparities=disparities,
            **_others(layout, base, fields, left, beside)))
    found = in_order(found)
    return timed(found) if layout.is_sequence else found, warnings


def _reject_rings(pairs: list[Paired]) -> None:
    """Reject cameras that look into different directions, by the names of their images, or of
    the folders of the first pair.

    :raises ValueError: those of a pair do.
    """
    beside: dict[Path, set[str] | None] = {}
    for _, left, right in pairs:
        if left.parent == right.parent and left.parent not in beside:
            beside[left.parent] = names_beside(left, len(left.parts) - 1)
        names = beside.get(left.parent)
        if names is None and left != pairs[0][1]:
            continue
        if why := why_apart(left, right, names):
            raise ValueError(
                f'{left} and {right}: {why}; --left-glob and --right-glob name others')


def _others(layout: Layout, base: Path, fields: dict[str, str], left: Path,
            beside: Callable[[], Calibration] | None) -> dict[str, Any]:
    """Truth, calibration and masks of a pair, as ``Entry`` has them."""
    truth = _first(base, layout.truth, fields)
    if truth:
        fields = {**fields, 'truth': str(truth), 'beside': str(truth.parent)}
    place = _first(base, layout.calibration, fields)
    calibration = defer(truths.calibration_of_2006, place, left) if layout.is_cropped else (
        defer(Calibration.from_file, place, image=left) or beside)
    found: dict[str, Any] = {'truth': defer(truths.read_scaled, truth, scale=layout.scale),
                             'calibration': calibration}
    for mask, (reader, *patterns) in layout.masks.items():
        if truth or '{truth}' not in patterns:
            paths = [base / pattern.format(**fields) for pattern in patterns]
            if all(path.exists() for path in paths):
                found[mask] = functools.partial(reader, *paths)
    return found


def _base(layout: Layout, folder: Path) -> tuple[Path, str | None]:
    """Where patterns begin, and the folders down to that which is named, where it lies deep.

    Sets with a training part have their truth there alone.
    """
    top = layout.left.partition('/')[0]
    if '/{deep}' in layout.left:
        for place in (folder, *folder.parents[:MAX_DEEP]):
            if place.name == top:
                return place.parent, folder.relative_to(place).as_posix()
    training = folder / 'training'
    return (training if '/' in layout.left and (training / top).is_dir() else folder), None


def _first(base: Path, patterns: tuple[str, ...], fields: Mapping[str, str]) -> Path | None:
    """The first file that there is; one without a suffix is an image of any."""
    for pattern in patterns:
        path = base / pattern.format(**fields)
        if pattern.endswith(('.png', '.pfm', '.txt', '.yaml')):
            if path.is_file():
                return path
        elif (image := find_image(path.parent, path.name)) is not None:
            return image
    return None


def _images(base: Path, deep: str | None, pattern: str) -> Images:
    """Images by the folders in between and the name that a pattern finds."""
    place, _, stem = pattern.rpartition('/')
    before, is_named, after = stem.partition('{name}')
    if not is_named:
        image = find_image(base / place, stem)
        return {('', ''): image} if image else {}
    found: Images = {}
    for inner, directory in _folders(base, deep or '', place):
        for path in list_images(directory).values():
            name = path.stem.removeprefix(before).removesuffix(after)
            if name and f'{before}{name}{after}' == path.stem:
                found[inner, name] = path
    return found


def _folders(base: Path, deep: str, place: str) -> Iterator[tuple[str, Path]]:
    """The folders of images, and those in between."""
    top, is_deep, end = place.partition('/{deep}')
    if not is_deep:
        if (base / place).is_dir():
            yield '', base / place
        return

    def walk(folder: Path, levels: int) -> Iterator[tuple[str, Path]]:
        directory = folder / end.strip('/')
        if directory.is_dir():
            yield folder.relative_to(base / top).as_posix().lstrip('.'), directory
        if levels and not (end and directory.is_dir()):
            for child in list_folders(folder):
                yield from walk(child, levels - 1)

    yield from walk(base / top / deep, MAX_DEEP)
