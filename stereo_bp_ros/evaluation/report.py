"""HTML reports: tiles, tables and pictures on one page that needs nothing but its folder."""

from __future__ import annotations

import dataclasses
import html
import os
import pathlib
import string
import urllib.parse
from collections.abc import Sequence

_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #1c2430; --soft: #657083; --line: #dde2ea;
  --card: #ffffff; --page: #f4f6f9; --mark: #2f6fde; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf3; --soft: #98a3b5; --line: #323b4a;
  --card: #1b222d; --page: #12171f; --mark: #6ea2ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 40px 0 12px; }
p.lead { color: var(--soft); margin: 0 0 8px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 14px 16px; } .tile b { display: block; font-size: 24px; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13px; }
.card { padding: 16px; margin-top: 14px; overflow-x: auto; }
.card h3 { margin: 0 0 8px; font-size: 15px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 14px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; font-size: 13px; }
tr:last-child td { border-bottom: 0; }
td.bar { width: 34%; text-align: left; }
td.bar i { display: block; height: 10px; border-radius: 5px; background: var(--mark); }
img { max-width: 100%; height: auto; border-radius: 6px; display: block; }
figure { margin: 14px 0 0; } figcaption { color: var(--soft); font-size: 13px; margin-top: 6px; }
</style></head><body><main><h1>$title</h1><p class="lead">$lead</p>
$sections
</main></body></html>
""")


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text; ``bars`` (0..1, one per row) are drawn as a last column where given."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[float] = ()

    def to_html(self) -> str:
        head = ''.join(f'<th>{html.escape(c)}</th>' for c in self.columns)
        if self.bars:
            head += '<th></th>'
        lines = []
        for index, row in enumerate(self.rows):
            cells = ''.join(f'<td>{html.escape(cell)}</td>' for cell in row)
            if self.bars:
                width = 100 * min(1.0, max(0.0, self.bars[index]))
                cells += f'<td class="bar"><i style="width:{width:.1f}%"></i></td>'
            lines.append(f'<tr>{cells}</tr>')
        return (f'<div class="card"><h3>{html.escape(self.title)}</h3><table><tr>{head}</tr>'
                + ''.join(lines) + '</table></div>')


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading, tiles of (figure, what it is), tables, and pictures of (file, caption)."""

    title: str
    lead: str = ''
    tiles: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[tuple[str, str]] = ()

    def to_html(self) -> str:
        parts = [f'<h2>{html.escape(self.title)}</h2>']
        if self.lead:
            parts.append(f'<p class="lead">{html.escape(self.lead)}</p>')
        if self.tiles:
            parts.append('<div class="tiles">' + ''.join(
                f'<div class="tile"><b>{html.escape(figure)}</b><span>{html.escape(what)}</span>'
                '</div>' for figure, what in self.tiles) + '</div>')
        if self.tables:
            parts.append('<div class="pair">' + ''.join(t.to_html() for t in self.tables)
                         + '</div>')
        for file, caption in self.pictures:
            # The name of a file may be no text, or have a meaning in an address.
            source = urllib.parse.quote(os.fsencode(file))
            parts.append(f'<figure><img src="{source}" alt="{html.escape(caption)}">'
                         f'<figcaption>{html.escape(caption)}</figcaption></figure>')
        return '\n'.join(parts)


def write_html(path: pathlib.Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write one page; pictures are named relative to it."""
    path.write_text(_PAGE.substitute(
        title=html.escape(title), lead=html.escape(lead),
        sections='\n'.join(section.to_html() for section in sections)),
        encoding='utf-8', errors='backslashreplace')
