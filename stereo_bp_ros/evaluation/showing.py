"""What a page shows of frames beyond figures: some frames, and where in the image errors are.

Its memory does not grow with the length of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stereo_bp_ros.evaluation import pictures, report
from stereo_bp_ros.evaluation.error_map import ErrorMap, bad_pixels
from stereo_bp_ros.evaluation.gallery import SPREAD, WORST, Gallery, Shot, panels
from stereo_bp_ros.evaluation.runs import Evaluation, Matched
from stereo_bp_ros.images import RawImage

BAD_PIXELS = 3.0
"""Error above which a pixel counts as wrong, pixels of disparity."""

MAPS = 4
"""Sizes of images that get a map of errors; those of the most frames."""


@dataclass(frozen=True)
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


def view_of(matched: Matched) -> View:
    """Of a pair that was judged."""
    frame = matched.frame
    assert frame.disparity is not None
    return View(matched.result.name, matched.pair.left, frame.disparity, frame.valid,
                matched.pair.truth, frame.min_disparity, frame.max_disparity)


@dataclass
class Showing:
    """Collects what a page shows of a sequence.

    frames: its length.
    errors: of frames with truth: pixels that are wrong by more than ``BAD_PIXELS`` or have no
            disparity, of those with truth.
    holes:  of frames without: pixels without a disparity.
    """

    frames: int
    gallery: Gallery = field(init=False)
    errors: ErrorMap = field(default_factory=ErrorMap)
    holes: ErrorMap = field(default_factory=ErrorMap)

    def __post_init__(self) -> None:
        self.gallery = Gallery(self.frames)

    def add(self, place: int, view: View,
            confidence: Callable[[], np.ndarray | None] = lambda: None) -> None:
        """Take one frame in.

        place:      in the sequence, from 0.
        confidence: float H x W in [0, 1], asked for only where it is shown.
        """
        truth = view.truth
        if truth is not None and not np.isfinite(truth).any():
            truth = None
        bad, looked_at = bad_pixels(view.disparity, view.valid, truth, BAD_PIXELS)
        (self.holes if truth is None else self.errors).add(bad, looked_at)
        rate = 100.0 * int(np.count_nonzero(bad)) / max(1, int(np.count_nonzero(looked_at)))
        what = ('without a disparity' if truth is None else
                f'wrong by more than {BAD_PIXELS:g} px or without a disparity')

        def draw() -> Shot:
            height, width = view.disparity.shape
            return Shot(place, view.name, badness,
                        f'frame {place + 1}, {rate:.2f} % {what}',
                        panels(view.left, view.disparity, view.valid, truth, confidence(),
                               low=view.low, high=view.high), width / height)

        # An error is worse than a hole: frames with truth come first.
        badness = rate if truth is not None else rate - 100.0
        self.gallery.offer(place, badness, draw)

    def collect(self, place: int, evaluation: Evaluation, matched: Matched) -> None:
        """Take in what an evaluation has judged last, as ``add``."""
        self.add(place, view_of(matched), lambda: evaluation.confidence(matched))

    def __add__(self, other: Showing) -> Showing:
        """Of the frames of both, parts of one sequence."""
        if not isinstance(other, Showing):
            return NotImplemented
        both = Showing(self.frames, self.errors + other.errors, self.holes + other.holes)
        both.gallery = self.gallery + other.gallery
        return both

    def chosen(self) -> str:
        """Which frames are shown, in words."""
        count = len(self.gallery.shots())
        return ('Every frame.' if count >= self.frames else
                f'{count} of {self.frames} frames: the {WORST} worst, and {SPREAD} evenly spread '
                'over the sequence.')

    def viewer(self, name: str) -> list[report.Part]:
        """The slider over the frames that are shown, for a page with no other of this name."""
        shots = self.gallery.shots()
        return [report.Viewer(name, shots)] if shots else []

    def maps(self) -> list[report.Part]:
        """A picture of where errors are for each of the usual sizes of images; without any truth
        of where disparities are missing."""
        errors, what = self.holes, 'Pixels without a disparity'
        if self.errors.sizes:
            errors, what = self.errors, (f'Pixels wrong by more than {BAD_PIXELS:g} px or without '
                                         'a disparity, of those with truth')
        found: list[report.Part] = []
        for (width, height), sums in list(errors.by_frames().items())[:MAPS]:
            rate = sums.rate()
            # Blocks with few known pixels would leave the others without colours.
            high = max(1.0, float(np.nanpercentile(rate, 99)))
            found.append(report.Picture(
                pictures.data_uri(pictures.rate_picture(rate, high), is_coded=True),
                f'{what}. Blocks of {sums.block} x {sums.block} pixels; frames: {sums.frames}.',
                f'Images of {width} x {height} pixels',
                [report.Scale('% of pixels', pictures.scale_colours('rate'),
                              ('0', f'{high:.3g}' + (' or more' if high < 100 else '')),
                              [(pictures.hex_colour(pictures.UNKNOWN), 'nothing known')])],
                is_blocks=True))
        return found
