"""Tables as text and plots: the paper's rows, the measured ones under them, and notes."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stereo_bp_ros import atomic_files
from stereo_bp_ros.papers.tables.table import PAPERS, Row, Table

#: Name of a line, and where it was measured ('' = by the paper), to its points.
Lines = dict[tuple[str, str], dict[Any, 'float | None']]


class Axes(NamedTuple):
    """How a table is drawn."""

    lines: Callable[[Table], Lines]
    x_label: str
    y_label: str
    is_log: bool = False


def title_of(table: Table) -> str:
    return f'{table.number[:1].upper()}{table.number[1:]}: {table.title} ({table.section})'


def texts_of(table: Table) -> tuple[list[tuple[bool, tuple[str, ...]]], list[str]]:
    """Whether each row is measured with its texts, and the notes.

    Measured rows are under the printed ones that they repeat. A reason why something is missing
    is a note, and its number stands in the cell.
    """
    waiting = list(table.measured)
    reasons: dict[str, int] = {}
    rows = []
    for printed in table.printed:
        rows.append((False, _texts(printed, reasons)))
        for row in [one for one in waiting if _repeats(one, printed, table)]:
            waiting.remove(row)
            rows.append((True, _texts(row, reasons)))
    rows += ((True, _texts(row, reasons)) for row in waiting)
    return rows, [*(f'({number}) {reason}' for reason, number in reasons.items()), *table.notes]


def _repeats(row: Row, printed: Row, table: Table) -> bool:
    """Whether this printed row is the first one that a measured row has the name of."""
    names = [one.name for one in table.printed if row.name and one.name.startswith(row.name)]
    return bool(names) and names[0] == printed.name


def _texts(row: Row, reasons: dict[str, int]) -> tuple[str, ...]:
    texts = [', '.join(text for text in (row.name, row.on) if text)]
    for cell in row.cells:
        mark = (f'({reasons.setdefault(cell.missing, len(reasons) + 1)})' if cell.missing else '')
        texts.append(' '.join(text for text in (cell.written(), mark) if text))
    return tuple(texts)


def markdown(tables: Iterable[Table], plots: Iterable[str] = ()) -> str:
    """A section for each paper; measured rows are bold.

    :param plots: file names, each shown under the table that has its stem.
    """
    files = {name.rpartition('.')[0]: name for name in plots}
    lines: list[str] = []
    paper = ''
    for table in tables:
        if table.paper != paper:
            paper = table.paper
            lines += [f'## {PAPERS.get(paper, paper)}', '']
        rows, notes = texts_of(table)
        lines += [f'### {title_of(table)}', '', _line(table.columns),
                  _line(('---',) * len(table.columns))]
        lines += [_line(tuple(f'**{text}**' if text else '' for text in row) if is_measured
                        else row) for is_measured, row in rows]
        lines.append('')
        for note in notes:
            lines += [note, '']
        if table.file_name in files:
            lines += [f'![{title_of(table)}]({files[table.file_name]})', '']
    return '\n'.join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return '| ' + ' | '.join(cells) + ' |'


def by_row(*parts: str) -> Callable[[Table], Lines]:
    """A line for every row over the columns.

    :param parts: what the names of a row's lines end with, one for each figure of a cell.
    """
    return lambda table: {
        (row.name + part, row.on): {
            column: cell.number(index)
            for column, cell in zip(table.columns[1:], row.cells, strict=True)}
        for row in table.rows for index, part in enumerate(parts or ('',))}


def by_column(first: int = 1, end: int | None = None) -> Callable[[Table], Lines]:
    """A line for every column from ``first`` to ``end`` over the rows of the table."""
    def lines(table: Table) -> Lines:
        found: Lines = {}
        for place, column in enumerate(table.columns[first:end], first):
            for row in table.rows:
                found.setdefault((column, row.on), {})[row.name] = row.cells[place - 1].number(0)
        return found
    return lines


def by_series(place: Callable[[Row], tuple[str, float]], column: int) -> Callable[[Table], Lines]:
    """A line for every name that ``place`` gives to measured rows, over the number beside it."""
    def lines(table: Table) -> Lines:
        found: Lines = {}
        for row in table.measured:
            name, x = place(row)
            found.setdefault((name, row.on), {})[x] = row.cells[column - 1].number(0)
        return found
    return lines


def draw(table: Table, axes: Axes, path: pathlib.Path) -> bool:
    """Draw a table into an SVG file; False where there is nothing to draw.

    The paper's lines are grey and dashed, measured ones coloured.
    """
    lines = {key: points for key, points in axes.lines(table).items()
             if any(y is not None for y in points.values())}
    if not lines:
        return False
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    labels = list(dict.fromkeys(x for points in lines.values() for x in points))
    if not isinstance(labels[0], str):
        labels.sort()
    places = range(len(labels)) if isinstance(labels[0], str) else labels
    # The same figures give the same file; letters as text keep it small.
    with pyplot.rc_context({'svg.hashsalt': table.file_name, 'svg.fonttype': 'none',
                            'font.size': 9}):
        figure, plot = pyplot.subplots(figsize=(9, 5))
        counts = {True: 0, False: 0}
        for (name, on), points in lines.items():
            number = counts[on == '']
            counts[on == ''] += 1
            found = (points.get(label) for label in labels)
            plot.plot(places, [math.nan if y is None else y for y in found],
                      color=f'C{number % 10}' if on else str(0.25 + 0.1 * (number % 5)),
                      linestyle='-' if on else '--', marker='os^vDPX*'[number % 8], markersize=5,
                      label=', '.join(text.strip(' ,') for text in (name, on) if text) if on
                      else f'paper: {name}')
        plot.set_xticks(places, [x if isinstance(x, str) else f'{x:g}' for x in labels])
        plot.set(xlabel=axes.x_label, ylabel=axes.y_label,
                 yscale='log' if axes.is_log else 'linear')
        plot.grid(alpha=0.3)
        plot.legend(fontsize=7, loc='upper left', bbox_to_anchor=(1.01, 1))
        plot.set_title(f'{table.paper}, {table.number}: {table.title}', fontsize=9, wrap=True)
        with atomic_files.opened(path) as file:
            figure.savefig(file, format='svg', bbox_inches='tight', metadata={'Date': None})
        pyplot.close(figure)
    return True
