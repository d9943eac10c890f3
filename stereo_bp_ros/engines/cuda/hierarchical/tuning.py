"""What the tuner has found, in files that engines read when they are built. No CuPy is imported.

One file for each problem and machine, in the user's cache directory; ``docs/howto/tune.md`` shows
its JSON. A file that was written by another version, for other kernels, on another machine, or
that is not finished or not sound, is not used, and ``look_up`` says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import pathlib
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.engines import cache, programs
from stereo_bp_ros.engines.cuda.hierarchical import schedule
from stereo_bp_ros.engines.cuda.hierarchical.launch import MAX_HALO, Tiling
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.cuda.tunable import Tunable
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.papers.programs import TUNED_SETTINGS

#: Of the files; another number is another format.
VERSION = 2

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Problem:
    """What decides which tiling is fast, beside the device.

    width, height: of what is matched at once, pixels; messages, costs: the C++ types that they
    are kept as, or the name and the layout of a program's messages; iterations: of a level, or
    where levels differ those of each, level 0 first, as '3-5-5'.
    """

    width: int
    height: int
    disparities: int
    messages: str
    costs: str
    levels: int
    iterations: int | str

    @classmethod
    def of(cls, config: ResolvedConfig, width: int, height: int) -> Problem:
        matching: type[Tunable] = programs.matching('cuda', config)
        messages, costs = matching.kept_as(config)
        given = config.iterations_of_levels
        iterations = given[0] if len(set(given)) == 1 else '-'.join(map(str, given))
        return cls(width, height, config.disparity_range, messages, costs, config.levels,
                   iterations)

    @property
    def stem(self) -> str:
        """How the names of all of its files begin."""
        return (f'{self.width}x{self.height}x{self.disparities}_{self.messages}_{self.costs}_'
                f'{self.levels}x{self.iterations}_').lower()


class Tuned(NamedTuple):
    """What there is for a problem.

    tilings: by level, {} = the engine's own choice; reason: where they come from, or why they are
    not used; is_ignored: there is a file, and it is not used; settings: of a program.
    """

    tilings: dict[int, Tiling]
    reason: str
    is_ignored: bool = False
    settings: Mapping[str, int] = types.MappingProxyType({})


def machine(device: Properties) -> dict[str, str]:
    """What must be the same for a tiling to be as fast again."""
    from cupy.cuda import nvrtc
    return {'device': device.name, 'capability': '{}.{}'.format(*device.capability),
            'driver': str(device.driver),
            'compiler': '.'.join(map(str, nvrtc.getVersion()))}


def directory() -> pathlib.Path:
    """Where the files are: ``stereo_bp_ros/tuning`` in the user's cache directory."""
    return cache.user_cache() / 'stereo_bp_ros' / 'tuning'


def place(problem: Problem, on: dict[str, str]) -> pathlib.Path:
    """The file of a problem on a machine."""
    digest = hashlib.sha256(json.dumps(on, sort_keys=True).encode()).hexdigest()
    return directory() / f'{problem.stem}{digest[:12]}.tuned'


def look_up(config: ResolvedConfig, width: int, height: int, device: Properties,
            on: dict[str, str] | None = None) -> Tuned:
    """The tilings that were found for a problem on this machine.

    :param width, height: of what is matched at once, pixels.
    :param on: the machine, where ``machine(device)`` is not to be asked.
    """
    if not can_be_tuned(config):
        return Tuned({}, 'there is nothing to tune')
    problem = Problem.of(config, width, height)
    try:
        files = sorted(directory().glob(problem.stem + '*.tuned'))
    except (OSError, RuntimeError):     # no home, or one that cannot be looked into
        files = []
    if not files:
        return Tuned({}, 'never tuned')
    on = on or machine(device)
    own = place(problem, on)
    # Of another machine, if at all: the reason names it.
    file = own if own in files else files[0]
    content, reason = read(file, problem, on)
    if not reason and not content.get('finished'):
        reason = 'the tuning is not finished: stereo_bp tune goes on with it'
    if not reason:
        found = sound(config, content, device)
        settings = {key: value for key, value in found.items() if isinstance(key, str)}
        if len(found) == len(content['tilings']) + len(content['settings']):
            return Tuned({key: value for key, value in found.items() if isinstance(key, int)},
                         f'tuned on {content["date"]}: {content["ratio"]:.3f} of the time of the '
                         'engine by itself', settings=settings)
        reason = 'the file has tilings that the device cannot run'
    return Tuned({}, reason, is_ignored=file.exists())


