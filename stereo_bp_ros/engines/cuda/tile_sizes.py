"""Sizes of tiles that are worth a thought: width and height in nodes, both even. No CuPy here."""

from __future__ import annotations

import itertools

from stereo_bp_ros.engines.cuda import layout


def usual() -> set[tuple[int, int]]:
    """Whatever the level is like."""
    sides = (2, 4, 6, 8, 12, 16, 24, 32)
    return {(width, height) for height in sides for width in (*sides, 48, 64) if width != 6}


def even(level: layout.Level, multiprocessors: int) -> set[tuple[int, int]]:
    """Such that each multiprocessor has one, two or three tiles, and the last no less.

    Their rows are whole sectors of memory.
    """
    found = set()
    for waves, columns in itertools.product((1, 2, 3), range(1, level.width // 8 + 1)):
        rows = waves * multiprocessors // columns
        if rows:
            width = 8 * -(-level.width // (8 * columns))
            height = 2 * -(-level.height // (2 * rows))
            if 8 <= height <= width <= min(4 * height, 64):
                found.add((width, height))
    return found


def of_whole_rounds(threads: int) -> set[tuple[int, int]]:
    """Such that the nodes of a tile and those around it are work for all threads every time.

    For two of the four messages of a node a thread: they make as many nodes, of both colours, at
    once as they are.
    """
    found = {(width, rounds * threads // (width + 2) - 2)
             for width in (14, 30, 46, 62) for rounds in (1, 2, 3, 4)
             if rounds * threads % (2 * (width + 2)) == 0}
    return {(width, height) for width, height in found if height >= 4}
