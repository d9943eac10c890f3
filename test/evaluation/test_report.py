"""A report is one page that reads nothing else, whatever names it shows."""

from __future__ import annotations

import base64
import re

import cv2
import numpy as np
import pytest

from stereo_bp_ros.evaluation import plots, report
from stereo_bp_ros.evaluation.showing import SPREAD, WORST, Showing
from stereo_bp_ros.images import pictures
from test.cases import every
from test.evaluation import pages


def require_page() -> None:
    for module in report.MODULES:
        pytest.importorskip(module)


def written(folder, *parts: report.Part) -> str:
    require_page()
    report.write_html(folder / 'report.html', 'title', 'lead', [report.Section('One', parts)])
    return (folder / 'report.html').read_text()


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """Every kind of part, made of hostile texts."""
    require_page()
    path = tmp_path_factory.mktemp('page') / 'report.html'
    report.write_html(path, pages.HOSTILE, pages.HOSTILE, pages.sections(pages.HOSTILE))
    return path.read_text()


def test_a_page_reads_nothing_outside_of_itself(page, tmp_path):
    assert pages.outside(page) == []
    # In texts alone there may be an address, since a name may be one.
    assert not re.search(r'(src|href|url\()\W{1,3}(https?:|file:|//)', page)
    assert "default-src 'none'; img-src data:" in page
    path = tmp_path / 'report.html'
    report.write_html(path, 'title', 'lead', [
        *pages.sections('name'), report.Section('Left out', [])])
    assert not re.search(r'https?://|file://|Left out', path.read_text())


def test_hostile_names_are_shown_as_they_are_and_do_nothing(page):
    read = pages.Reader(page)       # every element ends where it should
    assert [tag for tag, _ in read.elements].count('script') == 1
    assert [tag for tag, _ in read.elements].count('style') == 1
    shown = pages.HOSTILE.replace('\udcff', '\\udcff').replace('\x07', '\N{REPLACEMENT CHARACTER}')
    assert read.texts.count(shown) > 20
    assert not any(name.startswith('on') for _, attributes in read.elements
                   for name in attributes)


def test_every_link_of_a_page_has_its_target_once(page):
    read = pages.Reader(page)
    names = read.attributes('id')
    assert len(set(names)) == len(names)
    links = {value[1:] for value in (*read.attributes('href'), *read.attributes('xlink:href'))}
    assert len(links) > 5
    assert links <= set(names)


def test_a_condition_is_told_by_word_and_form_not_by_colour_alone(tmp_path):
    page = written(tmp_path, report.Conditions([
        pages.verdict(), pages.verdict(value=41.5), pages.verdict(value=None)]))
    text = pages.Reader(page).text
    for words in ('1 of 3 conditions hold', 'frames <= 2', '41.5'):
        assert words in text
    assert (page.count('class="light passed"'), page.count('class="light failed"')) == (1, 2)


@pytest.mark.parametrize('uri', ['picture.png', 'http://x.org/a.png', 'data:text/html,x',
                                 'data:image/png;base64,AA"onload="x'])
def test_a_picture_outside_of_its_page_is_refused(uri):
    with pytest.raises(ValueError, match='outside'):
        report.Image('title', uri)
    with pytest.raises(ValueError, match='outside'):
        report.Viewer('x', [report.Shot(0, 0, 'a', 'b', uri)])


def test_the_frames_of_a_page_are_a_list_where_no_script_runs(tmp_path):
    read = pages.Reader(written(tmp_path, *pages.showing(3).viewer('x')))
    frames = [attributes for tag, attributes in read.elements if tag == 'article']
    assert [frame['data-place'] for frame in frames] == ['2', '1', '0']
    assert every(frame['class'] == 'frame' for frame in frames)
    assert [attributes for tag, attributes in read.elements
            if attributes.get('class') == 'controls' and 'hidden' in attributes]


def test_the_size_of_a_page_is_bounded_for_frames_that_no_format_compresses(tmp_path):
    random = np.random.default_rng(0)
    shown, size = Showing(2), (450, 800)
    for place in range(2):
        disparity, truth, confidence = random.uniform(0, 63, (3, *size)).astype(np.float32)
        image = random.integers(0, 256, (*size, 3), np.uint8)
        shown.add(place, pages.View(
            str(place), image, {'bp': (disparity, np.ones(size, bool))}, truth, 0, 63),
            lambda confidence=confidence: {'bp': confidence / 63})
    limit = 2 * 2 * 4 * pictures.MAX_EMBEDDED_BYTES / 3     # as much for the values
    assert limit / 4 < len(written(tmp_path, *shown.viewer('x'))) < limit + 20_000
    assert (WORST + SPREAD) * limit / 2 < 13e6


@pytest.mark.parametrize(('size', 'kind'), [((8, 8), 'png'), ((700, 1500), 'jpeg'),
                                            ((1, 5000), 'png')])
def test_a_picture_takes_the_smaller_format_and_stays_within_its_bytes(size, kind):
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    uri = pictures.data_uri(picture)
    report.check_uri(uri)
    assert uri.startswith(f'data:image/{kind};base64,') or size[0] == 1
    assert len(uri) < 4 * pictures.MAX_EMBEDDED_BYTES / 3 + 100
    shown = cv2.imdecode(np.frombuffer(base64.b64decode(uri.split(',')[1]), np.uint8), 1)
    assert max(shown.shape) <= pictures.MAX_EMBEDDED_SIDE
    if kind == 'png' and size[0] == 8:
        np.testing.assert_array_equal(shown, picture)


def svg_of(figure) -> str:
    return base64.b64decode(plots.data_uri(figure).split(',')[1]).decode()


def test_plots_have_their_labels_as_they_are_and_are_the_same_again():
    require_page()
    hostile = ['$a$', r'\frac{']

    def draw():
        return svg_of(plots.bars(hostile, {'one': [1, 2], '<b>': [None, 3]}, 'per $ cent'))

    svg = draw()
    for text in ('$a$', r'\frac{', 'one', '&lt;b&gt;', 'per $ cent'):
        assert f'>{text}<' in svg
    assert svg == draw()
    axes, = plots.bars(['a', 'b', 'c'], {'one': [0.02, 0.2, 8.0]}, 'm', is_log=True).axes
    assert axes.get_yscale() == 'log'
    assert [one.get_height() for one in axes.patches] == [0.02, 0.2, 8.0]


def test_lines_over_very_many_frames_stay_small_and_within_their_plot():
    """Above all where they hardly change, far from 0: the usual margin is a part of changes."""
    require_page()
    peak = np.zeros(100_000)
    peak[54_321] = 70.0
    assert len(svg_of(plots.lines(range(len(peak)), {'one': peak.tolist()}, 'frame', 'ms'))
               ) < 120_000
    for values in (peak.tolist(), [91.0, 91.4, 91.2], [0.0, 0.0], [3.0] * 900, [0.0, 5.0]):
        figure = plots.lines(range(len(values)), {'one': values}, 'frame', '%')
        low, high = figure.axes[0].get_ylim()
        assert low == 0
        assert high >= max(1.03 * max(values), 0.5)
    assert '<svg' in svg_of(plots.lines(range(2), {'one': [None, None]}, 'frame', '%'))
