"""Messages of a bag, as ROS 2 has them, and words about damaged ones."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.bag_topics import file_without_metadata

#: Bytes of a serialised message up to the end of its stamp, in ROS 1 or 2, at least.
LEAST_BYTES = 12

STORE = get_typestore(Stores.ROS2_KILTED)


def message_type(name: str) -> Any:
    """The class of a message of ROS 2, e.g. ``sensor_msgs/msg/Image``."""
    return STORE.types[name]


def stamp_of(data: bytes | memoryview) -> int:
    """Header stamp in ns of CDR bytes that begin with a ``std_msgs/Header``."""
    order = 'little' if data[1] & 1 else 'big'
    seconds = int.from_bytes(data[4:8], order, signed=True)     # type: ignore[arg-type]
    return seconds * 10**9 + int.from_bytes(data[8:12], order)  # type: ignore[arg-type]


class Reader(AnyReader):
    """Says which message of which topic is damaged.

    rosbags checks nothing that it parses: damage raises whatever it leads to. Messages are read
    one after another, and what was read is not kept: the memory does not grow with the bag.
    """

    _place = 'its index'
    _usual: tuple[str, ...] = ()

    @classmethod
    def opened(cls, path: pathlib.Path) -> Reader:
        """A reader of a rosbag2 folder, a file of one or a ROS 1 bag; to be closed.

        :raises StereoError: no bag.
        """
        try:
            reader = cls([file_without_metadata(path) or path], default_typestore=STORE)
            reader.open()
        except Exception as error:
            raise StereoError(f'{path} cannot be read as a bag: {error}') from error
        return reader

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
        if not self.is2:
            return _from_ros1(message, kind)
        if kind not in self._usual:
            if other := _otherwise(kind, self.typestore):
                raise StereoError(f'{self.paths[0]} defines {other} otherwise than ROS 2')
            self._usual += (kind,)
        return message

    def messages(self, *arguments: Any, **options: Any) -> Iterator[tuple[Any, int, bytes]]:
        counts: collections.Counter[str] = collections.Counter()
        found = super().messages(*arguments, **options)
        since = f" from {options['start']} ns on" if options.get('start') else ''
        while True:
            try:
                connection, time_ns, data = next(found)
            except StopIteration:
                return
            except Exception as error:
                raise StereoError(f'{self.paths[0]} is damaged behind {self._place}: '
                                  f'{_described(error)}') from error
            counts[connection.topic] += 1
            self._place = f'message {counts[connection.topic]} of {connection.topic}{since}'
            if len(data) < LEAST_BYTES:
                raise StereoError(f'{self.paths[0]}: {self._place} is damaged: '
                                  f'{len(data)} bytes are no message with a header')
            yield connection, time_ns, data

    def deserialize(self, rawdata: bytes | memoryview, typ: str) -> Any:
        try:
            return super().deserialize(rawdata, typ)
        except Exception as error:
            raise StereoError(f'{self.paths[0]}: {self._place} is damaged: '
                              f'{_described(error)}') from error


def _otherwise(kind: str, definitions: Typestore) -> str:
    """The message, within those of a kind, whose fields a bag defines otherwise; '' = none."""
    _, fields = STORE.fielddefs[kind]
    if definitions.fielddefs[kind][1] != fields:
        return kind
    inner = re.findall(r"'(\w+/msg/\w+)'", str(fields))
    return next(filter(None, (_otherwise(name, definitions) for name in inner)), '')


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
