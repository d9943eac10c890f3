"""Match two images, rectified ones or with --rectify raw ones.

  stereo_bp match left.png right.png
  stereo_bp match left.png right.png --preset road -o disparity.png --picture picture.png
  stereo_bp match tsukuba/left.png tsukuba/right.png --truth tsukuba/disparity.png --truth-scale 16
  stereo_bp match im0.png im1.png --calibration calib.txt --depth depth.pfm --truth disp0.pfm
  stereo_bp match left.png right.png --calibration left.yaml --points cloud.ply --depth depth.png
  stereo_bp match raw_left.png raw_right.png --rectify stereo.yaml --points cloud.ply

The ending of a name says the format. .pfm (invalid = inf), .tiff and .npy (NaN) have float32; .png
has 16 bits with 0 = invalid: disparity in 1/256 pixel (the convention of KITTI), depth in
millimetres, confidence in 1/65535. A calibration whose principal points differ shifts what is
written, so that depth = focal length x baseline / disparity. A truth is the disparity between the
images as they are: scores are without that shift.
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification, remapped
from stereo_bp_ros.checks import checks, truth_checks
from stereo_bp_ros.checks.byte_checks import check_bytes
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import check_files
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.images import files, output_files, pictures
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.sources.datasets.named import truth_scale
from stereo_bp_ros.sources.datasets.truths import default_scale, read_truth
from stereo_bp_ros.stream.stereo_stream import StereoStream

if TYPE_CHECKING:
    from stereo_bp_ros.stream.observer import Observation

HELP = 'match two images: disparity, depth, cloud, confidence and a picture'
NEEDS = ()

#: Outputs that a file is asked for by an option of their name.
FURTHER = ('depth', 'points', 'confidence')

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('left', type=pathlib.Path, help='left image')
    parser.add_argument('right', type=pathlib.Path, help='right image')
    parser.add_argument('-o', '--output', type=pathlib.Path, default='disparity.pfm',
                        metavar='FILE',
                        help='disparity, .pfm, .png, .tiff or .npy (default disparity.pfm)')
    parser.add_argument('--picture', type=pathlib.Path, metavar='FILE',
                        help='input beside coloured disparity, PNG '
                             '(default: the output with the ending _picture.png)')
    parser.add_argument('--depth', type=pathlib.Path, metavar='FILE',
                        help='depth in metres, .pfm, .tiff or .npy, or in millimetres, .png; '
                             'needs --calibration or --rectify')
    parser.add_argument('--points', type=pathlib.Path, metavar='FILE',
                        help='cloud in metres with colours, binary .ply or .pcd; needs '
                             '--calibration or --rectify')
    parser.add_argument('--confidence', type=pathlib.Path, metavar='FILE',
                        help='confidence from 0 to 1, .pfm, .png, .tiff or .npy')
    parser.add_argument('--calibration', type=pathlib.Path, metavar='FILE',
                        help='calib.txt of Middlebury, ETH3D or KITTI, left.yaml (camera_info of '
                             'ROS) or P_left.txt with that of the right camera beside it, or '
                             "OpenCV's stereo YAML in metres; --set min_depth=METRES goes by it")
    parser.add_argument('--rectify', type=pathlib.Path, metavar='FILE',
                        help='rectify both raw images to grey ones first: left.yaml (camera_info '
                             "of ROS), or OpenCV's stereo YAML, with D, K, R and P; in place of "
                             '--calibration')
    parser.add_argument('--truth', type=pathlib.Path, metavar='FILE',
                        help='true disparity to score against: .pfm, or an image')
    shared.add_truth_scale_option(parser)
    parser.add_argument('--repeat', type=shared.whole(1), default=1, metavar='N',
                        help='match N times and report the median time (default 1)')
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)
    parser.epilog = f'{parser.epilog}\n\n{shared.score_keys()}'


def run(options: argparse.Namespace) -> int:
    _check(options)
    left, right = files.read_image(options.left), files.read_image(options.right)
    calibration = truth = None
    raw_issues: list[Issue] = []
    if options.rectify:
        raw_issues = check_bytes(RawImage.from_array(left), RawImage.from_array(right))
        left, right, calibration = _rectified(options.rectify, left, right)
    elif options.calibration:
        calibration = Calibration.from_file(options.calibration, options.left)
    if options.truth:
        levels = options.truth_scale or truth_scale(options.truth)
        truth = read_truth(options.truth, levels)
        if truth.shape != left.shape[:2]:
            raise ValueError(f'the truth {options.truth} is {truth.shape[1]} x {truth.shape[0]}, '
                             f'the image {left.shape[1]} x {left.shape[0]}')
    config = MatcherConfig.from_mapping(shared.chosen_settings(
        options, otherwise=AUTO, size=lambda: (left.shape[1], left.shape[0])))
    shared.say_preset(options)
    if config.min_depth and calibration is None:
        _log.warning('min_depth has no effect without --calibration; %d disparities are searched',
                     config.disparity_range)
    outputs = ('disparity', *(name for name in FURTHER if getattr(options, name)))
    with StereoStream(config, calibration=calibration) as stream:
        prepare_s = stream.matcher.prepare(left.shape[1], left.shape[0], calibration)
        search = stream.matcher.effective_config
        seen = stream.observe(left, right)
        times_ms = []
        for _ in range(options.repeat):
            start = time.perf_counter()
            frame = stream.match(outputs=outputs)
            times_ms.append((time.perf_counter() - start) * 1e3)
        issues = [*checks.enforce(raw_issues, config), *stream.issues]
        if truth is not None:
            issues = issues + checks.enforce(truth_checks.examine_truth(
                RawImage.from_array(left), RawImage.from_array(right), truth, search, issues,
                truth_checks.TruthScale(levels or default_scale(options.truth))), config)
        for issue in issues:
            _log.warning('%s', issue)
    assert frame.disparity is not None
    report = _report(frame, prepare_s, times_ms)
    report['issues'] = [one.to_dict() for one in issues]
    report['rows'] = _rows(seen, config)
    report['search'] = {'first': search.min_disparity, 'last': search.max_disparity}
    shift = calibration.shift if calibration and config.pre_adjust_disparity else 0.0
    report['disparity_shift'] = shift
    if truth is not None:
        score = metrics.score(frame.disparity + np.float32(shift), truth, frame.valid)
        report['score'] = score.as_dict()
        if not score.known:
            _log.warning('nothing is scored: %s has no pixel with a known disparity',
                         options.truth)
        if options.truth_scale or options.truth.suffix.lower() != '.pfm':
            report['truth_scale'] = levels or default_scale(options.truth)
    report['files'] = _write(options, left, frame)
    if options.json:
        shared.print_json(report)
    else:
        _print(report)
    return 0


def _rectified(path: pathlib.Path, left: np.ndarray, right: np.ndarray
               ) -> tuple[np.ndarray, np.ndarray, Calibration]:
    """Both raw images rectified, in grey values, and the calibration that then holds."""
    height, width = left.shape[:2]
    rectification = Rectification.from_file(path, (width, height))
    if left.shape[:2] != right.shape[:2] or (
            rectification.width, rectification.height) != (width, height):
        raise ValueError(f'{path} rectifies images of {rectification.width} x '
                         f'{rectification.height}, the left one is {width} x {height}, the right '
                         f'one {right.shape[1]} x {right.shape[0]}')
    one, other = (remapped(RawImage.from_array(image), rectification.maps(side))
                  for side, image in zip(SIDES, (left, right), strict=True))
    return one, other, rectification.calibration


def _rows(seen: Observation, config: MatcherConfig) -> dict[str, Any] | None:
    """What the pair alone shows of its rows, for JSON; None: nobody asks."""
    if config.row_correction == 'off':
        return None
    state, correction = seen.rows, seen.correction
    is_known = state.estimate is not None
    done = ('row_correction is measure' if config.row_correction == 'measure' else state.reason)
    return {
        'max_px': state.max_px if is_known else None,
        'sigma_px': state.sigma if is_known else None, 'points': state.points,
        'corrected': correction is not None, 'warp': correction and list(correction.warp()),
        'text': state.text + (
            f', corrected by up to {seen.corrected_px:.2f} px' if correction else
            f', not corrected ({done})' if is_known else '')}


def _check(options: argparse.Namespace) -> None:
    """Reject what could only fail once everything is computed; name the picture.

    :raises ValueError: an option does not fit, or a file cannot be written.
    """
    if not options.picture:
        options.picture = options.output.with_name(options.output.stem + '_picture.png')
    output_files.check_ending(options.output, 'disparity')
    for name in FURTHER:
        if path := getattr(options, name):
            output_files.check_ending(path, name)
            if OUTPUTS[name].needs_calibration and not (options.calibration or options.rectify):
                raise ValueError(f'--{name} needs --calibration, or --rectify')
    if options.calibration and options.rectify:
        raise ValueError('--rectify has a calibration: leave --calibration out')
    if options.truth_scale and not options.truth:
        raise ValueError('--truth-scale needs --truth')
    if not cv2.haveImageWriter(options.picture.name):
        raise ValueError(f'{options.picture}: the name of a picture must end in .png')
    check_files({'-o': options.output, '--picture': options.picture,
                 **{f'--{name}': getattr(options, name) for name in FURTHER}},
                (options.left, options.right, options.calibration, options.rectify, options.truth,
                 options.params_file))


def _write(options: argparse.Namespace, left: np.ndarray, frame: DisparityFrame
           ) -> dict[str, str]:
    """Write every file that is asked for; what each holds, and its name."""
    assert frame.disparity is not None
    written = {'disparity': str(options.output)}
    found = frame.disparity, frame.valid
    low, high = pictures.color_range(found)
    drawn = pictures.comparison(left, {'match': found}, low=low, high=high).picture
    if options.output.suffix.lower() == '.png':
        lost = int(np.count_nonzero(frame.disparity[frame.valid] < 0))
        if lost:
            shared.say(f'{lost} disparities below 0 are unknown in {options.output}: '
                       'PNG has none of them, the other formats do', file=sys.stderr)
    frame.save(options.output)
    for name in FURTHER:
        if path := getattr(options, name):
            frame.save(path, name)
            written[name] = str(path)
    files.write_image(options.picture, drawn)
    return {**written, 'picture': str(options.picture)}


def _report(frame: DisparityFrame, prepare_s: float, times_ms: list[float]) -> dict[str, Any]:
    assert frame.disparity is not None
    valid = frame.disparity[frame.valid]
    report: dict[str, Any] = {
        'backend': frame.backend, 'width': frame.disparity.shape[1],
        'height': frame.disparity.shape[0], 'prepare_s': prepare_s,
        'median_ms': statistics.median(times_ms), 'runs': len(times_ms),
        'stages_ms': dict(frame.timings), 'valid_fraction': valid.size / frame.disparity.size}
    if valid.size:
        report['disparity'] = {'least': float(valid.min()), 'median': float(np.median(valid)),
                               'largest': float(valid.max())}
    return report


def _print(report: dict[str, Any]) -> None:
    rows = [('size', f'{report["width"]} x {report["height"]}'),
            ('back end', report['backend']),
            ('prepared in', f'{report["prepare_s"]:.2f} s'),
            (f'matched in (median of {report["runs"]})', f'{report["median_ms"]:.2f} ms')]
    rows += [(f'  {stage}', f'{value:.2f} ms') for stage, value in report['stages_ms'].items()]
    rows.append(('disparities searched between the images as they are',
                 '{first} to {last} px'.format(**report['search'])))
    rows.append(('valid pixels', f'{100 * report["valid_fraction"]:.1f} %'))
    for name, value in report.get('disparity', {}).items():
        rows.append((f'{name} disparity', f'{value:.2f} px'))
    if report['disparity_shift']:
        rows.append(('shift by the calibration: subtracted above and in the files, not in scores',
                     f'{report["disparity_shift"]:.2f} px'))
    if 'truth_scale' in report:
        rows.append(('numbers per pixel of disparity in the truth',
                     f'{report["truth_scale"]:g}'))
    rows += shared.score_rows(report.get('score', {}))
    shared.print_table('stereo_bp match', ('', 'value'), rows)
    if report['rows']:
        shared.say(f'Rows of the two images: {report["rows"]["text"]}.')
    for what, name in report['files'].items():
        shared.say(f'Wrote {what}: {name}')
