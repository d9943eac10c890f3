"""Pages to test reports with: rendered frames of known errors, hostile names, a strict reader."""

from __future__ import annotations

import html.parser
import re

import numpy as np

from stereo_bp_ros.evaluation import plots, report
from stereo_bp_ros.evaluation.conditions import Condition, Verdict
from stereo_bp_ros.evaluation.showing import Showing, View

#: What somebody may call a folder, a frame, a setting or a condition.
HOSTILE = '<script>alert(1)</script>"\'&amp; </style> $x$ http://x.org/a.png \udcff\x07 --> ]]>'

#: Elements that have no end.
VOID = {'meta', 'img', 'input', 'br', 'hr', 'link'}


class Reader(html.parser.HTMLParser):
    """Elements of a page with their attributes, its texts, and whether every element ends."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] not in ('script', 'style'):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return ' '.join(self.texts)

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.elements if name in attrs]


def outside(page: str) -> list[str]:
    """Addresses outside of the page that its elements or styles would read."""
    read = Reader(page)
    found = [value for name in ('src', 'href', 'xlink:href', 'srcset', 'action', 'data', 'poster')
             for value in read.attributes(name)
             if not re.match(r'#|data:image/(png|jpeg|svg\+xml);base64,', value)]
    styles = [*read.attributes('style'), *re.findall(r'<style>.*?</style>', page, re.DOTALL)]
    return found + [one for style in styles
                    for one in re.findall(r'url\((?!["\']?#)[^)]*\)|@import[^;]*', style)]


def view(place: int, wrong: float = 0.0, *, has_truth: bool = True, name: str = '',
         size: tuple[int, int] = (48, 96), matcher: str = 'bp') -> View:
    """A frame of which this share of the pixels, at the left, is wrong by 10 px."""
    random = np.random.default_rng(place)
    truth = np.full(size, 20, np.float32)
    disparity = truth.copy()
    disparity[:, :round(wrong * size[1])] += 10
    return View(name or f'frame_{place}', random.integers(0, 256, size, np.uint8),
                {matcher: (disparity, np.ones(size, bool))}, truth if has_truth else None, 0.0,
                63.0)


def showing(frames: int = 4, **options) -> Showing:
    """Of so many frames, each worse than the one before."""
    found = Showing(frames)
    for place in range(frames):
        one = view(place, place / frames, **options)
        found.add(place, one, lambda one=one: {
            name: np.full(valid.shape, 0.5, np.float32) for name, (_, valid) in one.maps.items()})
    return found


def verdict(text: str = 'frames <= 2', value: float | None = 1.0) -> Verdict:
    """Of a condition; without a value it has failed."""
    return Verdict(Condition(text, 'frames', '<=', 2.0), value, 1)


def sections(text: str, frames: int = 4) -> list[report.Section]:
    """Every kind of part, with a text wherever one can be."""
    shown = showing(frames, name=text, matcher=text)
    bars = plots.bars([text, 'b'], {text: [1, 2], 'c': [3, None]}, text)
    lines = plots.lines([1, 2, 3], {text: [1, None, 2]}, text, text, {text: 1.5},
                        {text: [0, 1, 2]})
    return [
        report.Section(text, [
            report.Tiles([(text, text)]),
            report.Conditions([verdict(text, value) for value in (1.0, 3.0, None)])], text),
        report.Section('Plots', [report.Image(text, plots.data_uri(one), text)
                                 for one in (bars, lines)]),
        report.Section('Frames', shown.viewer(text), shown.chosen()),
        report.Section('Where', shown.maps()),
        report.Section('Tables', [
            report.Table(text, [text, *map(str, range(20))], [[text, *['12.34'] * 20]] * 3,
                         is_half=True),
            report.Folded(text, [report.facts(text, {text: text})]),
            report.definitions([(text, text, text)]), report.Note(text)])]
