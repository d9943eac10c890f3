"""The container file: what it names is there, and what it copies builds the package."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

INSTRUCTIONS = {'ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'FROM', 'RUN', 'WORKDIR'}


@pytest.fixture
def instructions(repository: pathlib.Path) -> list[tuple[str, str]]:
    """Every instruction with its arguments, comments and line ends taken out."""
    lines = (repository / 'docker/Dockerfile').read_text().splitlines()
    text = '\n'.join(line for line in lines if not line.startswith('#')).replace('\\\n', ' ')
    return [(name, rest) for line in text.splitlines() if line.strip()
            for name, _, rest in [line.partition(' ')]]


@pytest.fixture
def copied(repository: pathlib.Path) -> list[str]:
    """What of the repository the build gets to see."""
    names = (repository / 'docker/Dockerfile.dockerignore').read_text().splitlines()
    assert '*' in names
    return [name[1:] for name in names if name.startswith('!')]


def test_every_instruction_is_one(instructions: list[tuple[str, str]]) -> None:
    names = [name for name, _ in instructions]
    assert set(names) <= INSTRUCTIONS
    assert names[:2] == ['ARG', 'FROM']
    assert names[-2:] == ['ENTRYPOINT', 'CMD']


def test_every_variable_is_declared_before_it_is_used(instructions: list[tuple[str, str]]
                                                      ) -> None:
    declared = {'ROS_DISTRO', '@'}      # the base image sets the first, too
    for name, rest in instructions:
        assert set(re.findall(r'\$\{?(\w+|@)', rest)) <= declared
        if name in ('ARG', 'ENV'):
            declared |= {word.partition('=')[0] for word in shlex.split(rest)}


def test_every_command_of_a_shell_can_be_read(instructions: list[tuple[str, str]]) -> None:
    commands = [rest for name, rest in instructions if name == 'RUN']
    commands += [json.loads(rest)[2] for name, rest in instructions if name == 'ENTRYPOINT']
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(['bash', '-n', '-c', command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, '')


def test_every_file_that_is_copied_is_there(instructions: list[tuple[str, str]],
                                            copied: list[str], repository: pathlib.Path) -> None:
    for name in copied:
        assert (repository / name).exists()
    sources = [rest.split()[0] for name, rest in instructions if name == 'COPY']
    assert sources == ['package.xml', '.']
    assert 'package.xml' in copied


def test_what_it_starts_is_a_launch_file_of_the_package(instructions: list[tuple[str, str]],
                                                        repository: pathlib.Path) -> None:
    command = json.loads(dict(instructions)['CMD'])
    assert command[:3] == ['ros2', 'launch', 'stereo_bp_ros']
    assert (repository / 'launch' / command[3]).is_file()


def test_what_is_copied_is_enough_to_build_the_package(copied: list[str], tmp_path: pathlib.Path,
                                                       repository: pathlib.Path) -> None:
    colcon = pathlib.Path(sys.executable).parent / 'colcon'
    if not colcon.is_file():
        pytest.skip('colcon is not installed')
    source = tmp_path / 'src/stereo_bp_ros'
    source.mkdir(parents=True)
    for name in copied:
        take = shutil.copytree if (repository / name).is_dir() else shutil.copyfile
        take(repository / name, source / name)
    done = subprocess.run(
        [str(colcon), 'build', '--packages-select', 'stereo_bp_ros'], cwd=tmp_path, text=True,
        capture_output=True, timeout=300,
        env={**os.environ, 'PATH': f'{colcon.parent}{os.pathsep}{os.environ["PATH"]}'})
    assert done.returncode == 0, done.stdout + done.stderr
    share = tmp_path / 'install/stereo_bp_ros/share/stereo_bp_ros'
    for folder in ('launch', 'config', 'config/cameras'):
        assert {path.name for path in (share / folder).iterdir()} == {
            path.name for path in (repository / folder).iterdir() if path.suffix != '.pyc'
            and path.name != '__pycache__'}
