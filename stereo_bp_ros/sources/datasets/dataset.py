"""One face for the layouts in which stereo pairs are stored.

``docs/reference/files.md`` lists the files of each. Of the layouts that a folder has the first
with a truth is taken, else the first; a folder that has none is a folder of such folders, at most
``MAX_LEVELS`` deep.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stereo_bp_ros.images import files
from stereo_bp_ros.sources.bag_topics import Globs
from stereo_bp_ros.sources.datasets import layouts, named, truths
from stereo_bp_ros.sources.datasets.entries import (
    GROUND_TRUTH,
    IMAGE_SUFFIXES,
    TRUTH_NAME,
    Entry,
    StereoPair,
    defer_calibration,
    list_folder,
    list_folders,
)
from stereo_bp_ros.system.bounded import resolved

#: Levels of folders in which pairs are looked for, below the one that is named.
MAX_LEVELS = 4

#: Folders that are looked into.
MAX_FOLDERS = 10000

#: Sentences about images without a partner, each of one folder.
MAX_SENTENCES = 5

#: What people name a folder of truths beside a folder of images.
OUTSIDE_NAME = re.compile(rf'{GROUND_TRUTH.pattern}|^disp(?!lay)|^depths?$', re.IGNORECASE)

#: Names that are none for all that: pictures of ``match``, and text.
NO_TRUTH = re.compile(r'_picture\.png$|\.(txt|ya?ml|json|md|html)$')


#: Sets whose files a sets.yaml names.
DESCRIBED = layouts.Layout('described sets', 'NAME/left', 'NAME/right', ('NAME/disparity.png',))

#: Files that the user has named by patterns.
NAMED = layouts.Layout('named files', '', '')

LAYOUTS = (DESCRIBED, *layouts.LAYOUTS, layouts.PAIR)


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
    def first_image(self) -> Path:
        """The left image of the first pair."""
        return self._entries[0].left

    @property
    def has_truth(self) -> bool:
        """Whether any pair has ground truth."""
        return any(entry.truth is not None for entry in self._entries)

    @property
    def is_sequence(self) -> bool:
        """Whether any pair has a stamp."""
        return any(entry.stamp_ns is not None for entry in self._entries)

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
                 globs: Globs | None = None, truth_scale: float | None = None,
                 side_by_side: str = '') -> Dataset:
    """Find out how a folder stores stereo pairs. No image is read yet.

    :param tolerance_s: most seconds between the stamps of a pair whose images are named by them.
    :param globs: patterns of the files, relative to the folder, whatever the layout; None: one of
        ``LAYOUTS``.
    :param truth_scale: numbers of a truth per pixel of disparity, below 0 of the other sign; None:
        as its layout has it.
    :param side_by_side: how both images of a pair lie in one, of ``LAYOUTS`` of
        ``images.side_by_side``; ``path`` is a folder of these, or of such folders, or one image.
    :raises ValueError: no such folder, no known layout, or one with parts missing.
    """
    found = _open(path, tolerance_s, globs, bool(side_by_side))
    entries = tuple(replace(one, **_truth_by(one, truth_scale), side_by_side=side_by_side)
                    for one in found._entries)
    return replace(found, _entries=entries)


def _truth_by(entry: Entry, scale: float | None) -> dict[str, Any]:
    """What reads the truth of an entry, and the numbers per pixel that it goes by."""
    reader = entry.truth
    if not isinstance(reader, functools.partial):
        return {}
    path = reader.args[0]
    if scale is not None:
        return {'truth': functools.partial(truths.read_truth, path, scale), 'truth_scale': scale}
    known = reader.keywords.get('scale')
    if callable(known) or (path.suffix == '.pfm' and known != -1):
        known = None
    return {'truth_scale': known or truths.default_scale(path)}


def _open(path: files.PathLike, tolerance_s: float, globs: Globs | None,
          is_side_by_side: bool) -> Dataset:
    folder = Path(path)
    if is_side_by_side and folder.is_file():
        entry = Entry(folder.stem, folder, folder, calibration=defer_calibration(folder.parent))
        return Dataset(folder.name, folder, layouts.SIDE_BY_SIDE.name, (entry,))
    if not folder.is_dir():
        is_image = folder.suffix.lower() in IMAGE_SUFFIXES
        raise ValueError((f'{folder} is a file, not a folder' + (
            ': an image of both cameras needs --side-by-side' if is_image else ''))
            if folder.exists() else f'there is no folder {folder}')
    folder = resolved(folder)
    if globs:
        entries, warnings = named.by_globs(folder, globs, tolerance_s)
        found = Dataset(folder.name, folder, NAMED.name, tuple(entries), tuple(warnings))
        unread = '' if found.has_truth or globs.truth else _unread_truth(folder, NAMED)
        return replace(found, warnings=(*warnings, *filter(None, [unread])))
    parts = list(_walk(folder, MAX_LEVELS, {_identity(folder)}, tolerance_s, is_side_by_side))
    if not parts and is_side_by_side:
        raise ValueError(f'no images in {folder}, nor in its subfolders, {MAX_LEVELS} levels deep')
    if not parts:
        known = ', '.join(dict.fromkeys(layout.files for layout in LAYOUTS))
        raise ValueError(f'no stereo pairs in {folder}: name them by --left-glob and '
                         '--right-glob, and a truth by --truth-glob and --truth-scale; neither it'
                         f' nor one of its subfolders, {MAX_LEVELS} levels deep, has one of '
                         f'{known}')
    if parts[0].path == folder:
        return replace(parts[0], warnings=_warnings(parts))
    moved = []
    for part in parts:
        inside = part.path.relative_to(folder).as_posix()
        for entry in part._entries:
            alone = len(part) == 1 and entry.name == part.name
            moved.append(replace(entry, name=inside if alone else f'{inside}/{entry.name}'))
    names = dict.fromkeys(part.layout for part in parts)
    return Dataset(folder.name, folder, 'folder of ' + ', '.join(names), tuple(moved),
                   _warnings(parts))


def _walk(folder: Path, levels: int, seen: set[tuple[int, int]], tolerance_s: float,
          is_side_by_side: bool) -> Iterator[Dataset]:
    """A folder that is a data set, or else those below it, in the order of their names.

    :param seen: folders that were looked into: a link may lead back to one.
    :raises ValueError: there are more than ``MAX_FOLDERS``.
    """
    own = _own(folder, tolerance_s, is_side_by_side)
    if own is not None:
        yield own
        return
    for child in list_folders(folder) if levels else ():
        identity = _identity(child)
        if identity in seen or (is_side_by_side and OUTSIDE_NAME.search(child.name)):
            continue
        seen.add(identity)
        if len(seen) > MAX_FOLDERS:
            raise ValueError(f'{folder} and the folders before it are more than {MAX_FOLDERS}: '
                             'name one that has the pairs')
        yield from _walk(child, levels - 1, seen, tolerance_s, is_side_by_side)


def _own(folder: Path, tolerance_s: float, is_side_by_side: bool) -> Dataset | None:
    """The pairs of a folder itself, or None: in the first layout with a truth, else the first."""
    if is_side_by_side:
        return _read(layouts.SIDE_BY_SIDE, folder, tolerance_s)
    entries = named.described(folder)
    if entries is not None:
        return Dataset(folder.name, folder, DESCRIBED.name, tuple(entries))
    first = None
    for layout in layouts.LAYOUTS:
        found = _read(layout, folder, tolerance_s)
        if found is not None and found.has_truth:
            return found
        first = first or found
    entries = None if first else named.pair(folder)
    return first if entries is None else Dataset(folder.name, folder, layouts.PAIR.name,
                                                 tuple(entries))


def _read(layout: layouts.Layout, folder: Path, tolerance_s: float) -> Dataset | None:
    found = layouts.read(layout, folder, tolerance_s)
    return found and Dataset(folder.name, folder, layout.name, tuple(found[0]), tuple(found[1]))


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _warnings(parts: list[Dataset]) -> tuple[str, ...]:
    """What parts say, and one sentence at most about each layout that has no truth, or a
    doubtful one."""
    of_parts = [text for part in parts for text in part.warnings]
    found = of_parts[:MAX_SENTENCES]
    if of_parts[MAX_SENTENCES:]:
        found.append(f'{len(of_parts) - MAX_SENTENCES} more folders lack images')
    # Rows of a table may have the same name.
    for layout in {one.name: one for one in (layouts.SIDE_BY_SIDE, *reversed(LAYOUTS))}.values():
        own = [part for part in parts if part.layout == layout.name]
        if any(part.has_truth for part in own):
            found += [f'{own[0].path} ({layout.name}): {layout.caution}'] * bool(layout.caution)
            continue
        # Folders beside each other have the same neighbours.
        firsts = {part.path.parent: part.path for part in reversed(own)}
        sentences = (_unread_truth(place, layout) for place in reversed(firsts.values()))
        found += list(filter(None, [next(filter(None, sentences), None)]))
    return tuple(found)


def _unread_truth(folder: Path, layout: layouts.Layout) -> str:
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
    needed = 'needs ' + ' or '.join(map(layouts.in_words, layout.truth)) if layout.truth else \
        'has none: --truth-glob names it, with --left-glob and --right-glob'
    return (f'{found[0]} looks like a ground truth and was not read: the layout of {folder} '
            f'({layout.name}) {needed}')
