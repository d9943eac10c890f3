"""The layout for rviz2: well formed, and on topics of the node in their types."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml

from stereo_bp_ros.sources.bags import FRAME_IDS

#: What the layout may show.
TOPICS = {
    'left/image_rect': 'sensor_msgs/Image', 'left/camera_info': 'sensor_msgs/CameraInfo',
    'disparity_color': 'sensor_msgs/Image', 'points2': 'sensor_msgs/PointCloud2'}

#: Classes of Humble's rviz_default_plugins, with the type that a display subscribes to.
DISPLAYS = {'rviz_default_plugins/Image': 'sensor_msgs/Image',
            'rviz_default_plugins/PointCloud2': 'sensor_msgs/PointCloud2',
            'rviz_default_plugins/Axes': ''}


@pytest.fixture
def rviz(repository: pathlib.Path) -> Any:
    return yaml.safe_load((repository / 'config/stereo_bp.rviz').read_text())


def of_the_page(repository: pathlib.Path, directions: str) -> dict[str, str]:
    """Topics of these directions with their types, as the node's page has them."""
    page = (repository / 'docs/reference/node.md').read_text()
    rows = re.findall(r'^\| ((?:`[\w/]+`(?:, )?)+) \| `(\w+/\w+)` \| '
                      f'(?:{directions}) ', page, re.MULTILINE)
    return {topic: kind for topics, kind in rows for topic in re.findall(r'[\w/]+', topics)}


def test_the_nodes_page_has_what_the_node_publishes(repository: pathlib.Path) -> None:
    assert TOPICS.items() <= of_the_page(repository, 'in|out').items()
    pytest.importorskip('rclpy')
    from stereo_bp_ros.node.publishing import CORRECTED_INFO, LATENCY, LATENCY_MS
    from stereo_bp_ros.node.publishing import TOPICS as PUBLISHED

    listed = of_the_page(repository, 'out')
    for name, topic in PUBLISHED.items():
        kind = topic.message.kind
        assert listed.pop(name) == f'{kind.__module__.split(".")[0]}/{kind.__name__}'
    assert set(listed) == {CORRECTED_INFO, LATENCY, LATENCY_MS, '/diagnostics'}


def test_every_display_of_rviz_takes_its_topic_as_it_is_published(rviz: Any) -> None:
    """Results are reliable, volatile and one deep; a camera may be best effort."""
    manager = rviz['Visualization Manager']
    shown = set()
    for display in manager['Displays']:
        topic = display.get('Topic', {})
        name = topic.get('Value', '')
        assert DISPLAYS[display['Class']] == TOPICS.get(name, '')
        shown.add(name)
        if topic:
            reliability = 'Best Effort' if name.startswith('left/') else 'Reliable'
            assert topic['Reliability Policy'] == reliability
            assert topic['Durability Policy'] == 'Volatile'
            assert (topic['History Policy'], topic['Depth']) == ('Keep Last', 1)
    assert shown >= {'left/image_rect', 'disparity_color', 'points2'}


def test_the_layout_looks_from_the_frame_of_a_replay(rviz: Any) -> None:
    assert rviz['Visualization Manager']['Global Options']['Fixed Frame'] == FRAME_IDS['left']
