"""Match every pair of a data set or a bag; report accuracy and time.

  stereo_bp evaluate middlebury/ --preset five_sets
  stereo_bp evaluate recording/ --preset road --output report/

Folders may be laid out as Middlebury (2001 to 2014), KITTI 2012, a sequence of stamped pairs, or
left.png and right.png; a bag is a rosbag2 folder, a file of one, or a ROS 1 bag. Where the data
set says how many disparities it has, that many are searched unless --set disparity_range says
otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import pathlib
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import datasets, files, metrics, pictures, report
from stereo_bp_ros.evaluation.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.types import DisparityFrame

HELP = 'a data set folder or a bag: accuracy and time as a table, JSON and HTML'
NEEDS = ()

_log = logging.getLogger(__name__)

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
    parser.add_argument('path', type=pathlib.Path, help='data set folder, or bag (needs rosbags)')
    parser.add_argument('--repeat', type=shared.whole(1), default=3, metavar='N',
                        help='match each pair N times, report the median time (default 3)')
    parser.add_argument('--limit', type=shared.whole(1), default=0, metavar='N',
                        help='stop after N pairs (default: all)')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write report.json, report.html and a picture of every pair')
    shared.add_topic_options(parser)
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)
    parser.epilog = shared.score_keys()


def run(options: argparse.Namespace) -> int:
    settings = shared.chosen_settings(options)
    config = MatcherConfig.from_mapping(settings)
    named = shared.names_range(options)
    topics = shared.chosen_topics(options)
    count, pairs = open_pairs(options.path, topics)
    if is_bag(options.path):
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(options.path, topics) as bag:
            for warning in bag.warnings():
                _log.warning(warning)
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
        print('bad N px: pixels wrong by more than N px or without a disparity, of those with '
              'truth; of valid: of those with both.\ndensity: pixels with a disparity, of those '
              'with truth; valid: of all; MAE: of those with both.')
    return 0


@dataclasses.dataclass(frozen=True)
class _Pair:
    name: str
    left: np.ndarray | RawImage
    right: np.ndarray | RawImage
    truth: np.ndarray | None
    disparities: int | None
    calibration: Calibration | None
    stamp_ns: int | None = None


def open_pairs(path: pathlib.Path, topics: StereoTopics | None = None
               ) -> tuple[int, Iterator[_Pair]]:
    """Number of pairs and the pairs of a bag or a data set folder.

    :param topics: those of a bag that are not to be found by their names.
    :raises ValueError, StereoError: neither can be read.
    """
    if is_bag(path):
        shared.require('rosbags')       # which folders of images do without
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(path, topics) as bag:
            count = bag.pairs
        return count, _bag_pairs(path, topics)
    dataset = datasets.open_dataset(path)
    return len(dataset), (
        _Pair(p.name, p.left, p.right, p.truth, p.disparities, p.calibration, p.stamp_ns)
        for p in dataset)


def _bag_pairs(path: pathlib.Path, topics: StereoTopics | None) -> Iterator[_Pair]:
    from stereo_bp_ros.evaluation import bags
    with bags.StereoBag(path, topics) as bag:
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
        # A truth is the disparity between the images as they are, which a calibration shifts.
        frame = matcher.compute(left, right)
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
