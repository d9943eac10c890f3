"""How a process begins and ends, whatever it inherits and whatever C libraries do."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from stereo_bp_ros.system import process

LIMIT = 60.0

END = 'import ctypes, os, signal, sys; from stereo_bp_ros.system import process; '


def status_of(code: str, *options: str, **arguments: object) -> int:
    """Of a process that runs this code."""
    return subprocess.run([sys.executable, *options, '-c', code], timeout=LIMIT,
                          stderr=subprocess.DEVNULL, **arguments).returncode     # type: ignore


@pytest.mark.parametrize(('fault', 'options'), [
    ('ctypes.string_at(0)', ()), ('os.abort()', ('-X', 'faulthandler')),
    ('os.kill(os.getpid(), signal.SIGBUS)', ())])
def test_a_fault_of_c_at_the_end_leaves_the_status_as_it_was_decided(
        fault: str, options: tuple[str, ...]) -> None:
    assert status_of(f'{END}process.end_despite_faults(7, 0.2); {fault}', *options) == 7


def test_a_fault_of_c_while_the_interpreter_ends_leaves_the_status_too() -> None:
    bad = f"{END}process.keep(type('', (), {{'__del__': lambda self, fail=os.abort: fail()}})()); "
    assert status_of(f'{bad}sys.exit(3)') == -signal.SIGABRT
    assert status_of(f'{bad}process.end_despite_faults(3, 0.2); sys.exit(3)') == 3


def test_an_end_that_hangs_in_c_with_the_interpreter_in_hand_is_over_in_time() -> None:
    assert status_of(f'{END}process.end_within(60, 1); process.end_within(0.2, 4); '
                     f'ctypes.PyDLL(None).sleep({int(2 * LIMIT)})') == 4


#: As setuptools writes the script of an entry point.
SCRIPT = """import sys
from stereo_bp_ros.{module} import main
if __name__ == '__main__':
    sys.exit(main())
"""


def interrupted(tmp_path: pathlib.Path, repository: pathlib.Path, library: str, *command: str
                ) -> subprocess.CompletedProcess[str]:
    """A process that gets SIGINT while it imports a library."""
    (tmp_path / f'{library}.py').write_text(
        'import signal\nsignal.raise_signal(signal.SIGINT)\nraise AssertionError("goes on")\n')
    path = os.pathsep.join(map(str, (tmp_path, repository)))
    return subprocess.run([sys.executable, *command], capture_output=True, text=True,
                          timeout=LIMIT, cwd=tmp_path, env={**os.environ, 'PYTHONPATH': path})


@pytest.mark.parametrize(('module', 'name', 'library'), [
    ('cli.main', 'stereo_bp', 'numpy'), ('node.main', 'stereo_bp_node', 'numpy'),
    ('cli.main', 'stereo_bp', 'rich')])
@pytest.mark.parametrize('as_script', [True, False])
def test_a_command_that_is_interrupted_while_it_imports_ends_without_a_word(
        module: str, name: str, library: str, as_script: bool, tmp_path: pathlib.Path,
        repository: pathlib.Path) -> None:
    script = tmp_path / 'bin' / name
    script.parent.mkdir()
    script.write_text(SCRIPT.format(module=module))
    command = (str(script),) if as_script else ('-m', f'stereo_bp_ros.{module}')
    done = interrupted(tmp_path, repository, library, *command, 'info')
    assert (done.returncode, done.stdout, done.stderr) == (process.INTERRUPTED, '', '')
    # launch takes any other status than 0 for a death.
    done = interrupted(tmp_path, repository, library, *command, 'info', '--ros-args')
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')


@pytest.mark.parametrize('name', ['application', 'stereo_bp_of_others'])
def test_an_application_that_imports_the_package_keeps_its_interruptions(
        name: str, tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    code = ('try:\n    import stereo_bp_ros\nexcept KeyboardInterrupt:\n    '
            "raise SystemExit('put away')\n")
    (tmp_path / name).mkdir()
    (tmp_path / name / '__init__.py').write_text(code)
    (tmp_path / name / 'run.py').touch()
    (tmp_path / f'{name}.script').write_text(code)
    for command in (('-m', f'{name}.run'), (f'{name}.script', 'stereo_bp')):
        done = interrupted(tmp_path, repository, 'numpy', *command)
        assert (done.returncode, done.stderr) == (1, 'put away\n')


def test_an_ignored_interruption_stays_ignored() -> None:
    code = ('import signal; from stereo_bp_ros.system import process; '
            'process.end_by_interruption(); process.raise_interruptions(); '
            'signal.raise_signal(signal.SIGINT)')
    assert status_of(code, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) == 0


def test_an_end_in_time_is_not_waited_for() -> None:
    begin = time.monotonic()
    assert status_of(f'{END}process.end_despite_faults(1, {2 * LIMIT}); sys.exit(5)') == 5
    assert time.monotonic() - begin < LIMIT


def test_closed_standard_streams_are_opened_and_the_next_file_is_none_of_them() -> None:
    code = ('import os, sys; from stereo_bp_ros.system import process; '
            'process.open_standard_streams(); '
            'print("lost"); print("lost", file=sys.stderr); sys.stdout.flush(); '
            'assert not sys.stdin.read(); '
            'assert all(map(os.get_inheritable, range(3))); sys.exit(10 + min(os.pipe()))')
    closed = f"exec {sys.executable} -c '{code}' <&- >&- 2>&-"
    assert subprocess.run(['sh', '-c', closed], timeout=LIMIT).returncode == 13
