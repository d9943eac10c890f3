"""The words of pass conditions: every figure that a condition can be about, and what it needs."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable

from stereo_bp_ros.evaluation import consistency, depth_errors, obstacles
from stereo_bp_ros.evaluation.metrics import THRESHOLDS
from stereo_bp_ros.evaluation.results import PERCENTILES

NEAR = 3
"""Words that a refusal names at most."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """What a condition is about.

    unit:  '%', 'px', 'm', 'grey', 'MiB', 'ms', 'Hz', 'frames', or '' of a count.
    path:  of a figure of a frame, where ``Figures.to_dict`` has it; of times and memory their key.
    needs: what a source has to have, or a run, in words; '' = nothing.
    asks:  the field of ``runs.Method`` without which it is not computed, or ''.
    is_less_better: whether a smaller value is the better one.
    """

    unit: str
    path: tuple[str, ...]
    needs: str = ''
    asks: str = ''
    is_less_better: bool = True

    @property
    def is_time(self) -> bool:
        """Whether it can be of a stage."""
        return self.unit == 'ms'

    @property
    def is_of_run(self) -> bool:
        """Whether it is of all runs of all frames together, and not of each frame."""
        return self.unit in ('ms', 'Hz', 'MiB', 'frames')

    @property
    def is_of_pixels(self) -> bool:
        """Whether parts of a frame have it, too: regions, and distances of any limits."""
        return self.path[0] in ('score', 'filled', 'depth')

    @property
    def is_detection(self) -> bool:
        """Whether it is of the obstacles of the truth, which lie in the bins of distance."""
        return self.path[:2] == ('obstacles', 'by_distance')


def _scores() -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for name, key in [*((f'bad{n:g}', f'bad_{n:g}') for n in THRESHOLDS), ('d1', 'd1')]:
        found |= {name: Figure('%', ('score', f'{key}_estimated'), 'truth'),
                  f'{name} or hole': Figure('%', ('score', f'{key}_known'), 'truth'),
                  f'filled {name}': Figure('%', ('filled', f'{key}_known'), 'truth')}
    for name, key in (('epe', 'mae'), ('rms', 'rms')):
        found |= {name: Figure('px', ('score', key), 'truth'),
                  f'filled {name}': Figure('px', ('filled', key), 'truth')}
    return found | {
        'density': Figure('%', ('score', 'density'), 'truth', is_less_better=False),
        'coverage': Figure('%', ('score', 'coverage'), is_less_better=False)}


def _metres() -> dict[str, Figure]:
    words = {'mean_m': 'error_m', 'p50_m': 'error_m p50', 'p90_m': 'error_m p90',
             'relative_mean': 'relative error'}
    return {words[key]: Figure(unit, ('depth', key), 'truth and a calibration')
            for key, (_, unit) in depth_errors.MEANINGS.items() if key in words}


def _confidence() -> dict[str, Figure]:
    return {f'{name} ause': Figure(unit, ('sparsification', key, 'ause'), 'truth', 'confidence')
            for name, key, unit in (('bad3', 'bad_3', '%'), ('epe', 'mae', 'px'))}


def _without_truth() -> dict[str, Figure]:
    words = {'confirmed': ('left-right confirmed', False),
             'contradicted': ('left-right contradicted', True),
             'grey_mean': ('photometric error', True),
             'grey_p50': ('photometric error p50', True), 'static': ('static', False),
             'flicker': ('flicker', True), 'road_inliers': ('road inliers', False),
             'road_rms': ('road rms', True)}
    of_kind = {'static': 'frames that follow each other',
               'flicker': 'frames that follow each other',
               'road_inliers': 'a road in view', 'road_rms': 'a road in view'}
    return {words[key][0]: Figure(unit, ('consistency', key), of_kind.get(key, ''),
                                  'consistency', words[key][1])
            for key, (_, unit) in consistency.MEANINGS.items()}


def _obstacles() -> dict[str, Figure]:
    calibrated, truth = 'a calibration', 'truth and a calibration'
    words = {'found_per_frame': ('obstacles per frame', calibrated),
             'false_per_frame': ('false obstacles per frame', truth),
             'false_frames': ('frames with false obstacles', truth)}
    found = {words[key][0]: Figure(unit, ('obstacles', key), words[key][1], 'corridor')
             for key, (_, unit) in obstacles.MEANINGS.items()}
    detections = ('obstacles', 'by_distance')
    dense = 'dense truth and a calibration'
    return found | {
        'obstacles seen': Figure('%', (*detections, 'seen'), dense, 'corridor', False),
        'smallest obstacle seen': Figure('m', (*detections, 'smallest_seen_m'), dense,
                                         'corridor'),
        'largest obstacle missed': Figure('m', (*detections, 'largest_missed_m'), dense,
                                          'corridor')}


def _run() -> dict[str, Figure]:
    times = {name: Figure('ms', (name,))
             for name in (*(f'p{share:g}' for share in PERCENTILES), 'mean', 'max')}
    return times | {'rate': Figure('Hz', ('rate',), is_less_better=False),
                    'engine memory': Figure('MiB', ('engine_bytes',)),
                    'process memory': Figure('MiB', ('process_bytes',))}


DELIVERY = ('sent', 'received', 'published', 'recorded', 'superseded', 'dropped', 'lost')
"""What became of the frames of a run through the node: counts."""


def _delivery() -> dict[str, Figure]:
    return {name: Figure('frames', (name,), is_less_better=name in DELIVERY[4:])
            for name in DELIVERY}


FIGURES: dict[str, Figure] = {**_scores(), **_metres(), **_confidence(), **_without_truth(),
                              **_obstacles(), **_run(), **_delivery()}
"""Every figure by its words."""


def near(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is none: those that are written most like it."""
    close = difflib.get_close_matches(name, known, NEAR)
    *others, last = close or ['']
    return f'; did you mean {", ".join(others)}{" or " if others else ""}{last}?' if last else ''
