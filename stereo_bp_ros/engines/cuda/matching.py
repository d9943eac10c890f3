"""What every way of matching has in common: from the matched images to labels."""

from __future__ import annotations

import abc

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import refine
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties


class Matching(abc.ABC):
    """Fills ``label`` and whatever else refinement wants, for one configuration and size.

    ``stages``: names of ``types.ENGINE_STAGES`` whose start a frame stamps, in their order.
    ``can_be_captured``: a frame is the same every time and may be one CUDA graph.
    """

    stages: tuple[str, ...] = ('messages',)
    can_be_captured = True

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena) -> None:
        self._found = found
        self._config = config
        self._width = width
        self._height = height
        self._arena = arena

    @abc.abstractmethod
    def load(self, matched: str, has_whole_grey: bool) -> None:
        """Compile or load what ``enqueue`` of such images launches, whatever is wanted."""

    def initialise(self, stream: int) -> None:  # noqa: B027
        """Enqueue what is written once for all frames, when everything is loaded."""

    @abc.abstractmethod
    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        """Put one frame's work into a stream; returns whether it publishes, too.

        :param matched: end of the names of the images that are matched.
        :param has_whole_grey: the images were of 8 bits, whatever became of them.
        :param frame: what publication needs. Only where ``wanted.is_local`` may the stage do
            without refinement and publish itself.
        """
