"""The ways to match, on both back ends: the engine's own, and the programs that repeat papers."""

from __future__ import annotations

import abc
import functools
import importlib
from typing import Any, ClassVar, Generic, TypeVar

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.papers.programs import PROGRAMS

PlanT = TypeVar('PlanT')

#: The engine's own classes by back end and algorithm; band: bp where it searches one.
DEFAULTS = {
    ('cuda', 'band'): 'stereo_bp_ros.engines.cuda.band.matching:Band',
    ('cpu', 'band'): 'stereo_bp_ros.engines.cpu.band.matching:Band',
    ('cuda', 'bp'): 'stereo_bp_ros.engines.cuda.hierarchical.matching:Hierarchical',
    ('cuda', 'tiled_bp'): 'stereo_bp_ros.engines.cuda.tiled.matching:Tiled',
    ('cuda', 'sad'): 'stereo_bp_ros.engines.cuda.sad.matching:Sad',
    ('cpu', 'bp'): 'stereo_bp_ros.engines.cpu.hierarchical.matching:Hierarchical',
    ('cpu', 'tiled_bp'): 'stereo_bp_ros.engines.cpu.matching:Tiled',
    ('cpu', 'sad'): 'stereo_bp_ros.engines.cpu.matching:Sad'}


class Matching(abc.ABC, Generic[PlanT]):
    """From the matched images to labels, for one plan.

    A back end adds how a frame is matched. The class methods answer before there is an engine,
    and import neither Numba nor CuPy.
    """

    #: Settings that decide which kernels run on the CPU; on CUDA nearly all of them do.
    kernel_settings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        """Reject settings that this way of matching does not have.

        :param device: properties of the CUDA device; None on the CPU.
        :raises ConfigError: names the setting and the limit.
        """

    @classmethod
    @abc.abstractmethod
    def arrays(cls, plan: PlanT) -> Wanted:
        """What matching reads and fills: name, shape and type of each array."""


def matching(backend: str, config: ResolvedConfig) -> Any:
    """The class that matches with a configuration on 'cuda' or 'cpu'."""
    program = PROGRAMS.get(config.program)
    name = program and program.classes.get(backend)
    algorithm = 'band' if config.searches_band else config.stereo_algorithm
    return _load(name or DEFAULTS[backend, algorithm])


def check(backend: str, config: ResolvedConfig, device: Any = None) -> None:
    """As ``Matching.check`` of the program in use."""
    matching(backend, config).check(config, device)


@functools.cache
def _load(name: str) -> Any:
    module, _, attribute = name.partition(':')
    return getattr(importlib.import_module(module), attribute)
