"""``stereo_bp status`` beside a real node: what it prints is what the node has counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.cli import status
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.replay import statuses
from stereo_bp_ros.replay.statuses import Statuses
from test.node.client import Client

pytestmark = pytest.mark.ros

W, H, PAIRS = 64, 48, 5
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 8, 'correlation_window_size': 5,
              'max_input_age': 0.0}


@pytest.fixture
def counted(client: Client, textured_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
            ) -> dict[str, int]:
    """Counters of a node that has published pairs; the verb is in its domain."""
    left, right = (client.image(one) for one in textured_pair(W, H, 3))
    for side in ('left', 'right'):
        client.send_info(side, client.info(side, W, H))
    for _ in range(PAIRS):
        client.result('disparity', client.send_pair(left, right))
    monkeypatch.setenv('ROS_DOMAIN_ID', str(client.context.get_domain_id()))
    return client.settled()


def test_its_json_has_the_counters_rate_latency_and_device_of_the_node(
        counted: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    main(['status', '--json', '--wait', '60'])
    (node, found), = json.loads(capsys.readouterr().out).items()
    assert node == '/stereo_bp'
    assert (found['published'], found['pairs']) == (counted['published'], counted['pairs'])
    assert found['rate_hz'] >= 0
    assert 0 < found['latency_ms']['p50'] <= found['latency_ms']['p99']
    assert (found['state'], found['backend'], found['size']) == ('active', 'cpu', '64 x 48')
    lines = dict(status.lines(found))
    assert lines['published'] == f'{counted["published"]} of {counted["pairs"]} pairs'
    assert lines['state'].startswith('active, ')


def test_what_a_node_that_configures_does_not_know_is_not_known(
        counted: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    main(['status', '--json', '--wait', '60'])
    found, = json.loads(capsys.readouterr().out).values()
    assert dict(status.lines(found))['preset'] == 'none, 0 to 7 px, 64 x 48'
    nothing = dict.fromkeys(('preset', 'disparities', 'size'))
    assert dict(status.lines(found | nothing))['preset'] == 'not known'


def test_a_node_that_reports_no_more_is_stale(
        counted: dict[str, int], client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with Statuses(client.context) as found:
        found.find(60)
        assert next(iter(found.figures().values()))['level'] != 'stale'
        monkeypatch.setattr(statuses, 'STALE_S', -1.0)
        figures, = found.figures().values()
        assert (figures['level'], figures['published']) == ('stale', counted['published'])
        assert figures['state'].startswith('no report for ')


def test_its_table_is_printed_once_where_nobody_looks(
        counted: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['status', '--wait', '60']) in (0, 1)
    printed = capsys.readouterr().out
    assert [word for word in ('/stereo_bp', 'input', 'latency', 'active')
            if word not in printed] == []


def test_a_namespace_without_a_node_is_a_sentence_with_those_that_report(
        counted: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    for wait in ('3', '10', '30'):      # a busy machine finds nodes later
        assert main(['status', '--namespace', 'fornt', '--wait', wait]) == 2
        said = capsys.readouterr().err
        assert f'in /fornt within {wait} s' in said
        if 'reported have: /stereo_bp' in said:
            break
    else:
        pytest.fail(said)
