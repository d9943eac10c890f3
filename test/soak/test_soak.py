"""The soak itself: two minutes of it pass, and a node that is wrong is found."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

pytest.importorskip('rclpy')
from test import machine
from test.cases import every
from test.node import processes
from test.soak import faults, rig, trials
from test.soak.machine_faults import PRIVATE

pytestmark = [pytest.mark.ros, pytest.mark.slow]

#: Seconds for everything, on a machine that does other work.
LIMIT = 900

FRAMES = 'import dataclasses; from stereo_bp_ros.node.frames import FrameProcessor as F'

#: A line that makes the node wrong, the fault that shows it, and what the soak says.
WRONGS = {
    # Each of them, however many the worker is late by.
    'old pairs are published': (
        f'{FRAMES}; F._age = lambda self, pair: 0.0; import time; '
        'from stereo_bp_ros.node.worker import Mailbox as M; M.right = M.put; '
        'M.put = lambda self, pair: ([time.sleep(0.01) for _ in iter(lambda: self.occupied, False)'
        '], self.right(pair))',
        'the node is stopped for a while', ': stale, published although'),
    'halves of two pairs are matched': (
        f'{FRAMES}; F.last, F.right = [], F.process; F.process = lambda self, pair: '
        '(F.last.append(pair.right), F.right(self, dataclasses.replace(pair, right=F.last[-2:][0'
        '])))',
        'a parameter is refused', ': mixed, its disparity'),
    'rows are measured and not corrected': (
        'from stereo_bp_ros.stream.observer import PairObserver as O; '
        'O.correction = lambda *_: None',
        'the right camera drifts and is bumped', ': mixed, its disparity'),
    'drops are not counted': (
        'from stereo_bp_ros.node.diagnostics.ledger import Ledger as L; '
        'L.drop_pair = lambda self, reason, code=None: None',
        'the encoding is unknown', 'pairs, but'),
    'images vanish and are not counted': (
        'from stereo_bp_ros.node.subscriptions import InputSubscriptions as S; '
        'S.right = S._on_image; S._on_image = lambda self, side, message: '
        'message.header.stamp.nanosec // 10**6 % 7 and self.right(side, message)',
        'a parameter is refused', 'left images have not arrived'),
    'the node crashes when it ends': (
        'import os; from stereo_bp_ros.system import process; '
        'process.end_despite_faults = lambda status: os.abort()',
        'a node ends beside dead peers', '1 of 1 ends beside dead peers have another status'),
}


#: A line that makes every frame of the node late, not too late.
SLOW = (f'import time; {FRAMES}; F.right = F.process; '
        'F.process = lambda self, pair: [time.sleep(0.7), F.right(self, pair)]')


def node_with(line: str) -> str:
    """The program of a node that begins with this line of Python."""
    return processes.NODE.replace('sys.exit', f'{line}; sys.exit')


def soak(*arguments: str, wrong: str = '') -> subprocess.CompletedProcess[str]:
    """Run a soak; ``wrong`` is a line of Python for the node."""
    if not wrong:
        return subprocess.run([sys.executable, '-m', 'test.soak', *arguments],
                              capture_output=True, text=True, timeout=LIMIT)
    # On a machine so busy that whatever takes longer is excused.
    code = ('import sys; from test.soak import __main__, rig; '
            'rig.Waits.since = lambda self, at: 1e3; '
            f'rig.NODE = {node_with(wrong)!r}; sys.exit(__main__.main(sys.argv[1:]))')
    # With mounts of its own it would begin anew, with the node as it is.
    return subprocess.run([sys.executable, '-c', code, *arguments], capture_output=True,
                          text=True, timeout=LIMIT, env={**os.environ, PRIVATE: ''})


def test_two_minutes_of_faults_are_survived(tmp_path: pathlib.Path) -> None:
    found = soak('--minutes', '2', '--seed', '4', '--output', str(tmp_path))
    assert found.returncode == 0, found.stdout + found.stderr
    report = json.loads((tmp_path / 'soak.json').read_text(encoding='utf-8'))
    assert report['violations'] == []
    assert len(report['trials']) >= 4
    assert every(frames['results'] > 0 for frames in report['frames'].values())
    page = (tmp_path / 'soak.html').read_text(encoding='utf-8')
    assert "default-src 'none'" in page
    assert report['trials'][0]['fault'] in page


def test_a_frame_on_its_way_is_none_of_those_that_a_new_subscriber_gets(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, 'NODE', node_with(SLOW))
    with (machine.domain() as domain, contextlib.closing(rig.Rig(
            domain, tmp_path, '', sim_time=False, backend='cpu')) as front):
        front.start()
        front.camera.set()
        assert front.wait_for_result(0)
        with faults.no_subscribers()(front, random.Random(0)):
            front.wait_for_status('input', lambda status: 'no subscribers' in status.message)
            front.camera.set(running=False)
            front.settled()
            place = front.camera.send()
        assert front.frames_to_recover() <= trials.RECOVERY
        assert front.ledger.shown_between(place, place) == []


@pytest.mark.parametrize('name', WRONGS)
def test_a_node_that_is_wrong_is_found(name: str, tmp_path: pathlib.Path) -> None:
    line, fault, words = WRONGS[name]
    found = soak('--minutes', '0.1', '--backend', 'cpu', '--fault', fault,
                 '--output', str(tmp_path), wrong=line)
    assert found.returncode == 1, found.stdout + found.stderr
    report = json.loads((tmp_path / 'soak.json').read_text(encoding='utf-8'))
    assert any(words in text for text in report['violations']), report['violations']
