"""What a block's shared memory can hold: a tile of nodes with its apron. Arithmetic only.

The inequalities of Xu, Chen, Klette, Liu & Vaudrey, "Belief Propagation Implementation Using CUDA
on an NVIDIA GTX 280" (AI 2009), section 3.2.
"""

from __future__ import annotations

from typing import NamedTuple


class Apron(NamedTuple):
    """Half sides of a tile with its apron: it has 2 rows + 1 by 2 columns + 1 nodes."""

    rows: int
    columns: int

    @property
    def nodes(self) -> int:
        return (2 * self.rows + 1) * (2 * self.columns + 1)

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of tiles that cover a level: q and r of the paper."""
        inner_rows, inner_columns = 2 * self.rows - 1, 2 * self.columns - 1
        return -(-height // inner_rows), -(-width // inner_columns)


#: Least tile: inequality (4).
LEAST_APRON = Apron(1, 1)


def values_of_node(disparities: int, with_label: bool) -> int:
    """Values of one node in shared memory: five vectors, and its label where it is chosen."""
    return 5 * disparities + with_label


def fits(apron: Apron, disparities: int, threads: int, shared_values: int,
         with_label: bool = False) -> bool:
    """Inequalities (2) to (4): a thread for each node, and its values in shared memory.

    :param threads: most of a block; ``shared_values``: values that its shared memory holds.
    :param with_label: the form for the disparity map, (5 n + 1) in place of 5 n.
    """
    return (min(apron) >= 1 and apron.nodes <= threads
            and values_of_node(disparities, with_label) * apron.nodes <= shared_values)


def most_disparities(shared_values: int, with_label: bool = False) -> int:
    """Largest range with which the least tile fits shared memory; as ``fits``."""
    return max(0, (shared_values // LEAST_APRON.nodes - with_label) // 5)


def largest_apron(disparities: int, threads: int, shared_values: int,
                  with_label: bool = False) -> Apron | None:
    """The largest square tile that ``fits``; None = not even the least does.

    The paper then goes without shared memory, where (3) is no longer enforced.
    """
    found = None
    half = 1
    while fits(Apron(half, half), disparities, threads, shared_values, with_label):
        found = Apron(half, half)
        half += 1
    return found
