"""What differs between distributions of ROS is in one file."""

from __future__ import annotations

import pathlib
import re
import sys
import types

import pytest

from stereo_bp_ros.system import distributions

#: Signs of a difference between distributions.
SIGNS = re.compile(r'\b(?:Humble|Iron|Jazzy|Kilted|ROS_DISTRO|qos_event)\b')

#: Where they are. Names of bags' types and of packages to install are no differences.
PLACE = 'stereo_bp_ros/system/distributions.py'


def test_differences_between_distributions_are_in_one_file(repository: pathlib.Path) -> None:
    found = {str(path.relative_to(repository))
             for path in (repository / 'stereo_bp_ros').rglob('*.py')
             if SIGNS.search(path.read_text())}
    assert found == {PLACE}
    launch = (repository / 'launch' / 'stereo_bp.launch.py').read_text()
    assert re.findall(r'.*ROS_DISTRO.*', launch) == [
        line for line in launch.splitlines() if 'apt install' in line]


def test_event_callbacks_are_found_under_the_name_of_humble(monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    pytest.importorskip('rclpy.node')
    handler = pytest.importorskip('rclpy.event_handler')
    old = types.ModuleType('rclpy.qos_event')
    old.PublisherEventCallbacks = handler.PublisherEventCallbacks           # type: ignore
    old.SubscriptionEventCallbacks = handler.SubscriptionEventCallbacks     # type: ignore
    monkeypatch.setitem(sys.modules, 'rclpy.event_handler', None)
    monkeypatch.setitem(sys.modules, 'rclpy.qos_event', old)
    assert distributions.event_callbacks() is old


@pytest.mark.parametrize(('distribution', 'name'), [
    ('humble', 'FASTRTPS_DEFAULT_PROFILES_FILE'), ('jazzy', 'FASTRTPS_DEFAULT_PROFILES_FILE'),
    ('kilted', 'FASTDDS_DEFAULT_PROFILES_FILE')])
def test_fast_dds_reads_the_profile_that_its_distribution_knows(distribution: str,
                                                                name: str) -> None:
    assert distributions.profile_variable({'ROS_DISTRO': distribution}) == name


def test_wheels_of_ros_name_no_distribution_and_fast_dds_is_asked() -> None:
    """The library has the name of the variable that it reads in it."""
    rclpy = pytest.importorskip('rclpy')
    name = distributions.profile_variable({})
    libraries = [path for path in pathlib.Path(rclpy.__file__).parents[3].glob('libfast*.so*')
                 if path.name.startswith(('libfastdds.', 'libfastrtps.'))]
    if not libraries:
        pytest.skip('Fast DDS lies elsewhere')
    assert f'{name}\0'.encode() in libraries[0].read_bytes()
