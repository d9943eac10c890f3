"""Segments of Fast DDS in /dev/shm, which a killed process leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import re

FOLDER = pathlib.Path('/dev/shm')

_SEGMENT = re.compile(r'/dev/shm/((?:sem\.)?(?:fastrtps|fastdds)_\w+)')


def segments_of(pid: int) -> set[str]:
    """Names of the segments that a process has mapped, its own and others'."""
    try:
        return set(_SEGMENT.findall(pathlib.Path(f'/proc/{pid}/maps').read_text()))
    except OSError:
        return set()


def left_behind(names: set[str], folder: pathlib.Path = FOLDER) -> list[str]:
    """Those of these segments that are there, and that no process holds any more.

    The process that a segment belongs to locks its file NAME_el for as long as it lives.
    """
    return [name for name in names
            if not name.endswith(('_el', '_mutex')) and _is_free(folder / f'{name}_el')]


def remove(names: set[str], folder: pathlib.Path = FOLDER) -> None:
    """Remove those of these segments that are left behind."""
    for name in left_behind(names, folder):
        for path in (folder / name, folder / f'sem.{name}_mutex', folder / f'{name}_el'):
            with contextlib.suppress(OSError):
                path.unlink()


def _is_free(lock: pathlib.Path) -> bool:
    """Whether a lock is there and nobody holds it."""
    try:
        with open(lock, 'rb') as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
