"""Stage ``messages``: belief propagation, coarse to fine, in passes over tiles."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, cost, layout, tiling
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.beliefs import Matches
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.refine import Frame

_CountsOfColour = ctypes.c_int * (tiling.LARGEST_MARGIN + 1)
_Counts = _CountsOfColour * 2


class PassParameters(ctypes.Structure):
    """``Pass`` in ``passes.cuh``."""

    _fields_ = (
        ('cost', ctypes.c_void_p), ('cost_factor', ctypes.c_uint32),
        ('parents', ctypes.c_void_p * 2), ('source', ctypes.c_void_p),
        ('target', ctypes.c_void_p * 2), ('zero', ctypes.c_void_p), ('width', ctypes.c_int),
        ('height', ctypes.c_int), ('half', ctypes.c_int), ('parent_width', ctypes.c_int),
        ('parent_height', ctypes.c_int), ('parent_half', ctypes.c_int), ('first', ctypes.c_int),
        ('iterations', ctypes.c_int), ('start', ctypes.c_int), ('finish', ctypes.c_int),
        ('tile_width', ctypes.c_int), ('tile_height', ctypes.c_int),
        ('region_half', ctypes.c_int), ('region_height', ctypes.c_int),
        ('margin_columns', ctypes.c_int), ('margin_rows', ctypes.c_int),
        ('nodes', ctypes.c_void_p * 2),
        ('counts', _Counts), ('slope', ctypes.c_int),
        ('truncation', ctypes.c_int), ('float_slope', ctypes.c_float),
        ('float_truncation', ctypes.c_float), ('stamp', ctypes.c_void_p), ('matches', Matches),
        ('publishes', ctypes.c_int), ('frame', Frame))


def base_cost(config: MatcherConfig, image: str, passes: list[tiling.Pass]) -> str:
    """The C++ type of the data cost of level 0 of matched images of a type, 'uint8' or 'float'.

    Of floats bytes where costs of all images of that type are multiples of one factor. 4 bits
    where these are few, and the passes wait for memory, each iteration for all of it once. Beside
    messages of 16 bits the cost is too little of what is read.
    """
    vector = layout.shape(config)
    steps = [step for step in passes if step.level == 0]
    whole = cost.packed(config)
    if config.message_type != 'int16':
        is_small = (image == 'uint8' and whole is not None and bool(steps)
                    and steps[-1].finish != tiling.LAST_COLOUR)
        return 'Multiples' if is_small else layout.cost_type(config, 0)
    is_small = (image == 'uint8' and vector.units * vector.unit_bytes <= 8 * vector.chunks
                and vector.lanes == 1
                and whole is not None and whole.truncation <= 15
                and bool(steps) and steps[-1].finish == tiling.LABELS
                and all(step.iterations == 1 and not step.tiling.resident for step in steps))
    return 'Nibbles' if is_small else layout.cost_type(config, 0)


def kernel_of(config: MatcherConfig, step: tiling.Pass, base: str | None = None,
              has_more: bool = False) -> tuple[str, str]:
    """File and name of the kernel that runs a pass.

    :param base: type of the data cost of level 0; None = as images of any type have it.
    :param has_more: more than labels is wanted from a pass that ends with these.
    """
    cut, blocks = step.tiling, step.tiling.blocks
    kind = cost.kept_type(config, step.level, base)
    threads = _compiled_threads(config, step, base, has_more)
    arguments = (f'{layout.stored_type(config)}, {config.disparity_range}, {kind}, '
                 f'{cut.directions}, {threads}')
    work = 'ONE_ITERATION' if step.iterations == 1 and not cut.resident else 'ITERATIONS'
    if step.finish == tiling.LABELS:
        work += '_AND_MORE' if has_more else '_AND_LABELS'
    elif step.finish == tiling.OWN_LABELS and not has_more:     # or all are selected afterwards
        work += '_AND_OWN_LABELS'
    if cut.resident:
        return 'resident.cu', f'pass_resident<{arguments}, {work}>'
    if kind == 'Nibbles' and work == 'ONE_ITERATION':
        # Costs of 4 bits leave registers for twelve warps a multiprocessor, half as many again;
        # half a vector less for sixteen.
        in_use = layout.shape(config).registers * cut.directions
        blocks = max(blocks, (384 if in_use > 64 else 512) // cut.threads)
    if kind == 'Multiples' and work == 'ONE_ITERATION' and layout.shape(config).lanes == 1:
        blocks = max(blocks, 384 // cut.threads)        # these leave registers, too
    if layout.is_fixed(config) and step.iterations == 1 and cut.directions == 2:
        if layout.shape(config).registers <= 32 and kind in ('Multiples', 'MultipleSums'):
            blocks = max(blocks, 640 // cut.threads)
        elif kind == 'Multiples':
            blocks = max(blocks, 384 // cut.threads)
    return 'messages.cu', f'pass_messages<{arguments}, {blocks}, {work}>'


def threads_of(config: MatcherConfig, step: tiling.Pass, base: str | None = None,
               has_more: bool = False) -> int:
    """Threads of a block of that kernel; parameters as those of ``kernel_of``."""
    return min(step.threads, _compiled_threads(config, step, base, has_more))


def _compiled_threads(config: MatcherConfig, step: tiling.Pass, base: str | None,
                      has_more: bool) -> int:
    threads, vector = step.tiling.threads, layout.shape(config)
    kind = cost.kept_type(config, step.level, base)
    if (threads == tiling.LABEL_THREADS and step.iterations == 1 and vector.registers == 64
            and layout.keeps_six_bits(config)
            and (has_more or kind != 'Nibbles')):
        threads = 256           # what else there is to keep would spill
    if (config.message_type != 'int16' and step.iterations == 1 and vector.registers > 32
            and not layout.has_halves(config)):
        threads = min(threads, 256 if has_more else 512 if kind == 'Multiples' else 384)
    return threads


def inherit_name(config: MatcherConfig) -> str:
    """The kernel that gives one colour what its parents send."""
    return (f'inherit_messages<{layout.stored_type(config)}, {config.disparity_range}>')


class Messages:
    """The stage for one configuration and size."""

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena, passes: list[tiling.Pass]) -> None:
        self._found = found
        self._config = config
        self._passes = passes
        self._parameters = [_parameters(config, width, height, arena, i, step)
                            for i, step in enumerate(passes)]
        self._constants = {arena.device[f'nodes_{i}']: _nodes(step)
                           for i, step in enumerate(passes)}
        self._constants[arena.device['nothing']] = np.frombuffer(layout.nothing(config), np.uint8)
        if self._parameters:
            self._parameters[0].stamp = arena.stamp('messages')

    def load(self, base: str) -> None:
        """Compile or load what ``enqueue`` launches with the same ``base``."""
        for step in self._passes:
            for has_more in (False, True):
                compiler.kernel(self._found, *kernel_of(self._config, step, base, has_more))
        if self._config.iterations == 1:
            compiler.kernel(self._found, 'messages.cu', inherit_name(self._config))

    def initialise(self, stream: int) -> None:
        """Write what stays the same in every frame; done when the stream has been waited for."""
        from cupy.cuda import runtime
        for address, values in self._constants.items():
            runtime.memcpyAsync(address, values.ctypes.data, values.nbytes,
                                runtime.memcpyHostToDevice, stream)

    def enqueue(self, stream: int, base: str, out: Matches, frame: Frame | None = None) -> None:
        """Run every pass; the last one selects labels as well, see ``Beliefs``.

        :param base: type of the data cost of level 0.
        :param frame: what to publish the labels with if the last pass selects all of them;
            None = it is not for it to do.
        """
        has_more = out.wants_more
        for step, parameters in zip(self._passes, self._parameters, strict=True):
            parameters.matches = out
            parameters.publishes = frame is not None
            if frame is not None:
                parameters.frame = frame
            if self._config.iterations == 1 and step.finish != tiling.LABELS:
                self._inherit(stream, parameters)
            grid = (-(-parameters.width // step.tiling.width),
                    -(-parameters.height // step.tiling.height), 1)
            name = kernel_of(self._config, step, base, has_more)
            compiler.kernel(self._found, *name).launch(
                stream, grid, (threads_of(self._config, step, base, has_more), 1, 1),
                step.shared_bytes, parameters)

    def _inherit(self, stream: int, parameters: PassParameters) -> None:
        nodes = parameters.half * parameters.height
        compiler.kernel(self._found, 'messages.cu', inherit_name(self._config)).launch(
            stream, (-(-nodes // 128), 1, 1), (128, 1, 1), 0, parameters, ctypes.c_int(0))


def _nodes(step: tiling.Pass) -> np.ndarray[Any, Any]:
    """The lists of ``tiling.nodes_of``, uint32 2 x N."""
    lists, _ = tiling.nodes_of(step)
    nodes = np.zeros((2, max(map(len, lists))), np.uint32)
    for row, values in zip(nodes, lists, strict=True):
        row[:len(values)] = values
    return nodes


def _parameters(config: MatcherConfig, width: int, height: int, arena: Arena, index: int,
                step: tiling.Pass) -> PassParameters:
    device = arena.device
    lists, counts = tiling.nodes_of(step)
    nodes = device[f'nodes_{index}']
    pyramid = layout.levels(config, width, height)
    level = pyramid[step.level]
    parent = pyramid[min(step.level + 1, len(pyramid) - 1)]
    slope, truncation = layout.smoothness(config)
    is_whole = layout.is_whole(config)
    targets = list(step.targets)
    if config.iterations == 1 and step.finish != tiling.LABELS:
        targets[0] = f'messages_{step.level}_0'

    def pair(names: object) -> ctypes.Array[ctypes.c_void_p]:
        known = names if isinstance(names, (tuple, list)) else (None, None)
        return (ctypes.c_void_p * 2)(*(device[name] if name else None for name in known))

    return PassParameters(
        cost=device[f'cost_{step.level}'], cost_factor=cost.kept_factor(config),
        parents=pair(step.parents),
        source=device[step.source] if step.source else None, target=pair(targets),
        zero=device['nothing'], width=level.width, height=level.height, half=level.half,
        parent_width=parent.width, parent_height=parent.height, parent_half=parent.half,
        first=step.first, iterations=step.iterations, start=step.start, finish=step.finish,
        tile_width=step.tiling.width, tile_height=step.tiling.height,
        region_half=step.region_half, region_height=step.region_height,
        margin_columns=step.margin_columns, margin_rows=step.margin_rows,
        nodes=(ctypes.c_void_p * 2)(nodes, nodes + 4 * max(map(len, lists))),
        counts=_Counts(*(_CountsOfColour(*row) for row in counts)),
        slope=int(slope) if is_whole else 0, truncation=int(truncation) if is_whole else 0,
        float_slope=float(slope), float_truncation=float(truncation))
