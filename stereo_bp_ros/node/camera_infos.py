"""The camera_info of one side, latched: each applies from its own stamp on."""

from __future__ import annotations

import collections
from typing import Any

#: Changes that are remembered for images that arrive late or out of order.
HISTORY = 8


class CameraInfoLatch:
    """Keeps the latest camera_info and those before it; not thread-safe.

    A message whose content equals the latest one only shows that the topic is alive.
    """

    def __init__(self) -> None:
        self._history: collections.deque[tuple[int, Any]] = collections.deque(maxlen=HISTORY)

    @property
    def known(self) -> bool:
        """Whether any camera_info has arrived."""
        return bool(self._history)

    @property
    def latest(self) -> Any:
        """The camera_info that arrived last with a new content, or None."""
        return self._history[-1][1] if self._history else None

    def add(self, info: Any, stamp_ns: int) -> bool:
        """Take a message in; returns whether its content is new."""
        if self._history and content(info) == content(self._history[-1][1]):
            return False
        self._history.append((stamp_ns, info))
        return True

    def at(self, stamp_ns: int) -> Any:
        """The camera_info of an image: the last one whose stamp is not after the image's.

        An image before all of them gets the oldest; None where none has arrived.
        """
        applicable = None
        for stamp, info in self._history:
            if applicable is None or stamp <= stamp_ns:
                applicable = info
        return applicable

    def restart(self) -> None:
        """The clock went back: the latest holds until another one arrives."""
        if self._history:
            info = self._history[-1][1]
            self._history.clear()
            self._history.append((0, info))


def content(info: Any) -> tuple[Any, ...]:
    """What a camera_info says, without its stamp."""
    roi = info.roi
    return (info.header.frame_id, info.height, info.width, info.binning_x, info.binning_y,
            roi.x_offset, roi.y_offset, roi.height, roi.width, tuple(info.p))
