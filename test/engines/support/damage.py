"""What a power cut, a full disk or somebody else makes of a file of the cache."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from stereo_bp_ros.engines import cache

Damage = Callable[[pathlib.Path], object]


def cut(length: int) -> Damage:
    """Keep so many bytes; of the end where it is negative, all but those."""
    return lambda file: file.write_bytes(file.read_bytes()[:length])


def flip(place: float) -> Damage:
    """Change one bit, at a share of the file."""
    def damage(file: pathlib.Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(place * (len(content) - 1))] ^= 4
        file.write_bytes(content)
    return damage


def replace_by(make: Damage) -> Damage:
    def damage(file: pathlib.Path) -> None:
        file.unlink()
        make(file)
    return damage


def swap(file: pathlib.Path) -> None:
    """With another file that is sound itself."""
    other = file.with_name('other' + file.suffix)
    cache.write_or_raise(other, b'other code')
    shutil.move(other, file)


DAMAGE: dict[str, Damage] = {
    'empty': cut(0),
    'cut in the first word': cut(7),
    'cut in the digest': cut(40),
    'only its first line': cut(81),
    'cut in the middle': lambda file: cut(file.stat().st_size // 2)(file),
    'one byte short': cut(-1),
    'one byte more': lambda file: file.write_bytes(file.read_bytes() + b'\0'),
    'a bit in the first line': flip(0),
    'a bit in the middle': flip(0.6),
    'a bit at the end': flip(1),
    'zeros': lambda file: file.write_bytes(bytes(file.stat().st_size)),
    'noise': lambda file: file.write_bytes(os.urandom(file.stat().st_size)),
    'of another format': lambda file: file.write_bytes(file.read_bytes().partition(b'\n')[2]),
    'swapped': swap,
    'writable by others': lambda file: file.chmod(0o666),
    'a directory': replace_by(lambda file: (file / 'full').mkdir(parents=True)),
    'a pipe': replace_by(os.mkfifo),
    'a link to itself': replace_by(lambda file: file.symlink_to(file)),
    'a link to a sound file': lambda file: file.symlink_to(
        file.rename(file.with_name('elsewhere'))),
}
every_damage = pytest.mark.parametrize('damage', DAMAGE.values(), ids=DAMAGE.keys())
