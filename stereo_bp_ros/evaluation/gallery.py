"""Frames to look at, chosen while they come: the worst ones and evenly spread ones."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stereo_bp_ros.evaluation import pictures
from stereo_bp_ros.images import RawImage

WORST, SPREAD = 8, 8
"""Frames that a gallery keeps: the worst ones, and evenly spread ones of the sequence."""


@dataclass(frozen=True)
class Shot:
    """One frame as a page shows it.

    place:   in the sequence, from 0.
    name:    of the frame.
    badness: larger = worse; the caption has it in words.
    panels:  (caption, ``pictures.data_uri``) side by side.
    aspect:  width of a panel over its height.
    """

    place: int
    name: str
    badness: float
    caption: str
    panels: tuple[tuple[str, str], ...]
    aspect: float


@dataclass
class Gallery:
    """Keeps at most ``worst + spread`` shots, however many frames are offered.

    frames: length of the sequence, over which ``spread`` places are spread evenly; a sequence
            that is no longer than what is kept is kept whole.

    The same frames give the same shots whatever their order; of equally bad ones the first wins.
    """

    frames: int
    worst: int = WORST
    spread: int = SPREAD
    _heap: list[tuple[float, int]] = field(default_factory=list)
    _shots: dict[int, Shot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = set(range(self.frames))
        if self.frames > self.worst + self.spread:
            self._places = {round(place) for place in
                            np.linspace(0, self.frames - 1, self.spread).tolist()}

    def offer(self, place: int, badness: float, draw: Callable[[], Shot]) -> None:
        """Show the gallery a frame; it calls ``draw`` only to keep it, maybe for a while."""
        dropped = None
        entry = (badness, -place)
        if self.worst and (len(self._heap) < self.worst or entry > self._heap[0]):
            if len(self._heap) == self.worst:
                dropped = -heapq.heapreplace(self._heap, entry)[1]
            else:
                heapq.heappush(self._heap, entry)
        elif place not in self._places:
            return
        self._shots[place] = draw()
        if dropped is not None and dropped not in self._places:
            del self._shots[dropped]

    def __add__(self, other: Gallery) -> Gallery:
        """Of the frames of both, parts of one sequence."""
        if not isinstance(other, Gallery):
            return NotImplemented
        both = Gallery(self.frames, self.worst, self.spread)
        for gallery in (self, other):
            for shot in gallery._shots.values():
                both.offer(shot.place, shot.badness, functools.partial(_same, shot))
        return both

    def shots(self) -> list[Shot]:
        """The frames kept, the worst first."""
        return sorted(self._shots.values(), key=lambda shot: (-shot.badness, shot.place))


def _same(shot: Shot) -> Shot:
    return shot


def panels(left: np.ndarray | RawImage, disparity: np.ndarray, valid: np.ndarray,
           truth: np.ndarray | None = None, confidence: np.ndarray | None = None, *,
           low: float = 0.0, high: float = 64.0) -> tuple[tuple[str, str], ...]:
    """Captions and embedded pictures of one frame: image, disparity, error, confidence.

    left:      mono8, mono16 or rgb8 H x W, or raw.
    disparity, valid, truth: as in ``pictures.disparity_picture`` and ``error_picture``; without
               truth there is no error.
    confidence: float H x W in [0, 1]; None: it is not shown.
    low, high: range of the colours, pixels.
    """
    image = pictures.displayable(left) if isinstance(left, RawImage) else left
    found = [('image', pictures.data_uri(pictures.grey_picture(image))),
             (f'disparity, {low:g} to {high:g} px', pictures.data_uri(
                 pictures.disparity_picture(disparity, valid, low, high), is_coded=True))]
    if truth is not None:
        found.append(('error', pictures.data_uri(
            pictures.error_picture(disparity, truth, valid), is_coded=True)))
    if confidence is not None:
        found.append(('confidence', pictures.data_uri(
            pictures.confidence_picture(confidence), is_coded=True)))
    return tuple(found)


def most_bytes(shots: int, panels_each: int = 4) -> int:
    """What so many shots take in a page at most, bytes."""
    return shots * panels_each * (4 * pictures.EMBEDDED_BYTES // 3 + 40)

