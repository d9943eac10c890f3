"""What a way of matching has besides where ``stereo_bp tune`` searches for something."""

from __future__ import annotations

import abc
from typing import Any

from stereo_bp_ros.config import ResolvedConfig


class Tunable(abc.ABC):
    """Beside ``CudaMatching``."""

    @classmethod
    @abc.abstractmethod
    def kept_as(cls, config: ResolvedConfig) -> tuple[str, str]:
        """Names of how messages and costs are kept, by which what was tuned is filed."""

    @classmethod
    @abc.abstractmethod
    def can_be_tuned(cls, config: ResolvedConfig) -> bool:
        """Whether a search is left to do."""

    @classmethod
    @abc.abstractmethod
    def search(cls, *arguments: Any) -> Any:
        """The ``search.Search`` of what the tuner tries, of these arguments."""

    @classmethod
    def local_accesses(cls, config: ResolvedConfig, width: int, height: int) -> tuple[int, int]:
        """Loads and stores of local memory that settings ask of a frame, by warps."""
        return 0, 0
