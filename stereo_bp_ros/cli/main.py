"""Entry point of ``stereo_bp``: finds the verb and runs it."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence

from stereo_bp_ros import __version__
from stereo_bp_ros.errors import BackendUnavailable, StereoError

VERBS = ('match', 'evaluate', 'benchmark', 'tune', 'replay', 'info', 'demo')


def build_parser() -> argparse.ArgumentParser:
    """The parser of every verb; each verb module has HELP, add_arguments and run."""
    parser = argparse.ArgumentParser(
        prog='stereo_bp', description='Stereo matching: match two images, evaluate data sets '
        'and bags, replay them to the ROS node.')
    parser.add_argument('--version', action='version', version=__version__)
    verbs = parser.add_subparsers(dest='verb', required=True, metavar='VERB')
    for name in VERBS:
        try:
            verb = importlib.import_module(f'stereo_bp_ros.cli.{name}')
        except ImportError as error:
            # A verb may need more than the others: it must not take them along.
            child = verbs.add_parser(name, help=f'(not usable here: {error})', add_help=False)
            child.add_argument('ignored', nargs=argparse.REMAINDER)
            child.set_defaults(run=_unusable(name, error))
            continue
        child = verbs.add_parser(name, help=verb.HELP, description=verb.__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
        verb.add_arguments(child)
        child.set_defaults(run=verb.run)
    return parser


def _unusable(name: str, error: ImportError) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise BackendUnavailable(f'{name} cannot run here: {error}',
                                 "pip install 'stereo_bp_ros[evaluation]' brings what it needs")
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``stereo_bp`` with these arguments; returns the exit status.

    An error that the user can mend is one line on standard error and status 2.
    """
    logging.basicConfig(level=logging.WARNING, format='%(levelname)s: %(message)s')
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser()
    # What follows --ros-args belongs to ROS: remappings and parameters of the verb's node.
    ros_arguments: list[str] = []
    if '--ros-args' in arguments:
        start = arguments.index('--ros-args')
        arguments, ros_arguments = arguments[:start], arguments[start:]
    options = parser.parse_args(arguments)
    options.ros_arguments = ros_arguments
    try:
        return int(options.run(options))
    except (StereoError, ValueError, OSError) as error:
        print(f'stereo_bp {options.verb}: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == '__main__':
    sys.exit(main())
