"""Stage ``messages``: belief propagation, coarse to fine, in launches over tiles."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import cost_formats, formats, launch, schedule
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.labels import Matches
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    LABELS,
    LAST_COLOUR,
    MAX_HALO,
    OWN_LABELS,
    Launch,
)
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import upload
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages.refine import Frame
from stereo_bp_ros.engines.partitions import Partitioning

_CountsOfColour = ctypes.c_int * (MAX_HALO + 1)
_Counts = _CountsOfColour * 2


@declared_in('hierarchical/launch.cuh', 'Launch')
class LaunchParameters(ctypes.Structure):
    """``Launch`` of the kernels."""


def base_cost(config: ResolvedConfig, image: str, launches: list[Launch]) -> str:
    """Name of the data cost's format at level 0 for matched images of 'uint8' or 'float'.

    Of floats bytes where costs of all images of that type are multiples of one factor. 4 bits
    where these are few, and the launches wait for memory, each iteration for all of it once.
    Beside messages of 16 bits the cost is too little of what is read.
    """
    message = MessageFormat.of(config)
    steps = [step for step in launches if step.level == 0]
    whole = cost_formats.packed(config)
    if image == 'uint8' and whole is not None and steps:
        if not message.is_int16:
            if steps[-1].finish != LAST_COLOUR:
                return 'Multiples'
        elif (message.message_bytes <= formats.CHUNK * message.chunks and message.lanes == 1
              and whole.truncation <= cost_formats.MAX_NIBBLE
              and steps[-1].finish == LABELS
              and all(step.iterations == 1 and not step.tiling.resident for step in steps)):
            return 'Nibbles'
    return CostFormat.of(config, 0).name


def kernel_of(config: ResolvedConfig, step: Launch, base: str | None = None,
              has_more: bool = False) -> tuple[str, str]:
    """File and name of the kernel that a launch runs.

    :param base: name of the data cost's format at level 0; None = as images of any type have it.
    :param has_more: more than labels is wanted from a launch that ends with these.
    """
    if not step.iterations:
        return 'hierarchical/messages.cu', inherit_name(config)
    tiling, message = step.tiling, MessageFormat.of(config)
    kind = CostFormat.of(config, step.level, base).name
    threads = launch.compiled_threads(message, kind, step, has_more)
    arguments = (f'{message.name}, {config.disparity_range}, {kind}, '
                 f'{tiling.directions}, {threads}')
    labels = f'Labels::{selected(step, has_more)}'
    if tiling.resident:
        return 'hierarchical/messages_small_tiles.cu', f'pass_resident<{arguments}, {labels}>'
    blocks = launch.least_blocks(message, kind, step)
    is_single = str(step.iterations == 1).lower()
    return ('hierarchical/messages.cu',
            f'pass_messages<{arguments}, {blocks}, {is_single}, {labels}>')


def selected(step: Launch, has_more: bool) -> str:
    """The labels that a launch selects, a name of ``Labels`` in the kernels.

    Where more than own labels is wanted, all are selected afterwards. ``has_more``: as for
    ``kernel_of``.
    """
    if step.finish == LABELS:
        return 'ALL_AND_MORE' if has_more else 'ALL'
    return 'OWN' if step.finish == OWN_LABELS and not has_more else 'NONE'


def threads_of(config: ResolvedConfig, step: Launch, base: str | None = None,
               has_more: bool = False) -> int:
    """Threads of a block of that kernel; parameters as those of ``kernel_of``."""
    kind = CostFormat.of(config, step.level, base).name
    return min(step.threads,
               launch.compiled_threads(MessageFormat.of(config), kind, step, has_more))


def inherit_name(config: ResolvedConfig) -> str:
    """The kernel that gives one colour what its parents send."""
    return f'inherit_messages<{MessageFormat.of(config).name}, {config.disparity_range}>'


def inherited(config: ResolvedConfig, step: Launch) -> tuple[int, ...]:
    """The colours that a launch finds nowhere but at their parents, and that are wanted after it.

    Without an iteration both, with a single one that which it does not update.
    """
    if not step.iterations:
        return 0, 1
    is_only = config.iterations_of_levels[step.level] == 1
    return (0,) if is_only and step.finish != LABELS else ()


class Messages:
    """The stage for one configuration and size."""

    def __init__(self, context: Context, launches: list[Launch], parts: Partitioning) -> None:
        arrays = context.arena.device
        self._device = context.device
        self._config = context.config
        self._launches = launches
        self._parameters = [_parameters(context, parts, i, step)
                            for i, step in enumerate(launches)]
        self._constants = {arrays[f'nodes_{i}']: _nodes(step) for i, step in enumerate(launches)}
        self._constants[arrays['nothing']] = np.frombuffer(
            MessageFormat.of(context.config).neutral, np.uint8)
        if self._parameters:
            self._parameters[0].stamp = context.arena.stamp('messages')

    def load(self, base: str) -> None:
        """Compile or load what ``enqueue`` launches with the same ``base``."""
        for step in self._launches:
            for has_more in (False, True):
                compiler.kernel(self._device, *kernel_of(self._config, step, base, has_more))
        if 1 in self._config.iterations_of_levels:
            compiler.kernel(self._device, 'hierarchical/messages.cu', inherit_name(self._config))

    def initialise(self, stream: int) -> None:
        """Write what stays the same in every frame."""
        for address, values in self._constants.items():
            upload(address, values, stream)

    def enqueue(self, stream: int, base: str, out: Matches, frame: Frame | None = None) -> None:
        """Run every launch; the last one selects labels as well, see ``Labels``.

        :param base: type of the data cost of level 0.
        :param frame: what to publish the labels with if the last launch selects all of them;
            None = it is not for it to do.
        """
        has_more = out.wants_more
        for step, parameters in zip(self._launches, self._parameters, strict=True):
            parameters.matches = out
            parameters.publishes = frame is not None
            if frame is not None:
                parameters.frame = frame
            for colour in inherited(self._config, step):
                self._inherit(stream, parameters, colour)
            if not step.iterations:
                continue
            grid = (-(-parameters.width // step.tiling.width),
                    -(-parameters.height // step.tiling.height), 1)
            name = kernel_of(self._config, step, base, has_more)
            compiler.kernel(self._device, *name).launch(
                stream, grid, (threads_of(self._config, step, base, has_more), 1, 1),
                step.shared_bytes, parameters)

    def _inherit(self, stream: int, parameters: LaunchParameters, colour: int) -> None:
        nodes = parameters.columns * parameters.height
        inherit = compiler.kernel(self._device, 'hierarchical/messages.cu',
                                  inherit_name(self._config))
        inherit.launch(
            stream, (-(-nodes // 128), 1, 1), (128, 1, 1), 0, parameters, ctypes.c_int(colour))


def _nodes(step: Launch) -> np.ndarray[Any, Any]:
    """The lists of ``schedule.nodes_of``, uint32 2 x N."""
    lists, _ = schedule.nodes_of(step)
    nodes = np.zeros((2, max(map(len, lists))), np.uint32)
    for row, values in zip(nodes, lists, strict=True):
        row[:len(values)] = values
    return nodes


def _parameters(context: Context, parts: Partitioning, index: int, step: Launch
                ) -> LaunchParameters:
    config, arrays = context.config, context.arena.device
    lists, counts = schedule.nodes_of(step)
    nodes = arrays[f'nodes_{index}']
    pyramid = formats.levels(config, parts.width, parts.height)
    level = pyramid[step.level]
    parent = pyramid[min(step.level + 1, len(pyramid) - 1)]
    targets = list(step.targets)
    for colour in inherited(config, step):
        targets[colour] = f'messages_{step.level}_{colour}'

    def pair(names: object) -> ctypes.Array[ctypes.c_void_p]:
        known = names if isinstance(names, (tuple, list)) else (None, None)
        return (ctypes.c_void_p * 2)(*(arrays[name] if name else None for name in known))

    message = MessageFormat.of(config)
    return LaunchParameters(
        cost=arrays[f'cost_{step.level}'], cost_factor=CostFormat.of(config, step.level).factor,
        first_step=message.first_step or 0, edges=arrays.get(f'image_edges_{step.level}'),
        edge_truncation=quantisation.edge_truncation(config), parents=pair(step.parents),
        source=arrays[step.source] if step.source else None, target=pair(targets),
        zero=arrays['nothing'], width=level.width, height=level.height, columns=level.columns,
        parent_width=parent.width, parent_height=parent.height, parent_columns=parent.columns,
        first=step.first, iterations=step.iterations, start=step.start, finish=step.finish,
        tile_width=step.tiling.width, tile_height=step.tiling.height,
        halo_tile_columns=step.halo_tile_columns, halo_tile_height=step.halo_tile_height,
        halo_columns=step.halo_columns, halo_rows=step.halo_rows,
        nodes=(ctypes.c_void_p * 2)(nodes, nodes + 4 * max(map(len, lists))),
        counts=_Counts(*(_CountsOfColour(*row) for row in counts)),
        **message.smoothness)
