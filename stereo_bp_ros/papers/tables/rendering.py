"""Results as text: the paper's rows, the measured ones under them, and notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from stereo_bp_ros.papers.tables.catalogue import PAPERS
from stereo_bp_ros.papers.tables.results import Cell, Published, Result, Row


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
    name = ', '.join(text for text in (row.name, row.on) if text)
    return (name, *(_text(cell, reasons) for cell in row.cells))


def _text(cell: Cell, reasons: dict[str, int]) -> str:
    parts = [cell.written()]
    if cell.missing:
        parts.append(f'({reasons.setdefault(cell.missing, len(reasons) + 1)})')
    return ' '.join(part for part in parts if part)


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
