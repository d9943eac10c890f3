"""Lets an optimiser choose the points of a sweep: few points where a grid would have many.

A figure and the time are to be small, so there is no best point but a Pareto front. The optimiser
is Optuna's TPE for several objectives (Ozaki et al. 2022, Multiobjective tree-structured Parzen
estimator, doi:10.1613/jair.1.13188). It needs tens of points, genetic ones generations of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stereo_bp_ros.config import MatcherConfig, Value
from stereo_bp_ros.evaluation.sweep import Axis, Point, check_axes, cost

DIGITS = 4
"""Significant digits of a number between the ends of a span."""

class Search:
    """Proposes one point after another, and is told what became of it.

    The same seed and the same answers give the same points: an interrupted search goes on where it
    was when the points that are known are told again.

    :param figure: of ``conditions.FIGURES``, beside the median time.
    :raises ValueError: a setting is there twice.
    :raises ImportError: without optuna.
    """

    def __init__(self, axes: Sequence[Axis], figure: str, seed: int) -> None:
        import optuna
        check_axes(axes)
        self._axes, self._figure = axes, figure
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed), directions=['minimize', 'minimize'])
        self._trial: Any = None

    def ask(self) -> dict[str, Value]:
        """The settings of the next point, each within its axis."""
        self._trial = self._study.ask()
        return {axis.name: self._value(axis) for axis in self._axes}

    def tell(self, point: Point | None) -> None:
        """What became of the latest point; None, or without the figure: it cannot be used."""
        values, violation = (0.0, 0.0), 1.0     # no feasible point: its values do not count
        if point is not None and point.figures[self._figure] is not None:
            values, violation = cost(point, self._figure), 0.0
        self._trial.set_constraint('refused', violation)
        self._study.tell(self._trial, values)

    def _value(self, axis: Axis) -> Value:
        name, values = axis.name, axis.values
        if axis.is_span:
            return self._between(axis)
        if axis.is_ordered:
            return values[self._trial.suggest_int(name, 0, len(values) - 1)]
        return values[self._trial.suggest_categorical(name, range(len(values)))]

    def _between(self, axis: Axis) -> Value:
        first, last = axis.values
        if isinstance(first, int):
            step = 2 if MatcherConfig.settings()[axis.name].odd else 1
            return int(self._trial.suggest_int(axis.name, first, last, step=step))
        low, high = float(first), float(last)
        found = self._trial.suggest_float(axis.name, low, high)
        return min(max(low, float(f'{found:.{DIGITS}g}')), high)
