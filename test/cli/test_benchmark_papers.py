"""stereo_bp benchmark papers: measure, write, read again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from test.cases import examples
from test.cli.runs import run, steady

pytest.importorskip('numba')
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import datasets
from stereo_bp_ros.papers.tables import images

ROAD = ['--paper', 'ai_2009', '--table', 'times', '--table', 'preprocessing', '--backend', 'cpu',
        '--frames', '1']


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """A folder of data without an image in it."""
    monkeypatch.delenv('STEREO_BP_DATA', raising=False)
    (tmp_path / 'data').mkdir()
    return str(tmp_path / 'data')


def test_papers_writes_markdown_json_and_plots_and_reads_them_again(
        no_data, tmp_path, textured_pair, capsys, monkeypatch):
    truth = np.full((64, 96), 6, np.float32)
    monkeypatch.setattr(images, '_draw_road', lambda name: datasets.StereoPair(
        name, *textured_pair(96, 64, 6), truth))
    first, second = tmp_path / 'first', tmp_path / 'second'
    assert main(['benchmark', 'papers', no_data, *ROAD, '--json', '--output', str(first)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert json.loads((first / 'papers.json').read_text()) == report
    times, preprocessing = report['tables']
    assert times['number'] == 'times'
    tsukuba, road = (row for row in times['rows'] if row['on'])
    assert 'the image tsukuba (384 x 288) is not among the data' in tsukuba['cells'][0]['missing']
    milliseconds, = road['cells'][0]['values']
    assert milliseconds in [one['median_ms'] for one in report['runs']]
    assert road['cells'][1]['missing'] == 'only cpu was asked for'
    assert [row['name'] for row in preprocessing['rows'] if row['on']] == [
        'original', 'Sobel', 'residual']
    assert (first / 'ai_2009_preprocessing.svg').is_file()

    files = ['--read', str(first / 'papers.json')] * 2
    assert main(['benchmark', 'papers', *files, '--paper', 'ai_2009', '--table', 'times',
                 '--output', str(second)]) == 0
    printed = capsys.readouterr().out
    assert '32.42 s' in printed
    assert '(1) the image tsukuba (384 x 288) is not among the data' in printed
    once, twice = ((folder / 'papers.md').read_text() for folder in (first, second))
    row = next(line for line in once.splitlines() if line.startswith('| **road'))
    assert once.count(row) == 1
    assert twice.count(row) == 2
    assert 'Preprocessing' not in twice


@pytest.mark.parametrize(('arguments', 'text'), [
    (['--table', '77'], "--table is '77', but must be one of table 1"),
    (['--frames', '0'], "--frames: '0'"), (['--seconds', '0'], "--seconds: '0'"),
    (['nowhere'], 'there is no folder nowhere')])
def test_a_mistake_is_one_line(arguments, text, capsys):
    assert main(['benchmark', 'papers', '--paper', 'gpu_cpu', *arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert text in error[-1]


@settings(steady, max_examples=examples(20))
@given(content=st.binary(max_size=30) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(['paper', 'rows', 'columns']), inner)).map(
        lambda value: json.dumps({'tables': [value]}).encode()))
@example(b'{}')
@example(b'[' * 100000)
@example(b'{"tables": {"a": 1}}')
@example(b'{"tables": [{}]}')
def test_a_file_that_is_no_report_is_refused(tmp_path, content):
    (tmp_path / 'x.json').write_bytes(content)
    status, _, error = run('benchmark', 'papers', '--read', str(tmp_path / 'x.json'))
    assert status == 2
    assert 'is no report of the papers' in error
    assert error.count('\n') == 1


def test_reports_without_a_table_of_the_paper_are_told(tmp_path, capsys):
    (tmp_path / 'x.json').write_text('{"tables": []}')
    assert main(['benchmark', 'papers', '--read', str(tmp_path / 'x.json')]) == 2
    assert 'none of the files' in capsys.readouterr().err
