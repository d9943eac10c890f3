"""The view as a browser shows it, which may tell nobody else."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

pytest.importorskip('rerun')
from stereo_bp_ros.cli import viewer
from stereo_bp_ros.replay.viewing import Sink
from test.cli.test_view import live, options
from test.evaluation import browser as browsers

__all__ = ['options']       # a fixture

pytestmark = pytest.mark.slow

#: WebGL without a GPU.
SOFTWARE = ('--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader')
#: Seconds: a browser that renders in software beside other tests needs a minute.
LIMIT_S = 300


@pytest.fixture
def browser(tmp_path, monkeypatch) -> Iterator[browsers.Browser]:
    executable = browsers.program()
    if executable is None:
        pytest.skip('no Chromium (apt-get install chromium)')
    monkeypatch.setattr(browsers, 'OPTIONS', (
        *(one for one in browsers.OPTIONS if one != '--disable-gpu'), *SOFTWARE))
    found = browsers.Browser(executable, tmp_path / 'profile')
    yield found
    found.close()


def coloured(browser: browsers.Browser) -> float:
    """The share of pixels that have a colour; the viewer's own parts are grey."""
    try:
        picture = browser.picture(whole=False)
    except RuntimeError:            # between two pages
        return 0.0
    pixels = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR).astype(int)
    return float((pixels.max(-1) - pixels.min(-1) > 60).mean())


def test_a_browser_shows_colours_and_is_kept_from_telling_others(
        options: argparse.Namespace, browser: browsers.Browser):
    with viewer.Viewer(options) as shown, Sink(url=shown.url) as sink:
        live(sink)
        sink.flush()
        browser.look(800, 600)
        browser.call('Page.navigate', url=f'http://{viewer.LOCAL}:{options.web}')
        end = time.monotonic() + LIMIT_S
        while coloured(browser) < 0.05:
            assert time.monotonic() < end, browser.said
            time.sleep(1)
    others = {url for url in browser.fetched if urlsplit(url).hostname != viewer.LOCAL}
    assert others <= {url for url in others if any(
        url in text and 'Content Security Policy' in text for text in browser.said)}
    assert any('tel.rerun.io' in text and 'has been blocked' in text for text in browser.said)
