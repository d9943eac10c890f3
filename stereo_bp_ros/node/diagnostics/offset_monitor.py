"""Follows the vertical offset of a pair: its last estimates, its drift, and a warning."""

from __future__ import annotations

import collections
import dataclasses
import threading

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert, rectify
from stereo_bp_ros.geometry import rectified_size
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level
from stereo_bp_ros.node.diagnostics.vertical_offset import VerticalOffset, vertical_offset
from stereo_bp_ros.rectification import SIDES, Rectification

#: Estimates whose median is reported. The first so many of an activation that lie within
#: ``STABLE`` pixels are what a drift is compared with.
ESTIMATES, STABLE = 5, 0.3

#: The key of what is wrong.
CONDITION = 'vertical offset'


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

        :param limit: rows; a larger offset or drift is a warning. 0 = measure nothing.
        """
        if not limit:
            self.clear()
            return
        with self._lock:
            pair, self._pair = self._pair, None
            history = self._history
        if pair is None:
            return
        left, right, config, rectification = pair
        maps = self._maps_of(rectification)
        estimate = vertical_offset(
            grey('left', left, config, maps.get('left')),
            grey('right', right, config, maps.get('right')),
            config.min_disparity, config.min_disparity + config.disparity_range - 1)
        with self._lock:
            if self._history is history:        # not cleared in the meantime
                history.add(estimate)
                self._conditions.hold(CONDITION, Level.WARN, *history.warnings(limit))

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
