"""See running nodes, a recording, or pairs that are matched here, in Rerun.

  stereo_bp view                       (a window, of every node that publishes a disparity)
  stereo_bp view --web 9090            (a browser, at http://127.0.0.1:9090)
  stereo_bp view --namespace front --namespace rear --thin 2 --thin-points 8
  stereo_bp view --save run.rrd --seconds 60
  stereo_bp view run.rrd               (opens a recording)
  stereo_bp view left.png right.png --calibration left.yaml --truth disparity.pfm
  stereo_bp view kitti2012/ --preset road
  stereo_bp view recording/ --limit 100 --save recording.rrd
  stereo_bp view drive.mp4 --side-by-side left_right --calibration left.yaml

Of a node, only the latest frame of each topic is shown: what comes while another one is on its
way to the viewer is dropped, and neither waits nor slows the node. A node computes confidence and
points while somebody subscribes to them: --without leaves them out.

Pairs of folders, bags and videos are read, rectified and matched as by `stereo_bp evaluate`.
Points need a calibration, errors a truth.
"""

from __future__ import annotations

import argparse
import functools
import logging
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress, viewer
from stereo_bp_ros.cli.source_options import (
    SOURCE,
    add_source_options,
    chosen_topics,
    open_sources,
)
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation, Matched, for_each_pair
from stereo_bp_ros.sources.bag_topics import is_bag
from stereo_bp_ros.sources.datasets.entries import IMAGE_SUFFIXES, Entry, Pair, Unread
from stereo_bp_ros.sources.datasets.named import truth_scale
from stereo_bp_ros.sources.datasets.truths import default_scale, read_truth
from stereo_bp_ros.sources.given_calibration import GivenCalibration
from stereo_bp_ros.sources.pairs import Input, inputs_of
from stereo_bp_ros.sources.videos import is_video

if TYPE_CHECKING:
    from stereo_bp_ros.replay.viewing import Sink

HELP = 'see running nodes, a recording, or pairs that it matches: window, browser or file'
NEEDS = ('rerun',)

#: What --without may leave out.
OPTIONAL = ('left', 'confidence', 'points')

#: Options whose values have another name.
OPTION_NAMES = {'settings': 'set', 'left_image': 'left', 'right_image': 'right'}

SOURCES = ('no source (running nodes), a recording (.rrd), two images or videos, or folders, bags '
           'and videos of pairs')

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('sources', type=pathlib.Path, nargs='*', metavar='source',
                        help='recording of a view (.rrd), left and right image or video, or '
                             f'pairs that are matched: {SOURCE} (default: running nodes)')
    _add_node_options(parser)
    _add_pair_options(parser)
    viewer.add_options(parser)


def _add_node_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--namespace', action='append', default=[], metavar='NAMESPACE',
                        help='of a node; several are tabs (default: every node that publishes a '
                             'disparity)')
    parser.add_argument('--without', type=_names, default=(), metavar='NAME,...',
                        help=f'do not subscribe to these of {", ".join(OPTIONAL)}')
    parser.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                        help='wait so long for a node (default 10)')
    parser.add_argument('--seconds', type=shared.real(0.1, 1e7), metavar='SECONDS',
                        help='end after this time (default: when the viewer is closed, or Ctrl-C)')


def _add_pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--limit', type=shared.whole(1), default=0, metavar='N',
                        help='stop after N pairs of each source (default: all)')
    parser.add_argument('--truth', type=pathlib.Path, metavar='FILE',
                        help='true disparity of two images: .pfm, or an image')
    add_source_options(parser)
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(','))
    if set(names) - set(OPTIONAL):
        raise argparse.ArgumentTypeError(
            f'{shown(text)} has to be a list of {", ".join(OPTIONAL)}')
    return names


def run(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)       # an orderly end, too
    recordings = [path for path in options.sources if path.suffix.lower() == '.rrd']
    if not options.sources:
        _reject(options, _add_pair_options, 'pairs', 'a node')
        return _show_nodes(options)
    _reject(options, _add_node_options, 'a node', 'a recording' if recordings else 'pairs')
    if not recordings:
        return _show_pairs(options)
    _reject(options, _add_pair_options, 'pairs', 'a recording')
    if options.save:
        raise ValueError('--save is for a node or pairs, not for a recording')
    if len(options.sources) > 1:
        raise ValueError(f'{recordings[0]} is a recording: view opens one, and nothing beside it')
    viewer.show_file(options, recordings[0])
    return 0


