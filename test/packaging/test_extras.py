"""Every extra in an environment that has nothing else, and every verb that README names for it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import venv
from collections.abc import Callable

import cv2
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import VERBS
from stereo_bp_ros.sources import bags

FAST = ['--set', 'disparity_range=16', '--set', 'levels=3', '--set', 'iterations=4']


def run(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL, env={**environment, **options.pop('env', {})},
                          **options)


@pytest.fixture(scope='module')
def wheel(tmp_path_factory, repository) -> pathlib.Path:
    """The package as it is built for users; what it is built from is what git would have."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'
    source.mkdir()
    for name in ('setup.py', 'setup.cfg', 'pyproject.toml', 'package.xml', 'README.md', 'resource',
                 'launch', 'config', 'kernels', 'stereo_bp_ros'):
        (source / name).symlink_to(repository / name)
    done = run([sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-q',
                '-w', str(folder), str(source)])
    assert done.returncode == 0, done.stderr
    found, = folder.glob('*.whl')
    return found


@pytest.fixture(scope='module')
def install(tmp_path_factory, wheel, repository) -> Callable[..., pathlib.Path]:
    """Makes an environment with an extra, on top of another one; returns its interpreter."""
    def pip(python: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, '-m', 'pip', '--python', str(python), 'install', '-q',
                    '--no-compile', '-c', str(repository / 'constraints.txt'), *arguments])

    def make(extra: str, below: pathlib.Path | None = None, *options: str) -> pathlib.Path:
        folder = tmp_path_factory.mktemp(extra or 'nothing')
        venv.create(folder, with_pip=False, symlinks=True)
        if below is not None:
            inherited = next((below.parent.parent / 'lib').glob('python*/site-packages'))
            site = next((folder / 'lib').glob('python*/site-packages'))
            # The lower environment may itself lie on one.
            (site / 'below.pth').write_text(f'import site; site.addsitedir({str(inherited)!r})\n')
        done = pip(folder / 'bin/python', *options, f'{wheel}[{extra}]' if extra else str(wheel))
        assert done.returncode == 0, done.stderr
        return folder / 'bin/python'

    probe = tmp_path_factory.mktemp('probe')
    venv.create(probe, with_pip=False, symlinks=True)
    done = pip(probe / 'bin/python', '--dry-run', '--no-deps', '--retries', '0', 'PyYAML')
    if done.returncode:
        pytest.skip('pip reaches no package index: ' + done.stderr.strip().splitlines()[-1])
    return make


@pytest.fixture(scope='module')
def plain(install) -> pathlib.Path:
    """The package without any extra."""
    return install('')


@pytest.fixture(scope='module')
def cpu(install, plain) -> pathlib.Path:
    return install('cpu', plain)


@pytest.fixture(scope='module')
def inputs(tmp_path_factory, textured_pair) -> pathlib.Path:
    """A folder with a pair in ``pair`` and a bag in ``bag``."""
    folder = tmp_path_factory.mktemp('inputs')
    (folder / 'pair').mkdir()
    left, right = textured_pair(96, 48, 6)
    cv2.imwrite(str(folder / 'pair/left.png'), left)
    cv2.imwrite(str(folder / 'pair/right.png'), right)
    bags.write_bag(folder / 'bag', Calibration(100, 0.5, 48, 48, 24),
                   ((10**18 + i * 10**8, left, right, None) for i in range(3)))
    return folder


