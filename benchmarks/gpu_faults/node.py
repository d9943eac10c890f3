"""The node itself, over ROS, whose device is lost and which is started again."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import yaml

from benchmarks.gpu_faults.pieces import Row, Setting
from stereo_bp_ros.replay import session

#: Frames of the camera each time it plays, the one at which the device is lost, and their rate.
FRAMES, LOST_AT, RATE = 75, 30, 15.0

#: Seconds after which the launch file starts the node again.
RESPAWN_DELAY = 2.0


def node(given: Setting) -> Iterator[Row]:
    """A camera goes on while the node loses its device."""
    for policy in ('exit', 'cpu'):
        row = Row('node', f'on_device_loss {policy}')
        with tempfile.TemporaryDirectory(prefix='gpu_faults_') as folder:
            try:
                _lose(row, given, policy, pathlib.Path(folder))
            except (OSError, SystemExit, TimeoutError) as error:
                row.status = 'failed'
                row.say(str(error))
        yield row


def _lose(row: Row, given: Setting, policy: str, folder: pathlib.Path) -> None:
    from benchmarks.node import Helper
    data = np.load(given.pairs)
    np.savez(folder / 'pairs.npz', left=data['left'], right=data['right'])
    height, width = data['left'].shape[1:]
    parameters = {**given.config, 'image_width': width, 'image_height': height,
                  'on_device_loss': policy, **session.reliable_overrides()}
    file = folder / 'node.yaml'
    file.write_text(yaml.safe_dump({'/**': {'ros__parameters': parameters}}), encoding='utf-8')
    environment = session.private_environment()

    with contextlib.ExitStack() as stack:
        def start(frame: int, name: str) -> subprocess.Popen[bytes]:
            log = folder / name
            with open(log, 'wb') as output:
                process = subprocess.Popen(
                    [sys.executable, '-m', 'benchmarks.gpu_faults.child', 'node', str(frame),
                     '--ros-args', '--params-file', str(file)],
                    env=environment, stdout=output, stderr=output)
            stack.callback(_end, process)
            deadline = time.monotonic() + session.START_LIMIT_S
            while 'active: waiting for' not in log.read_text(encoding='utf-8'):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise TimeoutError(f'the node did not start: {log.read_text()[-500:]}')
                time.sleep(0.02)
            return process

        process = start(LOST_AT, 'first.log')
        listener = Helper(['listener'], environment, folder / 'listener.log')
        stack.callback(listener.close)
        camera = Helper(['camera', str(folder / 'pairs.npz')], environment,
                        folder / 'camera.log')
        stack.callback(camera.close)
        listener.answer()
        camera.answer()
        camera.tell(rate=RATE, frames=FRAMES)
        if policy == 'exit':
            row.status = str(process.wait(60))
            ended = time.monotonic()
            time.sleep(RESPAWN_DELAY)
            process = start(0, 'second.log')
            row.more['started_again_s'] = time.monotonic() - ended
        camera.answer()
        # Until here it may have played to nobody.
        camera.ask(rate=RATE, frames=FRAMES)
        heard = listener.ask(sent=2 * FRAMES)
        if policy == 'cpu':
            row.status = str(process.poll() or 'goes on')
        row.right, row.none = heard['received'], 2 * FRAMES - heard['received']
        times = heard['received_s']
        if len(times) > 1:
            row.again_s = max(later - earlier for earlier, later in itertools.pairwise(times))
        row.say(*(line.partition(']: ')[2] or line for line in
                  (folder / 'first.log').read_text(encoding='utf-8').splitlines()
                  if 'lost' in line))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
