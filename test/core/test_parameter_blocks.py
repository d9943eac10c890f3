"""Parameter files of several nodes, and of stereo_image_proc: what of them is a stereo node's."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.config.parameter_blocks import load_parameter_file, without_node
from stereo_bp_ros.errors import ConfigError

OTHER = {'use_color': True, 'queue_size': 9}


def written(folder: pathlib.Path, blocks: dict[str, dict[str, Any]]) -> pathlib.Path:
    path = folder / 'nodes.yaml'
    path.write_text(yaml.safe_dump(
        {name: {'ros__parameters': values} for name, values in blocks.items()}, sort_keys=False))
    return path


@pytest.mark.parametrize('blocks', [
    {'/stereo/disparity_node': {'levels': 3}, '/stereo/point_cloud_node': OTHER},
    {'/stereo/*': {'levels': 3}, '/camera/driver': {'image_width': 640, 'use_sim_time': True}},
    {'/old/disparity_node': {'levels': 9}, '/new/stereo_bp': {'levels': 3}},
    {'/**': {'levels': 9}, '/**/disparity_node': {'levels': 3}, '/a': {'exposure': 1}},
    {'/**': {'levels': 3, 'frame': 'base'}, '/odometry': {'rate': 30}}], ids=str)
def test_blocks_of_other_nodes_are_left_out_with_a_warning(
        blocks: dict[str, Any], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load_parameter_file(written(tmp_path, blocks)) == {'levels': 3}
    assert 'left out as parameters of other nodes: /' in caplog.text


@pytest.mark.parametrize('text', [
    'stereo: {disparity_node: {ros__parameters: {levels: 3}},\n'
    '         points: {ros__parameters: {use_color: true}}}\n',
    '/a: &a {ros__parameters: {levels: 3}}\n/b/stereo_bp: *a\n'], ids=['nested', 'shared'])
def test_names_are_read_as_ros_reads_them_and_aliases(text: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / 'nodes.yaml'
    path.write_text(text)
    assert load_parameter_file(path) == {'levels': 3}


def test_two_stereo_nodes_that_differ_are_told(
        tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, {'/front/stereo_bp': {'levels': 3}, '/rear/stereo_bp': {'levels': 4}})
    assert load_parameter_file(path) == {'levels': 4}
    assert 'levels is 3 for /front/stereo_bp and 4 for /rear/stereo_bp' in caplog.text


def test_a_file_without_a_block_of_a_stereo_node_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r'are for /a, /b: name them stereo_bp or /\*\*'):
        load_parameter_file(written(tmp_path, {'/a': {'levels': 3}, '/b': OTHER}))


@pytest.mark.parametrize(('algorithm', 'expected'), [
    (0, 0.25), ('sad', 4.0), (False, 4.0), (None, 4.0)])
def test_a_speckle_range_beside_the_number_0_counts_sixteenths(
        algorithm: Any, expected: float, tmp_path: pathlib.Path,
        caplog: pytest.LogCaptureFixture) -> None:
    values = {'speckle_range': 4} | ({} if algorithm is None else {'stereo_algorithm': algorithm})
    path = written(tmp_path, {'/**': values})
    assert load_parameter_file(path)['speckle_range'] == expected
    assert ('counts sixteenths of a pixel' in caplog.text) == (expected == 0.25)


@pytest.mark.parametrize(('name', 'is_for'), [
    ('/stereo/**', True), ('/stereo/*', True), ('/*/stereo_bp', True), ('/**/stereo_bp', True),
    ('stereo/stereo_bp', True), ('/*', False), ('stereo_bp', False), ('/rear/**', False)])
def test_a_node_is_told_of_a_file_that_sets_nothing_of_it(
        name: str, is_for: bool, tmp_path: pathlib.Path) -> None:
    sentence = without_node(written(tmp_path, {name: {'levels': 3}}), '/stereo/stereo_bp')
    assert bool(sentence) != is_for
    assert is_for or f'for /{name.lstrip("/")}, and this node is /stereo/stereo_bp' in sentence


@pytest.mark.parametrize(('text', 'value'), [
    ('2e-2', 0.02), ('1E3', 1000.0), ('-.5e1', -5.0), ('2.5e0', 2.5), ('2.e+1', 20.0), ('20', 20),
    ('e3', 'e3'), ("'2e-2'", '2e-2'), ('1_000', 1000)])
def test_numbers_are_those_of_ros(text: str, value: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / 'own.yaml'
    path.write_text(f'value: {text}\n')
    found = read_yaml(path)['value']
    assert (found, type(found)) == (value, type(value))
