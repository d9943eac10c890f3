"""stereo_bp sensitivity: curves over quantities of known size, their table, JSON and plot."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree

import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation.sensitivity import QUANTITIES, Row, Street, doubled

SMALL = ['--size', '240x96', '--disparities', '24', '--frames', '1', '--backend', 'cpu']
SAD = ['--set', 'stereo_algorithm=sad', '--set', 'correlation_window_size=7']


@pytest.fixture(autouse=True)
def numba() -> None:
    pytest.importorskip('numba')


def test_what_an_error_of_known_size_costs(capsys, tmp_path):
    pytest.importorskip('matplotlib')
    assert main(['sensitivity', 'vertical-offset', 'noise', '--preset', 'road', '--against',
                 'sgbm', *SMALL, '--json', '--output', str(tmp_path / 'out')]) == 0
    report = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / 'out/sensitivity.json').read_text()) == report
    assert list(report['quantities']) == ['vertical-offset', 'noise']
    for name, found in report['quantities'].items():
        assert (found['unit'], [row['value'] for row in found['rows']]) == (
            QUANTITIES[name].unit, list(QUANTITIES[name].values))
        for matcher in ('road', 'sgbm'):
            bad, density = ([row['matchers'][matcher][key] for row in found['rows']]
                            for key in ('bad_3_filled', 'density'))
            assert bad[0] < 10
            assert bad[-1] > 2 * bad[0]
            assert density[-1] < density[0]
            assert found['doubled'][matcher] == next(
                row['value'] for row, one in zip(found['rows'], bad, strict=True)
                if row is not found['rows'][0] and one >= 2 * bad[0])
    assert report['street'] == {'width': 240, 'height': 96, 'disparities': 24, 'frames': 1}
    assert set(report['devices']) == {'road', 'sgbm'}
    drawn = (tmp_path / 'out/sensitivity.svg').read_text()
    xml.etree.ElementTree.fromstring(drawn)
    for words in ('vertical-offset', 'px', 'noise', 'grey levels', 'road', 'sgbm'):
        assert f'>{words}<' in drawn


@pytest.mark.parametrize(('arguments', 'words'), [
    (['pich'], "there is no quantity 'pich'"),
    (['pitch', 'pitch'], 'the quantity pitch is there twice'),
    (['pitch=0'], "'pitch=0' is not written pitch=VALUE,VALUE,..."),
    (['pitch=0,99'], '99'), (['noise=0,nan'], 'noise_sigma of a street is nan'),
    (['--size', '9x9'], '9x9'), (['--against', 'elas'], 'elas')])
def test_what_cannot_be_is_refused_before_anything_is_matched(capsys, monkeypatch, arguments,
                                                              words):
    monkeypatch.setattr('stereo_bp_ros.evaluation.runs.Evaluation.judge', None)
    assert main(['sensitivity', *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_street_of_a_value_is_the_same_every_time_and_has_its_error():
    street = Street(96, 64, 16, 2)
    quantity = QUANTITIES['vertical-offset']
    first, second = street.pairs(quantity, 1.5)
    again, _ = street.pairs(quantity, 1.5)
    sound, _ = street.pairs(quantity, 0)
    assert (first.left == again.left).all()
    assert (first.right == again.right).all()
    assert (first.left == sound.left).all()
    assert (first.right != sound.right).any()
    assert (first.left != second.left).any()
    assert first.disparities == 16
    assert first.truth[first.truth > 0].max() < 16


def test_where_wrong_pixels_double():
    def row(value: float, bad: float) -> Row:
        return Row(value, {'road': {'bad_3_filled': bad}})
    assert doubled([row(0, 1.0), row(1, 1.9), row(2, 2.0), row(3, 5.0)], 'road') == 2
    assert doubled([row(0, 1.0), row(1, 1.9)], 'road') is None


def test_figures_are_written_without_matplotlib_and_the_missing_plot_is_told(
        tmp_path, capsys, caplog, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr('importlib.util.find_spec',
                        lambda name, *rest: None if name == 'matplotlib' else found(name, *rest))
    assert main(['sensitivity', 'pitch=0,0.3,0.6', *SAD, *SMALL, '--output',
                 str(tmp_path / 'out')]) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split('│')[1:-1]] for line in out.splitlines()
            if line.startswith('│')]
    assert [row[0] for row in rows] == ['0', '0.3', '0.6', 'pitch, degrees']
    bad = [float(row[1].split()[0]) for row in rows[:3]]
    assert bad[0] < bad[1] < bad[2]
    assert 'sad on ' in out
    assert [path.name for path in (tmp_path / 'out').iterdir()] == ['sensitivity.json']
    assert 'sensitivity.svg is not written: that needs matplotlib: pip install' in caplog.text
