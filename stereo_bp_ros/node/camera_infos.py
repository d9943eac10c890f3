"""Which two camera_infos belong to a pair of images. Not thread-safe; knows no ROS.

A driver that stamps each camera_info as its image says exactly what belongs to what. Others
publish once, slower than images or by another clock: of those only the order of arrival counts.
In either case a new calibration of one camera never meets the old one of the other.
"""

from __future__ import annotations

import array
import collections
from typing import Any

from stereo_bp_ros.images.stamps import SIDES

#: Seconds that an image waits for the camera_info of its own stamp.
WAIT = 0.1

#: Changes of both sides that come within so many seconds are two halves of one.
AT_ONCE = 0.01

#: Seconds after a change from which on a camera_info of the other side was sent since.
SINCE = 0.05

#: Seconds after which a change of one side applies although nothing comes from the other.
SILENCE = 1.0

#: Images of a side that tell whether camera_infos come with their stamps.
JUDGED = 5

#: camera_infos of a side that are kept for images that come later than they do.
KEPT = 64

#: Combinations that are remembered for images from before a change.
COMBINATIONS = 8


class SideInfos:
    """The camera_infos of one side. Times are seconds of one steady clock."""

    def __init__(self) -> None:
        self.latest: Any = None
        self.heard_at = self.changed_at = 0.0
        self._by_stamp: dict[int, Any] = {}
        self._awaited: dict[int, float] = {}
        self._had_own: collections.deque[bool] = collections.deque(maxlen=JUDGED)

    @property
    def stamped(self) -> bool:
        """Whether most of the last images had a camera_info of their stamp, or none came yet."""
        return not self._had_own or 2 * sum(self._had_own) > len(self._had_own)

    def add(self, info: Any, stamp_ns: int, now: float) -> None:
        """Take a camera_info in; one whose content equals the latest one's stands for that."""
        self._give_up(now)
        if self.latest is None or content(info) != content(self.latest):
            self.latest, self.changed_at = info, now
        self.heard_at = now
        self._by_stamp.pop(stamp_ns, None)
        self._by_stamp[stamp_ns] = self.latest
        if len(self._by_stamp) > KEPT:
            del self._by_stamp[next(iter(self._by_stamp))]
        if self._awaited.pop(stamp_ns, None) is not None:
            self._had_own.append(True)

    def expect(self, stamp_ns: int, now: float) -> None:
        """An image of this stamp has come."""
        self._give_up(now)
        if stamp_ns in self._by_stamp:
            self._had_own.append(True)
        else:
            self._awaited[stamp_ns] = now + WAIT

    def own(self, stamp_ns: int) -> Any:
        """The camera_info of this stamp, or None."""
        return self._by_stamp.get(stamp_ns)

    def forget(self, stamp_ns: int) -> None:
        """An image of this stamp that comes again, in another round, waits for its own."""
        self._by_stamp.pop(stamp_ns, None)

    def _give_up(self, now: float) -> None:
        for stamp_ns in [s for s, until in self._awaited.items() if until <= now]:
            del self._awaited[stamp_ns]
            self._had_own.append(False)


class CameraInfos:
    """The camera_infos of both sides, and which of them belong together."""

    def __init__(self) -> None:
        self.sides = {name: SideInfos() for name in SIDES}
        self._together: collections.deque[tuple[Any, Any]] = collections.deque(
            maxlen=COMBINATIONS)
        self._changed_at: float | None = None

    def missing(self) -> list[str]:
        """The sides that none has come for."""
        return [name for name, side in self.sides.items() if side.latest is None]

    def add(self, name: str, info: Any, stamp_ns: int, now: float) -> None:
        """Take in a camera_info of a side.

        A change applies when both sides change at once, when the other side has sent one since,
        or after ``SILENCE`` of the other side.
        """
        self._apply_change_in_silence(now)
        self.sides[name].add(info, stamp_ns, now)
        if self.missing():
            return
        latest = self._latest()
        if not self._together:
            self._apply(latest)
            return
        changed = [new is not old for new, old in zip(latest, self._together[-1], strict=True)]
        if not any(changed):
            self._changed_at = None
            return
        if self._changed_at is None:
            self._changed_at = now
        earlier, later = self._by_change()
        if ((all(changed) and later.changed_at - earlier.changed_at <= AT_ONCE)
                or earlier.heard_at - later.changed_at >= SINCE):
            self._apply(latest)

    def of_pair(self, left_stamp_ns: int, right_stamp_ns: int, now: float, *,
                overdue: bool) -> tuple[Any, Any] | None:
        """The camera_infos of two images; None where they may still come or none fit.

        :param overdue: the images have waited long enough for those of their own stamps. What
            belongs together by arrival is then taken, if it does not contradict a stamp.
        """
        self._apply_change_in_silence(now)
        own = (self.sides['left'].own(left_stamp_ns), self.sides['right'].own(right_stamp_ns))
        awaited = [side for side, info in zip(self.sides.values(), own, strict=True)
                   if info is None]
        if not awaited:
            if _agree(own, self._latest()):
                self._apply(own)
            return own
        if not overdue and any(side.stamped for side in awaited):
            return None
        return next((infos for infos in reversed(self._together) if _agree(own, infos)), None)

    def _latest(self) -> tuple[Any, Any]:
        return self.sides['left'].latest, self.sides['right'].latest

    def _apply(self, infos: tuple[Any, Any]) -> None:
        self._changed_at = None
        if not self._together or not _agree(infos, self._together[-1]):
            self._together.append(infos)

    def _apply_change_in_silence(self, now: float) -> None:
        if self._changed_at is not None and now - max(
                self._changed_at, self._by_change()[0].heard_at) >= SILENCE:
            self._apply(self._latest())

    def _by_change(self) -> list[SideInfos]:
        """The side that changed earlier, and the one that changed later."""
        return sorted(self.sides.values(), key=lambda side: side.changed_at)


def _agree(own: tuple[Any, Any], infos: tuple[Any, Any]) -> bool:
    """Whether two are these two; None of ``own`` agrees with any."""
    return all(info is None or info is other for info, other in zip(own, infos, strict=True))


def content(info: Any) -> tuple[Any, ...]:
    """What a camera_info says, without its stamp."""
    roi = info.roi
    # As bytes, because NaN would differ from itself: a new calibration with every message.
    return (info.header.frame_id, info.height, info.width, info.binning_x, info.binning_y,
            roi.x_offset, roi.y_offset, roi.height, roi.width,
            info.distortion_model,
            array.array('d', (*info.p, *info.k, *info.r, *info.d)).tobytes())
