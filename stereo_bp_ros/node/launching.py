"""What the node's launch file makes of its arguments; knows nothing of launch itself."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping, Sequence

from stereo_bp_ros.config import all_settings
from stereo_bp_ros.config.settings import Setting, Value, did_you_mean
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.node.main import EXIT_REFUSED

#: Arguments that launch itself reads.
OF_LAUNCH = ('emulate_tty', 'sigterm_timeout', 'sigkill_timeout')


def parse_boolean(name: str, text: str) -> bool:
    """A boolean argument in any spelling of YAML: true, True, yes, on.

    :raises ConfigError: another text.
    """
    return bool(Setting(name, bool, False, '').parse(text))


def parameter_values(given: Mapping[str, str]) -> dict[str, Value]:
    """The arguments that are parameters of the node, and set, in the types of the parameters.

    :raises ConfigError: a refused value.
    """
    values: dict[str, Value] = {
        name: setting.parse(given[name]) for name, setting in all_settings().items()
        if given.get(name)}
    if given.get('use_sim_time'):
        values['use_sim_time'] = parse_boolean('use_sim_time', given['use_sim_time'])
    return values


def parameter_file(text: str) -> list[str]:
    """The file of ``params_file``; none for ''.

    :raises ConfigError: there is no such file.
    """
    if text and not pathlib.Path(text).is_file():
        raise ConfigError('params_file', text, 'there is no such file')
    return [text] if text else []


def unknown_arguments(file: str, command: Sequence[str], arguments: Sequence[str],
                      known: Collection[str]) -> list[str]:
    """A sentence about each ``name:=value`` of nobody's, with the closest name that is known.

    None for a file that another one includes: what its command line names belongs to all files.

    :param file: name of the launch file.
    :param command: the command line of launch, which names the file that was started.
    """
    if not any(pathlib.PurePath(word).name == file for word in command):
        return []
    found = []
    for argument in arguments:
        name, given, _ = argument.partition(':=')
        if given and name not in known and name not in OF_LAUNCH:
            found.append(f'{file} has no argument {name}{did_you_mean(name, known)} '
                         '(--show-args lists them)')
    return found


def refusal(status: int) -> str:
    """Why a node that ended with this status is not started again; '' = it is."""
    if status != EXIT_REFUSED:
        return ''
    return ('the node has refused to start, see above, and is not started again: '
            'it would refuse each time')
