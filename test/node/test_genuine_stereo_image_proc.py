"""The disparity nodelet of stereo_image_proc 1.17 (ROS 1), where Debian's package is installed."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, StereoMatcher
from stereo_bp_ros.config.stereo_image_proc import translate
from stereo_bp_ros.engines import geometry

PYTHON, MASTER, NODELET = '/usr/bin/python3', '/usr/bin/rosmaster', '/usr/lib/nodelet/nodelet'
CLIENT = pathlib.Path(__file__).with_name('stereo_image_proc_client.py')
LIBRARY = next(pathlib.Path('/usr/lib').glob('*/libstereo_image_proc.so.1*'), None)

pytestmark = pytest.mark.skipif(
    LIBRARY is None or not all(os.path.exists(path) for path in (PYTHON, MASTER, NODELET)),
    reason='needs ros-stereo-image-proc, python3-rosmaster, python3-rospy, python3-stereo-msgs '
           'and libnodeletlib-tools')

WIDTH, HEIGHT, DISPARITY = 200, 120, 12
FOCAL, BASELINE = 150.0, 0.12
SQUARE = np.s_[40:66, 100:126]

#: Debian packages the library and not its description.
PACKAGE = """<package format="2"><name>stereo_image_proc</name><version>1.17.0</version>
<description>nodelet</description><license>BSD</license><maintainer email="a@b.c">a</maintainer>
<depend>nodelet</depend><export><nodelet plugin="${prefix}/plugins.xml"/></export></package>"""
PLUGINS = """<library path="libstereo_image_proc"><class name="stereo_image_proc/disparity"
type="stereo_image_proc::DisparityNodelet" base_class_type="nodelet::Nodelet"/></library>"""


def textured() -> tuple[np.ndarray, np.ndarray]:
    """A plane of one disparity, in front of it a square 2 pixels nearer."""
    random = np.random.default_rng(0)
    right = random.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    left = np.roll(right, DISPARITY, 1)
    left[SQUARE] = np.roll(right, DISPARITY + 2, 1)[SQUARE]
    return left, right


@contextlib.contextmanager
def process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(['timeout', '-k', '2', '60', *command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, **options) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(10)


def answer_of_nodelet(folder: pathlib.Path, left: np.ndarray, right: np.ndarray,
                      parameters: dict[str, Any], cx_right: float) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    package = folder / 'packages/stereo_image_proc'
    package.mkdir(parents=True)
    (package / 'package.xml').write_text(PACKAGE)
    (package / 'plugins.xml').write_text(PLUGINS)
    (folder / 'lib').mkdir()
    assert LIBRARY is not None
    (folder / 'lib/libstereo_image_proc.so').symlink_to(LIBRARY)
    environment = {
        'PATH': '/usr/bin:/bin', 'HOME': str(folder), 'ROS_HOME': str(folder),
        'ROS_MASTER_URI': f'http://127.0.0.1:{port}', 'ROS_IP': '127.0.0.1',
        'ROS_PACKAGE_PATH': f'{folder}/packages:/usr/share', 'CMAKE_PREFIX_PATH': str(folder),
        'LD_LIBRARY_PATH': f'{folder}/lib', 'ROS_NAMESPACE': 'stereo'}
    for side, image in (('left', left), ('right', right)):
        (folder / side).write_bytes(image.tobytes())
    projection = [FOCAL, 0, 100, 0, 0, FOCAL, 60, 0, 0, 0, 1, 0]
    right_one = [FOCAL, 0, cx_right, -FOCAL * BASELINE, *projection[4:]]
    job = {'width': WIDTH, 'height': HEIGHT, 'left': str(folder / 'left'),
           'right': str(folder / 'right'), 'P_left': projection, 'P_right': right_one,
           'answer': str(folder / 'answer.json')}
    (folder / 'job.json').write_text(json.dumps(job))
    arguments = [f'_{name}:={value}' for name, value in parameters.items()]
    options = {'env': environment, 'cwd': folder}
    with (process([MASTER, '--core', '-p', str(port)], **options),
          process([NODELET, 'standalone', 'stereo_image_proc/disparity', *arguments], **options)):
        subprocess.run([PYTHON, str(CLIENT), str(folder / 'job.json')], check=True,
                       capture_output=True, **options)
    return json.loads((folder / 'answer.json').read_text())


@pytest.mark.parametrize('cx_right', [100.0, 98.0])
def test_the_nodelet_and_this_package_publish_the_same(cx_right: float, tmp_path: pathlib.Path
                                                       ) -> None:
    left, right = textured()
    given = {'stereo_algorithm': 0, 'disparity_range': 32, 'speckle_range': 4,
             'speckle_size': 900, 'correlation_window_size': 9}
    found = answer_of_nodelet(tmp_path, left, right, given, cx_right)
    meant, _ = translate(given)
    config = MatcherConfig.preset('sad_fast', backend='cpu', **meant)
    calibration = Calibration(focal_px=FOCAL, baseline_m=BASELINE, cx_left=100,
                              cx_right=cx_right, cy=60)
    with StereoMatcher(config) as matcher:
        ours = matcher.compute(left, right, calibration=calibration,
                               outputs=('disparity', 'depth'))
    assert (found['encoding'], found['delta_d']) == ('32FC1', geometry.disparity_step(config))
    assert (found['f'], found['t']) == pytest.approx((FOCAL, BASELINE))
    assert (found['min_disparity'], found['max_disparity']) == (0, config.max_disparity)
    theirs = np.reshape(found['values'], (HEIGHT, WIDTH))
    shift = 100 - cx_right
    valid = theirs > -1 - shift
    assert (valid & ours.valid).sum() > 0.98 * ours.valid.sum() > 5000
    both = valid & ours.valid
    # The nodelet subtracts the shift by the principal points twice.
    assert np.abs(theirs + shift - ours.disparity)[both].max() <= 1 / 16
    depth = found['f'] * found['t'] / (theirs + shift)[both]
    assert np.abs(depth / ours.depth[both] - 1).max() < 0.01
    # 2 pixels are more than 4 sixteenths: the square is a speckle. It is none with 4 pixels.
    assert not valid[50:56, 110:116].any()
    assert not ours.valid[50:56, 110:116].any()
    with StereoMatcher(config.replace(speckle_range=4.0)) as matcher:
        assert matcher.compute(left, right).valid[50:56, 110:116].all()
