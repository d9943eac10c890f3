"""Which images are a pair, by their stamps, and why none are: one rule for topics and files."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from stereo_bp_ros.errors import StereoError

SIDES = ('left', 'right')

#: Seconds between the stamps of the two sides that no tolerance is meant for, and by which stamps
#: go back where a recording has started over.
APART_S = 1.0

#: Stamps of paired images that are remembered to recognise duplicates.
REMEMBERED = 64

#: The sentences for images that are rejected by their own stamps.
NO_STAMP = 'the stamp 0, by which no pair can be found: their driver has to set header.stamp'
DUPLICATE = 'the stamp of another image of their side: does their driver repeat header.stamp?'


def header_stamp(message: Any) -> int:
    """Nanoseconds, of a message with a header."""
    stamp = message.header.stamp
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def find_partner(waiting: Collection[int], stamp_ns: int, tolerance_s: float
                 ) -> tuple[int | None, int]:
    """The stamp among those of the other side that an image pairs with, and how far it is.

    The closest one counts, where it lies within the tolerance.

    :param waiting: stamps of images without a partner, ns; quickest where it is a dict or set.
    :param tolerance_s: seconds; 0 = stamps have to be equal (approximate_sync is off).
    :returns: None with the distance of the closest in ns, -1 where none waits; else the stamp.
    """
    closest = stamp_ns if stamp_ns in waiting else min(
        waiting, key=lambda one: abs(one - stamp_ns), default=None)
    if closest is None:
        return None, -1
    difference = abs(closest - stamp_ns)
    return closest if difference <= tolerance_s * 1e9 else None, difference


def why_no_pair(closest_s: float, allowed: str) -> str:
    """The sentence for images of both sides of which none are a pair.

    :param closest_s: seconds between the two stamps that came closest.
    :param allowed: what keeps them apart, as of ``sync_setting``.
    """
    return (f'images of both sides, but no pair: the closest stamps differ by '
            f'{closest_s:.{6 if closest_s >= 1e-6 else 9}f} s, {allowed}')


def sync_setting(tolerance_s: float) -> str:
    """The setting of the node that decides, 0 = it is off."""
    return (f'approximate_sync_tolerance_seconds is {tolerance_s:g}' if tolerance_s
            else 'approximate_sync is off')


def clock_offset_reason(left_ahead_s: float) -> str:
    """The sentence for sides whose stamps are further apart than ``APART_S``."""
    late, ahead = ('left', 'right') if left_ahead_s < 0 else ('right', 'left')
    return (f'the stamps of {late} images are {abs(left_ahead_s):.3f} s behind those of '
            f'{ahead} ones: is one clock wrong, or one camera late?')


class NoPairError(StereoError):
    """There are images, and no two of them are a pair."""


class Image(NamedTuple):
    """One image: its side, its stamp, when it was recorded (both in ns), and what it holds."""

    side: str
    stamp_ns: int
    time_ns: int
    content: Any


class PairFinder:
    """Pairs images as they come, and keeps those that wait for a partner.

    As by the node, an image of the stamp 0 is rejected, and so is a second one of a stamp.

    :param tolerance_s: maximum seconds between the stamps of a pair; 0 = they have to be equal.
    """

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._waiting: dict[str, dict[int, Image]] = {side: {} for side in SIDES}
        self._paired: dict[str, collections.deque[int]] = {
            side: collections.deque(maxlen=REMEMBERED) for side in SIDES}
        self._newest_ns: dict[str, int] = {}
        self._closest_ns: int | None = None
        self._rejected: list[Image] = []
        self._counts: dict[str, collections.Counter[str]] = {
            side: collections.Counter() for side in SIDES}

    def add(self, image: Image) -> tuple[Image, Image] | None:
        """Take an image in; returns left and right where it has a partner."""
        newest_ns = self._newest_ns.get(image.side, 0)
        if newest_ns - image.stamp_ns > APART_S * 1e9:
            for paired in self._paired.values():
                paired.clear()
        reason = self._reject_reason(image)
        self._counts[image.side].update(filter(None, ['images', reason]))
        if reason:
            self._rejected.append(image)
            return None
        self._newest_ns[image.side] = max(image.stamp_ns, newest_ns)
        others = self._waiting[SIDES[image.side == SIDES[0]]]
        partner_ns, away_ns = find_partner(others, image.stamp_ns, self._tolerance_s)
        if partner_ns is not None:
            pair = image, others.pop(partner_ns)
            for one in pair:
                self._paired[one.side].append(one.stamp_ns)
            return pair if image.side == SIDES[0] else pair[::-1]
        if away_ns >= 0:
            self._closest_ns = min(away_ns, self._closest_ns or away_ns)
        self._waiting[image.side][image.stamp_ns] = image
        return None

    def drop(self, limit: int) -> Iterator[Image]:
        """Images that were rejected, and those of the oldest stamps until no more than ``limit``
        wait."""
        yield from self._rejected
        self._rejected.clear()
        while sum(map(len, self._waiting.values())) > limit:
            oldest, side = min((min(own), side) for side, own in self._waiting.items() if own)
            yield self._waiting[side].pop(oldest)

    def _reject_reason(self, image: Image) -> str:
        """Why an image has no partner by its own stamp; '' = it may have one."""
        if image.stamp_ns <= 0:
            return NO_STAMP
        is_known = (image.stamp_ns in self._waiting[image.side]
                    or image.stamp_ns in self._paired[image.side])
        return DUPLICATE if is_known else ''

    def rejections(self) -> list[str]:
        """A sentence about the images that were rejected for each reason."""
        return [f'{count} of {counts["images"]} {side} images have {reason}'
                for side, counts in self._counts.items()
                for reason in (NO_STAMP, DUPLICATE) if (count := counts[reason])]

    @property
    def has_stamps(self) -> bool:
        """Whether no side has images of the stamp 0 alone."""
        return not any(0 < counts['images'] == counts[NO_STAMP]
                       for counts in self._counts.values())

    def why_none(self) -> str:
        """Why no two images are a pair, in words."""
        if not self.has_stamps:
            return '; '.join(self.rejections())
        missing = [side for side in SIDES if side not in self._newest_ns]
        if missing:
            return f'there are no {" and no ".join(missing)} images'
        closest_s = (self._closest_ns or 0) * 1e-9
        if closest_s > APART_S:
            left_ns, right_ns = (self._newest_ns[side] for side in SIDES)
            return clock_offset_reason((left_ns - right_ns) * 1e-9)
        return why_no_pair(closest_s, sync_setting(self._tolerance_s))
