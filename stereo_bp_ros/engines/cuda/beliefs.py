"""Stage ``beliefs``: labels from the messages of level 0 in device memory."""

from __future__ import annotations

import ctypes

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, cost, layout, tiling
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.refine import Frame
from stereo_bp_ros.partitions import Partition, Partitioning

#: Threads of a block; as the kernel is compiled for.
THREADS = 128


class Matches(ctypes.Structure):
    """Where labels go; as ``Matches`` in ``beliefs.cuh``."""

    _fields_ = (('label', ctypes.c_void_p), ('fraction', ctypes.c_void_p),
                ('best', ctypes.c_void_p), ('second', ctypes.c_void_p),
                ('right', ctypes.c_void_p), ('min_disparity', ctypes.c_int),
                ('first_x', ctypes.c_int), ('end_x', ctypes.c_int),
                ('image_width', ctypes.c_int), ('kept_left', ctypes.c_int),
                ('kept_top', ctypes.c_int), ('kept_width', ctypes.c_int),
                ('kept_height', ctypes.c_int))

    @property
    def wants_more(self) -> bool:
        """Whether more than labels is wanted."""
        return bool(self.fraction or self.second or self.right)


def matches(config: MatcherConfig, width: int, height: int, arena: Arena, part: Partition,
            with_fraction: bool, with_costs: bool, with_right: bool) -> Matches:
    """The arrays that are filled with labels, and only those that are wanted.

    :param width, height: of the image, pixels; ``part``: what is matched of it.
    """
    first_pixel = part.y * width + part.x
    window = geometry.matched_window(config, width, height)

    def array(name: str, itemsize: int, is_wanted: bool = True) -> int | None:
        return arena.device[name] + itemsize * first_pixel if is_wanted else None

    left, top, right, bottom = part.kept
    return Matches(
        array('label', 2), array('fraction', 1, with_fraction), array('best', 4, with_costs),
        array('second', 4, with_costs), array('right_keys', 8, with_right),
        config.min_disparity, window.x_offset - part.x,
        window.x_offset + window.width - part.x, width, left - part.x, top - part.y,
        right - left, bottom - top)


class Selection(ctypes.Structure):
    """``Selection`` in ``beliefs.cu``."""

    _fields_ = (
        ('cost', ctypes.c_void_p), ('cost_factor', ctypes.c_uint32),
        ('messages', ctypes.c_void_p * 2), ('zero', ctypes.c_void_p), ('width', ctypes.c_int),
        ('height', ctypes.c_int), ('half', ctypes.c_int), ('first_colour', ctypes.c_int),
        ('colours', ctypes.c_int), ('slope', ctypes.c_int), ('truncation', ctypes.c_int),
        ('float_slope', ctypes.c_float), ('float_truncation', ctypes.c_float),
        ('matches', Matches), ('publishes', ctypes.c_int), ('frame', Frame))


def kernel_name(config: MatcherConfig, last: tiling.Pass | None, base: str,
                has_more: bool) -> str | None:
    """The kernel in ``beliefs.cu`` that selects labels, None where the last pass does.

    :param last: pass over the messages, whose order of sums is kept; None = there is no pass.
    :param base: type of the data cost of level 0.
    :param has_more: more than labels is wanted.
    """
    if last is not None and last.finish == tiling.LABELS:
        return None
    # Sums of whole numbers are the same in any order.
    directions = 4 if last is None or layout.is_whole(config) else last.tiling.directions
    return (f'select_labels<{layout.stored_type(config)}, {config.disparity_range}, {base}, '
            f'{directions}, {str(has_more).lower()}>')


def kernels(config: MatcherConfig, last: tiling.Pass | None, base: str) -> list[tuple[str, str]]:
    """File and name of what selects labels, whatever is wanted; parameters as above."""
    names = (kernel_name(config, last, base, has_more) for has_more in (False, True))
    return [('beliefs.cu', name) for name in names if name]


class Beliefs:
    """The stage for one configuration, and images that are cut into ``parts``.

    :param passes: over the messages. The last one selects all labels, or those of the nodes that
        it updates if nothing else is wanted, or none.
    """

    def __init__(self, found: Properties, config: MatcherConfig, arena: Arena,
                 passes: list[tiling.Pass], parts: Partitioning) -> None:
        self._found = found
        self._config = config
        self._arena = arena
        self._level = layout.levels(config, parts.width, parts.height)[0]
        self._last = passes[-1] if passes else None

    def load(self, base: str) -> None:
        """Compile or load what ``enqueue`` launches with the same ``base``."""
        for file, name in kernels(self._config, self._last, base):
            compiler.kernel(self._found, file, name)
        load_right_labels(self._found)

    def enqueue(self, stream: int, base: str, out: Matches, frame: Frame | None = None) -> None:
        """Fill what the passes have left of ``out``, of one partition.

        :param base: type of the data cost of level 0.
        :param frame: what to publish the labels with; None = it is not for this stage to do.
        """
        has_more = out.wants_more
        name = kernel_name(self._config, self._last, base, has_more)
        if name is None:
            return
        device, (width, height, half) = self._arena.device, self._level
        names: list[str | None] = [None, None]
        first_colour, colours = 0, 2
        if self._last is not None:
            updated = (self._last.first + 1) % 2
            names[updated] = self._last.targets[updated]
            # Where there was no iteration before, it is what the parents have sent.
            names[1 - updated] = self._last.source or f'messages_0_{1 - updated}'
            if self._last.finish == tiling.OWN_LABELS and not has_more:
                first_colour, colours = 1 - updated, 1
        slope, truncation = layout.smoothness(self._config)
        is_whole = layout.is_whole(self._config)
        selection = Selection(
            cost=device['cost_0'], cost_factor=cost.kept_factor(self._config),
            messages=(ctypes.c_void_p * 2)(*(device[at] if at else None for at in names)),
            zero=device['nothing'], width=width, height=height, half=half,
            first_colour=first_colour, colours=colours, slope=int(slope) if is_whole else 0,
            truncation=int(truncation) if is_whole else 0, float_slope=float(slope),
            float_truncation=float(truncation), matches=out, publishes=frame is not None)
        if frame is not None:
            selection.frame = frame
        columns = 2 * THREADS // layout.shape(self._config).lanes
        compiler.kernel(self._found, 'beliefs.cu', name).launch(
            stream, (-(-width // columns), height, 1), (THREADS, 1, 1), 0, selection)


def load_right_labels(found: Properties) -> None:
    """Compile or load what ``take_right_labels`` launches."""
    compiler.kernel(found, 'beliefs.cu', 'take_right_labels')


def take_right_labels(found: Properties, stream: int, arena: Arena) -> None:
    """Turn what was offered to the pixels of the other image into their labels.

    When every partition has offered its own.
    """
    count = arena.nbytes['right_keys'] // 8
    compiler.kernel(found, 'beliefs.cu', 'take_right_labels').launch(
        stream, (-(-count // 256), 1, 1), (256, 1, 1), 0,
        ctypes.c_void_p(arena.device['right_keys']),
        ctypes.c_void_p(arena.device['right_label']), ctypes.c_int(count))
