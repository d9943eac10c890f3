"""The view as a browser shows it, which may tell nobody else."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

pytest.importorskip('rerun')
from stereo_bp_ros.cli import viewer
from stereo_bp_ros.replay.viewing import Sink
from test.cli.test_view import live, options
from test.cli.view_pictures import SOFTWARE, picture_of
from test.evaluation.browser import Browser, program

__all__ = ['options']       # a fixture

pytestmark = pytest.mark.slow


@pytest.fixture
def browser(tmp_path: pathlib.Path) -> Iterator[Browser]:
    executable = program()
    if executable is None:
        pytest.skip('no Chromium (apt-get install chromium)')
    found = Browser(executable, tmp_path / 'profile', SOFTWARE)
    yield found
    found.close()


def test_a_browser_shows_colours_and_is_kept_from_telling_others(
        options: argparse.Namespace, browser: Browser):
    with viewer.Viewer(options) as shown, Sink(url=shown.url) as sink:
        live(sink)
        sink.flush()
        assert picture_of(browser, options.web, (800, 600), 0.05).shape == (600, 800, 3)
    others = {url for url in browser.fetched if urlsplit(url).hostname != viewer.LOCAL}
    assert others <= {url for url in others if any(
        url in text and 'Content Security Policy' in text for text in browser.said)}
    assert any('tel.rerun.io' in text and 'has been blocked' in text for text in browser.said)
