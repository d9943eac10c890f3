"""Match every pair of a data set or a bag; report accuracy and time.

  stereo_bp evaluate middlebury/ --preset five_sets
  stereo_bp evaluate kitti2012/ --preset road --against sgbm,bm
  stereo_bp evaluate recording/ --preset road --output report/

Folders may be laid out as Middlebury (2001 to 2014), KITTI 2012 or 2015, a sequence of stamped
pairs, or left.png and right.png; a bag is a rosbag2 folder, a file of one, or a ROS 1 bag. Where
the data set says how many disparities it has, that many are searched unless --set disparity_range
says otherwise. docs/reference/metrics.md defines every figure.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import cv2
import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import evaluate_tables as tables
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import machine, versions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.grey import conversion_code
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import (
    datasets,
    files,
    peers,
    pictures,
    regions,
    report,
    sparsification,
)
from stereo_bp_ros.evaluation.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.types import DisparityFrame

HELP = 'a data set folder or a bag: accuracy and time as a table, JSON and HTML'
NEEDS = ()

_log = logging.getLogger(__name__)

T = TypeVar('T')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', type=pathlib.Path, help='data set folder, or bag (needs rosbags)')
    parser.add_argument('--repeat', type=shared.whole(1), default=3, metavar='N',
                        help='match each pair N times, report the median time (default 3)')
    parser.add_argument('--limit', type=shared.whole(1), default=0, metavar='N',
                        help='stop after N pairs (default: all)')
    parser.add_argument('--against', type=_peer_names, default=(), metavar='NAME[,NAME]',
                        help="match with OpenCV's matchers, too: sgbm (its mode 3WAY), bm")
    parser.add_argument('--confidence', action='store_true',
                        help='judge the confidence, too: sparsification and AUSE; matches each '
                             'pair with truth once more')
    parser.add_argument('--focal', type=shared.real(1e-3, 1e6), metavar='PIXELS',
                        help='focal length of pairs without calibration, to score by distance')
    parser.add_argument('--baseline', type=shared.real(1e-6, 1e6), metavar='METRES',
                        help='with --focal')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write report.json, report.html and a picture of every pair')
    shared.add_topic_options(parser)
    shared.add_matcher_options(parser)
    shared.add_json_option(parser)
    parser.epilog = shared.score_keys()


def _peer_names(text: str) -> tuple[str, ...]:
    """Type of --against."""
    names = tuple(dict.fromkeys(text.split(',')))
    for name in names:
        if name not in peers.NAMES:
            raise argparse.ArgumentTypeError(
                f'{shown(name)} is none of ' + ', '.join(peers.NAMES))
    return names


def run(options: argparse.Namespace) -> int:
    settings = shared.chosen_settings(options)
    config = MatcherConfig.from_mapping(settings)
    named = shared.names_range(options)
    topics = shared.chosen_topics(options)
    _check(options, config)
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
    results: list[tables.Result] = []
    with StereoMatcher(config) as matcher, shared.progress_bar() as bar:
        task = bar.add_task(f'Evaluating {options.path.name}', total=count)
        for pair in pairs:
            if len(results) == count:
                break
            if pair.disparities and not named:
                wanted = config.replace(disparity_range=pair.disparities)
                if wanted != matcher.config:
                    matcher.reconfigure(wanted)
            results.append(_evaluate(matcher, pair, options))
            bar.advance(task)
        backend = matcher.backend
    if not results:
        raise ValueError(f'{options.path} has no stereo pairs')
    totals = tables.summaries(results)
    summary = _summary(options, config, backend, results, totals)
    if options.output:
        shared.write_json(options.output / 'report.json', summary)
        _write_html(options.output / 'report.html', options.path.name, backend, results, totals)
    if options.json:
        shared.print_json(summary)
    else:
        _print(f'{options.path.name} on {backend}', results, totals)
    return 0


def _check(options: argparse.Namespace, config: MatcherConfig) -> None:
    """Refuse before anything is matched what could only fail later."""
    if (options.focal is None) != (options.baseline is None):
        raise ValueError('--focal and --baseline need each other')
    if options.against and config.reference_image != 'left':
        raise ValueError("--against needs reference_image left: OpenCV's matchers have no other")
    for name in options.against:
        peers.Peer(name, config.disparity_range, config.min_disparity)


def _summary(options: argparse.Namespace, config: MatcherConfig, backend: str,
             results: Sequence[tables.Result], totals: Mapping[str, tables.Summary]
             ) -> dict[str, Any]:
    own, *others = totals
    with peers.threads(config.num_threads) as threads:
        about_peers = {name: {'settings': peers.SETTINGS[name], 'threads': threads}
                       for name in others}
    return {
        'source': str(options.path), 'date': time.strftime('%Y-%m-%dT%H:%M:%S%z'),
        'versions': versions(), 'machine': machine(), 'backend': backend, 'matcher': own,
        'repeat': options.repeat, 'settings': config.to_mapping(),
        'metrics': {'edge_distance_px': regions.EDGE_DISTANCE,
                    'sparsification_shares': list(sparsification.SHARES)},
        **totals[own].to_dict(),
        'against': {name: {**about_peers[name], **totals[name].to_dict()} for name in others},
        'pairs': [result.to_dict() for result in results]}


def _print(title: str, results: Sequence[tables.Result], totals: Mapping[str, tables.Summary]
           ) -> None:
    table = tables.frame_table(results, totals)
    fitting = shared.fitting(table.columns, table.rows, table.ranks)
    shared.print_table(title, [table.columns[i] for i in fitting],
                       [[row[i] for i in fitting] for row in table.rows])
    columns, rows = tables.region_table(totals)
    if rows:
        shared.print_table(f'By region, mean of {len(results)}', columns, rows)
    for text in filter(None, (tables.sparsification_text(totals), table.legend)):
        print(text)


@dataclasses.dataclass(frozen=True)
class _Pair:
    name: str
    left: np.ndarray | RawImage
    right: np.ndarray | RawImage
    truth: np.ndarray | None
    disparities: int | None
    calibration: Calibration | None
    stamp_ns: int | None = None
    vehicles: np.ndarray | None = None
    sky: np.ndarray | None = None


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
        _Pair(p.name, p.left, p.right, p.truth, p.disparities, p.calibration, p.stamp_ns,
              p.vehicles, p.sky) for p in dataset)


def _bag_pairs(path: pathlib.Path, topics: StereoTopics | None) -> Iterator[_Pair]:
    from stereo_bp_ros.evaluation import bags
    with bags.StereoBag(path, topics) as bag:
        for pair in bag.read():
            yield _Pair(str(pair.stamp_ns), pair.left, pair.right, pair.disparity, None,
                        pair.calibration, pair.stamp_ns)


def _evaluate(matcher: StereoMatcher, pair: _Pair, options: argparse.Namespace
              ) -> tables.Result:
    left = pair.left if isinstance(pair.left, RawImage) else RawImage.from_array(pair.left)
    right = pair.right if isinstance(pair.right, RawImage) else RawImage.from_array(pair.right)
    if matcher.size != (left.width, left.height):
        matcher.prepare(left.width, left.height)
    config = matcher.config
    # A truth is the disparity between the images as they are, which a calibration shifts.
    frame, median_ms = _timed(options.repeat, lambda: matcher.compute(left, right))
    assert frame.disparity is not None
    confidence = None
    if options.confidence and pair.truth is not None:
        confidence = matcher.compute(left, right, outputs=('confidence',)).confidence
    judge = _judge(pair, frame.disparity.shape, options)
    found = {options.preset or config.stereo_algorithm: tables.Figures(
        median_ms, score_frame(frame.disparity, frame.valid, confidence=confidence, **judge))}
    if options.against:
        greys = [_grey(raw, config.mono16_scale) for raw in (left, right)]
        for name in options.against:
            peer = peers.Peer(name, config.disparity_range, config.min_disparity)
            with peers.threads(config.num_threads):
                (disparity, valid), median_ms = _timed(
                    options.repeat, functools.partial(peer.compute, *greys))
            found[name] = tables.Figures(median_ms, score_frame(disparity, valid, **judge))
    picture = ''
    if options.output:
        picture = pair.name.replace('/', '_') + '.png'
        files.write_image(options.output / picture, _picture(left, frame, pair.truth))
    return tables.Result(pair.name, left.width, left.height, config.disparity_range,
                         dict(frame.timings), found, picture)


def _timed(repeat: int, program: Callable[[], T]) -> tuple[T, float]:
    """What the last run returns, and the median time of all in milliseconds."""
    times_ms = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = program()
        times_ms.append((time.perf_counter() - start) * 1e3)
    return result, statistics.median(times_ms)


def _judge(pair: _Pair, shape: tuple[int, ...], options: argparse.Namespace) -> dict[str, Any]:
    """What ``score_frame`` needs to know of a pair, whoever has matched it."""
    calibration = pair.calibration
    if calibration is None and options.focal is not None:
        calibration = Calibration(options.focal, options.baseline, 0, 0, 0)
    known: dict[str, Any] = {'truth': np.full(shape, np.nan, np.float32), 'sky': pair.sky,
                             'infinity': calibration.shift if calibration else 0.0}
    if pair.truth is not None:
        known |= {'truth': pair.truth,
                  'regions': regions.find_regions(pair.truth, pair.vehicles, calibration)}
    return known


def _grey(raw: RawImage, mono16_scale: float) -> np.ndarray:
    """uint8 H x W as OpenCV's matchers take it, of an image of any encoding."""
    pixels, layout = raw.pixels, raw.layout
    if layout.luma >= 0:
        pixels = pixels[:, :, layout.luma]
    elif layout.bits == 16:
        pixels = np.clip(np.rint(pixels * mono16_scale), 0, 255).astype(np.uint8)
    elif layout.channels > 1 or layout.bayer:
        pixels = cv2.cvtColor(pixels, conversion_code(raw))
    return np.ascontiguousarray(pixels)


