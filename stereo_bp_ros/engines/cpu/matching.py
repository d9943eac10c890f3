"""What every way of matching on the CPU has in common, and those that need no plan of levels.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.memory import Matches
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.programs import Matching

Array = np.ndarray[Any, Any]

#: Begins the names of the arrays of a first pass, in those of the plan that it is part of.
FIRST_PASS = 'coarse_'


class CpuMatching(Matching[Plan]):
    """Labels from the matched images, for one plan; see ``Matching``.

    :param arrays: of the plan, by name; emptied when the engine is closed.
    """

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        self._plan = plan
        self._arrays = arrays

    @classmethod
    def scratch(cls, plan: Plan) -> Wanted:
        """Working arrays, which other stages may share by name."""
        return []

    @abc.abstractmethod
    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        """Match ``left_matched`` and ``right_matched``.

        :param config: the plan's with the live settings of the frame.
        :param timings: milliseconds by stage, which are added to.
        """


class Tiled(CpuMatching):
    """Belief propagation tile by tile."""

    kernel_settings = ('message_type',)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return []

    @classmethod
    def scratch(cls, plan: Plan) -> Wanted:
        return scratch.tiled(plan.config, plan.width, plan.height, plan.threads)

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu import tiled
        with stopwatch(timings, 'messages'):
            tiled.pass_messages(self._arrays['left_matched'], self._arrays['right_matched'],
                                config, out, self._arrays)


class Sad(CpuMatching):
    """Block matching."""

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        image = plan.height, plan.width
        return [(f'{side}_8bit', image, 'uint8') for side in ('left', 'right')]

    @classmethod
    def scratch(cls, plan: Plan) -> Wanted:
        return scratch.sad(plan.config, plan.width, plan.height, plan.threads)

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu import sad
        from stereo_bp_ros.engines.cpu.stages import preprocess
        arrays = self._arrays
        with stopwatch(timings, 'messages'):
            for side in ('left', 'right'):
                preprocess.to_8bit(arrays[f'{side}_matched'], config, arrays[f'{side}_8bit'])
            sad.match(arrays['left_8bit'], arrays['right_8bit'], config, out, arrays)


@contextmanager
def stopwatch(timings: dict[str, float], stage: str) -> Iterator[None]:
    """Context whose milliseconds are added to a stage's."""
    start = time.perf_counter()
    yield
    timings[stage] += (time.perf_counter() - start) * 1e3
