"""Tests skip, with the reason, what the machine cannot run; they never end the collection."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

#: What comes with the wheels of ROS, and with the extras for evaluation, CPUs and GPUs.
ABSENT = ('rclpy', 'rcl_interfaces', 'rosidl_runtime_py', 'sensor_msgs', 'stereo_msgs', 'std_msgs',
          'diagnostic_msgs', 'builtin_interfaces', 'geometry_msgs', 'lifecycle_msgs',
          'rosgraph_msgs', 'rosbags', 'mcap', 'launch', 'launch_ros', 'rpyutils',
          'ament_index_python', 'cupy', 'numba')

#: A plugin of pytest without which these would be found.
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {absent!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.slow
def test_the_tests_of_a_gpu_are_collected_without_what_they_do_not_need(
        repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / 'hide_packages.py').write_text(HIDE.format(absent=ABSENT))
    environment = {**os.environ, 'PYTHONPATH': f'{tmp_path}:{repository}'}
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-p', 'hide_packages', '-p', 'no:cacheprovider', '-q',
         '-m', 'gpu', '--collect-only'],
        cwd=repository, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert 'error' not in done.stdout.lower().splitlines()[-1], done.stdout[-3000:]
    assert done.returncode == 0, done.stdout[-3000:]
    assert 'rosbags' in done.stdout             # the reason
    assert 'test_cuda_' in done.stdout
