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

#: What each request does.
REQUESTS = {'list': 'print every parameter and its value', 'get': 'print the value of a parameter',
            'set': 'set a parameter, and print its value then'}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    requests = parser.add_subparsers(dest='request', required=True, metavar='{list,get,set}')
    for request, text in REQUESTS.items():
        child = requests.add_parser(request, help=text, description=f'{text.capitalize()}.')
        if request != 'list':
            child.add_argument('name', metavar='NAME',
                               help='name of the parameter (docs/reference/parameters.md)')
        if request == 'set':
            child.add_argument('value', metavar='VALUE', help='its new value')
        child.add_argument('--namespace', metavar='NAMESPACE',
                           help='of the node (default: the only one)')
        child.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                           help='wait so long for the node, and for its answers (default 10)')
        shared.add_json_option(child)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.replay.listening import namespace_of
    from stereo_bp_ros.replay.parameter_requests import RemoteParameters
    from stereo_bp_ros.replay.statuses import Statuses
    with Statuses() as statuses:
        found = statuses.find(options.wait, [options.namespace] if options.namespace else [])
        if len(found) > 1:
            raise StereoError(f'there are {", ".join(found)}: --namespace names one')
        node, = found
        parameters = RemoteParameters(statuses.node, node, options.wait)
        if options.request == 'set':
            values = {options.name: parameters.set(options.name, options.value)}
        else:
            values = parameters.get([options.name] if options.request == 'get'
                                    else parameters.names())
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
