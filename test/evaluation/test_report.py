"""A report is one page that reads nothing else, whatever names it shows."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stereo_bp_ros.evaluation import pictures, plots, report
from stereo_bp_ros.evaluation.gallery import SPREAD, WORST, most_bytes
from test.cases import every
from test.evaluation import pages


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """Every kind of part, made of hostile texts."""
    pytest.importorskip('matplotlib')
    path = tmp_path_factory.mktemp('page') / 'report.html'
    report.write_html(path, pages.HOSTILE, pages.HOSTILE, pages.sections(pages.HOSTILE))
    return path.read_text()


def test_a_page_reads_nothing_outside_of_itself(page):
    assert pages.outside(page) == []
    # In texts alone there may be an address, since a name may be one.
    assert not re.search(r'(src|href|url\(|xmlns\S*)\W{1,3}(https?:|file:|//)', page)
    assert "default-src 'none'; img-src data:" in page


def test_a_page_that_nobody_has_given_an_address_has_none(tmp_path):
    pytest.importorskip('matplotlib')
    path = tmp_path / 'report.html'
    report.write_html(path, 'title', 'lead', pages.sections('name'))
    assert not re.search(r'https?://|file://', path.read_text())


@pytest.mark.parametrize('bad', ['<img src="x.png">', '<img src="data:image/png;base64,AA==" '
                                 'srcset="http://x/y 2x">', '<a href="other.html">x</a>',
                                 '<style>a { background: url(x.png) }</style>',
                                 '<style>@import "x.css";</style>'])
def test_the_check_for_addresses_sees_them(bad):
    assert pages.outside(bad)


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


def test_a_condition_is_told_by_word_and_form_not_by_colour_alone():
    table = report.Conditions([
        report.Condition('bad3 <= 2 %', '1.5 %', '2 %', True),
        report.Condition('p99 <= 33 ms', '41 ms', '33 ms', False),
        report.Condition('density >= 0.85', '', '0.85', None)]).to_html()
    text = pages.Reader(table).text
    assert '1 of 3 conditions hold' in text
    assert [word for word in ('passed', 'failed', 'not measured') if word in text] == [
        'passed', 'failed', 'not measured']
    assert table.count('class="light passed"') == table.count('class="light failed"') == 1


def test_a_section_without_parts_is_left_out(tmp_path):
    path = tmp_path / 'report.html'
    report.write_html(path, 'title', 'lead', [report.Section('Empty', []),
                                              report.Section('Full', [report.Note('here')])])
    text = pages.Reader(path.read_text()).text
    assert 'Empty' not in text
    assert 'here' in text


@pytest.mark.parametrize('uri', ['picture.png', 'http://x.org/a.png', 'data:text/html,x',
                                 'data:image/png;base64,AA"onload="x'])
def test_a_picture_outside_of_its_page_is_refused(uri):
    with pytest.raises(ValueError, match='outside'):
        report.Picture(uri, 'caption').to_html()


def test_the_frames_of_a_page_are_a_list_where_no_script_runs():
    shown = pages.showing(3)
    read = pages.Reader(shown.viewer('x')[0].to_html())
    frames = [attributes for tag, attributes in read.elements if tag == 'article']
    assert [frame['data-place'] for frame in frames] == ['2', '1', '0']
    assert every(frame['class'] == 'frame' for frame in frames)
    assert [attributes for tag, attributes in read.elements
            if attributes.get('class') == 'controls' and 'hidden' in attributes]
    for caption in ('image', 'disparity, 0 to 63 px', 'error', 'confidence'):
        assert read.texts.count(caption) >= 3


def test_the_size_of_a_page_is_bounded_for_frames_that_no_format_compresses(tmp_path):
    random = np.random.default_rng(0)
    shown, size = pages.Showing(3), (450, 800)
    for place in range(3):
        disparity, truth, confidence = random.uniform(0, 63, (3, *size)).astype(np.float32)
        image = random.integers(0, 256, (*size, 3), np.uint8)
        shown.add(place, pages.View(str(place), image, disparity, np.ones(size, bool), truth, 0,
                                    63), lambda confidence=confidence: confidence / 63)
    shots = shown.gallery.shots()
    path = tmp_path / 'report.html'
    report.write_html(path, 'title', 'lead', [report.Section('Frames', shown.viewer('x'))])
    assert len(shots) == 3
    assert most_bytes(3) / 3 < path.stat().st_size < most_bytes(3) + 50_000
    assert most_bytes(WORST + SPREAD) < 9e6


@pytest.mark.parametrize(('size', 'kind'), [((8, 8), 'png'), ((700, 700), 'jpeg')])
def test_a_picture_takes_the_format_that_suits_it_and_stays_within_its_bytes(size, kind):
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    uri = pictures.data_uri(picture)
    assert uri.startswith(f'data:image/{kind};base64,')
    assert len(uri) < 4 * pictures.EMBEDDED_BYTES / 3 + 100
    assert len(pictures.data_uri(picture, most_bytes=3000)) < 4 * 3000 / 3 + 100


def test_an_embedded_picture_is_the_picture():
    import base64

    import cv2
    picture = pictures.error_picture(np.arange(48, dtype=np.float32).reshape(6, 8),
                                     np.zeros((6, 8), np.float32))
    encoded = base64.b64decode(pictures.data_uri(picture, is_coded=True).split(',')[1])
    np.testing.assert_array_equal(
        cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR), picture)


def test_a_coded_picture_made_smaller_has_no_new_colours():
    import base64

    import cv2
    error = np.random.default_rng(0).choice([0.1, 20.0], (60, 1440)).astype(np.float32)
    picture = pictures.error_picture(error, np.zeros_like(error))
    encoded = base64.b64decode(pictures.data_uri(picture, is_coded=True).split(',')[1])
    small = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    assert small.shape == (30, 720, 3)
    assert len(np.unique(small.reshape(-1, 3), axis=0)) == 2


def test_plots_take_the_colours_of_the_page_and_labels_as_they_are():
    pytest.importorskip('matplotlib')
    svg = plots.bars('a plot', ['$a$', r'\frac{'], {'one': [1, 2], '<b>': [None, 3]}, 'per $ cent')
    read = pages.Reader(svg)
    for text in ('$a$', r'\frac{', 'one', '<b>', 'per $ cent'):
        assert text in read.texts
    assert {'var(--ink)', 'var(--soft)', 'var(--line)', 'var(--s1)', 'var(--s2)'} <= set(
        re.findall(r'var\(--\w+\)', svg))
    assert not re.search(r'#0102[0-9a-f]{2}', svg)
    assert svg == plots.bars('a plot', ['$a$', r'\frac{'], {'one': [1, 2], '<b>': [None, 3]},
                             'per $ cent')


def test_bars_over_decades_have_their_lengths_and_labels():
    svg = plots.bars('metres', ['a', 'b', 'c'], {'one': [0.02, 0.2, 8.0]}, 'm', is_log=True)
    tops = []
    for path, style in re.findall(r'<path d="([^"]+)"[^>]* style="([^"]*)"', svg):
        if 'fill: var(--s1)' in style:
            rows = [float(y) for _, y in re.findall(r'([-\d.]+) ([-\d.]+)', path)]
            tops.append(min(rows))
    bar = tops[-3:]
    assert len(bar) == 3
    # A decade is as long everywhere: 0.02 to 0.2, and 0.2 to 8 is log10(40) decades.
    assert (bar[1] - bar[2]) / (bar[0] - bar[1]) == pytest.approx(np.log10(40), rel=0.01)
    read = pages.Reader(svg)
    assert {'0.01', '0.1', '1', '10'} <= {text.strip() for text in read.texts}


def test_a_line_over_very_many_frames_stays_small_and_keeps_its_extremes():
    pytest.importorskip('matplotlib')
    values = np.zeros(100_000)
    values[54_321] = 70.0
    svg = plots.lines('t', range(len(values)), {'one': values.tolist()}, 'frame', 'ms')
    assert len(svg) < 120_000
    places, mean, least, greatest = plots._thinned(range(len(values)), values)
    assert len(places) == plots.MOST_POINTS
    assert (greatest.max(), least.max()) == (70.0, 0.0)
    assert mean.mean() == pytest.approx(values.mean(), rel=0.01)


@pytest.mark.parametrize('values', [[91.0, 91.4, 91.2], [0.0, 0.0, 0.0], [3.0] * 900, [0.0, 5.0]])
def test_a_line_stays_below_the_upper_edge_of_its_plot(monkeypatch, values):
    """Above all where it hardly changes, far from 0: the usual margin is a part of the changes."""
    pytest.importorskip('matplotlib')
    limits = []
    draw = plots._svg

    def drawn(title, draw_into, *rest):
        def draw_and_look(axes):
            draw_into(axes)
            limits.append(axes.get_ylim())
        return draw(title, draw_and_look, *rest)

    monkeypatch.setattr(plots, '_svg', drawn)
    plots.lines('title', range(len(values)), {'one': values}, 'frame', '%')
    (low, high), = limits
    assert low == 0
    assert high >= max(1.03 * max(values), 0.5)


def test_a_plot_of_values_that_nobody_knows_can_be_drawn():
    pytest.importorskip('matplotlib')
    assert '<svg' in plots.lines('title', range(2), {'one': [None, None]}, 'frame', '%')
