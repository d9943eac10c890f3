"""Read and set parameters of a running node, as `ros2 param` does.

  stereo_bp param list                        (names and values)
  stereo_bp param get preset                  (and what is effective: auto (road_fast))
  stereo_bp param set preset sad_fast
  stereo_bp param set --namespace front confidence_threshold 0.4
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.errors import StereoError

HELP = 'read and set parameters of a running node'
NEEDS = ('rclpy',)

#: Words behind each request.
WORDS = {'get': ('NAME',), 'set': ('NAME', 'VALUE'), 'list': ()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('request', choices=list(WORDS), help='what to do')
    parser.add_argument('words', nargs='*', metavar='NAME VALUE',
                        help='of get and set: of a parameter (docs/reference/parameters.md); '
                             'its value')
    parser.add_argument('--namespace', metavar='NAMESPACE',
                        help='of the node (default: the only one)')
    parser.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                        help='wait so long for the node, and for its answers (default 10)')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.replay.listening import namespace_of
    from stereo_bp_ros.replay.parameter_requests import RemoteParameters
    from stereo_bp_ros.replay.statuses import Statuses
    wanted = WORDS[options.request]
    if len(options.words) != len(wanted):
        raise ValueError(f'param {" ".join((options.request, *wanted))} it is, and not '
                         f'{len(options.words)} words behind {options.request}')
    with Statuses() as statuses:
        found = statuses.find(options.wait, [options.namespace] if options.namespace else [])
        if len(found) > 1:
            raise StereoError(f'there are {", ".join(found)}: --namespace names one')
        node, = found
        parameters = RemoteParameters(statuses.node, node, options.wait)
        if options.request == 'set':
            name, value = options.words
            values = {name: parameters.set(name, value)}
        else:
            values = parameters.get(options.words or parameters.names())
        status = statuses.figures([namespace_of(node)])[node]
    beside = effective(values, status) if options.request != 'set' else {}
    if options.json:
        shared.print_json({node: values, **({'effective': beside} if beside else {})})
    else:
        for name, value in values.items():
            text = beside.get(name) or str(value)
            shared.say(text if options.request == 'get' else f'{name}: {text}')
    return 0


def effective(values: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, str]:
    """What parameters of a node lead to, where that is not their values.

    :param status: of the node, as ``Statuses.figures`` has it.
    """
    found = {}
    if values.get('preset') == AUTO and status['preset']:
        found['preset'] = status['preset']
    if 'disparity_range' in values and 'min_depth' in (status['disparities'] or ''):
        found['disparity_range'] = f'{values["disparity_range"]} ({status["disparities"]})'
    return found
