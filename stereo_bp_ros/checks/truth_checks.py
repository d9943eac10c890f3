"""Whether a truth is what it is taken for: its values are compared with the images.

By true disparities the pixels of the right image are those of the left one. Where they are so by
other disparities that the same values may mean, these are probably meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.checks import frame_checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, IssueCode

#: Issues of images that a truth may fit badly.
MISALIGNED = {IssueCode.VERTICAL_OFFSET, IssueCode.RECTIFIED}

#: Part of a truth that may lie beyond the range: errors of its own.
TRUTH_TOLERANCE = 0.005

#: Part of the pixels that have a truth at least: a scanner of 16 rings has three times as many.
MIN_KNOWN = 0.004

#: Pixels that are looked at, and how many there must be.
SAMPLES, MIN_SAMPLES = 2000, 200

#: Window whose mean is subtracted from a pixel, pixels; difference of the neighbours of one that
#: shows a shift, and maximum error that counts, in standard deviations of what remains.
WINDOW, MIN_GRADIENT, MAX_ERROR = 9, 0.7, 2.0

#: Fits of another reading that make it the right one: by itself, and above that of the unchanged
#: values. True ones have 0.27 to 0.7 in real pictures, and 0.2 less if they are 9 % larger.
MIN_FIT, MIN_LEAD = 0.2, 0.12

#: Fit of true disparities below which they have nothing to do with the images.
NO_FIT = 0.06

#: Factor from which a truth has another scale, the maximum, and the ratio of two that are
#: tried.
MIN_FACTOR, MAX_FACTOR, FACTOR_STEP = 1.09, 1100.0, 1.03

#: Factors that people use: of levels a pixel, sizes of images, units.
FACTORS = (1.28, 2, 2.56, 3, 4, 8, 10, 16, 25.6, 32, 64, 100, 128, 256, 1000)

#: Part of the known pixels that may be 0 by chance.
MAX_ZERO = 0.05


class TruthScale(NamedTuple):
    """What the numbers of a truth are.

    numbers:  per pixel of disparity, or per metre of depth; below 0 of the other sign.
    is_depth: whether they are depths.
    """

    numbers: float = 256.0
    is_depth: bool = False

    def by(self, factor: float) -> float:
        """What they would be if the disparities were so many times as large."""
        return self.numbers * factor if self.is_depth else self.numbers / factor


def examine_truth(left: RawImage, right: RawImage, truth: np.ndarray, config: MatcherConfig,
                  issues: Iterable[Issue] = (), scale: TruthScale | None = None
                  ) -> list[Issue]:
    """All that a truth shows beside its rectified images, one cause at a time; some 100 ms.

    :param truth: as of ``check_range``.
    :param issues: of the pair; they may explain why nothing fits.
    :param scale: by which it was read.
    """
    found, codes = [], {one.code for one in issues}
    if not codes & frame_checks.CAUSES:
        found = check_values(to_8_bits(left, config.mono16_scale),
                             to_8_bits(right, config.mono16_scale), truth,
                             scale or TruthScale(), must_fit=not codes & MISALIGNED)
    return found or check_range(truth, config)


def check_range(truth: np.ndarray, config: MatcherConfig) -> list[Issue]:
    """The searched range holds the truth.

    :param truth: float32 H x W, unshifted disparities, pixels; not finite
        where unknown.
    """
    known = truth[np.isfinite(truth)]
    if not known.size:
        return []
    low, high = config.min_disparity - 0.5, config.max_disparity + 0.5
    beyond = np.count_nonzero((known < low) | (known > high)) / known.size
    if beyond <= TRUTH_TOLERANCE:
        return []
    first = min(config.min_disparity, math.floor(float(known.min())))
    count = max(config.max_disparity, math.ceil(float(known.max()))) - first + 1
    text = (f'{100 * beyond:.1f} % of the true disparities lie beyond the searched range of '
            f'{config.min_disparity} to {config.max_disparity} px: they count as errors. ')
    try:
        config.replace(min_disparity=first, disparity_range=count)
    except ConfigError:
        return [IssueCode.TRUTH.issue(
            f'{text}They reach from {known.min():.3g} to {known.max():.3g} px, further than any '
            'range: are they disparities, in pixels?', beyond)]
    settings = f'disparity_range={count}'
    if first < config.min_disparity:
        settings = f'min_disparity={first} and {settings}'
    return [IssueCode.TRUTH.issue(
        f'{text}{settings} holds all (evaluate: --range-from-truth)', beyond)]


def check_values(left: np.ndarray, right: np.ndarray, truth: np.ndarray,
                 scale: TruthScale, *, must_fit: bool = True) -> list[Issue]:
    """The values of a truth are disparities of these images, in pixels, and enough.

    :param left, right: uint8 H x W, grey values of rectified images.
    :param truth, scale: as of ``examine_truth``.
    :param must_fit: whether a truth that fits by no reading is an issue.
    """
    known = np.isfinite(truth)
    part = np.count_nonzero(known) / max(1, truth.size)
    if not part:
        return []
    few = [IssueCode.TRUTH_VALUES.issue(
        f'only {100 * part:.2g} % of the pixels have a truth: scores say little')
    ] if part < MIN_KNOWN else []
    if truth.shape != left.shape or min(truth.shape) < WINDOW:
        return few
    if not np.any(truth[known]):
        return [IssueCode.TRUTH_VALUES.issue(
            f'the truth is 0 in all of its known pixels ({100 * part:.2g} %): are the others '
            'taken for unknown, as those below min_disparity of a DisparityImage are?')]
    images = _Images(left, right)
    places = images.places(known & (truth != 0))
    if len(places) < MIN_SAMPLES:
        return few
    values = truth.reshape(-1)[places].astype(np.float64)
    fit = images.fit(places, values)
    meant = _meant(images, places, truth, values, fit, scale)
    if meant:
        return [IssueCode.TRUTH_VALUES.issue(f'the true disparities fit the images far better '
                                             f'{meant}')]
    if must_fit and fit < NO_FIT:
        return [IssueCode.TRUTH_VALUES.issue(
            'the right image, warped by the true disparities, is no more like the left one than '
            'by chance: are they of this pair, and disparities in pixels?')]
    return _zeros(images, truth, known, fit) or few


def _meant(images: _Images, places: np.ndarray, truth: np.ndarray, values: np.ndarray, fit: float,
           scale: TruthScale) -> str:
    """Which other reading of the values fits far better; '' = none."""
    grid = FACTOR_STEP ** np.arange(1, int(math.log(MAX_FACTOR, FACTOR_STEP)) + 1)
    grid = np.concatenate([1 / grid[::-1], [1.0], grid])
    found: list[tuple[float, str]] = []
    for name, read in (('', values), ('with the other sign', -values)):
        best = max(grid, key=lambda one: images.fit(places[::4], read[::4] * one))
        finer = best * np.linspace(1 / FACTOR_STEP, FACTOR_STEP, 15)
        factor = _usual(max(finer, key=lambda one: images.fit(places, read * one)))
        if max(factor, 1 / factor) < MIN_FACTOR:
            factor = 1.0
        if name or factor != 1:
            found.append((images.fit(places, read * factor),
                          _scaled(name, factor, scale, -1 if name else 1)))
    spread = float(np.median(np.abs(values)))
    depths = spread * np.geomspace(0.5, images.width / 2, 150)
    depth = max(depths, key=lambda one: images.fit(places[::4], one / values[::4]))
    found.append((images.fit(places, depth / values),
                  'as depths, and a disparity is focal length x baseline / depth'))
    for turned, text in ((truth[::-1], 'upside down: PFM has its bottom row first'),
                         (truth[:, ::-1], 'with left and right exchanged'),
                         (_exchanged_bytes(truth), 'with the bytes of each value exchanged (PFM: '
                          'a scale below 0 is little-endian)'),
                         (_levels(truth, scale).byteswap() / scale.numbers,
                          'with the two bytes of each grey level exchanged'),
                         (_levels(truth, scale).view(np.float16).astype(np.float64),
                          'as half floats in 16 bits, not grey levels')):
        there = images.places(np.isfinite(turned) & (turned != 0))
        if len(there) >= MIN_SAMPLES:
            found.append((images.fit(there, turned.reshape(-1)[there]), text))
    best_fit, text = max(found)
    return text if best_fit > max(MIN_FIT, fit + MIN_LEAD) else ''


def _exchanged_bytes(truth: np.ndarray) -> np.ndarray:
    with np.errstate(all='ignore'):
        return np.asarray(truth.astype(np.float32).byteswap().astype(np.float64))


def _levels(truth: np.ndarray, scale: TruthScale) -> np.ndarray:
    """uint16 H x W, of a truth from an image; 0 where it cannot be of one."""
    with np.errstate(all='ignore'):
        levels = np.rint(truth * scale.numbers)
        return np.where((levels > 0) & (levels < 65536), levels, 0).astype(np.uint16)


def _usual(factor: float) -> float:
    """The factor that people use where it is one, within 2 %."""
    for one in FACTORS:
        for usual in (one, 1 / one):
            if abs(factor / usual - 1) < 0.02:
                return usual
    return float(f'{factor:.2g}')


def _scaled(name: str, factor: float, scale: TruthScale, sign: int) -> str:
    """A reading in words, and the option that reads the truth so."""
    texts = [name] if name else []
    if factor != 1:
        texts.append(f'multiplied by {factor:.4g}' if factor > 1 else
                     f'divided by {1 / factor:.4g}')
    numbers = sign * scale.by(factor)
    unit = 'metre of depth' if scale.is_depth else 'pixel of disparity'
    text = f'{" and ".join(texts)} (they were taken to be {scale.numbers:.4g} per {unit})'
    return text + (f': --truth-scale {numbers:.4g}' if 1e-3 <= abs(numbers) <= 65535 else '')


def _zeros(images: _Images, truth: np.ndarray, known: np.ndarray, fit: float) -> list[Issue]:
    """Whether 0 seems to mean unknown."""
    part = np.count_nonzero(known & (truth == 0)) / np.count_nonzero(known)
    places = images.places(known & (truth == 0))
    if part < MAX_ZERO or len(places) < MIN_SAMPLES or fit < MIN_FIT or (
            2 * images.fit(places, np.zeros(len(places))) > fit):
        return []
    return [IssueCode.TRUTH_VALUES.issue(
        f'{100 * part:.0f} % of the known true disparities are 0, where the images do not fit: '
        'does 0 mean unknown? Write inf or NaN there (16-bit PNG: 0)', part)]


class _Images:
    """A pair without what differs by exposure: each pixel less the mean around it."""

    def __init__(self, left: np.ndarray, right: np.ndarray) -> None:
        self._left, self._right = map(_detail, (left, right))
        self.height, self.width = left.shape
        gradient = np.zeros_like(self._left)
        gradient[:, 1:-1] = np.abs(self._left[:, 2:] - self._left[:, :-2])
        self._textured = gradient > MIN_GRADIENT
        apart = np.minimum(np.abs(self._left - np.roll(self._right, self.width // 3, 1)),
                           MAX_ERROR)
        #: Mean error of partners by chance.
        self._by_chance = float(apart[self._textured].mean()) if self._textured.any() else 1.0

    def places(self, mask: np.ndarray) -> np.ndarray:
        """Indices of some textured pixels of a mask."""
        found = np.flatnonzero(mask & self._textured)
        return found[::max(1, len(found) // SAMPLES)]

    def fit(self, places: np.ndarray, disparities: np.ndarray) -> float:
        """How well partners fit: 1 perfectly, 0 as by chance, as those beyond the image do.

        :param disparities: float64, of the places, pixels.
        """
        columns = places % self.width
        with np.errstate(all='ignore'):
            partners = columns - disparities
            seen = (partners >= 0) & (partners <= self.width - 1)
        partners = np.where(seen, partners, 0)
        whole = np.minimum(partners.astype(np.int64), self.width - 2)
        first = places - columns + whole
        right, share = self._right.reshape(-1), partners - whole
        errors = np.minimum(np.abs(self._left.reshape(-1)[places] - right[first] * (1 - share)
                                   - right[first + 1] * share), MAX_ERROR)
        return 1 - float(np.where(seen, errors, self._by_chance).mean()) / self._by_chance


def _detail(grey: np.ndarray) -> np.ndarray:
    """float32 H x W, of standard deviation 1."""
    values = grey.astype(np.float32)
    detail = values - cv2.blur(values, (WINDOW, WINDOW))
    return np.asarray(detail / (float(detail.std()) + 1e-3))
