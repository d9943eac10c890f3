"""Finds the pairs among recorded images by the node's rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.stamps import APART_S, find_partner, sync_setting, why_apart, why_no_pair

SIDES = ('left', 'right')


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

    :param tolerance_s: most seconds between the stamps of a pair; 0 = they have to be equal.
    """

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._waiting: dict[str, dict[int, Image]] = {side: {} for side in SIDES}
        self._newest_ns: dict[str, int] = {}
        self._closest_ns: int | None = None

    def add(self, image: Image) -> tuple[Image, Image] | None:
        """Take an image in; returns left and right where it has a partner."""
        self._newest_ns[image.side] = max(image.stamp_ns, self._newest_ns.get(image.side, 0))
        others = self._waiting[SIDES[image.side == SIDES[0]]]
        partner_ns, away_ns = find_partner(others, image.stamp_ns, self._tolerance_s)
        if partner_ns is not None:
            pair = image, others.pop(partner_ns)
            return pair if image.side == SIDES[0] else pair[::-1]
        if away_ns >= 0:
            self._closest_ns = min(away_ns, self._closest_ns or away_ns)
        self._waiting[image.side][image.stamp_ns] = image
        return None

    def drop(self, most: int) -> Iterator[Image]:
        """Images of the oldest stamps, until no more than ``most`` wait."""
        while sum(map(len, self._waiting.values())) > most:
            oldest, side = min((min(own), side) for side, own in self._waiting.items() if own)
            yield self._waiting[side].pop(oldest)

    def why_none(self) -> str:
        """Why no two images are a pair, in words."""
        missing = [side for side in SIDES if side not in self._newest_ns]
        if missing:
            return f'there are no {" and no ".join(missing)} images'
        closest_s = (self._closest_ns or 0) * 1e-9
        if closest_s > APART_S:
            left_ns, right_ns = (self._newest_ns[side] for side in SIDES)
            return why_apart((left_ns - right_ns) * 1e-9)
        return why_no_pair(closest_s, sync_setting(self._tolerance_s))
