"""Which images are a pair, by their stamps, and why none are: one rule for topics and files."""

from __future__ import annotations

from collections.abc import Collection

#: Seconds between the stamps of the two sides that no tolerance is meant for.
APART_S = 1.0


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


def why_apart(left_ahead_s: float) -> str:
    """The sentence for sides whose stamps are further apart than ``APART_S``."""
    behind, ahead = ('left', 'right') if left_ahead_s < 0 else ('right', 'left')
    return (f'the stamps of {behind} images are {abs(left_ahead_s):.3f} s behind those of '
            f'{ahead} ones: is one clock wrong, or one camera late?')
