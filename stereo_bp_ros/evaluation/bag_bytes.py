"""What the files of bags share: limits, decompression that stops there, and topics."""

from __future__ import annotations

import bz2
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import lz4.frame
from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    MessageDefinition,
    MessageDefinitionFormat,
)
from rosbags.rosbag2.storage_mcap import zstd

from stereo_bp_ros.bounded import check_limit
from stereo_bp_ros.errors import StereoError, printable

MAX_MESSAGE_BYTES = 2**29
"""Of a message, of a chunk, and of the chunks of an MCAP file that overlap in time."""

MAX_TOPICS_BYTES = 2**26
"""Of the names and definitions of all topics in a file."""

MAX_DEFINITION_BYTES = 2**16
"""Of what a bag has as definitions of one type of messages."""

MAX_UNPACKED_BYTES = 2**35
"""Of the files of a recording in the temporary folder, which were compressed as a whole."""

#: Bytes that are decompressed at once. Those of LZ4 never become more than ``_MAX_PART``.
_PIECE, _MAX_PART = 2**14, 2**23

_DECOMPRESSORS: Mapping[str, Callable[[], Any]] = {
    'zstd': zstd.ZstdDecompressor, 'lz4': lz4.frame.LZ4FrameDecompressor,
    'bz2': bz2.BZ2Decompressor}

_FORMATS = {'ros2msg': MessageDefinitionFormat.MSG, 'ros1msg': MessageDefinitionFormat.MSG,
            'ros2idl': MessageDefinitionFormat.IDL, 'omgidl': MessageDefinitionFormat.IDL}


def make_connection(number: int, topic: str, kind: str, encoding: str, form: str, text: str,
                    owner: Any) -> Connection:
    """A topic of a file of rosbag2; the type of one that cannot be read says so.

    :param form, text: format and text of the definition of its type.
    """
    if not kind or encoding not in ('cdr', 'ros1'):
        kind, form = f'{printable(kind) or "no schema"} ({printable(encoding)})', ''
    known = _FORMATS.get(form)
    definition = MessageDefinition(known or MessageDefinitionFormat.NONE, text if known else '')
    return Connection(number, topic, kind, definition, '', 0, ConnectionExtRosbag2(encoding, []),
                      owner)


def check_size(what: str, count: int, limit: int) -> None:
    """Refuse what is more than a limit.

    :raises StereoError: a sentence about ``what`` that names the limit and what raises it.
    """
    try:
        check_limit(count, limit, 'bytes')
    except ValueError as error:
        raise StereoError(f'{what} is too large: {error}') from error


def decompress(data: bytes, compression: str) -> tuple[bytes | bytearray, bool]:
    """The content of a compressed message or chunk, and whether its end is there, too.

    Holds the content once.

    :param compression: as ROS 1 and MCAP call it.
    :raises StereoError: it is larger than ``MAX_MESSAGE_BYTES``, or compressed otherwise.
    """
    if compression in ('', 'none'):
        return data, True
    if compression not in _DECOMPRESSORS:
        raise StereoError(f'the compression {printable(compression)} is not known')
    if compression == 'zstd':
        check_size('a message or chunk', zstd.get_frame_info(data[:_PIECE]).decompressed_size or 0,
                   MAX_MESSAGE_BYTES)
    one, found = _DECOMPRESSORS[compression](), bytearray()
    for start in range(0, len(data), _PIECE):
        piece = bytes(data[start:start + _PIECE])
        while piece or not (one.eof or one.needs_input):
            if one.eof:         # frames may follow each other
                one = _DECOMPRESSORS[compression]()
            found += one.decompress(piece, max_length=_MAX_PART)
            check_size('a message or chunk', len(found), MAX_MESSAGE_BYTES)
            piece = (one.unused_data or b'') if one.eof else b''
    return found, bool(one.eof)


def decompress_file(source: pathlib.Path, folder: pathlib.Path, before: int) -> pathlib.Path:
    """Decompress a file of zstd into a folder, and return its path there.

    It takes at most half of what is free there.

    :param before: bytes of the recording's files that were decompressed before.
    :raises StereoError: there would be more than ``MAX_UNPACKED_BYTES``.
    """
    path = folder / source.stem
    free = shutil.disk_usage(folder).free // 2
    with source.open('rb') as file:
        told = zstd.get_frame_info(file.read(_PIECE)).decompressed_size or 0
    with zstd.open(source, 'rb') as content, path.open('wb') as target:
        written = 0
        while True:
            size = max(told, written)
            check_size(f'the content of {source.name}', before + size, MAX_UNPACKED_BYTES)
            if size > free:
                raise StereoError(f'the content of {source.name} needs more than {free} bytes, '
                                  f'half of what is free in {folder.parent}: TMPDIR names '
                                  'another folder')
            piece = content.read(2**20)
            if not piece:
                return path
            written += target.write(piece)