def _write_html(path: pathlib.Path, name: str, backend: str, results: list[tables.Result],
                totals: Mapping[str, tables.Summary]) -> None:
    own = next(iter(totals.values()))
    whole = own.pooled.whole
    tiles = [(f'{len(results)}', 'pairs'), (f'{own.median_ms:.1f} ms', 'median time'),
             (f'{whole.published.coverage:.1f} %', 'valid pixels')]
    if whole.published.known:
        tiles += [(f'{whole.published.bad_known(3.0):.2f} %', 'bad pixels (> 3 px or none)'),
                  (f'{own.mean["filled"]["bad_3_known"]:.2f} %',
                   'bad pixels (> 3 px) once filled, mean of pairs')]
    few = len(results) <= tables.ROWS
    shown: Iterable[tables.Result] = results if few else results[::len(results) // tables.ROWS]
    table = tables.frame_table(results, totals)
    sections = [report.Section('Figures', table.legend, tiles=tiles, tables=[
        report.Table('Pairs', table.columns, table.rows)])]
    columns, rows = tables.region_table(totals)
    if rows:
        sections.append(report.Section('Regions', tables.sparsification_text(totals), tables=[
            report.Table(f'By region, mean of {len(results)}', columns, rows)]))
    report.write_html(path, f'Evaluation of {name}', f'Back end: {backend}', [
        *sections, report.Section('Pictures', pictures=[(r.picture, r.name) for r in shown])])


def _picture(left: RawImage, frame: DisparityFrame, truth: np.ndarray | None) -> np.ndarray:
    assert frame.disparity is not None
    return pictures.comparison(pictures.displayable(left), frame.disparity, frame.valid, truth,
                               frame.min_disparity, frame.max_disparity,
                               columns=2 if truth is not None else None)
