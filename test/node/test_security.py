"""SROS 2: the policy is what a node needs, and none starts without keys; closed ports."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

pytest.importorskip('rclpy')

import rclpy

from stereo_bp_ros.system import distributions
from test import machine
from test.machine import domain, ros_context
from test.node.bench import Bench
from test.node.processes import START_LIMIT, running_node

pytestmark = pytest.mark.ros

#: Parameters that change what the node subscribes to, in every combination that does.
MODES: tuple[dict[str, Any], ...] = (
    {'use_sim_time': True},
    {'image_transport': 'compressed'},
    {'rectify': True},
    {'rectify': True, 'image_transport': 'compressed'},
    *({'side_by_side': 'left_right', 'rectify': rectify, 'image_transport': transport}
      for rectify in (False, True) for transport in ('raw', 'compressed')))

#: What the policy grants, by the attribute that does, and how a node tells that it does so.
KINDS = {('topics', 'publish'): 'get_publisher_names_and_types_by_node',
         ('topics', 'subscribe'): 'get_subscriber_names_and_types_by_node',
         ('services', 'reply'): 'get_service_names_and_types_by_node',
         ('services', 'request'): 'get_client_names_and_types_by_node'}

#: Services that newer distributions have and older ones lack.
NEWER = {'/stereo_bp/get_type_description'}


@pytest.fixture
def policy(repository: pathlib.Path) -> pathlib.Path:
    return repository / 'config' / 'stereo_bp.policy.xml'


def granted(policy: pathlib.Path, kind: str, attribute: str) -> list[str]:
    """Absolute names, as SROS 2 resolves them."""
    profile, = ElementTree.parse(policy).iter('profile')
    namespace, node = profile.attrib['ns'], profile.attrib['node']
    names = [str(name.text) for group in profile.iter(kind) if group.get(attribute) == 'ALLOW'
             for name in group]
    private = [name.replace('~', f'{namespace}{node}', 1) for name in names]
    return [name if name.startswith('/') else namespace + name for name in private]


def names_of_a_node(context: Any, mode: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """What an active node has of each kind."""
    bench = Bench(context, mode)
    bench.configure()
    node = bench.node
    assert node.trigger_activate().name == 'SUCCESS'
    # The last thing that the graph tells of; the rest is asked for after that.
    deadline = time.monotonic() + START_LIMIT
    image = '/image_r' if 'side_by_side' in mode else '/right/image_r'
    while not any(name.startswith(image) for name, _ in
                  node.get_subscriber_names_and_types_by_node('stereo_bp', '/')):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found = {kind: {name for name, _ in getattr(node, ask)('stereo_bp', '/')}
             for kind, ask in KINDS.items()}
    node.stop(1.0)
    node.destroy_node()
    return found


def test_the_policy_names_exactly_what_the_node_has(policy: pathlib.Path) -> None:
    found: dict[tuple[str, str], set[str]] = {kind: set() for kind in KINDS}
    for mode in MODES:
        # Of its own: nothing is left of the node before.
        with ros_context() as context:
            for kind, names in names_of_a_node(context, mode).items():
                found[kind] |= names
    for kind in KINDS:
        names = granted(policy, *kind)
        assert set(names) ^ found[kind] <= NEWER, kind
        assert len(names) == len(set(names))
    profile, = ElementTree.parse(policy).iter('profile')
    assert (profile.get('ns'), profile.get('node')) == ('/', 'stereo_bp')


def test_where_keys_are_enforced_a_node_without_them_does_not_start(
        start_node: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enforce(monkeypatch, tmp_path / 'keys')
    node = start_node({}, '--enclave', '/stereo_bp', wait='')
    assert node.process.wait(60) == 2
    assert 'SECURITY ERROR' in node.log
    assert 'Traceback' not in node.log


@pytest.mark.slow
def test_with_keys_the_node_is_seen_by_nobody_without_them(
        tmp_path: pathlib.Path, policy: pathlib.Path, context: Any,
        monkeypatch: pytest.MonkeyPatch) -> None:
    ros2 = shutil.which('ros2')
    if ros2 is None or 'security' not in subprocess.run(
            [ros2, '--help'], capture_output=True, text=True, check=False).stdout:
        pytest.skip('needs the verbs of SROS 2 (ros2 security)')
    keys = tmp_path / 'keys'
    with domain() as number:
        for arguments in (['create_keystore', keys], ['create_enclave', keys, '/stereo_bp'],
                          ['create_permission', keys, '/stereo_bp', policy]):
            subprocess.run([ros2, 'security', *map(str, arguments)], check=True,
                           env={**os.environ, 'ROS_DOMAIN_ID': str(number)})
        enforce(monkeypatch, keys)
        with running_node(tmp_path, {'stereo_algorithm': 'sad'}, '--enclave', '/stereo_bp',
                          wait='', domain=number) as node:
            deadline = time.monotonic() + START_LIMIT
            while 'active: waiting' not in node.log:
                if 'security libraries' in node.log:
                    pytest.skip('this Fast DDS is built without security')
                assert node.process.poll() is None, node.log
                assert time.monotonic() < deadline, node.log
                time.sleep(0.05)
            outside = rclpy.Context()
            monkeypatch.delenv('ROS_SECURITY_ENABLE')
            rclpy.init(context=outside, args=[], domain_id=number)
            stranger = rclpy.create_node('stranger', context=outside)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                assert 'stereo_bp' not in stranger.get_node_names()
                time.sleep(0.1)
            stranger.destroy_node()
            outside.try_shutdown()


def enforce(monkeypatch: pytest.MonkeyPatch, keys: pathlib.Path) -> None:
    for name, value in (('ROS_SECURITY_KEYSTORE', str(keys)), ('ROS_SECURITY_ENABLE', 'true'),
                        ('ROS_SECURITY_STRATEGY', 'Enforce')):
        monkeypatch.setenv(name, value)


def test_a_profile_closes_the_ports_to_other_machines(
        repository: pathlib.Path, tmp_path: pathlib.Path, start_node: Any) -> None:
    page = (repository / 'docs/howto/security.md').read_text(encoding='utf-8')
    interfaces, = re.findall('^```xml\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    profile = (repository / 'config/fastdds_large_images.xml').read_text(encoding='utf-8')
    kind = '<type>UDPv4</type>\n'
    (tmp_path / 'profile.xml').write_text(profile.replace(kind, kind + interfaces))
    node = start_node({'stereo_algorithm': 'sad'}, environment={
        distributions.profile_variable(): str(tmp_path / 'profile.xml')})
    bound = {int(port, 16): address for address, port in (
        line.split()[1].split(':') for line in pathlib.Path('/proc/net/udp').read_text()
        .splitlines()[1:])}
    ports = machine.ports_in_use(node.domain)
    assert len(ports) >= 2
    assert {bound[port] for port in ports} == {'0100007F'}          # 127.0.0.1
