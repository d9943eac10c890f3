"""The ways to match by name: the engine's own, and the programs that repeat papers.

Engines do not import ``papers``: a program's classes are imported when they are used.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from stereo_bp_ros.config import ResolvedConfig

_ENGINES, _PAPERS = 'stereo_bp_ros.engines', 'stereo_bp_ros.papers'

#: Program to its classes, by back end and algorithm; one that is not there is the default's.
PROGRAMS: dict[str, dict[tuple[str, str], str]] = {
    'default': {
        ('cuda', 'bp'): f'{_ENGINES}.cuda.hierarchical.matching:Hierarchical',
        ('cuda', 'tiled_bp'): f'{_ENGINES}.cuda.tiled.matching:Tiled',
        ('cuda', 'sad'): f'{_ENGINES}.cuda.sad.matching:Sad',
        ('cpu', 'bp'): f'{_ENGINES}.cpu.hierarchical.matching:Hierarchical',
        ('cpu', 'tiled_bp'): f'{_ENGINES}.cpu.matching:Tiled',
        ('cpu', 'sad'): f'{_ENGINES}.cpu.matching:Sad'},
    'plain_steps': {
        ('cuda', 'bp'): f'{_PAPERS}.plain_steps.cuda:PlainSteps',
        ('cpu', 'bp'): f'{_PAPERS}.plain_steps.cpu_matching:PlainSteps'},
    'streamed_sad': {('cuda', 'sad'): f'{_PAPERS}.streamed_sad.cuda:Streamed'},
    # The default's class, with other schedules.
    'tiled_barriers': {('cuda', 'tiled_bp'): f'{_ENGINES}.cuda.tiled.matching:Tiled'}}


def matching(backend: str, config: ResolvedConfig) -> Any:
    """The class that matches with a configuration on 'cuda' or 'cpu'."""
    key = backend, config.stereo_algorithm
    return _load(PROGRAMS[config.program].get(key) or PROGRAMS['default'][key])


def check(backend: str, config: ResolvedConfig, device: Any = None) -> None:
    """Refuse settings that the program in use does not have.

    :param device: properties of the CUDA device; None on the CPU.
    :raises ConfigError: names the setting and the limit.
    """
    matching(backend, config).check(config, device)


@functools.cache
def _load(name: str) -> Any:
    module, _, attribute = name.partition(':')
    return getattr(importlib.import_module(module), attribute)