def _reject(options: argparse.Namespace, add: Callable[[argparse.ArgumentParser], None],
            right: str, wrong: str) -> None:
    """Reject options of one kind of source that are given with another."""
    scratch = argparse.ArgumentParser(add_help=False)
    add(scratch)
    for name, default in vars(scratch.parse_args([])).items():
        if getattr(options, name) != default:
            words = OPTION_NAMES.get(name, name.replace('_', '-'))
            raise ValueError(f'--{words} is for {right}, not for {wrong}')


def _show_nodes(options: argparse.Namespace) -> int:
    shared.require('rclpy')
    from stereo_bp_ros.replay.watching import Watch
    with viewer.opened(options, waits=False) as sink:
        with Watch(sink, options.namespace, without=options.without) as watch:
            watch.wait_for_nodes(options.wait)
            viewer.say('shown: ' + ', '.join(watch.names) + '; Ctrl-C ends')
            watch.run(options.seconds)
        viewer.say(watch.summary)
    return 0


class _Pairs(NamedTuple):
    """Pairs to match: their source, their number, the size of the first one, and themselves."""

    title: str
    total: int
    size: Callable[[], tuple[int, int]]
    unread: Iterator[Unread]


def _show_pairs(options: argparse.Namespace) -> int:
    """Match pairs, and show each as soon as it is matched."""
    pairs = _open_pairs(options)
    config = MatcherConfig.from_mapping(shared.chosen_settings(
        options, otherwise=AUTO, size=pairs.size))
    shared.say_preset(options)
    name = options.preset or 'match'
    method = Method(repeat=1, own_range=shared.names_range(options))
    warned: set[str] = set()
    count = 0
    with (viewer.opened(options) as sink,
          Evaluation({name: config}, (), method, ('confidence', 'points')) as evaluation,
          progress.Bar('view') as bar):
        task = bar.add_task(f'Matching {pairs.title}', total=pairs.total)
        for place, matched in for_each_pair(evaluation.judge, pairs.unread):
            for issue in map(str, matched.result.issues):
                if issue not in warned:
                    warned.add(issue)
                    _log.warning('%s: %s', matched.pair.name, issue)
            _show(sink, name, place, matched)
            count += 1
            bar.advance(task)
            if not sink.is_open():
                break
        if not count:
            raise ValueError(f'{pairs.title} has no stereo pairs')
        bar.stop()
        viewer.say(f'shown: {count} of {pairs.total} pairs of {pairs.title}')
    return 0


def _open_pairs(options: argparse.Namespace) -> _Pairs:
    """What the command line names.

    :raises ValueError, StereoError: it cannot be read, or is none of ``SOURCES``.
    """
    topics = chosen_topics(options)
    are_images = [path.suffix.lower() in IMAGE_SUFFIXES for path in options.sources]
    if are_images == [True, True]:
        pair = _pair_of_images(options)
        left, _ = pair.images
        return _Pairs(pair.name, 1, lambda: (left.width, left.height),
                      iter([Unread(pair.name, lambda: pair)]))
    if options.truth:
        raise ValueError('--truth is for two images: sets have truths of their own')
    for path in options.sources:
        if not path.exists():
            raise ValueError(f'there is no {path}')
        if path.is_file() and not (options.side_by_side or is_bag(path) or is_video(path)):
            raise ValueError(f'{path} cannot be viewed: view takes {SOURCES}')
    inputs = inputs_of(options.sources)
    if len(inputs) == 2 and all(map(is_video, options.sources)):
        inputs = (Input.of_videos(*options.sources),)
    sources = open_sources(inputs, topics, options.limit)
    return _Pairs(sources.title, sources.count, sources.first_size, (
        one for chunk in sources.chunks() for one in sources.unread(chunk)))


def _pair_of_images(options: argparse.Namespace) -> Pair:
    """The two images with their calibration and truth, rectified with --rectify."""
    left, right = options.sources
    truth = scale = None
    if options.truth:
        levels = options.truth_scale or truth_scale(options.truth)
        truth = functools.partial(read_truth, options.truth, levels)
        scale = levels or default_scale(options.truth)
    pair = Entry(left.name, left, right, truth, truth_scale=scale).load()
    given = GivenCalibration(chosen_topics(options), left)
    return given.applied(pair) if given else pair


def _show(sink: Sink, name: str, place: int, matched: Matched) -> None:
    pair, calibration = matched.pair, matched.calibration
    frame, figures = matched.frames[name], matched.result.matchers[name]
    sink.judged(name, place, pair.left, matched.maps[name], truth=pair.truth,
                confidence=frame.confidence, points=frame.points, stamp_ns=pair.stamp_ns,
                latency_ms={**figures.stages_ms, 'total': figures.times_ms[-1]})
    if calibration:
        sink.camera(name, calibration, matched.result.width, matched.result.height)
