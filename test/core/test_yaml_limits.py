"""YAML of others: small files that stand for much are refused in one sentence."""

from __future__ import annotations

import pathlib

import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.scenario import read_scenario
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.cli.runs import time_limit


def aliases(first: str, level: str, levels: int = 9) -> str:
    """``levels`` values, each of which has the one before it ten times."""
    lines = [f'a0: &a0 {first}'] + [f'a{i}: &a{i} ' + level.format(
        lists=', '.join([f'*a{i - 1}'] * 10),
        maps=', '.join(f'k{j}: *a{i - 1}' for j in range(10))) for i in range(1, levels)]
    return '\n'.join(lines) + '\n'


BOMBS = {
    'mappings': aliases('{x: 1, y: 1}', '{{{maps}}}') + 'top: *a8\n',
    'merge keys': aliases('{x: 1}', '\n  <<: [{lists}]'),
    'texts': 'a: &a "' + 'x' * 100_000 + '"\nb: [' + ', '.join(['*a'] * 200) + ']\n',
    'itself': 'a: &a {b: *a}\n',
    'nesting': '[' * 5000 + ']' * 5000,
    'blocks': ''.join(' ' * depth + 'a:\n' for depth in range(500)),
    'bytes': '# ' + 'x' * (5 << 20) + '\na: 1\n',
    'sixtieths': 'a: ' + ':'.join(['1'] * 200_000) + '\n',
}

READERS = {
    'parameters': ('node.yaml', load_parameter_file),
    'calibration': ('stereo.yaml', Calibration.from_file),
    'scenario': ('any.yaml', read_scenario),
    'sets': ('sets.yaml', lambda path: open_dataset(path.parent)),
}


@pytest.mark.parametrize('bomb', BOMBS)
def test_a_small_file_that_stands_for_much_is_refused_in_a_sentence(tmp_path, bomb):
    path = tmp_path / 'any.yaml'
    path.write_text(BOMBS[bomb])
    with time_limit(), pytest.raises(ValueError, match='it cannot be read: it ') as caught:
        read_yaml(path)
    assert len(str(caught.value)) < 200
    assert ('STEREO_BP_LIMIT_FACTOR=2' in str(caught.value)) == (
        bomb not in ('itself', 'sixtieths'))


@pytest.mark.parametrize('reader', READERS)
def test_every_reader_of_yaml_refuses_it(tmp_path, reader):
    name, read = READERS[reader]
    path = tmp_path / name
    path.write_text('%YAML:1.0\n' * (reader == 'calibration') + BOMBS['merge keys'])
    with time_limit(), pytest.raises(ValueError, match=r'100000 nodes.*STEREO_BP_LIMIT_FACTOR=2'):
        read(path)


def test_the_metadata_of_a_bag_is_read_by_the_same_loader(tmp_path):
    bags = pytest.importorskip('stereo_bp_ros.sources.bags')
    (tmp_path / 'metadata.yaml').write_text(BOMBS['merge keys'])
    (tmp_path / 'x.mcap').write_bytes(b'')
    with time_limit(), pytest.raises(StereoError, match=r'metadata\.yaml .* 100000 nodes'):
        bags.StereoBag(tmp_path)


def test_the_variable_changes_all_limits_and_nodes_are_counted_while_they_are_read(
        tmp_path, monkeypatch):
    path, unfinished = tmp_path / 'any.yaml', tmp_path / 'unfinished.yaml'
    path.write_text(aliases('[1, 1]', '[{lists}]', 6))
    unfinished.write_text('a: [' + '1,' * 20_000 + '*unknown]\n')
    with pytest.raises(ValueError, match='100000 nodes'):
        read_yaml(path)
    monkeypatch.setenv('STEREO_BP_LIMIT_FACTOR', '4')
    assert len(read_yaml(path)['a5']) == 10
    monkeypatch.setenv('STEREO_BP_LIMIT_FACTOR', '0.1')
    with pytest.raises(ValueError, match=r'more than 10000 nodes.*STEREO_BP_LIMIT_FACTOR=0\.2'):
        read_yaml(unfinished)


@pytest.mark.parametrize('factor', ['', 'x', '0', 'nan', '9' * 400])
def test_a_factor_that_is_none_is_refused(tmp_path, monkeypatch, factor):
    path = tmp_path / 'any.yaml'
    path.write_text('a: 1\n')
    monkeypatch.setenv('STEREO_BP_LIMIT_FACTOR', factor)
    if not factor:
        assert read_yaml(path) == {'a': 1}
        return
    with pytest.raises(ValueError, match=r'STEREO_BP_LIMIT_FACTOR is .*, but must be a n'):
        read_yaml(path)


def test_aliases_that_stand_for_little_are_read(tmp_path: pathlib.Path):
    path = tmp_path / 'any.yaml'
    path.write_text('base: &base {x: 1}\nboth: [*base, *base]\nmerged: {<<: *base, y: 2}\n')
    assert read_yaml(path) == {'base': {'x': 1}, 'both': [{'x': 1}, {'x': 1}],
                               'merged': {'x': 1, 'y': 2}}
