"""Follows how the images of a pair lie to each other: vertical offset, drift, exchanged images."""

from __future__ import annotations

import collections
import dataclasses
import threading

import numpy as np

from stereo_bp_ros import checks
from stereo_bp_ros.alignment import VerticalOffset, vertical_offset
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert, rectify
from stereo_bp_ros.errors import Doubt, ignored_keys
from stereo_bp_ros.geometry import rectified_size
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level
from stereo_bp_ros.rectification import SIDES, Rectification

#: Estimates whose median is reported. The first so many of an activation that lie within
#: ``STABLE`` pixels are what a drift is compared with.
ESTIMATES, STABLE = 5, 0.3

#: The key of what is wrong.
CONDITION = Doubt.VERTICAL_OFFSET.value

#: Pairs in a row whose images must seem to be exchanged before pairs are rejected.
EXCHANGED_PAIRS = 2


#: What an image is rectified with, as ``Rectification.maps`` returns it.
Maps = tuple[np.ndarray, np.ndarray]


def grey(side: str, image: RawImage, config: MatcherConfig, maps: Maps | None = None
         ) -> np.ndarray:
    """An image as the matcher sees it: float32 H x W, grey values 0..255; rectified by maps."""
    source = image.width, image.height
    width, height = rectified_size(config, *source)
    pixels = np.empty((height, width), np.float32)
    arrays = {name: np.empty(shape, dtype) for name, shape, dtype in (
        *scratch.convert(*source), *scratch.rectify(config, width, height, source))}
    if maps is None:
        convert.to_grey(image, pixels, config.mono16_scale, arrays)
    else:
        arrays[f'{side}_map'], arrays[f'{side}_map_parts'] = maps
        rectify.to_grey(image, side, pixels, config.mono16_scale, arrays)
    return pixels


class OffsetMonitor:
    """Follows the vertical offset of a node's pairs; for any number of threads.

    ``offer`` only keeps the images: ``measure`` takes some 20 ms, in another thread than frames.

    :param conditions: is told of an offset or a drift that is too large.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything: what is measured next is what a drift is compared with."""
        with self._lock:
            self._maps: tuple[Rectification, dict[str, Maps]] | None = None
            self._pair: tuple[RawImage, RawImage, MatcherConfig, Rectification | None] | None = (
                None)
            self._history = _History()
            self._exchanged: list[checks.Finding] = []
            self._exchanged_pairs = 0
            self._conditions.clear(CONDITION)

    def offer(self, left: RawImage, right: RawImage, config: MatcherConfig,
              rectification: Rectification | None = None) -> None:
        """Leave a pair to be measured; from here on nobody may write into its images.

        :param rectification: of raw images.
        """
        with self._lock:
            self._pair = left, right, config, rectification

    def measure(self, limit: float) -> None:
        """Measure the pair that was left last, if there is a new one.

        :param limit: rows; a larger offset or drift is a warning. 0 = measure no offset.
        """
        with self._lock:
            pair, self._pair = self._pair, None
            if not limit:
                self._history = _History()
                self._conditions.clear(CONDITION)
            history = self._history
        if pair is None:
            return
        left, right, config, rectification = pair
        maps = self._maps_of(rectification)
        greys = (grey('left', left, config, maps.get('left')),
                 grey('right', right, config, maps.get('right')))
        estimate = self._estimate(greys, config) if limit else None
        # Rows that can be told were told within the range.
        exchanged = checks.check_exchanged(*greys, config) if estimate is None else []
        texts = []
        if rectification is not None and limit and (
                estimate is None or estimate.largest > limit):
            texts = self._rectified_twice(left, right, config, limit)
        with self._lock:
            if self._history is not history:        # cleared in the meantime
                return
            self._exchanged, self._exchanged_pairs = exchanged, (
                self._exchanged_pairs + 1 if exchanged else 0)
            if limit:
                history.add(estimate)
            if CONDITION not in ignored_keys(config.ignored_checks):
                texts += history.warnings(limit)
            self._conditions.hold(CONDITION, Level.WARN, *texts)

    def _estimate(self, greys: tuple[np.ndarray, np.ndarray], config: MatcherConfig
                  ) -> VerticalOffset | None:
        return vertical_offset(*greys, config.min_disparity, config.max_disparity)

    def _rectified_twice(self, left: RawImage, right: RawImage, config: MatcherConfig,
                         limit: float) -> list[str]:
        as_they_come = config.replace(rectify=False, rectified_width=0, rectified_height=0)
        estimate = self._estimate((grey('left', left, as_they_come),
                                   grey('right', right, as_they_come)), as_they_come)
        return [str(one) for one in checks.believe(checks.check_rectified_once(
            estimate and estimate.largest, limit), config)]

    def rejections(self) -> list[checks.Finding]:
        """Why pairs have to be rejected by what was measured; empty where they need not."""
        with self._lock:
            return self._exchanged if self._exchanged_pairs >= EXCHANGED_PAIRS else []

    def _maps_of(self, rectification: Rectification | None) -> dict[str, Maps]:
        """By side; those of the latest rectification are kept, so that an estimate every second
        does not compute them every second."""
        if rectification is None:
            return {}
        with self._lock:
            known = self._maps
        if known is None or known[0] != rectification:
            known = rectification, {side: rectification.maps(side) for side in SIDES}
            with self._lock:
                self._maps = known
        return known[1]

    def report(self) -> dict[str, str]:
        """Keys and values for people; empty where nothing was measured."""
        with self._lock:
            return self._history.report()


