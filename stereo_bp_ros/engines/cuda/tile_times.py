"""How long a pass over the messages takes: what tilings are chosen by. No CuPy here."""

from __future__ import annotations

import math

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import layout
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.tiles import (
    LABEL_THREADS,
    LABELS,
    LAST_COLOUR,
    OWN_LABELS,
    Pass,
    Tiling,
)

#: Bytes of a level's messages that the L2 cache holds from one iteration to the next.
CACHED = 35e6


def predicted(config: MatcherConfig, level: layout.Level, step: Pass,
              device: Properties) -> float:
    """Microseconds of one pass, fitted to an H200 (``docs/performance_cuda.md``).

    Within a fifth of what was measured for 16 to 128 labels, from 32 nodes to whole levels; for
    messages in bytes within 9 % (rms) of 380 passes of 16 to 32 labels; for floats within 12 % of
    12,000. Only the order of the candidates matters.
    """
    if step.finish == OWN_LABELS:
        alone = step._replace(finish=LAST_COLOUR)
        return predicted(config, level, alone, device) + _labelling(config, level)
    if config.message_type != 'int16':
        return _of_floats(config, level, step, device)
    is_small = layout.keeps_bytes(config)
    cut, vector = step.tiling, layout.shape(config)
    labels = config.disparity_range
    tiles = _tiles(level, cut)
    nodes = level.width * level.height / 2
    message = vector.units * vector.unit_bytes
    has_six_bits = layout.keeps_six_bits(config)
    waves = tiles / device.multiprocessors
    if step.iterations == 1 and (has_six_bits or step.finish != LABELS):
        moved = nodes * (8 * message + labels * (1 if step.level == 0 else 2))
        least = (1.9e-6 if has_six_bits else 2.2e-6) * nodes * labels
        time = max(moved / 3.7e6, vector.lanes * least)
        if step.finish == LABELS:
            together = cut.threads * cut.directions // 4
            rounds = math.ceil((cut.width + 2) * (cut.height + 2) / 2 / together)
            time *= rounds * together * 2 / (cut.width * cut.height) * (1.55 + 0.9 / waves)
            time *= max(1.0, math.ceil(waves - 0.1) / waves) ** 0.6
            if cut.threads != LABEL_THREADS:
                time *= 1.1
            time = max(time, level.width * level.height / 10.75e3)
        return time + (1.4 + 0.015 * labels if has_six_bits else 2.2 + 0.01 * labels)
    # One block a multiprocessor. Many of them do not keep step.
    if waves < 4:
        waves = math.ceil(waves)
    selecting = publishing = 0.0
    if step.finish == LABELS:
        selecting = 0.85e-5 * (labels + 12) * cut.width * cut.height
        if step.iterations > 1:
            selecting *= max(1.0, labels / 64) ** 3
        # Through the bus, best in whole lines, while other tiles are worked on.
        publishing = level.width * level.height / 10.75e3 * (
            0.35 + (0.6 if is_small else 0.4) / waves + 0.2 * (cut.width % 32 > 0))
    warps = max(1.5, step.threads / 128)
    if cut.resident:
        region = 4 * message * tiles * step.region_half * step.region_height
        if is_small:
            iteration = (0.05 + 0.065 * warps
                         + cut.directions * labels * (2.4e-3 + 2.2e-3 * warps))
            return 2.5 + waves * step.iterations * iteration + region * 0.45e-6
        each = 12 if layout.keeps_deltas(config) else 9
        instructions = 60 + cut.directions * labels / 2 * each
        iteration = 2.8e-3 * labels + 0.7e-3 * instructions * warps
        return (2.3 + waves * (step.iterations * iteration + selecting) + publishing
                + region * 0.2e-6)
    # Every iteration takes the time of its nodes, and of as many rounds as the threads need.
    together = cut.threads * cut.directions // (4 * vector.lanes)
    block = selecting + (0.02 if step.iterations > 1 else 0.03) * labels
    for i in range(step.iterations):
        margin = step.iterations - 1 - i + (step.finish == LABELS)
        count = (min(cut.width + 2 * margin, level.width)
                 * min(cut.height + 2 * margin, level.height)) / 2
        block += 1.65e-4 * labels * vector.lanes * count
        block += math.ceil(count / together) * (0.086 + 0.0103 * labels)
    area = (cut.width + 2 * step.iterations) * (cut.height + 2 * step.iterations) / 2
    if step.shared_bytes > 0.85 * device.shared_memory:     # costs are read again past the cache
        block *= 1.05
    # Rows of a tile begin and end within sectors of 32 bytes.
    sectors = 1 + 64 / (cut.width * vector.unit_bytes)
    return (4.5 + waves * block + publishing
            + tiles * area * 4 * message * sectors * 0.055e-6)


