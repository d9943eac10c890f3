"""Messages of a bag, and words about damaged ones."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from rosbags.highlevel import AnyReader

from stereo_bp_ros.errors import StereoError

#: Bytes of a serialised message up to the end of its stamp, in ROS 1 or 2, at least.
LEAST_BYTES = 12


class Reader(AnyReader):
    """Says which message of which topic is damaged.

    rosbags checks nothing that it parses: damage raises whatever it leads to.
    """

    _place = 'its index'

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


def _described(error: Exception) -> str:
    return f'{type(error).__name__} {error}'.strip()
