"""What the replay launch file makes of its arguments; knows nothing of launch itself."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from stereo_bp_ros.config.files import load_parameter_file
from stereo_bp_ros.config.settings import Setting
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.evaluation.bag_topics import StereoTopics
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source

#: Folder of the report where ``output`` is not set, and the word for none.
OUTPUT, NO_OUTPUT = 'stereo_bp_replay', 'none'

#: Arguments that name topics of the bag, in the order of ``StereoTopics``.
TOPICS = ('left_image', 'right_image', 'left_info', 'right_info')


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a replay is started.

    node: arguments that the node's launch file gets on top of the user's.
    player: the command line of ``stereo_bp``.
    """

    node: dict[str, str]
    player: list[str]


def plan(given: Mapping[str, str]) -> Plan:
    """What follows from the arguments that are set, and from what is in the bag.

    A run that is recorded lives in the time of the source; ``image_transport`` follows the bag.
    What the user sets, as an argument or in the parameter file, stays.

    :raises ConfigError, StereoError: arguments that contradict each other, or no such source.
    """
    set_by_user = load_parameter_file(given['params_file']) if given.get('params_file') else {}
    set_by_user.update({name: given[name] for name in ('use_sim_time', 'image_transport')
                        if given.get(name)})
    if bool(given.get('bag')) == bool(given.get('images')):
        raise StereoError('set bag:=<path> or images:=<folder>, one of the two')
    path = given.get('bag') or given['images']
    topics = StereoTopics(*(given.get(name, '') for name in TOPICS))
    source = open_source(pathlib.Path(path), topics=topics)
    loops = Setting('loop', int, 1, '', 0).parse(given.get('loop') or '1')
    in_sim_time = None
    if 'use_sim_time' in set_by_user:
        in_sim_time = Setting('use_sim_time', bool, False, '').parse(
            str(set_by_user['use_sim_time']))
    output = given.get('output') or ('' if loops == 0 or in_sim_time is False else OUTPUT)
    output = '' if output == NO_OUTPUT else output
    if output and loops == 0:
        raise ConfigError('loop', loops, 'a replay that is recorded has an end: at least 1, or '
                          f'output:={NO_OUTPUT}')
    if output and in_sim_time is False:
        raise ConfigError('use_sim_time', in_sim_time, 'a replay that is recorded lives in the '
                          f'time of the bag: true, or output:={NO_OUTPUT}')
    node = {}
    if output and in_sim_time is None:
        node['use_sim_time'] = 'true'
    if source.compressed and 'image_transport' not in set_by_user:
        node['image_transport'] = 'compressed'
    # The node may have to compile first.
    player = ['replay', path, '--rate', given.get('rate') or '1.0', '--loop', str(loops),
              '--wait', f'{session.START_LIMIT_S:g}', *topics.options()]
    player += ['--output', output] if output else ['--clock'] if in_sim_time else []
    return Plan(node, player)
