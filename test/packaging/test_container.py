"""The container file: what it names is there."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess

import pytest

INSTRUCTIONS = {'ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'FROM', 'RUN', 'STOPSIGNAL', 'WORKDIR'}


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


def test_every_variable_is_declared_before_it_is_used(instructions: list[tuple[str, str]]
                                                      ) -> None:
    names = [name for name, _ in instructions]
    assert set(names) <= INSTRUCTIONS
    assert (names[:2], names[-2:]) == (['ARG', 'FROM'], ['ENTRYPOINT', 'CMD'])
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


def test_what_it_copies_and_starts_is_there(instructions: list[tuple[str, str]],
                                            repository: pathlib.Path) -> None:
    copied = copied_files(repository)
    assert 'package.xml' in copied
    for name in copied:
        assert (repository / name).exists()
    assert [rest.split()[0] for name, rest in instructions if name == 'COPY'] == [
        'package.xml', '.']
    *command, file = json.loads(dict(instructions)['CMD'])[:4]
    assert command == ['ros2', 'launch', 'stereo_bp_ros']
    assert (repository / 'launch' / file).is_file()


def test_stopping_a_container_is_the_interruption_that_launch_ends_its_processes_for(
        instructions: list[tuple[str, str]]) -> None:
    assert [rest for name, rest in instructions if name == 'STOPSIGNAL'] == ['SIGINT']
    # The shell hands its place, and with it the signal, to launch.
    assert 'exec "$@"' in json.loads(dict(instructions)['ENTRYPOINT'])[2]
