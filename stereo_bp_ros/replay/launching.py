"""What the replay launch file makes of its arguments; knows nothing of launch itself."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from stereo_bp_ros.config.mappings import stamp_tolerance_s
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.config.settings import Setting, Value
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources.bag_topics import StereoTopics, is_rectified_name

#: Folder of the report where ``output`` is not set, and the word for none.
OUTPUT, NO_OUTPUT = 'stereo_bp_replay', 'none'

#: Arguments that name topics of the bag, in the order of ``StereoTopics``.
TOPICS = ('left_image', 'right_image', 'left_info', 'right_info')


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a replay is started.

    node: arguments that the node's launch file gets on top of the user's.
    parameters: of the node, so that a recorded run loses nothing; those of the user win.
    player: the command line of ``stereo_bp``.
    remappings: from the player's topics to those that the node subscribes to.
    """

    node: dict[str, str]
    parameters: dict[str, Value]
    player: list[str]
    remappings: dict[str, str]


def plan(given: Mapping[str, str], namespace: str = '/') -> Plan:
    """What follows from the arguments that are set, and from what is in the bag.

    A run that is recorded lives in the time of the source; ``image_transport`` follows the bag.
    What the user sets, as an argument or in the parameter file, stays.

    :param namespace: the node's, from the root on.
    :raises ConfigError, StereoError: arguments that contradict each other, or no such source.
    """
    set_by_user = load_parameter_file(given['params_file']) if given.get('params_file') else {}
    followed = ('use_sim_time', 'image_transport', 'rectify', 'side_by_side')
    set_by_user.update({name: given[name] for name in followed if given.get(name)})
    if bool(given.get('bag')) == bool(given.get('images')):
        raise StereoError('set bag:=<path> or images:=<folder>, one of the two')
    if given.get('cameras'):
        raise ConfigError('cameras', given['cameras'], 'a recording is played to one camera')
    if (layout := set_by_user.get('side_by_side') or 'off') != 'off':
        raise ConfigError('side_by_side', layout, 'a replay sends the images of both cameras on '
                          'topics of their own: leave it off')
    path = given.get('bag') or given['images']
    topics = StereoTopics(*(given.get(name, '') for name in TOPICS),
                          tolerance_s=stamp_tolerance_s(set_by_user))
    source = open_source(pathlib.Path(path), topics=topics)
    image = 'image_rect'
    if _boolean('rectify', set_by_user):
        image = 'image_raw'
        rectified = [topic for topic in source.images if is_rectified_name(topic)]
        if rectified:
            raise ConfigError('rectify', True, f'{rectified[0]} of the bag is rectified by its '
                              'name: name raw topics with left_image:= and right_image:=')
    loops = Setting('loop', int, 1, '', 0).parse(given.get('loop') or '1')
    in_sim_time = _boolean('use_sim_time', set_by_user)
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
    cameras = {side: given.get(f'{side}_namespace') or side for side in SIDES}
    parameters = (session.reliable_overrides(namespace, cameras=cameras, image=image)
                  if output else {})
    return Plan(node, parameters, player, _remappings(cameras, image))


def _boolean(name: str, values: Mapping[str, Value]) -> bool | None:
    """A parameter that is true or false; None = it is not set."""
    if name not in values:
        return None
    return bool(Setting(name, bool, False, '').parse(str(values[name])))


def _remappings(cameras: Mapping[str, str], image: str) -> dict[str, str]:
    """From the player's topics to those of the cameras, whose images are named ``image``.

    :param cameras: namespaces of the images, by side.
    """
    names = {'image_rect': image, 'image_rect/compressed': f'{image}/compressed',
             'camera_info': 'camera_info'}
    found = {f'{side}/{name}': f'{cameras[side]}/{target}'
             for side in SIDES for name, target in names.items()}
    return {topic: target for topic, target in found.items() if topic != target}
