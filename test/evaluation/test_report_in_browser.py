"""Reports in a browser: nothing fails, nothing is fetched, the slider moves, all widths and
schemes can be read."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.showing import Showing, View
from test.evaluation import browser as browsers
from test.evaluation import pages


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    executable = browsers.program()
    if executable is None:
        pytest.skip('no Chromium (apt-get install chromium)')
    found = browsers.Browser(executable, tmp_path_factory.mktemp('profile'))
    yield found
    found.close()


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    """A page of every part and hostile names, with five frames."""
    for module in report.MODULES:
        pytest.importorskip(module)
    path = tmp_path_factory.mktemp('page') / 'report.html'
    report.write_html(path, pages.HOSTILE, 'lead', pages.sections(pages.HOSTILE, frames=5))
    return path


@pytest.fixture
def page(browser, path):
    browser.look(1280)
    browser.open(path)
    return browser


SHOWN = '[...document.querySelectorAll(".frame")].filter((f) => f.offsetParent)' \
    '.map((f) => Number(f.dataset.place))'


def test_a_page_fails_nowhere_and_fetches_nothing(page, path):
    assert page.value('document.querySelectorAll("img").length') == 5 + 2 + 1
    assert page.value('[...document.images].every((i) => i.complete && i.naturalWidth > 0)')
    assert page.said == []
    assert {address for address in page.fetched if not address.startswith('data:')} == {
        path.as_uri()}
    # Not even by a script.
    assert page.value('fetch("http://localhost:9/x").then(() => "fetched", () => "refused")'
                      ) == 'refused'
    assert any('Content Security Policy' in line for line in page.said)


def test_the_slider_moves_by_keys_buttons_order_and_links(page):
    assert page.value(SHOWN) == [4]                     # the worst one
    page.value('document.querySelector(".viewer input").focus()')
    for key, code, place in (('ArrowRight', 39, 3), ('End', 35, 0), ('Home', 36, 4)):
        page.press(key, code)
        assert page.value(SHOWN) == [place]
    assert page.value('document.querySelector("output").textContent') == '1 of 5'
    # Those who hear the page are told which frame it is.
    assert page.value('document.querySelector(".viewer input").getAttribute("aria-valuetext")'
                      ) == page.value('document.querySelector(".frame h3").textContent')
    click = 'document.querySelector("button[data-step=\\"%d\\"]").click()'
    page.value(click % -1)                              # steps stay within the frames
    assert page.value(SHOWN) == [4]
    for _ in range(7):
        page.value(click % 1)
    assert page.value(SHOWN) == [0]
    page.value('document.querySelectorAll("ol a")[0].click()')
    page.value('new Promise((done) => setTimeout(done, 50))')
    assert page.value(SHOWN) == [4]
    page.value('(() => { const order = document.querySelector("select"); order.value = "time"; '
               'order.dispatchEvent(new Event("change")); })()')
    assert page.value(SHOWN) == [4]                     # the order of the sequence keeps it
    assert page.value('document.querySelector(".viewer input").value') == '4'
    page.value(click % -1)
    assert page.value(SHOWN) == [3]
    assert page.said == []


def test_a_pointer_over_a_picture_shows_the_values_of_its_place(browser, tmp_path):
    random = np.random.default_rng(5)
    size = height, width = 60, 150
    road, sgbm, truth = (random.integers(8, 240, (3, *size)) / 4).astype(np.float32)
    valid, trust = random.random(size) < 0.8, random.uniform(0.1, 1, size).astype(np.float32)
    truth[random.random(size) < 0.5] = np.nan
    shown = Showing(1)
    shown.add(0, View('a', np.full(size, 99, np.uint8), {
        'road': (road, valid), 'sgbm': (sgbm, np.ones(size, bool))}, truth, 0, 60,
        Calibration(500, 0.2, 3, 2, 0)), lambda: {'road': trust})
    assert shown.shots[0].values.block == 1
    path = tmp_path / 'report.html'
    report.write_html(path, 'a', '', [report.Section('Frames', shown.viewer('frames'))])
    browser.look(1280, 2000)
    browser.open(path)

    def expected(disparity, known, confidence=None):
        """What a line says, behind its name."""
        if not known:
            return ['-']
        return [f'{disparity:.2f}', 'px', f'{100 / (disparity - 1):.2f}', 'm',
                *(['confidence', f'{confidence:.2f}'] if confidence else [])]
    for place in range(40):
        row, column = random.integers(size)
        box = shown.shots[0].values.boxes[place % 7]    # of any panel
        browser.point(*browser.value(
            '(() => { const { left, top, width, height } = document.querySelector(".sheet img")'
            '.getBoundingClientRect(); return ['
            f'left + width * {box[0] + box[2] * (column + 0.5) / width}, '
            f'top + height * {box[1] + box[3] * (row + 0.5) / height}]; }})()'))
        browser.value('new Promise((done) => setTimeout(done, 200))' if place == 0 else '0')
        lines = browser.value('document.querySelector(".sheet pre").textContent').split('\n')
        assert lines[0] == f'column {column}, row {row}'
        for line, name, numbers in zip(lines[1:], ('road', 'sgbm', 'ground truth'), (
                expected(road[row, column], valid[row, column], trust[row, column]),
                expected(sgbm[row, column], True),
                expected(truth[row, column], np.isfinite(truth[row, column]))), strict=True):
            assert line.startswith(name)
            found = line.removeprefix(name).split()
            for one, wanted in zip(found, numbers, strict=True):
                assert one == wanted or float(one) == pytest.approx(
                    float(wanted), abs=0.011, rel=2e-3), (line, numbers)
    # The place is marked in every panel; nothing is left behind outside.
    assert browser.value('document.querySelectorAll(".sheet i").length') == 7
    browser.point(1, 1)
    assert browser.value('document.querySelectorAll(".sheet i, .sheet pre").length') == 0
    assert browser.said == []


def test_without_scripts_and_on_paper_every_frame_is_there(page, path):
    page.look(1280, medium='print')
    assert page.value(SHOWN) == [4, 3, 2, 1, 0]
    assert page.value('document.querySelector(".controls").offsetParent') is None
    page.look(720, medium='print')          # a sheet of A4 with its margins
    assert page.value('document.documentElement.scrollWidth') <= 720
    assert len(page.call('Page.printToPDF')['data']) > 50_000
    page.look(1280)
    page.call('Emulation.setScriptExecutionDisabled', value=True)
    try:
        page.open(path)
        assert page.value(SHOWN) == [4, 3, 2, 1, 0]
        assert page.value('document.querySelector(".controls").offsetParent') is None
    finally:
        page.call('Emulation.setScriptExecutionDisabled', value=False)


@pytest.mark.parametrize(('width', 'scheme'), [(400, 'dark'), (1280, 'light')])
def test_a_page_fits_its_window_in_both_schemes(page, width, scheme):
    page.look(width, scheme=scheme)
    assert page.value('document.documentElement.scrollWidth') <= width
    # The wide table scrolls inside of its card, which the keyboard reaches.
    assert page.value('[...document.querySelectorAll(".scroll")]'
                      '.some((one) => one.scrollWidth > one.clientWidth && one.tabIndex === 0)')
    shot = cv2.imdecode(np.frombuffer(page.picture(whole=False), np.uint8), cv2.IMREAD_COLOR)
    assert shot.shape == (900, width, 3)
    assert (np.median(shot) > 200) == (scheme == 'light')
    assert contrast(page, 'color', 'body') > 7
    assert contrast(page, 'color', '.lead') > 4.5


def contrast(page, what, selector):
    """WCAG's ratio of the luminances of a text and of what is behind it."""
    front, behind = page.value(
        f'(() => {{ const one = document.querySelector("{selector}"); let ground = one; '
        'while (/, 0\\)$/.test(getComputedStyle(ground).backgroundColor)) '
        'ground = ground.parentElement; '
        f'return [getComputedStyle(one)["{what}"], getComputedStyle(ground).backgroundColor]'
        '.map((text) => text.match(/[\\d.]+/g).map(Number)); })()')
    light, dark = sorted((luminance(front), luminance(behind)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(rgb):
    parts = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4
             for c in rgb[:3]]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))