class _History:
    """The last estimates, and what they are compared with."""

    def __init__(self) -> None:
        self._estimates: collections.deque[VerticalOffset | None] = collections.deque(
            maxlen=ESTIMATES)
        self._reference: VerticalOffset | None = None

    def add(self, estimate: VerticalOffset | None) -> None:
        self._estimates.append(estimate)
        known = self._known()
        if self._reference is None and len(known) == ESTIMATES and np.ptp(
                [one.offset for one in known]) <= STABLE:
            self._reference = self.median

    def _known(self) -> list[VerticalOffset]:
        return [estimate for estimate in self._estimates if estimate is not None]

    @property
    def median(self) -> VerticalOffset | None:
        """Of the last estimates, field by field; None where most of them are unknown."""
        known = self._known()
        if 2 * len(known) <= ESTIMATES:
            return None
        offset, tilt, spread, points = np.median([dataclasses.astuple(one) for one in known], 0)
        return VerticalOffset(float(offset), float(tilt), float(spread), int(points))

    @property
    def drift(self) -> VerticalOffset | None:
        """The change since the reference; None without one."""
        now, then = self.median, self._reference
        if now is None or then is None:
            return None
        return dataclasses.replace(now, offset=now.offset - then.offset, tilt=now.tilt - then.tilt)

    def warnings(self, limit: float) -> list[str]:
        now, drift = self.median, self.drift
        if now is None:
            return []
        found = []
        if now.largest > limit:
            found.append(
                f'the rows of the two images miss each other by up to {now.largest:.2f} px '
                f'(max_vertical_offset {limit:g}): the right image is {now.offset:.2f} px lower, '
                f'and {now.tilt:.2f} px more at its right edge than at its left; calibrate the '
                'cameras anew')
        if drift is not None and drift.largest > limit:
            found.append(f'the rows of the two images have moved by up to {drift.largest:.2f} px '
                         'since activation: has a camera moved in its mounting?')
        return found

    def report(self) -> dict[str, str]:
        if not self._estimates:
            return {}
        now, drift = self.median, self.drift
        if now is None:
            return {'vertical offset px': 'unknown'}
        values = {'vertical offset px': f'{now.offset:.2f}', 'vertical tilt px': f'{now.tilt:.2f}',
                  'vertical spread px': f'{now.spread:.2f}', 'vertical points': str(now.points)}
        if drift is not None:
            values |= {'vertical offset drift px': f'{drift.offset:.2f}',
                       'vertical tilt drift px': f'{drift.tilt:.2f}'}
        return values
