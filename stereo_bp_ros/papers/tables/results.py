"""A table as a paper prints it, and what was measured beside it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Published:
    """A table, or what the text says of a figure, as printed.

    paper:   key of the paper.
    number:  'table 2', 'figure 3', or a word where the paper numbers nothing.
    title:   what it is about, in our words, with the unit of its figures.
    section: of the paper.
    columns: their heads; the first column names the rows.
    rows:    cells as printed, '' = empty.
    """

    paper: str
    number: str
    title: str
    section: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def transcribe(cls, paper: str, number: str, section: str, text: str) -> Published:
        """Read a title, an empty line, and lines of cells with ``|`` between them, heads first.

        :raises ValueError: a row has more or fewer cells than there are columns.
        """
        title, _, table = text.strip().partition('\n\n')
        lines = [tuple(cell.strip() for cell in line.split('|')) for line in table.splitlines()]
        for line in lines:
            if len(line) != len(lines[0]):
                raise ValueError(f'{paper}, {number}: {len(line)} cells for {len(lines[0])} '
                                 f'columns in {line}')
        return cls(paper, number, ' '.join(title.split()), section, lines[0], tuple(lines[1:]))


def numbers(cell: str) -> tuple[float, ...]:
    """The figures in a printed cell: '0.99 / 1.0' has two, 'N/A' none."""
    return tuple(float(text) for text in re.findall(r'-?\d+(?:\.\d+)?', cell))


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measured cell: figures or a text, and why something is missing.

    values:  figures in the order in which the paper's cell has them; None = there is none.
    pattern: how they are written, one ``{}`` for each.
    text:    in place of figures.
    missing: the reason in words; '' where nothing is missing.
    """

    values: tuple[float | None, ...] = ()
    pattern: str = '{}'
    text: str = ''
    missing: str = ''

    def written(self) -> str:
        """The cell for people; '' where everything is missing."""
        if any(value is not None for value in self.values):
            return self.pattern.format(*(figure(value) for value in self.values))
        return self.text


def figure(value: float | None) -> str:
    """A figure for people: whole numbers as they are, others with three digits that count."""
    if value is None:
        return 'N/A'
    if isinstance(value, int):
        return str(value)
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f'{value:.{max(0, digits)}f}'


def joined(pattern: str, *cells: Cell) -> Cell:
    """One cell of several figures, as the paper prints two in one."""
    return Cell(tuple(cell.values[0] if cell.values else None for cell in cells), pattern,
                missing='; '.join(dict.fromkeys(cell.missing for cell in cells if cell.missing)))


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured row: what it is ('' = all of the table is of one thing), where, and cells."""

    name: str
    on: str
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a plot; None where there is no figure. ``on`` is '' for the paper's."""

    name: str
    on: str
    y: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Plot:
    """Lines over what ``x`` names or numbers."""

    name: str
    title: str
    x_label: str
    y_label: str
    x: tuple[str, ...] | tuple[float, ...]
    lines: tuple[Line, ...]
    is_log: bool = False


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What a machine has to put beside a published table.

    columns: beyond the paper's; every row has as many cells as both have together.
    notes:   in what the measurement differs from the paper's.
    """

    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclasses.dataclass(frozen=True)
class Result:
    """A published table with its measurement.

    :raises ValueError: a measured row has more or fewer cells than there are columns.
    """

    published: Published
    measured: Measurement

    def __post_init__(self) -> None:
        for row in self.measured.rows:
            if len(row.cells) != len(self.columns) - 1:
                raise ValueError(
                    f'{self.published.paper}, {self.published.number}: {len(row.cells)} measured '
                    f'cells for {len(self.columns) - 1} columns in row {row.name or row.on}')

    @property
    def columns(self) -> tuple[str, ...]:
        """Heads of all columns."""
        return self.published.columns + self.measured.columns

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """What ``to_dict`` made, also after JSON made lists of tuples.

        :raises ValueError: it is something else.
        """
        try:
            published, measured = dict(content['published']), content['measured']
            published['columns'] = tuple(published['columns'])
            published['rows'] = tuple(tuple(row) for row in published['rows'])
            return cls(Published(**published), Measurement(
                tuple(Row(row['name'], row['on'], tuple(
                    Cell(tuple(cell['values']), cell['pattern'], cell['text'], cell['missing'])
                    for cell in row['cells'])) for row in measured['rows']),
                tuple(measured['columns']), tuple(measured['notes']),
                tuple(Plot(**{**plot, 'x': tuple(plot['x']), 'lines': tuple(
                    Line(line['name'], line['on'], tuple(line['y'])) for line in plot['lines'])})
                    for plot in measured['plots'])))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f'this is no table of a paper: {error!r}') from error


def beside(results: Sequence[Result]) -> Result:
    """One table of what several machines measured.

    A row without any figure is left out where another machine has figures in a row of its name.

    :raises ValueError: they are not of one published table with the same columns.
    """
    first = results[0]
    if any(one.published != first.published or one.columns != first.columns for one in results):
        raise ValueError(f'{first.published.paper}, {first.published.number}: the reports were '
                         'made by different versions and cannot be put side by side')
    plots: dict[str, Plot] = {}
    for one in results:
        for plot in one.measured.plots:
            known = plots.get(plot.name, dataclasses.replace(plot, lines=()))
            plots[plot.name] = dataclasses.replace(
                known, lines=tuple(dict.fromkeys(known.lines + plot.lines)))
    rows = [(row, any(value is not None for cell in row.cells for value in cell.values))
            for one in results for row in one.measured.rows]
    measured = {row.name for row, has_figures in rows if has_figures}
    return Result(first.published, Measurement(
        tuple(row for row, has_figures in rows if has_figures or row.name not in measured),
        first.measured.columns,
        tuple(dict.fromkeys(note for one in results for note in one.measured.notes)),
        tuple(plots.values())))