@pytest.fixture
def stereo_bp(tmp_path, inputs, ros_environment) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a verb with the interpreter of an environment, in a folder of its own."""
    def call(python: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / 'inputs').unlink(missing_ok=True)
        (tmp_path / 'inputs').symlink_to(inputs)
        names = ('ROS_AUTOMATIC_DISCOVERY_RANGE', 'ROS_DOMAIN_ID')
        return run([str(python), '-m', 'stereo_bp_ros.cli.main', *arguments], cwd=tmp_path,
                   env={name: ros_environment[name] for name in names})
    return call


#: What README names for a line of its installation, and how that is tried.
COMMANDS: dict[str, dict[str, list[str]]] = {
    'cpu': {
        'match': ['inputs/pair/left.png', 'inputs/pair/right.png', *FAST],
        'evaluate': ['inputs/pair', '--output', 'report', '--repeat', '1', *FAST],
        'info': ['--size', '640x480'],
        'benchmark': ['bp', '--size', '64x48x8', '--frames', '2']},
    'cpu,evaluation': {
        'evaluate': ['inputs/bag', '--repeat', '1', *FAST]},
    'cpu,ros': {
        'replay': ['inputs/bag', '--wait', '0'],
        'demo': ['--frames', '20', '--backend', 'cpu']},
}


def test_readme_names_these_extras_and_verbs(repository):
    lines = re.findall(r"^pip install '\.\[([a-z0-9,]+)\]' +# (.*)$",
                       (repository / 'README.md').read_text(), re.MULTILINE)
    named = {extras: set(re.findall(r'\w+', words)) & set(VERBS) for extras, words in lines}
    assert named == {extras: set(verbs) for extras, verbs in COMMANDS.items()}


@pytest.mark.slow
def test_without_an_extra_every_verb_explains_itself(stereo_bp, plain):
    for verb in VERBS:
        done = stereo_bp(plain, verb, '--help')
        assert (done.returncode, done.stderr) == (0, '')
        assert done.stdout.startswith(f'usage: stereo_bp {verb} ')
        needs = f'{verb} cannot run here: it needs rclpy: ' in ' '.join(done.stdout.split())
        assert needs == (verb in ('replay', 'status', 'param', 'demo'))
    assert stereo_bp(plain, 'info').returncode == 0
    for arguments, extra in (
            (('match', 'inputs/pair/left.png', 'inputs/pair/right.png'), 'cpu'),
            (('evaluate', 'inputs/bag'), 'evaluation'),
            (('benchmark', 'bp'), 'cpu'),
            (('replay', 'inputs/bag'), 'ros'), (('demo',), 'ros'), (('status',), 'ros'),
            (('param', 'list'), 'ros'),
            (('view', '--save', 'run.rrd'), 'view')):
        done = stereo_bp(plain, *arguments)
        assert done.returncode == 2
        assert f"extra '{extra}'" in done.stderr
        errors = [line for line in done.stderr.splitlines() if not line.startswith('WARNING')]
        assert len(errors) == 1, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize('extras', [
    'cpu', 'cpu,evaluation', pytest.param('cpu,ros', marks=pytest.mark.ros)])
def test_an_extra_brings_the_verbs_that_readme_names(request, stereo_bp, install, cpu, tmp_path,
                                                     extras):
    python = cpu
    if extras == 'cpu,evaluation':
        python = install('evaluation', cpu)
    if extras == 'cpu,ros':
        if sys.version_info[:2] != (3, 11) or os.uname().machine != 'x86_64':
            pytest.skip('the wheels of ROS 2 are for Python 3.11 on x86_64')
        python = install('ros', cpu)
        done = run([str(python), '-m', 'stereo_bp_ros.node.main', '--ros-args', '-p',
                    'preset:=motorway'])
        assert 'must be one of' in done.stdout + done.stderr
    for verb, arguments in COMMANDS[extras].items():
        done = stereo_bp(python, verb, *arguments)
        # The demo is held to a rate, which a busy machine may miss.
        assert done.returncode == 0 or (verb == 'demo' and 'Report: ' in done.stdout
                                        and done.returncode == 1), done.stdout + done.stderr
        assert 'Traceback' not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize('extra', ['cuda12', 'cuda13'])
def test_an_extra_for_nvidia_can_be_installed(install, cpu, extra):
    if os.uname().machine != 'x86_64':
        pytest.skip('CuPy is tried on x86_64')
    install(extra, cpu, '--dry-run')
