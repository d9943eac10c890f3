"""Every table and figure that is measured, in the papers' order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from stereo_bp_ros.papers.tables import ai_2009, gpu_cpu, lcpc_2010, published, sad, thesis_2019
from stereo_bp_ros.papers.tables.bench import Bench
from stereo_bp_ros.papers.tables.published import PAPERS as PAPERS
from stereo_bp_ros.papers.tables.published import Published
from stereo_bp_ros.papers.tables.results import Cell, Measure, Measurement, Missing, Result, Row

#: Paper to its tables: number to what measures it, and columns beyond the paper's.
MEASURES = {'lcpc_2010': lcpc_2010.TABLES, 'thesis_2019': thesis_2019.TABLES,
            'ai_2009': ai_2009.TABLES, 'gpu_cpu': gpu_cpu.TABLES, 'sad': sad.TABLES}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A published table, what measures it, and columns beyond the paper's."""

    published: Published
    measure: Measure
    columns: tuple[str, ...]

    def run(self, bench: Bench) -> Result:
        """Measure on the devices of a bench; one row says why where nothing can be measured."""
        try:
            measured = self.measure(bench, self.published)
        except Missing as missing:
            count = len(self.published.columns) - 1 + len(self.columns)
            measured = Measurement((
                Row('', bench.device, (Cell(missing=str(missing)),) * count),))
        return Result(self.published, dataclasses.replace(measured, columns=self.columns))


EXPERIMENTS = tuple(Experiment(table, *MEASURES[paper][number])
                    for (paper, number), table in published.TABLES.items())


def select(papers: Sequence[str] = (), numbers: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The experiments of some papers with some numbers; an empty sequence names all.

    :param numbers: such as 'table 2', 'figure 3' or 'times'; '3' is table 3 and figure 3.
    :raises ValueError: there is no such table.
    """
    chosen = tuple(one for one in EXPERIMENTS if not papers or one.published.paper in papers)
    known = tuple(dict.fromkeys(one.published.number for one in chosen))
    wanted = {name for number in numbers
              for name in (number, f'table {number}', f'figure {number}')}
    for number in numbers:
        if not {number, f'table {number}', f'figure {number}'} & set(known):
            raise ValueError(f'--table is {number!r}, but must be one of ' + ', '.join(known))
    return tuple(one for one in chosen if not numbers or one.published.number in wanted)
