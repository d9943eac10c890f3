"""What a page shows of frames beyond figures: some frames, and where in the image errors are.

Its memory does not grow with the length of a sequence. The order of frames makes no difference.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation import plots, report
from stereo_bp_ros.evaluation.runs import Evaluation, Map, Matched
from stereo_bp_ros.images import pictures
from stereo_bp_ros.images.raw_images import RawImage

#: Error above which a pixel counts as wrong, pixels of disparity.
BAD_PIXELS = 3.0

#: Frames that are shown: the worst ones, and evenly spread ones of the sequence.
WORST, SPREAD = 8, 8

#: Sizes of images that get a map of errors; those of the most frames.
MAPS = 4

#: Blocks of a map along the longer side of an image, and pixels of the smallest one's side.
MAX_BLOCKS, MIN_BLOCK = 96, 4

#: Values along the longer side of an image that a pointer finds, and pixels between two.
MAX_VALUES, FINEST_STEP = 400, 1 / 256


@dataclasses.dataclass(frozen=True)
class View:
    """One frame as matchers did it.

    left:        mono8, mono16 or rgb8 H x W, or raw.
    maps:        by the names of the matchers, unshifted.
    truth:       H x W, pixels, not finite = unknown; None: there is none.
    low, high:   range of the disparities, pixels.
    calibration: None: distances are not known.
    """

    name: str
    left: np.ndarray | RawImage
    maps: Mapping[str, Map]
    truth: np.ndarray | None
    low: float
    high: float
    calibration: Calibration | None = None


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


#: By the matcher, and width and height of frames, pixels.
Sizes = dict[tuple[str, int, int], BlockSums]


@dataclasses.dataclass
class Showing:
    """Collects what a page shows of a sequence.

    frames: its length.
    shots:  the frames that are shown by their places; how bad one is says the first matcher.
    errors: of frames with truth: pixels that are wrong by more than ``BAD_PIXELS`` or have no
            disparity, of those with truth.
    holes:  of frames without: pixels without a disparity.
    """

    frames: int
    shots: dict[int, report.Shot] = dataclasses.field(default_factory=dict)
    errors: Sizes = dataclasses.field(default_factory=dict)
    holes: Sizes = dataclasses.field(default_factory=dict)

    def add(self, place: int, view: View,
            confidence: Callable[[], Mapping[str, np.ndarray]] = dict) -> None:
        """Take one frame in.

        place:      in the sequence, from 0.
        confidence: float H x W in [0, 1] of the matchers that have one; asked for only where it
                    is shown.
        """
        has_truth = view.truth is not None and bool(np.isfinite(view.truth).any())
        if not has_truth:
            view = dataclasses.replace(view, truth=None)
        sizes = self.errors if has_truth else self.holes
        rates = {}
        for name, (disparity, valid) in view.maps.items():
            bad, looked_at = bad_pixels(disparity, valid, view.truth)
            height, width = bad.shape
            block = max(MIN_BLOCK, math.ceil(max(height, width) / MAX_BLOCKS))
            sizes[name, width, height] = BlockSums(block, 1, _block_sums(bad, block), _block_sums(
                looked_at, block)).plus(sizes.get((name, width, height)))
            rates[name] = 100.0 * int(np.count_nonzero(bad)) / max(
                1, int(np.count_nonzero(looked_at)))
        rate = next(iter(rates.values()))
        # An error is worse than a hole: frames with truth come first.
        shot = report.Shot(rate if has_truth else rate - 100.0, place, view.name, (
            f'frame {place + 1}, '
            + ', '.join(f'{name} {rate:.2f} %' for name, rate in rates.items())
            + (f' wrong by more than {BAD_PIXELS:g} px or' if has_truth else '')
            + ' without a disparity'))
        self.shots[place] = shot
        self._drop_shots()
        if place in self.shots:
            known = confidence()
            picture, boxes = pictures.comparison(view.left, view.maps, view.truth, view.low,
                                                 view.high, known)
            uri = pictures.data_uri(picture)
            self.shots[place] = shot._replace(uri=uri, values=_values(view, known, boxes,
                                                                      len(uri)))

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
        pair = matched.pair
        self.add(place, View(matched.result.name, pair.left, matched.maps, pair.truth,
                             *matched.searched, matched.calibration),
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
        frames = {key[1:]: sums.frames for key, sums in sizes.items() if sums.looked_at.any()}
        parts: list[report.Part] = []
        for size in sorted(frames, key=lambda one: (-frames[one], one))[:MAPS]:
            found = {key[0]: sums for key, sums in sizes.items() if key[1:] == size}
            # Blocks with few known pixels would leave the others without colours.
            high = max(float(np.nanpercentile(sums.rate, 99)) for sums in found.values())
            parts += [report.Image(
                f'Images of {size[0]} x {size[1]} pixels, {name}', plots.data_uri(plots.rate_map(
                    sums.rate, sums.block, high)),
                f'{what}. Blocks of {sums.block} x {sums.block} pixels; frames: {sums.frames}.')
                for name, sums in found.items()]
        return parts


def _values(view: View, confidence: Mapping[str, np.ndarray],
            boxes: Sequence[tuple[float, float, float, float]], limit: int) -> report.Values:
    """What a pointer finds, as text of at most ``limit`` characters unless that is too short.

    A block has the values of the pixel in its middle or, where that has no truth, of one that has.
    """
    maps = {name: np.where(valid, disparity, np.nan).astype(np.float64)
            for name, (disparity, valid) in view.maps.items()}
    height, width = next(iter(maps.values())).shape
    if view.truth is not None:
        maps['ground truth'] = view.truth.astype(np.float64)
    known = np.concatenate([one[np.isfinite(one)] for one in maps.values()])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    step = max(FINEST_STEP, (high - low) / 65534)
    for block in itertools.count(math.ceil(max(width, height) / MAX_VALUES)):
        pixels = _middles(view.truth, (height, width), block)
        levels = []
        for name, one in maps.items():
            chosen = one[pixels]
            level = np.where(np.isfinite(chosen), np.rint((chosen - low) / step) + 1, 0)
            trust = 255 * confidence[name][pixels] if name in confidence else 0 * level
            levels.append(np.stack((np.rint(trust), level % 256, level // 256), axis=2))
        png = cv2.imencode('.png', np.concatenate(levels).astype(np.uint8))[1]
        uri = 'data:image/png;base64,' + base64.b64encode(png.tobytes()).decode()
        if len(uri) <= limit or block >= max(width, height):
            break
    calibration = view.calibration
    return report.Values(
        uri, tuple(maps), boxes, (width, height), block, low, step,
        calibration.focal_px * calibration.baseline_m if calibration else 0.0,
        calibration.shift if calibration else 0.0)


def _middles(truth: np.ndarray | None, shape: tuple[int, int], block: int
             ) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels that stand for blocks, as ``_values`` chooses them."""
    height, width = shape
    tops, lefts = np.meshgrid(np.arange(0, height, block), np.arange(0, width, block),
                              indexing='ij')
    rows, columns = (np.minimum(starts + block // 2, side - 1)
                     for starts, side in ((tops, height), (lefts, width)))
    if truth is None:
        return rows, columns
    for down, right in itertools.product(range(block), repeat=2):
        row, column = np.minimum(tops + down, height - 1), np.minimum(lefts + right, width - 1)
        better = np.isfinite(truth[row, column]) & ~np.isfinite(truth[rows, columns])
        rows, columns = np.where(better, row, rows), np.where(better, column, columns)
    return rows, columns


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
