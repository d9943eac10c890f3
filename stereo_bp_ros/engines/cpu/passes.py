"""From grey images to a finished map: preprocessing, matching and refinement for one plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cpu.costs import features
from stereo_bp_ros.engines.cpu.matching import FIRST_PASS, Array, Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.stages import preprocess, refine
from stereo_bp_ros.engines.plan import Passes


class Pass:
    """Matches ``left_grey`` and ``right_grey`` of its arrays into ``final``.

    A pass with one before it runs that first, on the means of 2 x 2 pixels.

    :param plan: of the matched images.
    :param arrays: of the plan, by name; emptied when the engine is closed.
    """

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self._first: Pass | None = None
        if plan.first is not None:
            self._first = Pass(plan.first, {name.removeprefix(FIRST_PASS): array
                                            for name, array in arrays.items()
                                            if name.startswith(FIRST_PASS)})
        self._matching = programs.matching('cpu', plan.config)(plan, arrays)

    def run(self, passes: Passes, timings: dict[str, float],
            outputs: Collection[str] = (), confidences: Array | None = None) -> None:
        """Match one pair.

        :param passes: the plan's with the live settings of the frame.
        :param timings: milliseconds by stage, which are added to.
        :param outputs: names of what is to be made of the map.
        :param confidences: as for ``refine.refine``.
        """
        arrays, config = self._arrays, passes[-1]
        if self._first is not None:
            with stopwatch(timings, 'preprocess'):
                self._first.take_means(arrays)
            self._first.run(passes[:-1], timings)
        with stopwatch(timings, 'preprocess'):
            self._preprocess(config)
        matches = Matches(arrays['label'], arrays['fraction'], arrays['best'], arrays['second'],
                          arrays['right_label'], *refine.needs(config, outputs))
        self._matching.match(config, matches, timings)
        with stopwatch(timings, 'refine'):
            refine.refine(matches, arrays['left_grey'], self._smoothed('left', config), config,
                          arrays, confidences, _largest_cost(config))

    def take_means(self, arrays: Mapping[str, Array]) -> None:
        """Its images from those of the pass behind it, which are twice as large."""
        for side in ('left', 'right'):
            preprocess.to_means(arrays[f'{side}_grey'], 2, 1.0, self._arrays[f'{side}_grey'])

    def _preprocess(self, config: ResolvedConfig) -> None:
        arrays = self._arrays
        for side in ('left', 'right'):
            grey, smoothed = arrays[f'{side}_grey'], self._smoothed(side, config)
            if config.has_combined_cost:
                preprocess.smooth(grey, config.smoothing_sigma, smoothed)
                features.extract(smoothed, side, config, arrays)
            else:
                preprocess.preprocess(grey, config, smoothed, arrays[f'{side}_matched'], arrays)

    def _smoothed(self, side: str, config: ResolvedConfig) -> np.ndarray[Any, Any]:
        """The image after the Gaussian: without one it is the grey image itself."""
        return self._arrays[f'{side}_smoothed' if config.smoothing_sigma else f'{side}_grey']


def _largest_cost(config: ResolvedConfig) -> float:
    """The largest data cost of a pixel in units of the beliefs; 1 for SAD."""
    return quantisation.largest_cost(config) if config.is_belief_propagation else 1.0
