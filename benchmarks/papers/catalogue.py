"""Every table and figure that is measured, in the papers' order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from benchmarks.papers import ai_2009, gpu_cpu, lcpc_2010, sad, thesis_2019
from benchmarks.papers.bench import Bench
from benchmarks.papers.table import PUBLISHED, Cell, Missing, Row, Table

MODULES = {'lcpc_2010': lcpc_2010, 'thesis_2019': thesis_2019, 'ai_2009': ai_2009,
           'gpu_cpu': gpu_cpu, 'sad': sad}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A published table, what measures it, and columns beyond the paper's."""

    published: Table
    measure: Callable[[Bench], tuple[Sequence[Row], Sequence[str]]]
    columns: tuple[str, ...] = ()

    def run(self, bench: Bench) -> Table:
        """Measure on the devices of a bench; one row says why where nothing can be measured."""
        try:
            rows, notes = self.measure(bench)
        except Missing as missing:
            count = len(self.published.columns) - 1 + len(self.columns)
            rows, notes = [Row('', (Cell(missing=str(missing)),) * count, bench.device)], []
        return self.published.beside(rows, self.columns, notes)


#: Every experiment by paper and number.
EXPERIMENTS: Mapping[tuple[str, str], Experiment] = {
    (paper, number): Experiment(table, *MODULES[paper].TABLES[number])
    for (paper, number), table in PUBLISHED.items()}


def select(papers: Sequence[str] = (), numbers: Sequence[str] = ()) -> list[Experiment]:
    """The experiments of some papers with some numbers; an empty sequence names all.

    :param numbers: such as 'table 2', 'figure 3' or 'times'; '3' is table 3 and figure 3.
    :raises ValueError: there is no such table.
    """
    chosen = {key: one for key, one in EXPERIMENTS.items() if not papers or key[0] in papers}
    known = tuple(dict.fromkeys(number for _, number in chosen))
    wanted = {name for number in numbers
              for name in (number, f'table {number}', f'figure {number}')}
    for number in numbers:
        if not {number, f'table {number}', f'figure {number}'} & set(known):
            raise ValueError(f'--table is {number!r}, but must be one of ' + ', '.join(known))
    return [one for (_, number), one in chosen.items() if not numbers or number in wanted]
