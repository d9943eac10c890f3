"""Results as text and plots: the paper's rows, the measured ones under them, and notes."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence

from stereo_bp_ros.papers.tables.published import PAPERS, Published, numbers
from stereo_bp_ros.papers.tables.results import Cell, Line, Plot, Result, Row


@dataclasses.dataclass(frozen=True)
class Layout:
    """A table as text. ``measured``: which rows are; the notes begin with their marks, if any."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    measured: tuple[bool, ...]
    notes: tuple[str, ...]


def layout(result: Result) -> Layout:
    """Put measured rows under the printed ones that they repeat, and number the reasons."""
    published, measured = result.published, result.measured
    waiting = list(measured.rows)
    reasons: dict[str, int] = {}
    rows: list[tuple[bool, tuple[str, ...]]] = []
    for printed in published.rows:
        rows.append((False, printed + ('',) * len(measured.columns)))
        for row in [one for one in waiting if _repeats(one, printed, published)]:
            waiting.remove(row)
            rows.append((True, _texts(row, reasons)))
    rows += ((True, _texts(row, reasons)) for row in waiting)
    return Layout(
        f'{published.number[:1].upper()}{published.number[1:]}: {published.title} '
        f'({published.section})', result.columns, tuple(texts for _, texts in rows),
        tuple(is_measured for is_measured, _ in rows),
        (*(f'({number}) {reason}' for reason, number in reasons.items()), *measured.notes))


def _repeats(row: Row, printed: tuple[str, ...], published: Published) -> bool:
    """Whether this printed row is the first one that a measured row has the name of."""
    names = [one[0] for one in published.rows if row.name and one[0].startswith(row.name)]
    return bool(names) and names[0] == printed[0]


def _texts(row: Row, reasons: dict[str, int]) -> tuple[str, ...]:
    texts = [', '.join(text for text in (row.name, row.on) if text)]
    for cell in row.cells:
        mark = (f'({reasons.setdefault(cell.missing, len(reasons) + 1)})' if cell.missing else '')
        texts.append(' '.join(text for text in (cell.written(), mark) if text))
    return tuple(texts)


def markdown(results: Iterable[Result], plots: Iterable[str] = ()) -> str:
    """A section for each paper; measured rows are bold.

    :param plots: file names, each shown under the table whose plot has its stem.
    """
    files = {name.rpartition('.')[0]: name for name in plots}
    lines: list[str] = []
    paper = ''
    for result in results:
        if result.published.paper != paper:
            paper = result.published.paper
            lines += [f'## {PAPERS.get(paper, paper)}', '']
        table = layout(result)
        lines += [f'### {table.title}', '', _line(table.columns),
                  _line(('---',) * len(table.columns))]
        lines += [_line(tuple(f'**{text}**' if text else '' for text in row) if is_measured
                        else row)
                  for row, is_measured in zip(table.rows, table.measured, strict=True)]
        lines.append('')
        for note in table.notes:
            lines += [note, '']
        for plot in result.measured.plots:
            if plot.name in files:
                lines += [f'![{table.title}]({files[plot.name]})', '']
    return '\n'.join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return '| ' + ' | '.join(cells) + ' |'


def plot_rows(table: Published, rows: Sequence[Row], x_label: str, y_label: str,
              parts: tuple[str, ...] = ('',), extra: tuple[str, ...] = (),
              is_log: bool = False) -> Plot:
    """A line for every printed and measured row, over the columns.

    :param parts: what the names of a row's lines end with, one for each figure of a cell.
    :param extra: heads of measured columns beyond the table's.
    """
    lines = [Line(row[0] + part, '', tuple(_printed(cell, index)
                                           for cell in (*row[1:], *[''] * len(extra))))
             for row in table.rows for index, part in enumerate(parts)]
    lines += [Line(row.name + part, row.on, tuple(_measured(cell, index) for cell in row.cells))
              for row in rows for index, part in enumerate(parts)]
    return Plot(table.file_name, _title(table), x_label, y_label, (*table.columns[1:], *extra),
                tuple(lines), is_log)


def plot_columns(table: Published, rows: Sequence[Row], extra: Sequence[str],
                 drawn: Sequence[str], y_label: str, is_log: bool = True) -> Plot:
    """A line for every drawn column over the rows of the table.

    :param extra: heads of measured columns beyond the table's.
    """
    names = tuple(row[0] for row in table.rows)
    columns = (*table.columns, *extra)
    lines = []
    for column in drawn:
        place = columns.index(column)
        if column in table.columns:
            lines.append(Line(column, '', tuple(_printed(row[place], 0) for row in table.rows)))
        for on in dict.fromkeys(row.on for row in rows):
            cells = {row.name: row.cells[place - 1] for row in rows if row.on == on}
            lines.append(Line(column, on, tuple(cells.get(name, Cell()).value for name in names)))
    return Plot(table.file_name, _title(table), table.columns[0], y_label, names, tuple(lines),
                is_log)


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
    """A figure of a printed cell; None of one in words ('above 0', '40 to 50')."""
    found = () if cell[:1].isalpha() or ' to ' in cell else numbers(cell)
    return found[index] if index < len(found) else None


def _measured(cell: Cell, index: int) -> float | None:
    return cell.values[index] if index < len(cell.values) else None
