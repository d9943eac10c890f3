"""Check the calibration of a recording: what moved in the right camera, seen by the images.

  stereo_bp calibrate-check recording/
  stereo_bp calibrate-check pairs/ --every 0 --output check/

All pairs are of the same two cameras. Their rows give how the right camera is offset, rolled and
of another focal length, and what R and P it would have; motion and far points give its yaw, where
a calibration is known. docs/reference/node.md says what cannot be seen.
"""

from __future__ import annotations

import argparse
import logging
import math
import pathlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.rectification import IDENTITY
from stereo_bp_ros.cameras.row_correction import TERMS, corrected_info
from stereo_bp_ros.cameras.row_estimator import RowState
from stereo_bp_ros.cameras.yaw import MAX_MOTION_S
from stereo_bp_ros.checks import calibration_checks
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.outputs import check_folder
from stereo_bp_ros.cli.source_options import SOURCE, add_source_options, chosen_topics
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.sources.pairs import Pair, Sources, inputs_of
from stereo_bp_ros.stream.calibration_history import CalibrationHistory
from stereo_bp_ros.stream.observer import Pair as Observed
from stereo_bp_ros.stream.observer import PairObserver

HELP = 'a data set folder or a bag: how the right camera has moved since its calibration'
NEEDS = ()

_log = logging.getLogger(__name__)

#: Each term at its maximum in the image, and what explains it.
PLACES = ('everywhere', 'at the right edge', 'at the lower edge', 'in the lower right corner',
          'at the lower edge')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', type=pathlib.Path,
                        help=SOURCE)
    parser.add_argument('--every', type=shared.real(0, 3600), default=0.5, metavar='SECONDS',
                        help='measure a pair so often (default 0.5); 0 = every pair')
    parser.add_argument('--limit', type=shared.whole(1), default=0, metavar='N',
                        help='stop after N pairs (default: all)')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write calibration.json, and the terms over time as calibration.svg, '
                             'which needs matplotlib')
    add_source_options(parser, with_truth=False)
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    config = MatcherConfig.from_mapping(shared.chosen_settings(options, otherwise=AUTO))
    if options.output:
        check_folder(options.output, ('calibration.json', 'calibration.svg'),
                     [options.path, options.params_file])
    draws = bool(options.output) and shared.can_draw('calibration.svg')
    sources = Sources(inputs_of([options.path]), chosen_topics(options), options.limit)
    for warning in sources.warnings:
        _log.warning(warning)
    observer = PairObserver(math.inf, interval_s=0.0, max_gap_s=math.inf, window_s=math.inf)
    track: list[tuple[float, RowState]] = []
    pair: Pair | None = None
    with progress.Bar('calibrate-check') as bar:
        task = bar.add_task(f'Measuring {sources.title}', total=sources.count)
        for time_s, one in _due(sources, options.every):
            bar.update(task, advance=1)
            pair = one
            left, right = one.images
            observer.offer(Observed(left, right, _range(config, one, shared.names_range(options)),
                                    one.calibration, None, time_s))
            observer.measure()
            track.append((time_s, observer.rows))
    if pair is None:
        raise ValueError(f'{sources} has no stereo pairs')
    issues, history = observer.issues, observer.yaw
    assert history is not None
    for issue in issues:
        _log.warning('%s', issue)
    report = {'source': str(sources), 'pairs': len(track), **_rows_report(pair, track[-1][1]),
              **_yaw_report(pair, history), 'issues': [one.to_dict() for one in issues],
              'track': [{'time_s': time_s, 'terms_px': _edges(state, pair),
                         'residual_px': _number(state.residual)} for time_s, state in track]}
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        shared.write_json(options.output / 'calibration.json', report)
        if draws:
            plots.save(_drawn(report['track']), options.output / 'calibration.svg')
    if options.json:
        shared.print_json(report)
    else:
        _print(report)
    return 0


def _due(sources: Sources, every_s: float) -> Iterator[tuple[float, Pair]]:
    """Pairs to be measured, and when they were taken, seconds since the first one.

    Without stamps every pair counts, too far from the one before to show a motion.
    """
    begin: int | None = None
    latest_s = -np.inf
    for number, pair in enumerate(sources.pairs()):
        if pair.stamp_ns is None:
            yield 2 * MAX_MOTION_S * number, pair
            continue
        begin = pair.stamp_ns if begin is None else begin
        time_s = 1e-9 * (pair.stamp_ns - begin)
        if time_s < latest_s or time_s - latest_s >= every_s - 1e-3:
            latest_s = time_s
            yield time_s, pair


def _range(config: MatcherConfig, pair: Pair, is_own: bool) -> MatcherConfig:
    if pair.disparities and not is_own:
        config = config.replace(disparity_range=pair.disparities)
    return config


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _edges(state: RowState, pair: Pair) -> list[float] | None:
    """The maximum of each term in the image, pixels; None: nothing is known."""
    if state.estimate is None:
        return None
    return [term * scale for term, scale in zip(
        state.estimate.terms, _scales(state, pair), strict=True)]


