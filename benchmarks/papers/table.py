"""Tables of papers: rows as printed, and rows measured beside them on one or many machines."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import StereoError


class Missing(StereoError):
    """Something is not on this machine: an image, a device, a setting. The text is the reason."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: figures or a text, and why something is missing.

    values:  figures in the order in which the paper's cell has them; None = there is none.
    pattern: how they are written, one ``{}`` for each.
    text:    in place of figures.
    missing: the reason in words; '' where nothing is missing.
    """

    values: tuple[float | None, ...] = ()
    pattern: str = '{}'
    text: str = ''
    missing: str = ''

    @property
    def value(self) -> float | None:
        """The first figure."""
        return self.values[0] if self.values else None

    def written(self) -> str:
        """The cell for people; '' where everything is missing."""
        if any(value is not None for value in self.values):
            return self.pattern.format(*(figure(value) for value in self.values))
        return self.text


def figure(value: float | None) -> str:
    """A figure for people: whole numbers as they are, others with three significant digits."""
    if value is None:
        return 'N/A'
    if isinstance(value, int):
        return str(value)
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f'{value:.{max(0, digits)}f}'


def cell(compute: Callable[..., float], *parts: Any, pattern: str = '{}') -> Cell:
    """A cell of one figure; where a part is an error, its text is the reason that is missing."""
    for part in parts:
        if isinstance(part, StereoError):
            return Cell(missing=str(part))
    return Cell((compute(*parts),), pattern)


def joined(pattern: str, *cells: Cell) -> Cell:
    """One cell of several figures, as the paper prints two in one."""
    return Cell(tuple(one.value for one in cells), pattern,
                missing='; '.join(dict.fromkeys(one.missing for one in cells if one.missing)))


def combined(compute: Callable[..., float], *cells: Cell, pattern: str = '{}') -> Cell:
    """A cell computed from the first figures of others; missing where one of these is."""
    for one in cells:
        if one.value is None:
            return Cell(missing=one.missing)
    return Cell((compute(*(one.value for one in cells)),), pattern)


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: what it is ('' = all of the table is of one thing), its cells, and on which machine
    it was measured ('' = printed by the paper)."""

    name: str
    cells: tuple[Cell, ...]
    on: str = ''


@dataclasses.dataclass(frozen=True)
class Table:
    """A table, or what the text says of a figure, as printed, and rows measured beside it.

    paper:   key of the paper.
    number:  'table 2', 'figure 3', or a word where the paper numbers nothing.
    title:   what it is about, in our words, with the unit of its figures.
    section: of the paper.
    columns: their heads; the first column names the rows.
    notes:   in what the measurement differs from the paper's.

    :raises ValueError: a row has more or fewer cells than there are columns.
    """

    paper: str
    number: str
    title: str
    section: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns) - 1:
                raise ValueError(f'{self.paper}, {self.number}: {len(row.cells)} cells for '
                                 f'{len(self.columns) - 1} columns in row {row.name or row.on}')

    @classmethod
    def transcribe(cls, paper: str, number: str, content: Mapping[str, str]) -> Table:
        """Read a table of ``published.yaml``, with ``|`` between cells."""
        columns, *rows = (tuple(cell.strip() for cell in line.split('|'))
                          for line in (content['columns'], *content['rows'].splitlines()))
        return cls(paper, number, content['title'], content['section'], columns, tuple(
            Row(name, tuple(Cell(text=text) for text in texts)) for name, *texts in rows))

    def beside(self, rows: Sequence[Row], columns: tuple[str, ...], notes: Sequence[str]) -> Table:
        """The same with measured rows, which may have columns beyond the paper's."""
        empty = (Cell(),) * len(columns)
        printed = (dataclasses.replace(row, cells=row.cells + empty) for row in self.rows)
        return dataclasses.replace(self, columns=self.columns + columns, rows=(*printed, *rows),
                                   notes=tuple(notes))

    @property
    def printed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.on)

    @property
    def measured(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.on)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Table:
        """What ``dataclasses.asdict`` made, also after JSON made lists of tuples.

        :raises ValueError: it is something else.
        """
        def of(kind: Callable[..., Any], content: Mapping[str, Any], **others: Any) -> Any:
            return kind(**{name: tuple(value) if isinstance(value, list) else value
                           for name, value in content.items()} | others)
        try:
            table: Table = of(cls, content, rows=tuple(
                of(Row, row, cells=tuple(of(Cell, one) for one in row['cells']))
                for row in content['rows']))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f'this is no table of a paper: {error!r}') from error
        return table


def merge(tables: Sequence[Table]) -> Table:
    """One table of what several machines measured.

    A row without any figure is left out where another machine has figures in a row of its name.

    :raises ValueError: they are not of one published table with the same columns.
    """
    first = tables[0]
    if any((one.paper, one.number, one.columns, one.printed)
           != (first.paper, first.number, first.columns, first.printed) for one in tables):
        raise ValueError(f'{first.paper}, {first.number}: the reports were made by different '
                         'versions and cannot be put side by side')
    rows = [(row, any(value is not None for cell in row.cells for value in cell.values))
            for one in tables for row in one.measured]
    measured = {row.name for row, has_figures in rows if has_figures}
    return dataclasses.replace(first, rows=(*first.printed, *(
        row for row, has_figures in rows if has_figures or row.name not in measured)),
        notes=tuple(dict.fromkeys(note for one in tables for note in one.notes)))


_CONTENT = read_yaml(pathlib.Path(__file__).with_name('published.yaml'))

#: Keys of the papers to what they are called.
PAPERS: Mapping[str, str] = {paper: content['title'] for paper, content in _CONTENT.items()}

#: Every published table by paper and number, in the papers' order.
PUBLISHED: Mapping[tuple[str, str], Table] = {
    (paper, number): Table.transcribe(paper, number, table)
    for paper, content in _CONTENT.items() for number, table in content['tables'].items()}
