"""Files and folders that verbs write: checked before anything is computed, inputs are kept."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Mapping

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.system.bounded import resolved

#: What a demo or a replay leaves in its folder, and the next one replaces.
REPLACED = re.compile(r'\.demo|demo\.rrd|report\.(json|html)|bp|sad|replay(_[0-9]+)?')


def check_files(outputs: Mapping[str, pathlib.Path | None],
                inputs: Iterable[pathlib.Path | None] = ()) -> None:
    """Reject files that could not be written, or that would overwrite an input or each other.

    Links and other spellings of a path are followed.

    :param outputs: by the option that names them, such as '--depth'; None = it is not wanted.
    :param inputs: files that are read, and folders, of which every file counts as read.
    :raises ValueError: names both paths.
    """
    read = [path for path in inputs if path]
    seen: dict[str, pathlib.Path] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if not path.parent.is_dir():
            raise ValueError(f'{path} cannot be written: there is no folder {path.parent}')
        if path.is_dir():
            raise ValueError(f'{path} cannot be written: it is a folder')
        for one in read:
            if _is_same(path, one) or (path.exists() and _is_inside(path, one)):
                raise ValueError(f'{option} {path} would overwrite what is read from {one}: name '
                                 'another file')
        for other, one in seen.items():
            if _is_same(path, one):
                raise ValueError(f'{other} {one} and {option} {path} are one file: name two')
        seen[option] = path


def check_folder(folder: pathlib.Path, names: Iterable[str],
                 inputs: Iterable[pathlib.Path | None]) -> None:
    """Reject a folder whose files of these names are inputs; it need not be there yet.

    :param inputs: files that are read; the files of folders do not have such names.
    :raises ValueError: names both paths.
    """
    files = [path for path in inputs if path and path.is_file()]
    if folder.is_dir():
        for name in names:
            check_files({f'--output {folder}:': folder / name}, files)


def check_results_folder(folder: pathlib.Path, description: str,
                         inputs: Iterable[pathlib.Path | None]) -> None:
    """Reject a folder for the results of a set that has anything else, or is within an input.

    :param description: the name of a file that such a folder has, unless it is empty or new.
    :param inputs: files and folders that are read.
    :raises ValueError: names the folder, and what is in the way.
    """
    for path in inputs:
        if path and (_is_same(folder, path) or _is_inside(folder, path)):
            raise ValueError(f'--output {folder} is in {path}, which is read: name another folder')
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'--output {folder} is a file: name a folder for the results of a set')
    if folder.is_dir() and any(folder.iterdir()) and not (folder / description).is_file():
        raise ValueError(f'--output {folder} is not empty, and has no {description} of an earlier '
                         'run: name another folder')


def replace_folder(folder: pathlib.Path, inputs: Iterable[pathlib.Path | None] = ()) -> None:
    """Make an empty folder for the report of a demo or a replay; replaces an earlier one.

    :param inputs: files and folders that are read later.
    :raises StereoError: the folder has something else in it, or an input.
    """
    for path in inputs:
        if path and folder.exists() and (_is_same(folder, path) or _is_inside(path, folder)):
            raise StereoError(f'--output {folder} would be replaced, and {path}, which is read, '
                              'with it: name another folder')
    if folder.is_dir() and any(folder.iterdir()):
        names = {path.name for path in folder.iterdir()}
        others = sorted(name for name in names if not REPLACED.fullmatch(name))
        if others or not names & {'.demo', 'report.json'}:
            raise StereoError(f'{folder} is not empty and not the output of an earlier demo or '
                              'replay' + (f', which has no {others[0]}' if others else '')
                              + ': name another folder, or remove it')
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / '.demo').touch()


def _is_same(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Whether two paths are one file, or would be once they are written."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    if one.exists() or other.exists():
        return False
    # Links that lead nowhere yet lead to the file that is written.
    one, other = resolved(one), resolved(other)
    if one.name != other.name:
        return False
    with contextlib.suppress(OSError):
        return os.path.samefile(one.parent, other.parent)
    return one.parent == other.parent


def _is_inside(path: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a path is in a folder, by its own name or by what it links to."""
    if not folder.is_dir():
        return False
    above = {parent for one in (resolved(path), pathlib.Path(os.path.abspath(path)))
             for parent in one.parents}
    return any(parent.exists() and os.path.samefile(parent, folder) for parent in above)