def _scales(state: RowState, pair: Pair) -> list[float]:
    assert state.estimate is not None
    left, _ = pair.images
    scales: list[float] = state.estimate.factors(
        np.array([left.width - 1.0]), np.array([left.height - 1.0]))[0].tolist()
    return scales


def _rows_report(pair: Pair, state: RowState) -> dict[str, Any]:
    """For JSON: of the last estimate."""
    found: dict[str, Any] = {'rows': {
        'max_px': _number(state.max_px), 'sigma_px': _number(state.sigma),
        'residual_px': _number(state.residual), 'points': state.points, 'estimates': state.pairs,
        'reason': state.reason}, 'terms': {}, 'explained': None, 'right': None}
    if state.estimate is None:
        return found
    scales = _scales(state, pair)
    found['terms'] = {
        name: {'px': term * scale, 'sigma_px': sigma * abs(scale), 'where': place}
        for name, term, sigma, scale, place in zip(
            TERMS, state.estimate.terms, state.sigmas, scales, PLACES, strict=True)}
    found['explained'] = state.estimate.text
    if pair.calibration is None:        # the angles go by the focal length
        return found
    # As of rectified images: their K is that of P.
    focal, cx, cy = state.estimate.focal_px, state.estimate.cx, state.estimate.cy
    k = [focal, 0.0, cx, 0.0, focal, cy, 0.0, 0.0, 1.0]
    info = corrected_info(types.SimpleNamespace(r=list(IDENTITY), k=k), state.estimate)
    shift = -focal * pair.calibration.baseline_m
    found['right'] = {'r': list(info.r), 'k': list(info.k),
                      'p': [focal, 0.0, cx, shift, 0.0, focal, cy, 0.0, 0.0, 0.0, 1.0, 0.0]}
    return found


def _yaw_report(pair: Pair, history: CalibrationHistory) -> dict[str, Any]:
    """For JSON: by motion, and by far points."""
    offset, far = history.offset, history.far
    found: dict[str, Any] = {'far_points': far.number, 'negative': far.negative,
                             'motions': history.motions, 'disparity_offset_px': None,
                             'disparity_offset_sigma_px': None, 'yaw_degrees': None}
    if offset is not None and pair.calibration is not None:
        found |= {'disparity_offset_px': offset.offset, 'disparity_offset_sigma_px': offset.sigma,
                  'yaw_degrees': calibration_checks.yaw_degrees(offset.offset, pair.calibration)}
    return found


def _drawn(track: Sequence[dict[str, Any]]) -> Any:
    """The terms over time."""
    series = {f'{name} {place}'.removesuffix(' everywhere'): [
        None if one['terms_px'] is None else one['terms_px'][number] for one in track]
        for number, (name, place) in enumerate(zip(TERMS, PLACES, strict=True))}
    return plots.lines([one['time_s'] for one in track], series, 'time, s', 'rows, px')


def _print(report: dict[str, Any]) -> None:
    rows = [[f'{name} {one["where"]}', f'{one["px"]:.3f}', f'{one["sigma_px"]:.3f}']
            for name, one in report['terms'].items()]
    if report['disparity_offset_px'] is not None:
        rows.append(['all disparities too large by', f'{report["disparity_offset_px"]:.3f}',
                     f'{report["disparity_offset_sigma_px"]:.3f}'])
    shared.print_table('stereo_bp calibrate-check', ('rows, px', 'value', 'sigma'), rows)
    state = report['rows']
    lines = [f'{report["pairs"]} pairs, {state["estimates"]} in the estimate; '
             + (f'residual {state["residual_px"]:.3f} px, {state["points"]} points in the last'
                if state['residual_px'] is not None else f'nothing is known: {state["reason"]}')]
    if report['explained']:
        lines.append(f'What explains the rows: the right camera shows things '
                     f'{report["explained"]}'
                     + (f' ({state["reason"]})' if state['reason'] else '') + '.')
        lines += [f'right {name.upper()}: ' + ', '.join(f'{x:.9g}' for x in numbers)
                  for name, numbers in (report['right'] or {}).items()]
        if not report['right']:
            lines.append('Without a calibration beside the images there are no R and K.')
    lines.append(_yaw_text(report))
    shared.say(*lines)


def _yaw_text(report: dict[str, Any]) -> str:
    far = f'{report["negative"]} of {report["far_points"]} far points have negative disparity'
    if report['yaw_degrees'] is None:
        return (f'Yaw: not known, {report["motions"]} motions show it; {far}.')
    return (f'Yaw: {report["yaw_degrees"]:.3f} degrees of the right camera to the right, by '
            f'{report["motions"]} motions; {far}.')
