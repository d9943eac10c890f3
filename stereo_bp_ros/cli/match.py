"""Match two images, or every pair of a folder, a bag or a video.

  stereo_bp match left.png right.png
  stereo_bp match left.png right.png --preset road -o disparity.png --picture picture.png
  stereo_bp match tsukuba/left.png tsukuba/right.png --truth tsukuba/disparity.png --truth-scale 16
  stereo_bp match im0.png im1.png --calibration calib.txt --depth depth.pfm --truth disp0.pfm
  stereo_bp match left.png right.png --calibration left.yaml --points cloud.ply --depth depth.png
  stereo_bp match raw_left.png raw_right.png --rectify stereo.yaml --points cloud.ply
  stereo_bp match both.png --side-by-side left_right
  stereo_bp match recording/ --output results/
  stereo_bp match left.mp4 right.mp4 --calibration left.yaml --output results/
  stereo_bp match drive.mp4 --side-by-side left_right --output results/ --write disparity.png

A set of pairs goes into a folder: disparity/NAME.pfm and so on. A run that was stopped goes on
where it was: give the same command again. `stereo_bp evaluate` has the scores of a set.
The ending of a name says the format. .pfm (invalid = inf), .tiff and .npy (NaN) have float32; .png
has 16 bits with 0 = invalid: disparity in 1/256 pixel (the convention of KITTI), depth in
millimetres, confidence in 1/65535. A calibration whose principal points differ shifts what is
written, so that depth = focal length x baseline / disparity. A truth is unshifted, as are scores.
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
from stereo_bp_ros.cli import match_set
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import check_files
from stereo_bp_ros.cli.source_options import SOURCE, add_source_options, add_truth_scale_option
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.images import files, output_files
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.sources.bag_topics import is_bag
from stereo_bp_ros.sources.datasets.entries import read_side_by_side
from stereo_bp_ros.sources.datasets.named import truth_scale
from stereo_bp_ros.sources.datasets.truths import default_scale, read_truth
from stereo_bp_ros.sources.videos import is_video
from stereo_bp_ros.stream.stereo_stream import StereoStream

if TYPE_CHECKING:
    from stereo_bp_ros.stream.observer import Observation

HELP = 'match two images or every pair of a set: disparity, depth, cloud, confidence, picture'
NEEDS = ()

#: Outputs that a file is asked for by an option of their name.
FURTHER = ('depth', 'points', 'confidence')

#: Options of the one form and of the other, with what they are unless they are given.
OF_TWO_IMAGES = {**dict.fromkeys((*FURTHER, 'picture', 'truth', 'truth_scale')), 'repeat': 1}
OF_A_SET = {'write': None, 'skip_unreadable': False, 'rectified': 'auto', 'approximate_sync': None,
            **dict.fromkeys(('left_glob', 'right_glob', 'left_image', 'right_image', 'left_info',
                             'right_info'), '')}

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('left', type=pathlib.Path, help=f'left image or video; alone: {SOURCE}')
    parser.add_argument('right', type=pathlib.Path, nargs='?', help='right image or video')
    parser.add_argument('-o', '--output', type=pathlib.Path, metavar='PATH',
                        help='disparity, .pfm, .png, .tiff or .npy (default disparity.pfm); of a '
                             'set the folder for the results')
    parser.add_argument('--write', type=match_set.outputs_of, metavar='NAME,...',
                        help='of a set: which outputs are written, each with or without an '
                             'ending: ' + ','.join(map(''.join, match_set.ENDINGS.items()))
                             + ' (default: these, as far as there is a calibration)')
    parser.add_argument('--skip-unreadable', action='store_true',
                        help='of a set: leave out pairs that cannot be read, and count them '
                             '(default: the first one ends the run)')
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
    parser.add_argument('--truth', type=pathlib.Path, metavar='FILE',
                        help='true disparity to score against: .pfm, or an image')
    add_truth_scale_option(parser)
    parser.add_argument('--repeat', type=shared.whole(1), default=1, metavar='N',
                        help='match N times and report the median time (default 1)')
    add_source_options(parser, with_truth=False)
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)
    parser.epilog = f'{parser.epilog}\n\n{shared.score_keys()}'


def run(options: argparse.Namespace) -> int:
    if _is_set(options):
        for name, default in OF_TWO_IMAGES.items():
            if getattr(options, name) != default:
                raise ValueError(f'--{name.replace("_", "-")} is for two images: of a set '
                                 + ('`stereo_bp evaluate` has the scores' if 'truth' in name else
                                    '--write says what is written' if name != 'repeat' else
                                    'each pair is matched once'))
        return match_set.run(options)
    _check(options)
    if options.side_by_side:
        left, right = read_side_by_side(options.left, options.side_by_side)
    else:
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


def _is_set(options: argparse.Namespace) -> bool:
    """Whether there may be several pairs."""
    left = options.left
    if is_video(left):
        return True
    is_image = bool(options.side_by_side) and left.is_file() and not is_bag(left)
    return options.right is None and not is_image


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
    for name, default in OF_A_SET.items():
        if getattr(options, name) != default:
            raise ValueError(f'--{name.removesuffix("_image").replace("_", "-")} is for a set of '
                             'pairs: name a folder, a bag or a video')
    if options.side_by_side and options.right:
        raise ValueError(f'--side-by-side and {options.right} exclude each other: one image holds '
                         'both')
    options.output = options.output or pathlib.Path('disparity.pfm')
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
    drawn = match_set.picture_of(left, frame)
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
        report['disparity'] = {'min': float(valid.min()), 'median': float(np.median(valid)),
                               'max': float(valid.max())}
    return report


def _print(report: dict[str, Any]) -> None:
    rows = [('size', f'{report["width"]} x {report["height"]}'),
            ('back end', report['backend']),
            ('prepared in', f'{report["prepare_s"]:.2f} s'),
            (f'matched in (median of {report["runs"]})', f'{report["median_ms"]:.2f} ms')]
    rows += [(f'  {stage}', f'{value:.2f} ms') for stage, value in report['stages_ms'].items()]
    rows.append(('disparities searched, unshifted',
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
