"""A pass over the messages of a level, and how its nodes are given to blocks. No CuPy here."""

from __future__ import annotations

from typing import NamedTuple

#: Nodes around a tile that a pass can reach; as in ``passes.cuh``.
LARGEST_MARGIN = 15

#: Threads of a block whose only iteration ends with labels, where messages are kept in 6 bits.
LABEL_THREADS = 384

#: What a pass starts from, and what it leaves in memory; numbers as in ``passes.cuh``. Own labels
#: are those of the nodes that one iteration updates, beside its messages: ``beliefs`` selects the
#: others.
FROM_ZERO, FROM_PARENTS, FROM_MESSAGES = range(3)
LAST_COLOUR, BOTH_COLOURS, LABELS, OWN_LABELS = range(4)


class Tiling(NamedTuple):
    """How the nodes of a level are given to blocks.

    iterations: of one pass; width, height: nodes of a tile, both even; threads, blocks:
    threads of a block and blocks of a multiprocessor that the kernel is compiled for;
    directions: of the four messages of a node, how many one thread sends (1, 2 or 4). resident:
    nodes stay with their threads for all iterations of a pass (``resident.cu``), which must be
    two or more. last: the tiling of the last pass of level 0, where it is another.
    """

    iterations: int
    width: int
    height: int
    threads: int
    blocks: int
    directions: int
    resident: bool = False
    last: Tiling | None = None


class Pass(NamedTuple):
    """Iterations [first, first + iterations) of one level in one launch."""

    level: int
    first: int
    iterations: int
    start: int
    finish: int
    source: str | None              # array that the first iteration reads
    parents: tuple[str, str] | None
    targets: tuple[str | None, str | None]      # array of the messages of each colour
    tiling: Tiling
    margin_columns: int             # of the region on chip around a tile, even
    margin_rows: int
    region_half: int
    region_height: int
    shared_bytes: int
    threads: int                    # of a block
