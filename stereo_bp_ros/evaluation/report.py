"""HTML reports: one page that needs nothing but itself, neither network nor folder.

A page is made of sections, and a section of parts. Every text may be any text: names of files and
settings are escaped here. Pictures lie in the page (``pictures.data_uri``).
"""

from __future__ import annotations

import html
import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stereo_bp_ros.evaluation import pictures, report_page
from stereo_bp_ros.evaluation.conditions import Verdict
from stereo_bp_ros.evaluation.gallery import Shot

#: Longer tables may be broken over sheets of paper.
LONG_TABLE = 30

_CONTROL = re.compile(r'[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]')


class Part(Protocol):
    """What a section shows."""

    def to_html(self) -> str:
        """HTML of this part, complete and escaped."""


@dataclass(frozen=True)
class Tiles:
    """Figures in large letters, each with a text that says of what."""

    tiles: Sequence[tuple[str, str]]

    def to_html(self) -> str:
        return '<div class="tiles">' + ''.join(
            f'<div class="tile"><b>{_text(figure)}</b><span>{_text(what)}</span></div>'
            for figure, what in self.tiles) + '</div>'


@dataclass(frozen=True)
class Table:
    """Rows of text.

    bars:    0 to 1, one a row, drawn as a last column where given.
    is_text: all columns are text, not figures; they fold.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[float] = ()
    is_text: bool = False

    def to_html(self) -> str:
        head = ''.join(f'<th scope="col">{_text(c)}</th>' for c in self.columns)
        if self.bars:
            head += '<td></td>'
        lines = []
        for index, row in enumerate(self.rows):
            cells = ''.join(f'<td>{_text(cell)}</td>' for cell in row)
            if self.bars:
                width = 100 * min(1.0, max(0.0, self.bars[index]))
                cells += f'<td class="bar"><i style="width:{width:.1f}%"></i></td>'
            lines.append(f'<tr>{cells}</tr>')
        return _card(self.title, f'<table{" class=text" if self.is_text else ""}>'
                     f'<thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>',
                     is_long=len(lines) > LONG_TABLE)


@dataclass(frozen=True)
class Conditions:
    """A traffic light for every condition, in colour, form and words."""

    verdicts: Sequence[Verdict]

    def to_html(self) -> str:
        lines = []
        for one in self.verdicts:
            word = 'passed' if one.passed else 'failed'
            lines.append(f'<tr><td class="light {word}"><i aria-hidden="true"></i>{word}</td>'
                         f'<td>{_text(one.condition.text)}</td>'
                         f'<td class="number">{_number(one.value)}</td>'
                         f'<td class="number">{_number(one.limit)}</td></tr>')
        held = sum(one.passed for one in self.verdicts)
        return _card(f'{held} of {len(self.verdicts)} conditions hold',
                     '<table class="text"><thead><tr><th scope="col">result</th>'
                     '<th scope="col">condition</th><th scope="col">measured</th>'
                     '<th scope="col">limit</th></tr></thead>'
                     f'<tbody>{"".join(lines)}</tbody></table>')


def _number(value: float | None) -> str:
    return '-' if value is None else f'{value:.6g}'


@dataclass(frozen=True)
class Scale:
    """A row of colours.

    colours: #rrggbb, from the low end on.
    labels:  of the ends, or, as many as colours, of the upper end of each.
    others:  colours apart from the row, and what they mean.
    """

    title: str
    colours: Sequence[str]
    labels: Sequence[str]
    others: Sequence[tuple[str, str]] = ()

    def to_html(self) -> str:
        row = ''.join(f'<i style="background:{colour}"></i>' for colour in self.colours)
        kind = ' steps' if len(self.labels) == len(self.colours) else ''
        labels = ''.join(f'<span>{_text(label)}</span>' for label in self.labels)
        others = ''.join(f'<i class="swatch" style="background:{colour}"></i>{_text(meaning)}'
                         for colour, meaning in self.others)
        return (f'<div class="scale">{_text(self.title)}{others}<div class="colours">{row}</div>'
                f'<div class="ends{kind}">{labels}</div></div>')


def frame_scales(has_error: bool, has_confidence: bool) -> list[Scale]:
    """The colours of ``gallery.panels``."""
    none = pictures.hex_colour(pictures.INVALID)
    found = [Scale('disparity', pictures.scale_colours('disparity'), ('far', 'near'),
                   [(none, 'none')])]
    if has_error:
        found.append(Scale(
            'error, px', [pictures.hex_colour(colour) for _, colour in pictures.ERROR_STEPS],
            [*(f'{limit:g}' for limit, _ in pictures.ERROR_STEPS[:-1]), 'more'],
            [(pictures.hex_colour(pictures.MISSING), 'no disparity'),
             (pictures.hex_colour(pictures.UNKNOWN), 'no truth')]))
    if has_confidence:
        found.append(Scale('confidence', pictures.scale_colours('confidence'), ('0', '1'),
                           [(none, 'no disparity')]))
    return found


@dataclass(frozen=True)
class Picture:
    """A picture with a caption.

    uri:       of ``pictures.data_uri``.
    is_blocks: its pixels are blocks, drawn with sharp borders at the width of the page.
    """

    uri: str
    caption: str
    title: str = ''
    scales: Sequence[Scale] = ()
    is_blocks: bool = False

    def to_html(self) -> str:
        kind = ' class="blocks"' if self.is_blocks else ''
        inside = (f'<figure><img{kind} src="{_source(self.uri)}" alt="{_text(self.caption)}">'
                  f'<figcaption>{_text(self.caption)}</figcaption></figure>')
        return _card(self.title, inside + _scales(self.scales))


@dataclass(frozen=True)
class Viewer:
    """Frames behind a slider, the worst first; without JavaScript, and on paper, a list.

    name: differs from that of every other viewer of the page.
    """

    name: str
    shots: Sequence[Shot]

    def to_html(self) -> str:
        slug = re.sub(r'\W+', '-', self.name, flags=re.ASCII)
        last = len(self.shots) - 1
        captions = {caption.split(',')[0] for shot in self.shots for caption, _ in shot.panels}
        return (
            f'<div class="card long viewer">'
            '<div class="controls" hidden><label class="run">Frame '
            f'<input type="range" min="0" max="{last}" value="0"></label><output></output>'
            '<button type="button" data-step="-1">Previous</button>'
            '<button type="button" data-step="1">Next</button>'
            '<label>Order <select><option value="worst">worst first</option>'
            '<option value="time">as in the sequence</option></select></label></div>'
            + ''.join(self._frame(slug, shot) for shot in self.shots)
            + _scales(frame_scales('error' in captions, 'confidence' in captions))
            + '</div>' + _card('The same frames, the worst first', '<ol>' + ''.join(
                f'<li><a href="#frame-{slug}-{shot.place}">{_text(shot.name)}</a>: '
                f'{_text(shot.caption)}</li>' for shot in self.shots) + '</ol>'))

    def _frame(self, slug: str, shot: Shot) -> str:
        label = _text(f'{shot.name}: {shot.caption}')
        shown = ''.join(
            f'<figure><img src="{_source(uri)}" alt="{_text(caption)} of {_text(shot.name)}">'
            f'<figcaption>{_text(caption)}</figcaption></figure>' for caption, uri in shot.panels)
        # Three fit beside each other, and of four wide ones two.
        is_wide = shot.aspect > 1.5 and len(shot.panels) % 2 == 0
        return (f'<article class="frame" id="frame-{slug}-{shot.place}" '
                f'data-place="{shot.place}" data-label="{label}"><h3>{label}</h3>'
                f'<div class="panels{" wide" if is_wide else ""}">{shown}</div>'
                '</article>')


@dataclass(frozen=True)
class Plot:
    """A plot of ``plots``: SVG that is part of the page and takes its colours."""

    title: str
    svg: str
    note: str = ''

    def to_html(self) -> str:
        return _card(self.title, self.svg + _note(self.note))


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str

    def to_html(self) -> str:
        return _note(self.text)


@dataclass(frozen=True)
class Beside:
    """Parts beside each other where the window is wide enough."""

    parts: Sequence[Part]

    def to_html(self) -> str:
        return f'<div class="pair">{"".join(part.to_html() for part in self.parts)}</div>'


@dataclass(frozen=True)
class Folded:
    """Parts that a reader opens; on paper they are open."""

    title: str
    parts: Sequence[Part]

    def to_html(self) -> str:
        return (f'<details class="card long"><summary>{_text(self.title)}</summary>'
                + ''.join(part.to_html() for part in self.parts) + '</details>')


@dataclass(frozen=True)
class Section:
    """A heading and parts; a section without parts is left out of the page."""

    title: str
    parts: Sequence[Part]
    lead: str = ''


def facts(title: str, known: Mapping[str, object]) -> Table:
    """A table of names and values."""
    return Table(title, ('', ''), [(name, str(value)) for name, value in known.items()],
                 is_text=True)


def definitions(meanings: Iterable[tuple[str, str, str]]) -> Table:
    """What figures mean: (key, words, unit) of each."""
    return Table('', ('figure', 'meaning', 'unit'), list(meanings), is_text=True)


def write_html(path: pathlib.Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write one page."""
    shown = [section for section in sections if section.parts]
    links = ''.join(f'<a href="#section-{number}">{_text(section.title)}</a>'
                    for number, section in enumerate(shown))
    bodies = (f'<section id="section-{number}"><h2>{_text(section.title)}</h2>'
              + (f'<p class="lead">{_text(section.lead)}</p>' if section.lead else '')
              + '\n'.join(part.to_html() for part in section.parts) + '</section>'
              for number, section in enumerate(shown))
    path.write_text(report_page.PAGE.substitute(
        title=_text(title), lead=_text(lead), style=report_page.STYLE,
        script=report_page.SCRIPT,
        sections='\n'.join(itertools.chain([f'<nav>{links}</nav>'], bodies))),
        encoding='utf-8', errors='backslashreplace')


def _text(text: str) -> str:
    # Control characters have no place in HTML, even escaped.
    return html.escape(_CONTROL.sub('\N{REPLACEMENT CHARACTER}', text))


def _source(uri: str) -> str:
    """The address of a picture.

    :raises ValueError: it would be read from elsewhere than the page.
    """
    if not re.fullmatch(r'data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+', uri):
        raise ValueError(f'a picture lies outside its page: {uri[:60]!r}')
    return uri


def _card(title: str, inside: str, *, is_long: bool = False) -> str:
    # What is wider than the window scrolls, by the keyboard, too.
    name = f' role="region" aria-label="{_text(title)}"' if title else ''
    return (f'<div class="card{" long" if is_long else ""}">'
            + (f'<h3>{_text(title)}</h3>' if title else '')
            + f'<div class="scroll" tabindex="0"{name}>{inside}</div></div>')


def _scales(scales: Sequence[Scale]) -> str:
    return ('<div class="scales">' + ''.join(scale.to_html() for scale in scales) + '</div>'
            if scales else '')


def _note(text: str) -> str:
    return f'<p class="note">{_text(text)}</p>' if text else ''
