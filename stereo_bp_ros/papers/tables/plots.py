"""Plots of tables: what the paper prints and what was measured, line by line."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Sequence

from stereo_bp_ros.papers.tables.results import Cell, Line, Plot, Published, Row, numbers


def of_rows(table: Published, rows: Sequence[Row], y_label: str,
            parts: tuple[str, ...] = ('',)) -> Plot:
    """A line for every row over the columns; a cell of several figures belongs to several.

    :param parts: what the names of a row's lines end with, one for each figure of a cell.
    """
    lines = [Line(row[0] + part, '', tuple(_printed(cell, index) for cell in row[1:]))
             for row in table.rows for index, part in enumerate(parts)]
    lines += [Line(row.name + part, row.on, tuple(_measured(cell, index) for cell in row.cells))
              for row in rows for index, part in enumerate(parts)]
    return Plot(file_name(table), _title(table), table.columns[0], y_label, table.columns[1:],
                tuple(lines))


def of_columns(table: Published, rows: Sequence[Row], columns: Sequence[str],
               drawn: Sequence[str], y_label: str, is_log: bool = True) -> Plot:
    """A line for every drawn column over the rows of the table.

    :param columns: heads of the measured cells, that of the rows' names first.
    """
    names = tuple(row[0] for row in table.rows)
    lines = []
    for column in drawn:
        if column in table.columns:
            place = table.columns.index(column)
            lines.append(Line(column, '', tuple(_printed(row[place], 0) for row in table.rows)))
        for on in dict.fromkeys(row.on for row in rows):
            found = {row.name: row.cells[columns.index(column) - 1]
                     for row in rows if row.on == on}
            lines.append(Line(column, on, tuple(_measured(found.get(name, Cell()), 0)
                                                for name in names)))
    return Plot(file_name(table), _title(table), table.columns[0], y_label, names, tuple(lines),
                is_log)


def file_name(table: Published) -> str:
    """A file's name for a table, without its suffix."""
    return re.sub(r'\W+', '_', f'{table.paper}_{table.number}')


def draw(plot: Plot, path: pathlib.Path) -> bool:
    """Draw a plot into a file whose suffix says the format; False where there is nothing to draw.

    The paper's lines are grey and dashed, measured ones coloured.
    """
    lines = [line for line in plot.lines if any(y is not None for y in line.y)]
    if not lines:
        return False
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    # The same figures give the same file; letters as text keep it small.
    with pyplot.rc_context({'svg.hashsalt': plot.name, 'svg.fonttype': 'none', 'font.size': 9}):
        figure, axes = pyplot.subplots(figsize=(9, 5))
        places = (list(range(len(plot.x))) if isinstance(plot.x[0], str)
                  else [float(x) for x in plot.x])
        counts = {True: 0, False: 0}
        for line in lines:
            is_paper = line.on == ''
            number = counts[is_paper]
            counts[is_paper] += 1
            colour = str(0.25 + 0.1 * (number % 5)) if is_paper else f'C{number % 10}'
            axes.plot(places, [math.nan if y is None else y for y in line.y],
                      color=colour, linestyle='--' if is_paper else '-',
                      marker='os^vDPX*'[number % 8], markersize=5,
                      label=f'paper: {line.name}' if is_paper
                      else ', '.join(text.strip(' ,') for text in (line.name, line.on) if text))
        axes.set_xticks(places, [x if isinstance(x, str) else f'{x:g}' for x in plot.x])
        axes.set(xlabel=plot.x_label, ylabel=plot.y_label,
                 yscale='log' if plot.is_log else 'linear')
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc='upper left', bbox_to_anchor=(1.01, 1))
        axes.set_title(plot.title, fontsize=9, wrap=True)
        figure.savefig(path, bbox_inches='tight',
                       metadata={'Date': None} if path.suffix == '.svg' else None)
        pyplot.close(figure)
    return True


def _title(table: Published) -> str:
    return f'{table.paper}, {table.number}: {table.title}'


def _printed(cell: str, index: int) -> float | None:
    found = numbers(cell)
    return found[index] if index < len(found) else None


def _measured(cell: Cell, index: int) -> float | None:
    return cell.values[index] if index < len(cell.values) else None
