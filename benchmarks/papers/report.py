"""Tables as Markdown: the paper's rows, the measured ones under them, and notes."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.papers.table import PAPERS, Row, Table


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


def markdown(tables: Iterable[Table]) -> str:
    """A section for each paper; measured rows are bold."""
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
    return '\n'.join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return '| ' + ' | '.join(cells) + ' |'
