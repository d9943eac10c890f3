"""The one face of every way to match, on both back ends."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Generic, TypeVar

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.geometry import Wanted

PlanT = TypeVar('PlanT')


class Matching(abc.ABC, Generic[PlanT]):
    """From the matched images to labels, for one plan.

    A back end adds how a frame is matched. The class methods answer before there is an engine,
    and import neither Numba nor CuPy.
    """

    #: Settings that decide which kernels run on the CPU; on CUDA nearly all of them do.
    kernel_settings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        """Refuse settings that this way of matching does not have.

        :param device: properties of the CUDA device; None on the CPU.
        :raises ConfigError: names the setting and the limit.
        """

    @classmethod
    @abc.abstractmethod
    def arrays(cls, plan: PlanT) -> Wanted:
        """What matching reads and fills: name, shape and type of each array."""