def reading(config: MatcherConfig, level: layout.Level, cut: Tiling) -> float:
    """Microseconds that a pass takes longer from its own level's messages than from its parents'.

    These are a quarter as many. A single iteration's time is that from its own level's.
    """
    if cut.iterations == 1:
        return 0.0
    if config.message_type != 'int16':
        return _loading(config, level, cut, cut.iterations - 1)
    vector = layout.shape(config)
    tiles = _tiles(level, cut)
    nodes = (cut.width + 2 * cut.iterations) * (cut.height + 2 * cut.iterations) / 2
    return tiles * nodes * 4 * vector.units * vector.unit_bytes * 0.19e-6


def _of_floats(config: MatcherConfig, level: layout.Level, step: Pass,
               device: Properties) -> float:
    """The same of messages of floats; a pass of several iterations begins with its parents'."""
    cut, vector = step.tiling, layout.shape(config)
    labels = 8 * vector.chunks
    message = vector.units * vector.unit_bytes
    waves = _tiles(level, cut) / device.multiprocessors
    has_halves = layout.has_halves(config)
    if step.iterations == 1 and has_halves:
        # All tiles take as long as what they move, and a last one as long as it is there alone.
        moved = level.width * level.height / 2 * (8 * message + labels)
        is_cached = level.width * level.height * 4 * message < CACHED
        return 1.6 + 0.0175 * labels + moved / (4.7e6 if is_cached else 3.4e6)
    if step.iterations == 1 and step.finish != LABELS:
        # A tile takes as long as its bytes, or as the one that is there alone.
        moved = cut.width * cut.height / 2 * (8 * message + 2 * labels)
        alone = (1.5 + 0.037 * labels) * (1.2 if cut.directions == 1 else 1.0)
        speed = 28e3            # bytes in a microsecond
        if level.width * level.height * 4 * message < CACHED:
            speed = 38e3
        elif message == 2 * labels and cut.directions * vector.registers > 64:
            speed = 22e3        # so few warps compute as long as they wait
        return alone + max(waves - 1, 0.0) * moved / speed
    if step.iterations == 1:
        nodes = (cut.width + 2) * (cut.height + 2) / 2
        return max(waves, 1.0) * (5.5 + 4.2e-5 * message * math.sqrt(labels) * nodes)
    if waves < 4:
        waves = math.ceil(waves)
    slowness = 1.3 if config.message_type == 'float32' else 1.0
    if cut.resident:
        region = 4 * message * _tiles(level, cut) * step.region_half * step.region_height
        warps = max(1.0, step.threads / 128)
        return (2.7 + waves * step.iterations * cut.directions * labels * (0.0107 + 0.0052 * warps)
                + 4.2e-7 * region)
    together = cut.threads * cut.directions // (4 * vector.lanes)
    block = 0.1 * step.iterations
    # Lanes that have parts of a side repeat those of the others.
    each = labels * (vector.lanes / 2 if has_halves else 1) ** 0.45
    for i in range(step.iterations):
        margin = step.iterations - 1 - i + (step.finish == LABELS)
        count = (min(cut.width + 2 * margin, level.width)
                 * min(cut.height + 2 * margin, level.height)) / 2
        block += 5.2e-4 * slowness * each * count + 0.2 * math.ceil(count / together)
    if step.finish == LABELS:
        block += 3.4e-4 * each * cut.width * cut.height
    # Costs are read again past the cache where little of it is left.
    block *= 1 + 0.28 * max(step.shared_bytes / device.shared_memory - 0.7, 0.0)
    margin = step.iterations - 1 + (step.finish == LABELS)
    return 3.0 + waves * block + _loading(config, level, cut, margin)


def _labelling(config: MatcherConfig, level: layout.Level) -> float:
    """Microseconds for the labels that a last single iteration leaves, and publication."""
    vector = layout.shape(config)
    nodes = level.width * level.height / 2
    moved = nodes * (4 * vector.units * vector.unit_bytes + config.disparity_range)
    return max(3.0 + moved / 3.5e6, level.width * level.height / 10.75e3)


def _loading(config: MatcherConfig, level: layout.Level, cut: Tiling, margin: int) -> float:
    """Microseconds for what has arrived at a pass's nodes: as many as there are rows of units.

    From the level above; from the same one, it takes that twice.
    """
    rows = min(cut.height + 2 * margin, level.height)
    return 4.7e-5 * _tiles(level, cut) * rows * layout.shape(config).units


def _tiles(level: layout.Level, cut: Tiling) -> int:
    return (-(-level.width // cut.width)) * (-(-level.height // cut.height))
