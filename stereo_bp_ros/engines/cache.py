"""Directories and files under the user's cache directory: compiled code, what was tuned."""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile


def user_cache() -> pathlib.Path:
    """``XDG_CACHE_HOME`` where it is an absolute path, else ``~/.cache``."""
    named = os.environ.get('XDG_CACHE_HOME', '')
    return pathlib.Path(named) if os.path.isabs(named) else pathlib.Path.home() / '.cache'


def make_private(directory: pathlib.Path) -> None:
    """Make a directory that only this user can enter, or check that an existing one is so.

    :raises OSError: it cannot be made, is not writable, or is not this user's own.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f'{directory} is not a directory of this user')
    if stat.S_IMODE(found.st_mode) != 0o700:
        directory.chmod(0o700)
    if not os.access(directory, os.W_OK):
        raise PermissionError(f'{directory} is not writable')


def write_whole(file: pathlib.Path, content: bytes) -> None:
    """Write a file as a whole or not at all.

    :raises OSError: it cannot be written.
    """
    number, name = tempfile.mkstemp(dir=file.parent)
    try:
        with open(number, 'wb') as temporary:
            temporary.write(content)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
