"""Match every pair of a data set or a bag; report accuracy and time.

  stereo_bp evaluate middlebury/ --preset five_sets
  stereo_bp evaluate recording/ --preset road --output report/

Folders may be laid out as Middlebury (2001 to 2014), KITTI 2012, a sequence of stamped pairs, or
left.png and right.png; a bag is a rosbag2 folder or a ROS 1 bag. Where the data set says how many
disparities it has, that many are searched unless --set disparity_range says otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import bags, datasets, files, metrics, pictures, report
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.types import DisparityFrame

HELP = 'a data set folder or a bag: accuracy and time as a table, JSON and HTML'

#: Sequences longer than this get one row in the table; JSON always has every pair.
ROWS = 30


@dataclasses.dataclass
class Result:
    """One pair's figures."""

    name: str
    width: int
    height: int
    disparity_range: int
    median_ms: float
    stages_ms: dict[str, float]
    score: metrics.Score
    picture: str = ''

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), 'score': self.score.as_dict()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', type=pathlib.Path, help='data set folder or bag')
    parser.add_argument('--repeat', type=int, default=3, metavar='N',
                        help='match each pair N times, report the median time (default 3)')
    parser.add_argument('--limit', type=int, default=0, metavar='N',
                        help='stop after N pairs (default: all)')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write report.json, report.html and a picture of every pair')
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.repeat < 1:
        raise ValueError(f'--repeat is {options.repeat}, but must be at least 1')
    settings = shared.chosen_settings(options)
    config = MatcherConfig.from_mapping(settings)
    named = shared.names_range(options)
    count, pairs = open_pairs(options.path)
    if options.limit:
        count = min(count, options.limit)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with StereoMatcher(config) as matcher, shared.progress_bar() as bar:
        task = bar.add_task(f'Evaluating {options.path.name}', total=count)
        for pair in pairs:
            if len(results) == count:
                break
            if pair.disparities and not named:
                wanted = config.replace(disparity_range=pair.disparities)
                if wanted != matcher.config:
                    matcher.reconfigure(wanted)
            results.append(_evaluate(matcher, pair, options.repeat, options.output))
            bar.advance(task)
        backend = matcher.backend
    if not results:
        raise ValueError(f'{options.path} has no stereo pairs')
    summary = {'source': str(options.path), 'backend': backend, 'repeat': options.repeat,
               'settings': config.to_mapping(),
               'all': metrics.combine(r.score for r in results).as_dict(),
               'pairs': [r.to_dict() for r in results]}
    if options.output:
        shared.write_json(options.output / 'report.json', summary)
        _write_html(options.output / 'report.html', options.path.name, backend, results)
    if options.json:
        shared.print_json(summary)
    else:
        shared.print_table(f'{options.path.name} on {backend}', COLUMNS, _rows(results))
    return 0


@dataclasses.dataclass(frozen=True)
class _Pair:
    name: str
    left: np.ndarray | RawImage
    right: np.ndarray | RawImage
    truth: np.ndarray | None
    disparities: int | None
    calibration: Any
    stamp_ns: int | None = None


def open_pairs(path: pathlib.Path) -> tuple[int, Iterator[_Pair]]:
    """Number of pairs and the pairs of a bag or a data set folder.

    :raises ValueError, StereoError: neither can be read.
    """
    if bags.is_bag(path):
        with bags.StereoBag(path) as bag:
            count = bag.pairs
        return count, _bag_pairs(path)
    dataset = datasets.open_dataset(path)
    return len(dataset), (
        # Disparities of a data set's truth are unshifted, so its calibration is left out.
        _Pair(p.name, p.left, p.right, p.truth, p.disparities, None, p.stamp_ns)
        for p in dataset)


def _bag_pairs(path: pathlib.Path) -> Iterator[_Pair]:
    with bags.StereoBag(path) as bag:
        for pair in bag.read():
            yield _Pair(str(pair.stamp_ns), pair.left, pair.right, pair.disparity, None,
                        pair.calibration, pair.stamp_ns)


def _evaluate(matcher: StereoMatcher, pair: _Pair, repeat: int,
              output: pathlib.Path | None) -> Result:
    left = pair.left if isinstance(pair.left, RawImage) else RawImage.from_array(pair.left)
    right = pair.right if isinstance(pair.right, RawImage) else RawImage.from_array(pair.right)
    if matcher.size != (left.width, left.height):
        matcher.prepare(left.width, left.height)
    times_ms = []
    for _ in range(repeat):
        start = time.perf_counter()
        frame = matcher.compute(left, right, calibration=pair.calibration)
        times_ms.append((time.perf_counter() - start) * 1e3)
    assert frame.disparity is not None
    truth = pair.truth
    if truth is None:
        truth = np.full(frame.disparity.shape, np.nan, np.float32)
    picture = ''
    if output:
        picture = pair.name.replace('/', '_') + '.png'
        files.write_image(output / picture, _picture(left, frame, pair.truth))
    return Result(pair.name, left.width, left.height, matcher.config.disparity_range,
                  statistics.median(times_ms), dict(frame.timings),
                  metrics.score(frame.disparity, truth, frame.valid), picture)


COLUMNS = ('pair', 'size', 'D', 'bad 1 px %', 'bad 2 px %', 'bad 3 px %', 'of valid: bad 3 px %',
           'density %', 'valid %', 'MAE px', 'ms')


def _rows(results: list[Result]) -> list[list[str]]:
    rows = []
    if len(results) <= ROWS:
        rows = [_row(r.name, f'{r.width} x {r.height}', str(r.disparity_range), r.score,
                     r.median_ms) for r in results]
    if len(results) > 1:
        rows.append(_row(f'all {len(results)}', '', '',
                         metrics.combine(r.score for r in results),
                         statistics.median(r.median_ms for r in results)))
    return rows


def _row(name: str, size: str, disparities: str, score: metrics.Score, time_ms: float
         ) -> list[str]:
    figures = (score.bad_known(1.0), score.bad_known(2.0), score.bad_known(3.0),
               score.bad_estimated(3.0), score.density, score.coverage, score.mae)
    return [name, size, disparities, *(_figure(value) for value in figures), f'{time_ms:.2f}']


def _figure(value: float) -> str:
    return '-' if np.isnan(value) else f'{value:.2f}'


def _write_html(path: pathlib.Path, name: str, backend: str, results: list[Result]) -> None:
    total = metrics.combine(r.score for r in results)
    tiles = [(f'{len(results)}', 'pairs'),
             (f'{statistics.median(r.median_ms for r in results):.1f} ms', 'median time'),
             (f'{total.coverage:.1f} %', 'valid pixels')]
    if total.known:
        tiles.append((f'{total.bad_known(3.0):.2f} %', 'bad pixels (> 3 px or none)'))
    shown: Iterable[Result] = results if len(results) <= ROWS else results[::len(results) // ROWS]
    report.write_html(path, f'Evaluation of {name}', f'Back end: {backend}', [
        report.Section('Figures', tiles=tiles,
                       tables=[report.Table('Pairs', COLUMNS, _rows(results))]),
        report.Section('Pictures', pictures=[(r.picture, r.name) for r in shown])])


def _picture(left: RawImage, frame: DisparityFrame, truth: np.ndarray | None) -> np.ndarray:
    assert frame.disparity is not None
    return pictures.comparison(pictures.displayable(left), frame.disparity, frame.valid, truth,
                               frame.min_disparity, frame.max_disparity,
                               columns=2 if truth is not None else None)
