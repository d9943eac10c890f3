"""The package as users get it: a colcon workspace, and pip."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import venv

import pytest

from test.cases import slow

IGNORED = shutil.ignore_patterns('.git', '.venv', 'build', 'install', 'log', '.*_cache',
                                 '__pycache__', '.hypothesis', '.carry', '*.egg-info')


def colcon() -> str:
    path = pathlib.Path(sys.executable).parent / 'colcon'
    found = str(path) if path.is_file() else shutil.which('colcon')
    if not found:
        pytest.skip('colcon is not installed')
    return found


def run(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, 'PATH': f'{pathlib.Path(sys.executable).parent}{os.pathsep}'
                                         f'{os.environ["PATH"]}', **options.pop('env', {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment,
                          check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def source(tmp_path, repository):
    """A copy of the sources in a workspace, as a user would clone them."""
    target = tmp_path / 'ws' / 'src' / 'stereo_bp_ros'
    shutil.copytree(repository, target, symlinks=True, ignore=IGNORED)
    return target


def test_colcon_sees_an_ament_python_package(source):
    listing = run([colcon(), 'list'], cwd=source.parent.parent).stdout
    assert listing.split() == ['stereo_bp_ros', 'src/stereo_bp_ros', '(ros.ament_python)']


@pytest.mark.parametrize('options', [[], *slow(['--symlink-install'])], ids=['plain', 'symlink'])
def test_a_workspace_has_the_executables_and_shares_presets_and_launch_files(source, options):
    workspace = source.parent.parent
    run([colcon(), 'build', *options], cwd=workspace)
    prefix = workspace / 'install' / 'stereo_bp_ros'
    for name in ('stereo_bp_node', 'stereo_bp'):
        assert os.access(prefix / 'lib/stereo_bp_ros' / name, os.X_OK)
    share = prefix / 'share/stereo_bp_ros'
    assert (share / 'launch/stereo_bp.launch.py').is_file()
    assert (share / 'config/road.yaml').is_file()
    assert (share / 'config/stereo_bp.rviz').is_file()
    assert (share / 'config/cameras/realsense.yaml').is_file()
    assert (share / 'package.xml').is_file()
    assert (prefix / 'share/ament_index/resource_index/packages/stereo_bp_ros').is_file()
    command = f'. install/local_setup.sh && {prefix}/lib/stereo_bp_ros/stereo_bp info --json ' \
              '--preset road'
    output = run(['sh', '-c', command], cwd=workspace).stdout
    assert '"disparity_range": 128' in output
    count = 'from stereo_bp_ros.resources import KERNELS; print(len(list(KERNELS.rglob("*.cu*"))))'
    output = run(['sh', '-c', f". install/local_setup.sh && {sys.executable} -c '{count}'"],
                 cwd=workspace).stdout
    assert int(output) == len(list((source / 'kernels').rglob('*.cu*')))


def test_pip_installs_the_library_with_its_presets_and_scripts(source, tmp_path):
    environment = tmp_path / 'environment'
    venv.create(environment, with_pip=False, symlinks=True)
    wheels = tmp_path / 'wheels'
    run([sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-q', '-w',
         str(wheels), '.'], cwd=source)
    wheel, = wheels.glob('stereo_bp_ros-*.whl')
    site = next((environment / 'lib').glob('python*/site-packages'))
    run([sys.executable, '-m', 'pip', '--python', str(environment / 'bin/python'), 'install',
         '--no-deps', '-q', str(wheel)])
    for name in ('stereo_bp_node', 'stereo_bp'):
        assert os.access(environment / 'bin' / name, os.X_OK)
    # The dependencies of this environment, but not its editable installation of the sources.
    numpy_home = pathlib.Path(__import__('numpy').__file__).parent.parent
    output = run([str(environment / 'bin/python'), '-c',
                  'import stereo_bp_ros as s; print(s.__file__); print(s.preset_names())'],
                 env={'PYTHONPATH': f'{site}{os.pathsep}{numpy_home}'}, cwd=tmp_path).stdout
    assert str(site) in output
    assert "'five_sets'" in output
