"""What a page shows of frames beyond figures: some frames, and where in the image errors are.

Its memory does not grow with the length of a sequence. The order of frames makes no difference.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stereo_bp_ros import pictures
from stereo_bp_ros.evaluation import plots, report
from stereo_bp_ros.evaluation.runs import Evaluation, Matched
from stereo_bp_ros.images import RawImage

BAD_PIXELS = 3.0
"""Error above which a pixel counts as wrong, pixels of disparity."""

WORST, SPREAD = 8, 8
"""Frames that are shown: the worst ones, and evenly spread ones of the sequence."""

MAPS = 4
"""Sizes of images that get a map of errors; those of the most frames."""

MAX_BLOCKS, MIN_BLOCK = 96, 4
"""Blocks of a map along the longer side of an image, and pixels of the smallest one's side."""


@dataclasses.dataclass(frozen=True)
class View:
    """One frame with its disparity.

    left:      mono8, mono16 or rgb8 H x W, or raw.
    disparity: float H x W, pixels; valid: bool H x W.
    truth:     H x W, pixels, not finite = unknown; None: there is none.
    low, high: range of the disparities, pixels.
    """

    name: str
    left: np.ndarray | RawImage
    disparity: np.ndarray
    valid: np.ndarray
    truth: np.ndarray | None
    low: float
    high: float


class BlockSums(NamedTuple):
    """Sums over frames of one size: bad pixels and those looked at, int64, by blocks of pixels."""

    block: int
    frames: int
    bad: np.ndarray
    looked_at: np.ndarray

    def plus(self, other: BlockSums | None) -> BlockSums:
        """Of the frames of both."""
        return self if other is None else BlockSums(
            self.block, self.frames + other.frames, self.bad + other.bad,
            self.looked_at + other.looked_at)

    @property
    def rate(self) -> np.ndarray:
        """Per cent of the pixels looked at that are bad; NaN where there are none."""
        rate = np.full(self.bad.shape, np.nan)
        np.divide(100.0 * self.bad, self.looked_at, out=rate, where=self.looked_at > 0)
        return rate


Sizes = dict[tuple[int, int], BlockSums]
"""By width and height of frames, pixels."""


