"""/dev/shm without room: said beforehand, and gone on with UDP."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

FAST = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0}

#: Replaces the process by the node, with a /dev/shm of so many kB, all of it taken or free.
NODE = """
import os, sys
os.execvp('unshare', ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size={kilobytes}k '
    'none /dev/shm && {{ {fill}; }} && exec "$@"', 'sh', sys.executable, '-m',
    'stereo_bp_ros.{module}', *sys.argv[1:]])
"""
FULL = 'head -c 4096 /dev/zero > /dev/shm/other'


def may_mount() -> bool:
    return bool(shutil.which('unshare')) and not subprocess.run(
        ['unshare', '--mount', 'mount', '-t', 'tmpfs', 'none', '/dev/shm'],
        capture_output=True, timeout=20).returncode


needs_namespace = pytest.mark.skipif(not may_mount(), reason='no mount namespace is allowed here')


@needs_namespace
def test_a_node_without_room_for_images_says_so_and_goes_on_with_udp(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    # One pair is sent; the silence after it is no fault here.
    client = start({**FAST, 'input_timeout': 60.0},
                   code=NODE.format(kilobytes=256, fill='true', module='node.main'))
    text = '/dev/shm has 0.2 MiB free, but a process takes up to 18 MiB of it for images'
    assert text in client.log()
    assert 'going on with UDP alone' in client.log()
    client.match(*textured_pair(96, 64, 5))
    status = client.status('input')
    assert status.level == 1
    assert text in status.message
    assert client.node_process.end() == 0


@needs_namespace
@pytest.mark.parametrize(('module', 'arguments', 'name'), [
    ('node.main', [], 'stereo_bp_node'),
    ('cli.main', ['replay', '.'], 'stereo_bp replay'),
    ('cli.main', ['demo', '--output', 'demo'], 'stereo_bp demo')])
def test_a_process_that_would_be_killed_by_sigbus_ends_with_words_and_a_status(
        tmp_path: pathlib.Path, repository: pathlib.Path, module: str, arguments: list[str],
        name: str) -> None:
    code = NODE.format(kilobytes=4, fill=FULL, module=module)
    path = os.pathsep.join([str(repository), os.environ.get('PYTHONPATH', '')])
    process = subprocess.run([sys.executable, '-c', code, *arguments], cwd=tmp_path,
                             env={**os.environ, 'PYTHONPATH': path}, capture_output=True,
                             text=True, timeout=60)
    assert process.returncode == 2, process.stderr
    line, = process.stderr.splitlines()
    assert line.startswith(f'{name}: /dev/shm has 0.0 MiB free')
    assert 'SIGBUS' in line
