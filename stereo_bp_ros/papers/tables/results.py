"""What was measured beside a published table: cells, rows, plots; results of many machines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.papers.tables.published import Published


class Missing(StereoError):
    """Something is not on this machine: an image, a device, a setting. The text is the reason."""


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


#: Measures what a machine has to put beside a table, on a ``bench.Bench``. It leaves ``columns``
#: to whoever declares the table.
Measure = Callable[[Any, Published], Measurement]


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
            published, measured = content['published'], content['measured']
            return cls(_of(Published, published, rows=tuple(map(tuple, published['rows']))), _of(
                Measurement, measured,
                rows=tuple(_of(Row, row, cells=tuple(_of(Cell, one) for one in row['cells']))
                           for row in measured['rows']),
                plots=tuple(_of(Plot, plot, lines=tuple(_of(Line, line) for line in plot['lines']))
                            for plot in measured['plots'])))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f'this is no table of a paper: {error!r}') from error


def _of(kind: Callable[..., Any], content: Mapping[str, Any], **others: Any) -> Any:
    """An object of fields from JSON, whose lists were tuples; ``others`` are made already."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value
                   for name, value in content.items()} | others)


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
