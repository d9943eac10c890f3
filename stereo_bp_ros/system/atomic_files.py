"""Atomic writing: a file is there as a whole or not at all, and an older one stays until then.

Whatever this package writes goes through here: beside its place under a hidden name, to the disk,
and only then to its name. A full disk, a killed process and a power cut leave no file that could
be taken for a whole one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PathLike = str | os.PathLike[str]

_PREFIX = '.stereo_bp_'

#: Names of what is being written; a process that was killed leaves it.
TEMPORARY = re.compile(re.escape(_PREFIX) + '[0-9a-f]{16}')


@contextlib.contextmanager
def opened(path: PathLike, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write a file from its begin to its end; it gets its name when the context ends well.

    Links are followed, and an older file's mode is kept. A device or a pipe is written directly.

    :param mode: of a new file, before the umask.
    :raises ValueError: it cannot be written; names the path and the reason.
    """
    with _reported(path), (_replacing(path, mode) if _is_replaced(Path(path)) else
                           open(path, 'wb')) as file:
        yield file


def write_bytes(path: PathLike, data: bytes, mode: int = 0o666) -> None:
    """As ``opened``, for content that is in memory."""
    with opened(path, mode) as file:
        file.write(data)


def write_text(path: PathLike, text: str) -> None:
    """As ``write_bytes``, in UTF-8."""
    write_bytes(path, text.encode())


@contextlib.contextmanager
def folder(path: PathLike) -> Iterator[Path]:
    """Fill a new or empty folder, which is there as a whole once the context ends well.

    Yields where it is to be made: nothing is there yet.

    :raises ValueError: it, or a file in it, cannot be written.
    """
    target = Path(path)
    # An empty one may be where somebody works, or a disk of its own, and stays the same.
    is_there = target.is_dir()
    beside = (target if is_there else target.parent) / _temporary_name()
    with _reported(path):
        beside.mkdir(parents=True)
        try:
            # Files in it may be named by the folder, as those of a bag are.
            made = beside / target.resolve().name
            yield made
            for one in made.rglob('*'):
                if one.is_file():
                    with open(one, 'rb') as file:
                        os.fsync(file.fileno())
            if is_there:
                for one in made.iterdir():
                    one.rename(target / one.name)
            else:
                made.rename(target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def _reported(path: PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(f'{path} cannot be written: {error.strerror or error}') from error


def _is_replaced(path: Path) -> bool:
    # A name such as /dev/stdout may stand for a file that somebody else has open.
    return path.parent != Path('/dev') and (path.is_file() or not path.exists())


def _temporary_name() -> str:
    return _PREFIX + secrets.token_hex(8)


@contextlib.contextmanager
def _replacing(path: PathLike, mode: int) -> Iterator[BinaryIO]:
    target = Path(os.path.realpath(path))
    older = target.stat() if target.exists() else None
    if older and not os.access(target, os.W_OK):    # it would not have kept its content either
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    beside = target.with_name(_temporary_name())
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(number, 'wb') as file:
            yield file
            file.flush()
            if older:
                os.fchmod(number, stat.S_IMODE(older.st_mode))
            # Else the new name can outlive a power cut that its content does not.
            os.fsync(number)
            if os.fstat(number).st_size != file.tell():
                raise OSError(errno.EIO, 'the disk has kept a part of it')
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
