"""Files under the user's cache directory: compiled code.

Some are machine code, so a file is used only as it was written, and only where nobody but this
user and root can have written it. Whatever is wrong with a file or its directory costs time, the
making anew, and one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pathlib
import shutil
import stat
import time

from stereo_bp_ros.system import atomic_files

#: How every file begins, before the digest; another number is another format.
FORMAT = 'stereo_bp_ros 1'

#: Seconds after which whoever was writing a file was killed.
ABANDONED_AFTER = 3600.0

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_log = logging.getLogger(__name__)
_warned: set[str] = set()


def user_cache() -> pathlib.Path:
    """``XDG_CACHE_HOME`` where it is an absolute path, else ``~/.cache``."""
    named = os.environ.get('XDG_CACHE_HOME', '')
    return pathlib.Path(named) if os.path.isabs(named) else pathlib.Path.home() / '.cache'


def open_directory(*names: str) -> pathlib.Path:
    """``stereo_bp_ros/<names>`` in the user's cache directory, made where it is not there.

    Every level is this user's own, mode 0700, or root's and written by nobody else, as in a
    container's image; either may be read-only. What an own one held while others could write it
    is removed, and what a process that was killed has half written.

    :raises OSError: a level cannot be made, or is not to be trusted.
    """
    directory = user_cache() / 'stereo_bp_ros'
    _make_trusted(directory)
    for name in names:
        directory /= name
        _make_trusted(directory)
    _remove_abandoned(directory)
    return directory


def _remove_abandoned(directory: pathlib.Path) -> None:
    """Remove temporary files of processes that were killed.

    One that is being written is younger. Were it removed, its process would keep no file, and say
    so.
    """
    with contextlib.suppress(OSError):      # a read-only cache, or another process was faster
        for file in directory.iterdir():
            if (atomic_files.TEMPORARY.fullmatch(file.name)
                    and time.time() - file.lstat().st_mtime > ABANDONED_AFTER):
                file.unlink(missing_ok=True)


def _make_trusted(directory: pathlib.Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f'{directory} is not a directory')
    _check_owner(found, directory)
    others_write = bool(found.st_mode & _WRITABLE_BY_OTHERS)
    if found.st_uid != os.geteuid():
        if others_write:
            raise PermissionError(f'{directory} can be written by others')
        return
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        # On a read-only disk it is enough that nobody else can write.
        with contextlib.nullcontext() if others_write else contextlib.suppress(OSError):
            directory.chmod(stat.S_IMODE(found.st_mode) & stat.S_IRWXU)
    if others_write:
        for entry in list(directory.iterdir()):
            _remove(entry)
        _log.warning('%s could be written by others: what it held was discarded', directory)


def read(file: pathlib.Path) -> bytes | None:
    """The content that ``write`` was given; None = there is no such file, or it is damaged.

    A damaged file is set aside, so that it is there to be looked at and damages nothing more.
    """
    try:
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f'{file.name} is not a file')
            _check_owner(found, file)
            if found.st_mode & _WRITABLE_BY_OTHERS:
                raise PermissionError(f'{file.name} can be written by others')
            with open(number, 'rb', closefd=False) as opened:
                head, _, content = opened.read().partition(b'\n')
        finally:
            os.close(number)
    except FileNotFoundError:
        return None
    except OSError as error:
        set_aside(file, str(error))
        return None
    if head != _head(file.name, content):
        set_aside(file, f'its {len(content)} bytes are not those that were written')
        return None
    return content


def write(file: pathlib.Path, content: bytes) -> bool:
    """Keep a file for ``read``; returns False, after one warning in a process, where it fails."""
    try:
        write_or_raise(file, content)
    except (OSError, ValueError) as error:
        _warn('write', '%s cannot be kept, so that every process makes it anew: %s', file,
              error.__cause__ or error)
        return False
    return True


def write_or_raise(file: pathlib.Path, content: bytes) -> None:
    """Keep a file for ``read`` as a whole or not at all, whenever the power fails.

    :raises OSError, ValueError: it cannot be written.
    """
    file.parent.mkdir(mode=0o700, exist_ok=True)
    atomic_files.write_bytes(file, _head(file.name, content) + b'\n' + content, 0o600)


def set_aside(file: pathlib.Path, reason: str) -> None:
    """Take a file out of use, and say so: the first of a process is a warning."""
    aside = file.with_name(file.name + '.damaged')
    try:
        _remove(aside)
        os.replace(file, aside)
        done = f'is set aside as {aside.name} and made anew'
    except OSError:
        done = 'is not used'
    _warn('damaged', '%s is damaged and %s: %s', file, done, reason)


def _head(name: str, content: bytes) -> bytes:
    """The first line; with the name, so that no file passes for another."""
    digest = hashlib.sha256(name.encode() + b'\0' + content)
    return f'{FORMAT} {digest.hexdigest()}'.encode()


def _check_owner(found: os.stat_result, path: pathlib.Path) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f'{path} is not of this user')


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _warn(kind: str, text: str, *arguments: object) -> None:
    """The first of a kind is a warning: a power cut can damage a hundred files at once."""
    _log.log(logging.INFO if kind in _warned else logging.WARNING, text, *arguments)
    _warned.add(kind)
