"""See a running node: image, disparity, confidence, points, latency, drops and diagnostics.

  stereo_bp view                       (a window, of every node that publishes a disparity)
  stereo_bp view --web 9090            (a browser, at http://127.0.0.1:9090)
  stereo_bp view --namespace front --namespace rear --thin 2 --thin-points 8
  stereo_bp view --save run.rrd --seconds 60
  stereo_bp view run.rrd               (opens a recording)

Only the latest frame of each topic is shown: what comes while another one is on its way to the
viewer is dropped, and neither waits nor slows the node. A node computes confidence and points
while somebody subscribes to them: --without leaves them out.
"""

from __future__ import annotations

import argparse
import pathlib
import signal

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import viewer
from stereo_bp_ros.errors import shown

HELP = 'see a running node or a recording in Rerun: window, browser or file'
NEEDS = ('rerun',)

#: What --without may leave out.
OPTIONAL = ('left', 'confidence', 'points')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('recording', type=pathlib.Path, nargs='?',
                        help='open this recording (.rrd) instead of a node')
    parser.add_argument('--namespace', action='append', default=[], metavar='NAMESPACE',
                        help='of a node; several are tabs (default: every node that publishes a '
                             'disparity)')
    parser.add_argument('--without', type=_names, default=(), metavar='NAME,...',
                        help=f'do not subscribe to these of {", ".join(OPTIONAL)}')
    parser.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                        help='wait so long for a node (default 10)')
    parser.add_argument('--seconds', type=shared.real(0.1, 1e7), metavar='SECONDS',
                        help='end after this time (default: when the viewer is closed, or Ctrl-C)')
    viewer.add_options(parser)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(','))
    if set(names) - set(OPTIONAL):
        raise argparse.ArgumentTypeError(
            f'{shown(text)} has to be a list of {", ".join(OPTIONAL)}')
    return names


def run(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)       # an orderly end, too
    options.view = options.view or not viewer.is_wanted(options)
    if options.recording:
        for name in ('save', 'namespace', 'without', 'seconds'):
            if getattr(options, name):
                raise ValueError(f'--{name} is for a node, not for a recording')
        viewer.show_file(options, options.recording)
        return 0
    shared.require('rclpy')
    from stereo_bp_ros.replay.watching import Watch
    with viewer.opened(options, waits=False) as sink:
        assert sink is not None
        with Watch(sink, options.namespace, without=options.without) as watch:
            watch.wait_for_nodes(options.wait)
            viewer.say('shown: ' + ', '.join(watch.names) + '; Ctrl-C ends')
            watch.run(options.seconds)
        viewer.say(watch.summary)
    return 0