@dataclasses.dataclass
class Showing:
    """Collects what a page shows of a sequence.

    frames: its length.
    shots:  the frames that are shown by their places.
    errors: of frames with truth: pixels that are wrong by more than ``BAD_PIXELS`` or have no
            disparity, of those with truth.
    holes:  of frames without: pixels without a disparity.
    """

    frames: int
    shots: dict[int, report.Shot] = dataclasses.field(default_factory=dict)
    errors: Sizes = dataclasses.field(default_factory=dict)
    holes: Sizes = dataclasses.field(default_factory=dict)

    def add(self, place: int, view: View,
            confidence: Callable[[], np.ndarray | None] = lambda: None) -> None:
        """Take one frame in.

        place:      in the sequence, from 0.
        confidence: float H x W in [0, 1], asked for only where it is shown.
        """
        truth = view.truth
        if truth is not None and not np.isfinite(truth).any():
            truth = None
        bad, looked_at = bad_pixels(view.disparity, view.valid, truth)
        height, width = bad.shape
        block = max(MIN_BLOCK, math.ceil(max(height, width) / MAX_BLOCKS))
        sizes = self.holes if truth is None else self.errors
        sizes[width, height] = BlockSums(block, 1, _block_sums(bad, block), _block_sums(
            looked_at, block)).plus(sizes.get((width, height)))
        rate = 100.0 * int(np.count_nonzero(bad)) / max(1, int(np.count_nonzero(looked_at)))
        # An error is worse than a hole: frames with truth come first.
        shot = report.Shot(rate if truth is not None else rate - 100.0, place, view.name,
                    f'frame {place + 1}, {rate:.2f} % ' + (
                        'without a disparity' if truth is None else
                        f'wrong by more than {BAD_PIXELS:g} px or without a disparity'), '')
        self.shots[place] = shot
        self._drop_shots()
        if place in self.shots:
            self.shots[place] = shot._replace(uri=pictures.data_uri(pictures.comparison(
                view.left, view.disparity, view.valid, truth, view.low, view.high, columns=2,
                confidence=confidence())))

    def _drop_shots(self) -> None:
        if self.frames <= WORST + SPREAD:
            return
        kept = {round(place) for place in np.linspace(0, self.frames - 1, SPREAD).tolist()}
        kept |= {shot.place for shot in self.worst_first()[:WORST]}
        self.shots = {place: shot for place, shot in self.shots.items() if place in kept}

    def worst_first(self) -> list[report.Shot]:
        """The frames that are shown; of equally bad ones the first is the worst."""
        return sorted(self.shots.values(), key=lambda shot: (-shot.badness, shot.place))

    def collect(self, place: int, evaluation: Evaluation, matched: Matched) -> None:
        """Take in what an evaluation has judged last, as ``add``."""
        frame = matched.frame
        assert frame.disparity is not None
        self.add(place, View(matched.result.name, matched.pair.left, frame.disparity, frame.valid,
                             matched.pair.truth, frame.min_disparity, frame.max_disparity),
                 lambda: evaluation.confidence(matched))

    def __add__(self, other: Showing) -> Showing:
        """Of the frames of both, parts of one sequence."""
        both = Showing(self.frames, self.shots | other.shots, dict(self.errors), dict(self.holes))
        for mine, theirs in ((both.errors, other.errors), (both.holes, other.holes)):
            for size, sums in theirs.items():
                mine[size] = sums.plus(mine.get(size))
        both._drop_shots()
        return both

    def chosen(self) -> str:
        """Which frames are shown, in words."""
        count = len(self.shots)
        return ('Every frame.' if count >= self.frames else
                f'{count} of {self.frames} frames: the {WORST} worst, and {SPREAD} evenly spread '
                'over the sequence.')

    def viewer(self, name: str) -> list[report.Part]:
        """The slider over the frames that are shown, for a page with no other of this name."""
        return [report.Viewer(name, self.worst_first())] if self.shots else []

    def maps(self) -> list[report.Part]:
        """Where errors are for each of the usual sizes of images; without any truth where
        disparities are missing."""
        sizes, what = self.holes, 'Pixels without a disparity'
        if self.errors:
            sizes, what = self.errors, (f'Pixels wrong by more than {BAD_PIXELS:g} px or without '
                                        'a disparity, of those with truth')
        known = [(size, sums) for size, sums in sizes.items() if sums.looked_at.any()]
        known.sort(key=lambda one: (-one[1].frames, one[0]))
        return [report.Image(
            f'Images of {width} x {height} pixels', plots.data_uri(plots.rate_map(
                sums.rate, sums.block)),
            f'{what}. Blocks of {sums.block} x {sums.block} pixels; frames: {sums.frames}.')
            for (width, height), sums in known[:MAPS]]


def _block_sums(mask: np.ndarray, block: int) -> np.ndarray:
    rows, columns = (np.arange(0, length, block) for length in mask.shape)
    across = np.add.reduceat(mask, columns, axis=1, dtype=np.int64)
    return np.asarray(np.add.reduceat(across, rows, axis=0))


def bad_pixels(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray | None
               ) -> tuple[np.ndarray, np.ndarray]:
    """Bad pixels and those looked at, bool H x W.

    Looked at are the pixels with truth; bad are those wrong by more than ``BAD_PIXELS`` and those
    without a disparity. Without truth all pixels are looked at, and the holes are bad.

    disparity: H x W, pixels; valid: bool H x W.
    truth:     H x W, pixels, not finite = unknown; None: there is none.
    """
    estimated = valid.astype(bool) & np.isfinite(disparity)
    if truth is None:
        return ~estimated, np.ones(disparity.shape, bool)
    known = np.isfinite(truth)
    both = estimated & known
    error = np.abs(np.where(both, disparity, 0.0) - np.where(both, truth, 0.0))
    return known & (~estimated | (error > BAD_PIXELS)), known
