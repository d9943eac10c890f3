"""HTML reports: one page that needs nothing but itself, neither network nor folder.

A page is made of sections, and a section of parts; ``report.html`` is the template of all of them.
Every text may be any text: the template escapes it. Jinja2 comes with the extra ``evaluation``.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stereo_bp_ros.evaluation.conditions import Verdict
from stereo_bp_ros.system import atomic_files

#: What a page needs.
MODULES = ('jinja2', 'matplotlib')

_CONTROL = re.compile(r'[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]')


@dataclass(frozen=True)
class Tiles:
    """Figures in large letters, each with a text that says of what."""

    tiles: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of text.

    is_text: all columns are text, not figures; they fold.
    is_half: stands beside another one where the window is wide enough.
    ranks:   of each column in a terminal: 0 = always there, others from the smallest on while
             there is room; () = all are there.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_text: bool = False
    is_half: bool = False
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class Conditions:
    """A traffic light for every condition, in colour, form and words."""

    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class Image:
    """A plot or picture of ``plots.data_uri`` or ``pictures.data_uri``.

    :raises ValueError: it would be read from elsewhere than the page.
    """

    title: str
    uri: str
    note: str = ''

    def __post_init__(self) -> None:
        check_uri(self.uri)


class Values(NamedTuple):
    """Values that a pointer over a picture shows of the place below it.

    uri:   PNG of maps of disparities one below the other, each of blocks of ``block`` x ``block``
           pixels: ``low`` + (256 red + green - 1) ``step`` px, 0 = none; blue: the confidence in
           255ths, 0 = none.
    names: of the maps.
    boxes: of the panels in the picture, as in ``pictures.Sheet``.
    size:  width and height of the image, pixels.
    scale: metres x pixels of disparity above ``shift``; 0: metres are not known.
    """

    uri: str
    names: Sequence[str]
    boxes: Sequence[tuple[float, float, float, float]]
    size: tuple[int, int]
    block: int
    low: float
    step: float
    scale: float
    shift: float


class Shot(NamedTuple):
    """One frame of a page: the larger ``badness``, the worse; ``place`` is from 0."""

    badness: float
    place: int
    name: str
    caption: str
    uri: str = ''
    values: Values | None = None


@dataclass(frozen=True)
class Viewer:
    """Frames of a slider, the worst first; without JavaScript, and on paper, a list.

    name: differs from that of every other viewer of the page.
    """

    name: str
    shots: Sequence[Shot]

    def __post_init__(self) -> None:
        for shot in self.shots:
            check_uri(shot.uri)
            if shot.values:
                check_uri(shot.values.uri)

    @property
    def slug(self) -> str:
        """The name as a part of addresses inside the page."""
        return re.sub(r'\W+', '-', self.name, flags=re.ASCII)


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Parts that a reader opens; on paper they are open."""

    title: str
    parts: Sequence[Part]


Part = Tiles | Table | Conditions | Image | Viewer | Note | Folded


@dataclass(frozen=True)
class Section:
    """A heading and parts; a section without parts is left out of the page."""

    title: str
    parts: Sequence[Part]
    lead: str = ''


def facts(title: str, known: Mapping[str, object]) -> Table:
    """A table of names and values."""
    return Table(title, ('', ''), [(name, str(value)) for name, value in known.items()],
                 is_text=True, is_half=bool(title))


def definitions(meanings: Iterable[tuple[str, str, str]]) -> Table:
    """What figures mean: (key, words, unit) of each."""
    return Table('', ('figure', 'meaning', 'unit'), list(meanings), is_text=True)


def write_html(path: pathlib.Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write one page.

    :raises ImportError: without Jinja2.
    """
    import jinja2
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=_printable)
    template = pathlib.Path(__file__).with_name('report.html').read_text(encoding='utf-8')
    page = environment.from_string(template).stream(
        title=title, lead=lead, sections=[one for one in sections if one.parts])
    with atomic_files.opened(path) as file:
        page.dump(file, encoding='utf-8', errors='backslashreplace')


def _printable(value: Any) -> Any:
    """Text without control characters, which have no place in HTML, even escaped."""
    return (_CONTROL.sub('\N{REPLACEMENT CHARACTER}', value) if type(value) is str else value)


def check_uri(uri: str) -> None:
    """:raises ValueError: the picture of an address lies outside its page."""
    if not re.fullmatch(r'data:image/(png|jpeg|svg\+xml);base64,[A-Za-z0-9+/=]+', uri):
        raise ValueError(f'a picture lies outside its page: {uri[:60]!r}')