def can_be_tuned(config: ResolvedConfig) -> bool:
    """Whether anything is left to choose: tilings, or the split of hybrid storage."""
    matching = programs.matching('cuda', config)
    return (any(config.iterations_of_levels) and issubclass(matching, Tunable)
            and matching.can_be_tuned(config))


def read(file: pathlib.Path, problem: Problem, on: dict[str, str]) -> tuple[dict[str, Any], str]:
    """The content of a file, finished or not, and why it is of no use here ('' = it is)."""
    whole = cache.read(file)
    if whole is None:
        return {}, f'{file.name} cannot be read'
    content = json.loads(whole)
    if not isinstance(content, dict) or content.get('version') != VERSION:
        return {}, f'{file.name} is not of format {VERSION}'
    kinds: dict[str, type] = {'tilings': dict, 'settings': dict, 'date': str, 'done': list,
                              'machine': dict}
    if content.get('finished'):
        kinds |= {'ratio': float, 'milliseconds': list}
    if not all(isinstance(content.get(name), kind) for name, kind in kinds.items()):
        return {}, f'{file.name} is not a file of the tuner'
    if content.get('problem') != dataclasses.asdict(problem):
        return {}, 'the file is about another problem'
    for name, value in on.items():
        other = content['machine'].get(name)
        if other != value:
            return {}, f'tuned for another {name}: {other}, here {value}'
    if content.get('kernels') != compiler.sources_digest():
        return {}, 'tuned for other kernels: tune again'
    return content, ''


def sound(config: ResolvedConfig, content: dict[str, Any], device: Properties) -> dict[Any, Any]:
    """Tilings by level and settings by name that kernels can run with: files are not trusted."""
    found: dict[Any, Any] = {}
    for k, values in content['tilings'].items():
        try:
            tiling = _from_json(values)
            if 0 <= int(k) < config.levels and _is_sound(tiling) and (
                    tiling.last is None or _is_sound(tiling.last)) and schedule.fits(
                        config, int(k), tiling, device):
                found[int(k)] = tiling
        except (TypeError, ValueError):
            continue
    settings = content['settings']
    if set(settings) == set(TUNED_SETTINGS):
        with contextlib.suppress(ConfigError):
            programs.check('cuda', config.replace(**settings), device)
            found.update(settings)
    return found


def _is_sound(tiling: Tiling) -> bool:
    numbers = tiling[:5]
    return (all(isinstance(number, int) and number > 0 for number in numbers)
            and tiling.iterations < MAX_HALO and max(tiling.width, tiling.height) <= 128
            and tiling.width % 2 == tiling.height % 2 == tiling.threads % 32 == 0
            and tiling.directions in (1, 2, 4) and isinstance(tiling.resident, bool))


def _from_json(values: dict[str, Any]) -> Tiling:
    last = values.get('last')
    return Tiling(**{**values, 'last': _from_json(last) if last else None})


def _to_json(tiling: Tiling) -> dict[str, Any]:
    return {**tiling._asdict(), 'last': _to_json(tiling.last) if tiling.last else None}


def write(problem: Problem, on: dict[str, str], best: Mapping[Any, Any],
          **more: Any) -> pathlib.Path:
    """Write a file as a whole or not at all; returns where it is.

    What was asked for is lost where this fails, so it is an error here.

    :param best: tilings by level, and settings by name.
    :param more: 'date', 'finished', 'ratio', and what the tuner wants to know again.
    :raises OSError: the directory is somebody else's, or cannot be written.
    """
    file = place(problem, on)
    cache.open_directory('tuning')
    content = {'version': VERSION, 'problem': dataclasses.asdict(problem), 'machine': on,
               'kernels': compiler.sources_digest(),
               'tilings': {str(key): _to_json(value) for key, value in best.items()
                           if isinstance(key, int)},
               'settings': {key: value for key, value in best.items() if isinstance(key, str)},
               **more}
    cache.write_or_raise(file, json.dumps(content, indent=1).encode())
    return file


def for_engine(config: ResolvedConfig, width: int, height: int, device: Properties) -> Tuned:
    """What an engine takes when it is built; logs why where a file is not used."""
    tuned = look_up(config, width, height, device)
    if tuned.is_ignored:
        _log.warning('no tuned tilings for %s x %s: %s', width, height, tuned.reason)
    return tuned
