"""Whether a quantity of a process grows: the slope over time, with its confidence interval."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Of the confidence interval.
SHARE = 0.95

#: Resamples, and the least number of values that tell a slope.
DRAWS, LEAST = 4000, 8

_SEED = 20100702


@dataclasses.dataclass(frozen=True)
class Trend:
    """A slope, per hour, over all runs of a process.

    interval: of the slope, both ends per hour.
    change:   slope times the time that was watched.
    allowed:  change that counts as none: pages and threads come in grains.
    """

    values: int
    hours: float
    slope: float
    interval: tuple[float, float]
    change: float
    allowed: float

    @property
    def grows(self) -> bool:
        """Whether the whole interval is above 0, and the change more than the grain."""
        return self.interval[0] > 0 and self.change > self.allowed

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**dataclasses.asdict(self), 'share': SHARE, 'grows': self.grows}


def trend(runs: Sequence[Sequence[tuple[float, float]]], allowed: float) -> Trend | None:
    """The common slope of runs of (hours, value), each with a level of its own.

    The interval is by resampling blocks of residuals, as a neighbour in time resembles its
    neighbours. None with fewer than ``LEAST`` values.
    """
    runs = [run for run in runs if len(run) > 2]
    times = [np.array([hours for hours, _ in run]) for run in runs]
    count = sum(map(len, runs))
    if count < LEAST or not any(np.ptp(t) for t in times):
        return None
    levels = [np.array([value for _, value in run]) for run in runs]
    t = np.concatenate([one - one.mean() for one in times])
    y = np.concatenate([one - one.mean() for one in levels])
    spread = float(t @ t)
    slope = float(t @ y / spread)
    residuals = y - slope * t
    block = max(2, round(count ** (1 / 3)))
    random = np.random.default_rng(_SEED)
    starts = random.integers(0, count, (DRAWS, -(-count // block)))
    places = (starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, :count] % count
    # Two degrees of freedom, and one for each further run, are in the fit.
    free = max(1, count - 1 - len(runs))
    slopes = slope + (residuals[places] @ t / spread) * np.sqrt(count / free)
    low, high = np.quantile(slopes, ((1 - SHARE) / 2, (1 + SHARE) / 2))
    hours = sum(float(np.ptp(one)) for one in times)
    return Trend(count, hours, slope, (float(low), float(high)), slope * hours, allowed)


def settled(run: Sequence[tuple[float, float]], warm_up: float) -> list[tuple[float, float]]:
    """The second half of a run's values, and none of its first ``warm_up`` hours.

    Buffers fill until then, and what a fault is the first to need is loaded: such a step is no
    growth.
    """
    if not run:
        return []
    begin = run[0][0] + max(warm_up, (run[-1][0] - run[0][0]) / 2)
    return [(hours, value) for hours, value in run if hours >= begin]


def median(run: Sequence[tuple[float, float]]) -> float | None:
    """Of the values; None without any."""
    return statistics.median(value for _, value in run) if run else None
