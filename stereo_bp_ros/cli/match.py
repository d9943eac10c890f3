"""Match two rectified images.

  stereo_bp match left.png right.png
  stereo_bp match left.png right.png --preset road -o disparity.png --picture picture.png

The disparity is written as PFM (float32 pixels, invalid = inf) or, where the name ends in .png,
as 16 bits in units of 1/256 pixel with 0 = invalid (the convention of KITTI).
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from typing import Any

import numpy as np

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import files, metrics, pictures
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.types import DisparityFrame

HELP = 'match two images: disparity as PFM or PNG, and a picture'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('left', type=pathlib.Path, help='left image')
    parser.add_argument('right', type=pathlib.Path, help='right image')
    parser.add_argument('-o', '--output', type=pathlib.Path, default='disparity.pfm',
                        metavar='FILE', help='disparity, .pfm or .png (default disparity.pfm)')
    parser.add_argument('--picture', type=pathlib.Path, metavar='FILE',
                        help='input beside coloured disparity, PNG '
                             '(default: the output with the ending _picture.png)')
    parser.add_argument('--depth', type=pathlib.Path, metavar='FILE',
                        help='depth in metres as PFM; needs --calibration')
    parser.add_argument('--calibration', type=pathlib.Path, metavar='FILE',
                        help='calib.txt as Middlebury 2014 writes it')
    parser.add_argument('--truth', type=pathlib.Path, metavar='FILE',
                        help='true disparity (.pfm, or 16-bit .png / 256) to score against')
    parser.add_argument('--repeat', type=int, default=1, metavar='N',
                        help='match N times and report the median time (default 1)')
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.output.suffix not in ('.pfm', '.png'):
        raise ValueError(f'{options.output}: the name must end in .pfm or .png')
    if options.repeat < 1:
        raise ValueError(f'--repeat is {options.repeat}, but must be at least 1')
    if options.depth and not options.calibration:
        raise ValueError('--depth needs --calibration')
    config = MatcherConfig.from_mapping(shared.chosen_settings(options))
    left, right = files.read_image(options.left), files.read_image(options.right)
    calibration = None
    if options.calibration:
        calibration = files.read_middlebury_calibration(options.calibration)
    outputs = ('disparity', 'depth') if options.depth else ('disparity',)
    with StereoMatcher(config) as matcher:
        prepare_s = matcher.prepare(left.shape[1], left.shape[0])
        frames = []
        times_ms = []
        for _ in range(options.repeat):
            start = time.perf_counter()
            frames = [matcher.compute(left, right, calibration=calibration, outputs=outputs)]
            times_ms.append((time.perf_counter() - start) * 1e3)
    frame = frames[0]
    _write(options, left, frame)
    report = _report(frame, prepare_s, times_ms)
    if options.truth:
        assert frame.disparity is not None
        score = metrics.score(frame.disparity, _truth(options.truth), frame.valid)
        report['score'] = score.as_dict()
    if options.json:
        shared.print_json(report)
    else:
        _print(report)
    return 0


def _write(options: argparse.Namespace, left: np.ndarray, frame: DisparityFrame) -> None:
    assert frame.disparity is not None
    if options.output.suffix == '.pfm':
        files.write_pfm(options.output, np.where(frame.valid, frame.disparity, np.inf))
    else:
        files.write_disparity_png(options.output, np.where(frame.valid, frame.disparity, np.nan))
    if frame.depth is not None:
        files.write_pfm(options.depth, frame.depth)
    picture = options.picture or options.output.with_name(options.output.stem + '_picture.png')
    files.write_image(picture, pictures.comparison(
        left, frame.disparity, frame.valid, low=frame.min_disparity, high=frame.max_disparity))


def _truth(path: pathlib.Path) -> np.ndarray:
    return files.read_pfm(path) if path.suffix == '.pfm' else files.read_disparity_png(path)


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
    rows.append(('valid pixels', f'{100 * report["valid_fraction"]:.1f} %'))
    for name, value in report.get('disparity', {}).items():
        rows.append((f'{name} disparity', f'{value:.2f} px'))
    for name, value in report.get('score', {}).items():
        rows.append((name, f'{value:.2f}' if isinstance(value, float) else str(value)))
    shared.print_table('stereo_bp match', ('', 'value'), rows)
