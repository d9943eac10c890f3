"""What the node's launch file makes of its arguments; knows nothing of launch itself."""

from __future__ import annotations

import difflib
import pathlib
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from stereo_bp_ros.config import stereo_image_proc
from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.config.settings import Setting, Value, did_you_mean
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.node.main import EXIT_REFUSED

#: Arguments that launch itself reads; ``ros2 launch`` makes the last two of its options.
OF_LAUNCH = ('emulate_tty', 'sigterm_timeout', 'sigkill_timeout', 'launch-prefix',
             'launch-prefix-filter')

#: From which ratio of ``difflib`` on a name is taken for a misspelled one.
RESEMBLANCE = 0.85

#: Arguments of all cameras together, which an entry of a file of cameras cannot have.
OF_ALL_CAMERAS = ('cameras', 'diagnostics', 'view')

#: Arguments that are true or false and no parameters of the node's own.
BOOLEANS = ('use_sim_time', 'respawn')


def parse_boolean(name: str, given: Value) -> bool:
    """A boolean argument in any spelling of YAML: true, True, yes, on.

    :raises ConfigError: another value.
    """
    return bool(_in_type(Setting(name, bool, False, ''), given))


def parameter_values(given: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments that are parameters of the node, and set, in the types of the parameters.

    :param given: texts of a command line, or values of a file; '' = not set.
    :raises ConfigError: a rejected value.
    """
    values: dict[str, Value] = {
        name: _in_type(setting, given[name]) for name, setting in all_settings().items()
        if given.get(name, '') != ''}
    if given.get('use_sim_time', '') != '':
        values['use_sim_time'] = parse_boolean('use_sim_time', given['use_sim_time'])
    return values


def _in_type(setting: Setting, given: Value) -> Value:
    value = setting.parse(given) if isinstance(given, str) else setting.coerce(given)
    # A number stays one: beside it the node reads values as stereo_image_proc does.
    return next((number for number, name in setting.aliases.items()
                 if name == value and str(given).strip() == str(number)), value)


def absolute_namespace(given: Mapping[str, str], namespace: str) -> str:
    """That of a node whose argument is ``namespace``, inside what another file has pushed.

    :param given: the configurations of launch.
    """
    return posixpath.join('/', given.get('ros_namespace', ''), namespace)


def cameras(given: Mapping[str, str], choices: Mapping[str, Collection[str]]
            ) -> list[dict[str, Any]]:
    """The arguments of every node: those of the command line, or one set for each camera.

    The file ``cameras`` is a list with an entry for each camera. Its keys are arguments, which
    win over the command line, and ``remappings``, a mapping of topics to others. An entry needs
    a ``namespace``, which is taken inside that of the command line. Its ``params_file`` and
    its ``calibration`` are looked for beside the file.

    :param choices: every argument of the launch file, with the texts that it is limited to.
    :raises ConfigError: the file cannot be read; an unknown argument; a rejected value; a
        namespace that is missing or there twice. The text names the file and the camera.
    """
    if not given['cameras']:
        return [dict(given)]
    path = pathlib.Path(given['cameras'])
    try:
        entries = read_yaml(path)
    except ValueError as error:
        raise ConfigError('cameras', path.name, str(error)) from error
    if not isinstance(entries, list) or not entries:
        raise ConfigError('cameras', path.name, 'the file must be a list of cameras')
    of_entries = {name: allowed for name, allowed in choices.items() if name not in OF_ALL_CAMERAS}
    by_namespace: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries, 1):
        try:
            camera = _camera(entry, of_entries, path.parent)
            camera['namespace'] = posixpath.join(given['namespace'], camera['namespace'])
            if by_namespace.setdefault(camera['namespace'].strip('/'), camera) is not camera:
                raise ConfigError('namespace', camera['namespace'],
                                  'an earlier camera has the same')
        except ConfigError as error:
            raise ConfigError(f'{path.name}, camera {number}: {error.field}', error.value,
                              error.limit) from error
    return [{**given, **camera} for camera in by_namespace.values()]


def _camera(entry: Any, choices: Mapping[str, Collection[str]], folder: pathlib.Path
            ) -> dict[str, Any]:
    """An entry that has been checked."""
    if not isinstance(entry, dict):
        raise ConfigError('the entry', entry, 'must be a mapping of arguments to values')
    if not str(entry.get('namespace') or '').strip('/'):
        raise ConfigError('namespace', entry.get('namespace', ''),
                          'every camera needs one of its own')
    camera = dict(entry)
    remappings = camera.pop('remappings', {})
    for name, value in camera.items():
        if name not in choices:
            raise ConfigError(name, value, 'there is no argument of this name'
                              + did_you_mean(str(name), [*choices, 'remappings']))
        if choices[name] and value not in choices[name]:
            raise ConfigError(name, value, 'must be one of '
                              + ', '.join(filter(None, choices[name])))
        if name in BOOLEANS:
            parse_boolean(name, value)
        elif name not in all_settings() and not isinstance(value, str):
            raise ConfigError(name, value, 'must be a text')
    parameter_values(camera)
    if camera.get('params_file'):
        camera['params_file'], = parameter_file(str(folder / camera['params_file']))
    if camera.get('calibration'):
        camera['calibration'] = str(folder / camera['calibration'])
    if not isinstance(remappings, dict) or not all(
            isinstance(topic, str) for pair in remappings.items() for topic in pair):
        raise ConfigError('remappings', remappings, 'must be a mapping of topics to others')
    return {**camera, 'remappings': list(remappings.items())}


def parameter_file(text: str) -> list[str]:
    """The file of ``params_file``; none for ''.

    :raises ConfigError: there is no such file.
    """
    if text and not pathlib.Path(text).is_file():
        raise ConfigError('params_file', text, 'there is no such file')
    return [text] if text else []


def analyzers(nodes: Iterable[str]) -> dict[str, Any]:
    """Parameters of diagnostic_aggregator that group the statuses of these nodes, each by itself.

    :param nodes: fully qualified names, as the statuses have them.
    """
    return {'path': 'stereo_bp'} | {f'camera{number}': {
        'type': 'diagnostic_aggregator/GenericAnalyzer', 'path': node.strip('/'),
        'find_and_remove_prefix': [f'{node}: ']}
        for number, node in enumerate(nodes)}


def unknown_arguments(file: str, command: Sequence[str], arguments: Sequence[str],
                      given: Collection[str], known: Collection[str]) -> dict[str, str]:
    """A sentence about each argument of nobody's, with the closest name that is known.

    Of the file that was started: every ``name:=value`` of the command line. A file that another
    one includes sees all that is set anywhere, and does not know what is meant for it: there only
    names that resemble an argument, or that stereo_image_proc has, get a sentence.

    :param file: name of the launch file.
    :param command: the command line of launch, which names the file that was started.
    :param arguments: those of the command line.
    :param given: names of all configurations that are set.
    """
    if any(pathlib.PurePath(word).name == file for word in command):
        names = [name for name, _, value in (word.partition(':=') for word in arguments) if value]
        text = '{} has no argument {}{} (--show-args lists them)'
    else:
        names = [name for name in given if stereo_image_proc.hint(name)
                 or difflib.get_close_matches(name, known, 1, RESEMBLANCE)]
        text = '{} has no argument {}, which is set{} (if it is for another file, all is well)'
    return {name: text.format(file, name, did_you_mean(name, known))
            for name in names if name not in known and name not in OF_LAUNCH}


def refusal(status: int) -> str:
    """Why a node that ended with this status is not started again; '' = it is."""
    if status != EXIT_REFUSED:
        return ''
    return ('the node has refused to start, see above, and is not started again: '
            'it would refuse each time')
