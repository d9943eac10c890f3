"""Wrong pixels over one quantity of the rendered street, whose size is known.

Every quantity is changed alone, from its harmless value on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation.results import Result, totals_of
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.scenes.sequence import SPARE_DISPARITIES, RoadSequence, sequence_of
from stereo_bp_ros.evaluation.sources import Pair, pair_of_street

#: Frames of the drive from one that is matched to the next.
STEP = 25

#: Error above which a pixel counts as wrong, pixels.
BAD_PX = 3.0


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What is changed.

    option: of the street (``scenes.sequence``).
    values: in this unit, the harmless one first.
    is_log: whether they are drawn over a logarithmic axis.
    """

    option: str
    unit: str
    values: tuple[float, ...]
    is_log: bool = False


#: By the names that the options of `stereo_bp render` have.
QUANTITIES = {
    'vertical-offset': Quantity('vertical_offset_px', 'px', (0, 0.25, 0.5, 0.75, 1, 1.5, 2)),
    'pitch': Quantity('pitch_deg', 'degrees', (0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2)),
    'yaw': Quantity('yaw_deg', 'degrees', (0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4)),
    'roll': Quantity('roll_deg', 'degrees', (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)),
    'focal-error': Quantity('focal_error_percent', 'per cent', (0, 0.25, 0.5, 1, 1.5, 2, 3)),
    'noise': Quantity('noise_sigma', 'grey levels', (0, 1, 2, 4, 8, 12, 16)),
    'exposure': Quantity('exposure_gain', 'gain', (1, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1))}


@dataclasses.dataclass(frozen=True)
class Street:
    """What is drawn for every value.

    width, height, disparities: of the images, pixels; nothing is nearer than they allow.
    frames: how many, ``STEP`` of the drive apart.
    """

    width: int = 640
    height: int = 240
    disparities: int = 64
    frames: int = 4

    def drive(self, quantity: Quantity, value: float) -> RoadSequence:
        """With one value of a quantity; nothing is drawn yet.

        :raises ValueError: there is no street with it.
        """
        return sequence_of({
            'width': self.width, 'height': self.height, quantity.option: value,
            'max_disparity': self.disparities - SPARE_DISPARITIES, 'frames': STEP * self.frames})

    def pairs(self, quantity: Quantity, value: float) -> Iterator[Pair]:
        """Those to match, each drawn when it is wanted."""
        drive = self.drive(quantity, value)
        for place in range(0, STEP * self.frames, STEP):
            # They do not follow each other.
            yield dataclasses.replace(pair_of_street(drive, place), disparities=self.disparities,
                                      stamp_ns=None)


@dataclasses.dataclass(frozen=True)
class Row:
    """One value of a quantity, and the figures of every matcher by its name.

    These are of the pixels that both cameras see, without the sky, per cent: ``bad_3_filled`` once
    holes are filled, ``bad_3_estimated`` of those with a disparity, and their ``density``.
    """

    value: float
    matchers: Mapping[str, Mapping[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'value': self.value, 'matchers': {name: dict(figures)
                                                  for name, figures in self.matchers.items()}}


def curve(quantity: Quantity, street: Street, evaluation: Evaluation) -> Iterator[Row]:
    """A row for each value, as they come.

    :raises StereoError: a matcher rejects the images.
    """
    for value in quantity.values:
        yield Row(value, _figures(
            evaluation.judge(pair).result for pair in street.pairs(quantity, value)))


def _figures(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    found = {}
    for name, total in totals_of(results).matchers.items():
        seen = total.pooled.regions['not_occluded']
        # Without a single valid pixel nothing can be filled: all are bad.
        found[name] = {'bad_3_filled': seen.filled.bad_known(BAD_PX),
                       'density': seen.published.density,
                       'bad_3_estimated': seen.published.bad_estimated(BAD_PX)
                       if seen.published.estimated else 100.0}
    return found


def doubled(rows: Sequence[Row], matcher: str) -> float | None:
    """The first value with twice the wrong pixels of the first one; None: none has."""
    first, *others = rows
    return next((row.value for row in others if row.matchers[matcher]['bad_3_filled']
                 >= 2 * first.matchers[matcher]['bad_3_filled']), None)
