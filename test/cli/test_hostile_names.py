"""Names of files, folders and topics that a terminal would obey are printed by their codes."""

from __future__ import annotations

import contextlib
import io
import logging
import pathlib
import subprocess
import sys

import pytest
from rich.console import Console

from stereo_bp_ros.cli import main, options, progress
from stereo_bp_ros.errors import visible

#: A window's title and colours; a line that replaces another one; text that runs to the left;
#: characters without a width; the control characters of 8 bits; a line of its own.
NAMES = ['\x1b]0;owned\x07\x1b[31m', '\r\x1b[2K fake: 0.0 %', '\u202egnp.exe', '\u2066a\u2069',
         'a\u200b\ufeff\u2060b', '\x9b31m', 'new\nline', '\udcff\udcfe', '[bold] :cat: #1']

FAST = ('--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'disparity_range=8',
        '--set', 'correlation_window_size=5')


def is_plain(text: str) -> bool:
    """Whether a terminal shows every character as it is."""
    return text.replace('\n', '').isprintable()


@pytest.mark.parametrize('name', ['caf\u00e9', 'cafe\u0301', '\u65e5\u672c', 'a b [x](y) <b>',
                                  '\u05d0\u05d1'])
def test_letters_of_any_language_stay_as_they_are(name):
    assert visible(name) == name


@pytest.mark.parametrize('name', NAMES)
def test_tables_lines_and_progress_show_no_name_as_it_is(name, capsys, monkeypatch):
    options.print_table(name, [name, f'{name}\nms'], [[name, '1.0'], ['b', name]])
    options.say(f'Wrote {name}', file=sys.stderr)
    progress.tell(name)
    out, err = capsys.readouterr()
    assert is_plain(out + err + visible(name))
    assert '\n' not in visible(name)
    assert visible(name) in ' '.join(out.split())
    assert err == f'Wrote {visible(name)}\n{visible(name)}\n'
    shown = io.StringIO()
    with progress.Bar('evaluate') as bar:
        bar.add_task(name)
        Console(file=shown, width=300).print(bar.get_renderable())
    assert is_plain(shown.getvalue())
    assert visible(name) in shown.getvalue()


@pytest.fixture
def folder(tmp_path, write_pair, monkeypatch) -> pathlib.Path:
    """A data set whose pairs have these names, without a calibration."""
    monkeypatch.chdir(tmp_path)
    sets = tmp_path / 'set\x1b[32m\u202e<b>'
    for name in NAMES:
        write_pair(sets / name, 4, 64)
    return sets


def printed(*arguments: str) -> tuple[int, str]:
    """Status of the command, and all that it has printed on both streams, where any can be."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        status = main.main(arguments)
    return status, stream.getvalue()


def test_verbs_print_plain_text_of_a_set_of_such_names(folder):
    for more in (('--json',), ('--against', 'bm', '--output', 'r\x1b[31m')):
        status, text = printed('evaluate', str(folder), *FAST, '--repeat', '1', *more)
        assert status == 0
        assert is_plain(text)
        assert 'owned' in text
    left, right = (str(folder / NAMES[0] / f'{side}.png') for side in ('left', 'right'))
    status, text = printed('match', left, right, '-o', 'out\x1b[31m\nFAKE\u202e.pfm', *FAST)
    assert status == 0
    assert is_plain(text)
    assert 'Wrote disparity: out\\x1b[31m\\nFAKE\\u202e.pfm\n' in text


def test_a_warning_is_one_plain_line():
    """In a process: pytest has handlers of its own."""
    script = ('import logging; from stereo_bp_ros.cli import main; main.main(["info", "--set"]); '
              'logging.getLogger("stereo_bp_ros").warning("%s", "a\\x1b[31m\\nFAKE\\u202e")')
    err = subprocess.run([sys.executable, '-c', script], capture_output=True,
                         check=True).stderr.decode()
    assert err.splitlines()[-1] == 'WARNING: a\\x1b[31m FAKE\\u202e'


def test_a_trace_of_a_defect_keeps_its_lines():
    record = logging.LogRecord('a', logging.ERROR, '', 0, 'b\x1b', (), None)
    record.exc_text = 'one\ntwo'
    assert main._OneLine('%(message)s').format(record) == 'b\\x1b\none\ntwo'


def test_only_one_function_prints(repository):
    """Others would forget to escape names."""
    allowed = {'main.py', 'options.py'}
    printing = {path.name for path in (repository / 'stereo_bp_ros' / 'cli').glob('*.py')
                if any(line.lstrip().startswith('print(')
                       for line in path.read_text(encoding='utf-8').splitlines())}
    assert printing == allowed
