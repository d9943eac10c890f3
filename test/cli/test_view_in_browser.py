"""The view as a browser shows it, which may tell nobody else."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

pytest.importorskip('rerun')
from stereo_bp_ros.cli import viewer
from stereo_bp_ros.replay.viewing import Sink
from test import machine
from test.cli.test_view import FAST, live, options
from test.cli.view_pictures import SOFTWARE, picture_of
from test.evaluation.browser import Browser, program
from test.node import processes

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


@pytest.fixture(scope='module')
def domain() -> Iterator[int]:
    """Of the node and of whoever plays to it or looks at it."""
    with machine.domain() as number:
        yield number


@pytest.fixture(scope='module')
def node(domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    pytest.importorskip('rclpy')
    with processes.running_node(tmp_path_factory.mktemp('node'), {
            'stereo_algorithm': 'sad', 'disparity_range': 16, 'backend': 'cpu'},
            domain=domain, qos={}) as found:
        yield found


@contextlib.contextmanager
def command(domain: int, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A command as a person starts it, ended as with Ctrl-C."""
    done = subprocess.Popen(
        [sys.executable, '-m', 'stereo_bp_ros.cli.main', *map(str, words)], text=True,
        env={**os.environ, 'ROS_DOMAIN_ID': str(domain)}, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL)
    assert done.stderr
    try:
        yield done
        assert done.poll() is None, done.stderr.read()
    finally:
        done.send_signal(signal.SIGINT)
        try:
            done.wait(60)
        finally:
            done.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if text in line:
            return
    raise AssertionError(''.join(said))


def is_shown(options: argparse.Namespace, browser: Browser, domain: int, *words: object) -> bool:
    """Whether the browser shows colours of a command that serves."""
    with command(domain, *words, '--web', options.web) as process:
        wait_for(process, 'the view is at')
        return picture_of(browser, options.web, (640, 480), 0.04).shape == (480, 640, 3)


def test_a_pair_a_folder_and_a_recording_move_into_the_browser_by_one_command(
        options: argparse.Namespace, browser: Browser, street: pathlib.Path,
        tmp_path: pathlib.Path, domain: int) -> None:
    pair, recording = street / '000000', tmp_path / 'run.rrd'
    assert is_shown(options, browser, domain, 'view', pair / 'left.png', pair / 'right.png',
                    '--calibration', pair / 'P_left.txt', *FAST)
    assert is_shown(options, browser, domain, 'view', street, '--save', recording, *FAST)
    assert is_shown(options, browser, domain, 'view', recording)


@pytest.mark.ros
def test_a_node_moves_into_the_browser_beside_a_replay(
        options: argparse.Namespace, browser: Browser, street: pathlib.Path, domain: int,
        node: object) -> None:
    with command(domain, 'replay', street, '--loop', '0'):
        assert is_shown(options, browser, domain, 'view', '--wait', '60')
