"""What every way of matching on CUDA has in common: from the matched images to labels."""

from __future__ import annotations

import abc

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.programs import Matching


class CudaMatching(Matching[Plan]):
    """Fills ``label`` and whatever else refinement wants; see ``Matching``.

    ``stages``: names of ``ENGINE_STAGES`` whose start a frame stamps, in their order.
    ``can_be_captured``: a frame is the same every time and may be one CUDA graph.
    """

    stages: tuple[str, ...] = ('messages',)
    can_be_captured = True

    def __init__(self, context: Context) -> None:
        self._device, self._config, self._width, self._height, self._arena = context

    @classmethod
    def replacement(cls, config: ResolvedConfig, device: Properties) -> ResolvedConfig:
        """The configuration of the program that computes this one on a device."""
        return config

    @classmethod
    def launches(cls, config: ResolvedConfig, parts: Partitioning, device: Properties
                 ) -> tuple[Launch, ...]:
        """What is launched over the messages of a hierarchy; () = there is none."""
        return ()

    @classmethod
    def local_accesses(cls, config: ResolvedConfig, width: int, height: int) -> tuple[int, int]:
        """Loads and stores of local memory that settings ask of a frame, by warps."""
        return 0, 0

    @classmethod
    def of(cls, context: Context, plan: Plan) -> CudaMatching:
        """The stage for a plan, whose device, configuration and size ``context`` repeats."""
        return cls(context)

    @abc.abstractmethod
    def load(self, matched: str, has_whole_grey: bool) -> None:
        """Compile or load what ``enqueue`` of such images launches, whatever is wanted."""

    def initialise(self, stream: int) -> None:
        """Enqueue what is written once for all frames, when everything is loaded."""

    @abc.abstractmethod
    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        """Put one frame's work into a stream; returns whether it publishes, too.

        :param matched: end of the names of the images that are matched.
        :param has_whole_grey: the images were of 8 bits, whatever became of them.
        :param frame: what publication needs. If every output pixel depends on its own label only
            (``wanted.is_local``), the stage may write the outputs itself and returns True.
        """
