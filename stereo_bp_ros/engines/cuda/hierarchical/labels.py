"""Stage ``labels``: labels from the messages of level 0 in device memory."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import formats
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import LABELS, OWN_LABELS, Launch
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import right_labels
from stereo_bp_ros.engines.cuda.stages.refine import Frame
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Threads of a block; as the kernel is compiled for.
THREADS = 128


@declared_in('hierarchical/labels.cuh')
class Matches(ctypes.Structure):
    """Where labels go; as ``Matches`` in ``labels.cuh``."""

    @property
    def wants_more(self) -> bool:
        """Whether more than labels is wanted."""
        return bool(self.fraction or self.second or self.right)


def matches(config: ResolvedConfig, width: int, height: int, arena: Arena, part: Partition,
            with_fraction: bool, with_costs: bool, with_right: bool) -> Matches:
    """The arrays that are filled with labels, and only those that are wanted.

    :param width, height: of the image, pixels; ``part``: what is matched of it.
    """
    first_pixel = part.y * width + part.x
    window = geometry.matched_window(config, width, height)
    keys = arena.device['right_keys'] + 8 * part.y * width if with_right else None

    def array(name: str, itemsize: int, is_wanted: bool = True) -> int | None:
        return arena.device[name] + itemsize * first_pixel if is_wanted else None

    left, top, right, bottom = part.kept
    return Matches(
        array('label', 2), array('fraction', 1, with_fraction), array('best', 4, with_costs),
        array('second', 4, with_costs), keys,
        part.x - config.min_disparity, window.x_offset - part.x,
        window.x_offset + window.width - part.x, width, left - part.x, top - part.y,
        right - left, bottom - top)


@declared_in('hierarchical/labels.cu')
class Selection(ctypes.Structure):
    """``Selection`` in ``labels.cu``."""


def kernel_name(config: ResolvedConfig, last: Launch | None, base: str,
                has_more: bool) -> str | None:
    """The kernel in ``labels.cu`` that selects labels, None where the last launch does.

    :param last: launch over the messages, whose order of sums is kept; None = there is none.
    :param base: name of the data cost's format at level 0.
    :param has_more: more than labels is wanted.
    """
    if last is not None and last.finish == LABELS:
        return None
    # Sums of whole numbers are the same in any order.
    message = MessageFormat.of(config)
    directions = 4 if last is None or message.is_whole else last.tiling.directions
    return (f'select_labels<{message.name}, {config.disparity_range}, {base}, '
            f'{directions}, {str(has_more).lower()}>')


def kernels(config: ResolvedConfig, last: Launch | None, base: str) -> list[tuple[str, str]]:
    """File and name of the kernels that select labels, whatever is wanted."""
    names = (kernel_name(config, last, base, has_more) for has_more in (False, True))
    return [('hierarchical/labels.cu', name) for name in names if name]


class Labels:
    """The stage for one configuration, and images that are cut into ``parts``.

    :param launches: over the messages. The last one selects all labels, or those of the nodes that
        it updates if nothing else is wanted, or none.
    """

    def __init__(self, context: Context, launches: list[Launch], parts: Partitioning) -> None:
        self._device = context.device
        self._config = context.config
        self._arrays = context.arena.device
        self._level = formats.levels(context.config, parts.width, parts.height)[0]
        self._last = launches[-1] if launches else None

    def load(self, base: str) -> None:
        """Compile or load what ``enqueue`` launches with the same ``base``."""
        for file, name in kernels(self._config, self._last, base):
            compiler.kernel(self._device, file, name)
        right_labels.load(self._device, 'uint64')

    def enqueue(self, stream: int, base: str, out: Matches, frame: Frame | None = None) -> None:
        """Fill what the launches have left of ``out``, of one partition.

        :param base: name of the data cost's format at level 0.
        :param frame: what to publish the labels with; None = it is not for this stage to do.
        """
        has_more = out.wants_more
        name = kernel_name(self._config, self._last, base, has_more)
        if name is None:
            return
        arrays, (width, height, columns) = self._arrays, self._level
        names: list[str | None] = [None, None]
        first_colour, colours = 0, 2
        if self._last is not None:
            updated = (self._last.first + 1) % 2
            names[updated] = self._last.targets[updated]
            # Where there was no iteration before, it is what the parents have sent.
            names[1 - updated] = self._last.source or f'messages_0_{1 - updated}'
            if self._last.finish == OWN_LABELS and not has_more:
                first_colour, colours = 1 - updated, 1
        message = MessageFormat.of(self._config)
        selection = Selection(
            cost=arrays['cost_0'], cost_factor=CostFormat.of(self._config, 0).factor,
            messages=(ctypes.c_void_p * 2)(*(arrays[at] if at else None for at in names)),
            zero=arrays['nothing'], width=width, height=height, columns=columns,
            first_colour=first_colour, colours=colours, matches=out,
            publishes=frame is not None, **message.smoothness)
        if frame is not None:
            selection.frame = frame
        block_columns = 2 * THREADS // message.lanes
        compiler.kernel(self._device, 'hierarchical/labels.cu', name).launch(
            stream, (-(-width // block_columns), height, 1), (THREADS, 1, 1), 0, selection)
