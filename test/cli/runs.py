"""Runs the command in this process, for tests that feed it with what it cannot use."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from stereo_bp_ros.cli import main

#: Seconds that any example may take; compiling for the first time is by far the longest.
LIMIT_S = 240

#: The same examples in every run.
steady = settings(derandomize=True, deadline=None, database=None, suppress_health_check=[
    HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large])

#: Texts that a shell can hand over: bytes that are no UTF-8 come as surrogates.
texts = st.text(st.characters(exclude_characters='\0', max_codepoint=0xffff), max_size=12) | \
    st.binary(max_size=8).map(lambda data: os.fsdecode(data.replace(b'\0', b'')))
numbers = st.sampled_from([
    'nan', 'inf', '-inf', '-1', '0', '1', '3', '2.5', '1e400', '1e-400', '9' * 400,
    '0x' + 'f' * 5000, '0b', '1_0', '\u0663', '', ' ', '1:30', '190:20:30.15', '.5', '-0',
    '64', '1e5', '+5', '9' * 5000, '-.inf', '.nan', '.INF'])
yaml_texts = st.sampled_from([
    '[1, 2', '[1, 2]', '{a: 1', '{a: 1}', '[[[[', '&a [*a]', '*a', '!!int x', '!!bool x', '? ',
    '!!python/object:os.system {}', '2001-99-99', '2001-01-01', '"', "'", '- - -', '%', '@', '`',
    'true', 'yes', 'no', '~', 'null', '=', '<<', '!!binary =', '[' * 5000, 'a: b: c', '\t', '#'])
words = texts | numbers | yaml_texts


class Hung(BaseException):
    """Not an Exception, so that nothing but the test catches it."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hung
    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def run(*arguments: str) -> tuple[int, str, str]:
    """Status, standard output and standard error of the command, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), 'ascii', write_through=True) for _ in range(2))
    with time_limit(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main.main(arguments)
        except SystemExit as exit_:         # of --help and --version
            status = exit_.code
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return status, *texts


def check(*arguments: str) -> int:
    """Run the command; it must end well, or say in one line why not."""
    status, _, err = run(*arguments)
    assert status in (0, 1, 2)
    assert 'Traceback' not in err
    said = [line for line in err.splitlines() if line.startswith('stereo_bp')]
    assert len(said) == (1 if status == 2 else 0), err
    return status
