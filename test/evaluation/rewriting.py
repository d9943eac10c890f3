"""Bags whose messages are damaged, and which are sound otherwise."""

from __future__ import annotations

import itertools
import pathlib
import shutil
from collections.abc import Callable, Collection

from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Writer

from stereo_bp_ros.evaluation import bags


def rewritten(source: pathlib.Path, target: pathlib.Path, topic: str, places: Collection[int],
              change: Callable[[bytes], bytes]) -> None:
    """A copy of a bag with other bytes in the messages of this topic and these numbers, from 0."""
    shutil.rmtree(target, ignore_errors=True)
    numbers = itertools.count()
    with AnyReader([source]) as reader, Writer(target, version=9) as writer:
        connections = {one.id: writer.add_connection(one.topic, one.msgtype, typestore=bags.STORE)
                       for one in reader.connections}
        for connection, time_ns, data in reader.messages():
            if connection.topic == topic and next(numbers) in places:
                data = change(data)
            writer.write(connections[connection.id], time_ns, data)
