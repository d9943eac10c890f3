"""Messages of a bag, as ROS 2 has them, and words about damaged ones."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.bag_bytes import MAX_DEFINITION_BYTES, check_size
from stereo_bp_ros.evaluation.bag_ros1 import Ros1Storage
from stereo_bp_ros.evaluation.bag_storage import Recording
from stereo_bp_ros.evaluation.bag_topics import (
    CAMERA_INFO,
    ROS1_SUFFIXES,
    TRANSFORM_TYPES,
    TRUTH_TYPES,
)

#: Bytes of a serialised message up to the end of its stamp, in ROS 1 or 2, at least.
LEAST_BYTES = 12

STORE = get_typestore(Stores.ROS2_KILTED)

#: Messages of ROS 1, which have no transforms in rosbags.
_ROS1 = get_typestore(Stores.ROS1_NOETIC)
for _name in TRANSFORM_TYPES:
    _ROS1.register(get_types_from_msg('geometry_msgs/TransformStamped[] transforms', _name))

#: What has no bearing on the fields of a message in IDL: texts, comments, includes and constants;
#: and annotations, once texts are gone.
_IDL_ASIDE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(?://|#)[^\n]*|/\*.*?(?:\*/|\Z)|'
                        r'\bconst\b(?:"(?:[^"\\]|\\.)*"|[^;"])*;?', re.DOTALL)
_IDL_ANNOTATION = re.compile(r'@\w+(\s*\([^()]*\))?')

#: Types of messages that are read; others may be defined as they like.
READ_TYPES = (*TRUTH_TYPES, CAMERA_INFO, *TRANSFORM_TYPES)


def message_type(name: str) -> Any:
    """The class of a message of ROS 2, e.g. ``sensor_msgs/msg/Image``."""
    return STORE.types[name]


def stamp_of(data: bytes | memoryview) -> int:
    """Header stamp in ns of CDR bytes that begin with a ``std_msgs/Header``."""
    order = 'little' if data[1] & 1 else 'big'
    seconds = int.from_bytes(data[4:8], order, signed=True)     # type: ignore[arg-type]
    return seconds * 10**9 + int.from_bytes(data[8:12], order)  # type: ignore[arg-type]

#: What takes the parser of rosbags for ever, or more memory than there is.
_IDL_ENDLESS = re.compile(r'\([^()]*\(|<[^<>]*<[^<>]*<|<<')


class Reader:
    """Reads the messages of a stereo camera, whatever else is in a bag or missing of it.

    Their types are those of ROS. What a bag has as their definitions is only compared with these.

    It says which message of which topic is damaged. rosbags checks nothing that it parses: damage
    raises whatever it leads to. Messages are read one after another, and what was read is not
    kept: the memory does not grow with the bag.
    """

    _place = 'its index'
    _usual: tuple[str, ...] = ()

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._storage: Recording | Ros1Storage = (
            Ros1Storage(path) if path.name.endswith(ROS1_SUFFIXES) else Recording(path))
        self.connections: list[Any] = []
        self.is2 = True

    @property
    def notes(self) -> list[str]:
        """Sentences about what is missing in a recording that was cut off."""
        return self._storage.notes

    @classmethod
    def opened(cls, path: pathlib.Path) -> Reader:
        """A reader of a rosbag2 folder, a file of one or a ROS 1 bag; to be closed.

        :raises StereoError: no bag.
        """
        try:
            reader = cls(path)
            reader.open()
        except Exception as error:
            raise StereoError(f'{path} cannot be read as a bag: {error}') from error
        return reader

    def open(self) -> None:
        """Open the bag, and learn whether its messages are of ROS 1 or 2."""
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._storage)
            self.connections = list(self._storage.connections)
            # An MCAP file may hold messages of ROS 1, too.
            self.is2 = not (isinstance(self._storage, Ros1Storage)
                            or any(one.ext.serialization_format == 'ros1'
                                   for one in self.connections if one.msgtype in READ_TYPES))
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close the bag."""
        self._opened.close()

    def of_topics(self, *topics: str) -> list[Any]:
        """The connections of these topics; none: [], which ``messages`` takes as all."""
        return [one for one in self.connections if one.topic in topics]

    def stamp(self, data: bytes) -> int:
        """Header stamp in ns of a message's bytes."""
        # ROS 1 is little-endian, and has header.seq where CDR says so.
        return stamp_of(data if self.is2 else b'\0\1\0\0' + data[4:LEAST_BYTES])

    def decoded(self, kind: str, data: bytes) -> Any:
        """A message of ROS 2 from its bytes, or from those of the same of ROS 1."""
        message = self.deserialize(data, kind)
        return message if self.is2 else _from_ros1(message, kind)

    def messages(self, *arguments: Any, **options: Any) -> Iterator[tuple[Any, int, bytes]]:
        counts: collections.Counter[str] = collections.Counter()
        found = self._storage.messages(*arguments, **options)
        since = f" from {options['start']} ns on" if options.get('start') else ''
        while True:
            try:
                connection, time_ns, data = next(found)
            except StopIteration:
                return
            except StereoError as error:
                raise StereoError(f'{self._path} cannot be read behind {self._place}: {error}'
                                  ) from error
            except Exception as error:
                raise StereoError(f'{self._path} is damaged behind {self._place}: '
                                  f'{_described(error)}') from error
            counts[connection.topic] += 1
            self._place = f'message {counts[connection.topic]} of {connection.topic}{since}'
            if len(data) < LEAST_BYTES:
                raise StereoError(f'{self._path}: {self._place} is damaged: '
                                  f'{len(data)} bytes are no message with a header')
            yield connection, time_ns, data

    def deserialize(self, data: bytes | memoryview, kind: str) -> Any:
        """A message of ROS 1 or 2.

        :raises StereoError: it is damaged, or the bag defines it otherwise than ROS.
        """
        if kind not in self._usual:
            self._compare(kind)
            self._usual += (kind,)
        try:
            return STORE.deserialize_cdr(data, kind) if self.is2 else (
                _ROS1.deserialize_ros1(data, kind))
        except Exception as error:
            raise StereoError(f'{self._path}: {self._place} is damaged: '
                              f'{_described(error)}') from error

    def _compare(self, kind: str) -> None:
        """Compare the bag's definitions of a type with that of ROS."""
        definitions = {one.msgdef for one in self.connections if one.msgtype == kind}
        check_size(f'{self._path}: what defines {kind}',
                   sum(len(one.data) for one in definitions), MAX_DEFINITION_BYTES)
        for one in definitions:
            try:
                other = _otherwise(kind, _fields(kind, one), STORE if self.is2 else _ROS1)
            except Exception as error:      # also where its parser finds no end
                raise StereoError(f'{self._path} has no sound definition of {kind}: '
                                  f'{_described(error)[:200]}') from error
            if other:
                raise StereoError(f'{self._path} defines {other} otherwise than ROS '
                                  f'{2 if self.is2 else 1}')


