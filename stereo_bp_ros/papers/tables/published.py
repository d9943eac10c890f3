"""What the papers print, cell by cell; the text is ``published.yaml``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping

from stereo_bp_ros.config.files import read_yaml


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
    def transcribe(cls, paper: str, number: str, content: Mapping[str, str]) -> Published:
        """Read a table of the YAML file, with ``|`` between cells.

        :raises ValueError: a row has more or fewer cells than there are columns.
        """
        columns, *rows = (tuple(cell.strip() for cell in line.split('|'))
                          for line in (content['columns'], *content['rows'].splitlines()))
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f'{paper}, {number}: {len(row)} cells for {len(columns)} '
                                 f'columns in {row}')
        return cls(paper, number, content['title'], content['section'], columns, tuple(rows))

    @property
    def file_name(self) -> str:
        """Name of the table's plot, without its suffix."""
        return re.sub(r'\W+', '_', f'{self.paper}_{self.number}')


def numbers(cell: str) -> tuple[float, ...]:
    """The figures in a printed cell: '0.99 / 1.0' has two, 'N/A' none."""
    return tuple(float(text) for text in re.findall(r'-?\d+(?:\.\d+)?', cell))


_CONTENT = read_yaml(pathlib.Path(__file__).with_suffix('.yaml'))

#: Keys of the papers to what they are called.
PAPERS: Mapping[str, str] = {paper: content['title'] for paper, content in _CONTENT.items()}

#: Every table by paper and number, in the papers' order.
TABLES: Mapping[tuple[str, str], Published] = {
    (paper, number): Published.transcribe(paper, number, table)
    for paper, content in _CONTENT.items() for number, table in content['tables'].items()}
