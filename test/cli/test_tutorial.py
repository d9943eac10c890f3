"""The commands of the tutorial run in a real shell, on what the demo leaves and on a pair."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

pytest.importorskip('rclpy', reason='step 4 needs the node')
pytest.importorskip('rosbags')

from rich.progress import Progress

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.cli.render import render_bag
from stereo_bp_ros.replay.session import reliable_overrides
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test import machine
from test.cases import every

COMMANDS = {'stereo_bp': 'stereo_bp_ros.cli.main', 'stereo_bp_node': 'stereo_bp_ros.node.main'}


def blocks(page: str, first: str, last: str) -> str:
    """The commands of a page from a heading on, up to another one."""
    part = page.partition(f'\n## {first}')[2].partition(f'\n## {last}')[0]
    return ''.join(re.findall(r'^```bash\n(.*?)^```', part, re.MULTILINE | re.DOTALL))


@pytest.mark.ros
@pytest.mark.slow
def test_the_commands_of_steps_2_to_4_leave_what_the_page_says(
        tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    for command, module in COMMANDS.items():
        (tmp_path / command).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (tmp_path / command).chmod(0o755)
    assert main(['render', '--output', str(tmp_path / 'street'), '--frames', '1', '--size',
                 '320x240']) == 0
    for side in ('left', 'right'):
        (tmp_path / f'street/000000/{side}.png').rename(tmp_path / f'{side}.png')
    # As the demo, with fewer frames.
    (tmp_path / 'build/demo/bp').mkdir(parents=True)
    with Progress(disable=True) as bar:
        render_bag(RoadSequence(width=320, height=240, max_disparity=30, frames=8),
                   tmp_path / 'build/demo/bp/input', bar)
    page = (repository / 'docs/tutorial/first_hour.md').read_text(encoding='utf-8')
    # The node ends with the script, also where a command fails.
    script = ('set -em\ntrap "kill -INT %1 || true; wait || true" EXIT\n'
              + blocks(page, '2. Your own pair', '5. Your own cameras'))
    assert script.count('stereo_bp') > 6
    # A busy machine loses images on their way to a best effort subscription.
    (tmp_path / 'reliable.yaml').write_text(yaml.safe_dump(
        {'/**': {'ros__parameters': reliable_overrides()}}))
    script = script.replace('use_sim_time:=true', 'use_sim_time:=true --params-file reliable.yaml')
    assert script.count('reliable.yaml') == 1
    with machine.domain() as domain:
        done = subprocess.run(
            ['bash', '-c', script], cwd=tmp_path, text=True, capture_output=True, timeout=500,
            env={**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}',
                 'PYTHONPATH': str(repository), 'ROS_DOMAIN_ID': str(domain)})
    assert done.returncode == 0, done.stdout + done.stderr
    # The page has the columns that are printed, and the rows of the run through the node.
    printed = [line.split() for line in done.stdout.splitlines()]
    step = page.partition('\n## 4.')[2].partition('\n## 5.')[0]
    columns = [line.split() for line in step.splitlines() if line.startswith('┃')]
    assert len(columns) == 2
    assert every(line in printed for line in columns)
    rows = [line.split('│')[1].strip() for line in step.splitlines()
            if line.startswith('│') and line.count('│') == 3]
    assert len(rows) > 5
    assert every(any(line.startswith(f'│ {row} ') for line in done.stdout.splitlines())
                 for row in rows)
    assert {'disparity.pfm', 'disparity_picture.png', 'all_picture.png'} <= {
        path.name for path in tmp_path.iterdir()}
    judged = json.loads((tmp_path / 'evaluation/report.json').read_text())
    assert (judged['frames'], judged['mean']['score']['density'] > 80) == (5, True)
    frames, = (run['frames'] for run in
               json.loads((tmp_path / 'report/report.json').read_text())['runs'].values())
    assert (frames['sent'], frames['lost_in_transport']) == (8, 0)
