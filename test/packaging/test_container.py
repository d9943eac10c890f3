"""The container file: what it names is there."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess

import pytest

INSTRUCTIONS = {'ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'FROM', 'RUN', 'WORKDIR'}


@pytest.fixture
def instructions(repository: pathlib.Path) -> list[tuple[str, str]]:
    """Every instruction with its arguments, comments and line ends taken out."""
    lines = (repository / 'docker/Dockerfile').read_text().splitlines()
    text = '\n'.join(line for line in lines if not line.startswith('#')).replace('\\\n', ' ')
    return [(name, rest) for line in text.splitlines() if line.strip()
            for name, _, rest in [line.partition(' ')]]


def copied_files(repository: pathlib.Path) -> list[str]:
    """What of the repository the build gets to see: files and folders at its top."""
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
                                            repository: pathlib.Path) -> None:
    copied = copied_files(repository)
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