def _fields(kind: str, definition: MessageDefinition) -> dict[str, Any]:
    """The fields of the types in a definition of a type, by their names; none: {}."""
    text = definition.data
    if definition.format == MessageDefinitionFormat.NONE or not text:
        return {}
    if definition.format == MessageDefinitionFormat.MSG:
        found = get_types_from_msg(text, kind)
    else:
        found = {}
        for part in re.split(r'^=+\nIDL: .*$', text, flags=re.MULTILINE):
            # Constants may be computed, and their values need not fit any memory.
            part = _IDL_ASIDE.sub(
                lambda found: {'"': '""', 'c': 'const long A = 0;'}.get(found[0][0], ' '), part)
            part = _IDL_ANNOTATION.sub(' ', part)
            if _IDL_ENDLESS.search(part):
                raise StereoError('it has brackets in brackets, or a shift')
            if part.strip():
                found |= get_types_from_idl(part)
    return {name: fields for name, (_, fields) in found.items()}


def _otherwise(kind: str, definitions: Mapping[str, Any], usual: Typestore) -> str:
    """The message, within those of a kind, whose fields a bag defines otherwise; '' = none.

    Converters to ROS 1 leave the small letters of ROS 2's fields, such as ``d`` of CameraInfo.
    """
    _, fields = usual.fielddefs[kind]
    small = [(name.lower(), form) for name, form in fields]
    if definitions.get(kind, fields) not in (fields, small):
        return kind
    inner = re.findall(r"'(\w+/msg/\w+)'", str(fields))
    return next(filter(None, (_otherwise(name, definitions, usual) for name in inner)), '')


def _from_ros1(message: Any, kind: str) -> Any:
    """The same message in ROS 2: no header.seq, and CameraInfo's D, K, R and P are small."""
    values = {}
    for field in dataclasses.fields(message_type(kind)):
        value = getattr(message, field.name, None)
        if value is None:
            value = getattr(message, field.name.upper())
        inner = getattr(value, '__msgtype__', '')
        values[field.name] = _from_ros1(value, inner) if inner else value
    return message_type(kind)(**values)


def _described(error: Exception) -> str:
    return f'{type(error).__name__} {error}'.strip()
