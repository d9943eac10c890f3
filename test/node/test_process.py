"""The process: it starts, answers signals at once, ends with the right status, and says why."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
import rclpy
from rclpy.executors import SingleThreadedExecutor

from stereo_bp_ros.node.main import Spinner, main
from test import machine
from test.machine import cpu_seconds
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros

FAST = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0}
PARAMETERS = {'max_input_age': 0.5}

#: A node whose matcher takes for ever to compile, holding the interpreter as a compiler does.
SLOW_NODE = """
import sys
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node.main import main
from stereo_bp_ros.node.worker import Worker
Worker.call.__kwdefaults__['interval'] = 0.2
class Slow(StereoMatcher):
    def prepare(self, width=0, height=0, calibration=None):
        while True:
            sum(range(100000))
sys.exit(main(matcher_factory=Slow))
"""

#: A node whose matcher loses its device with the second frame.
LOST_NODE = """
import sys
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node.main import main
class Lost(StereoMatcher):
    frames = 0
    def compute(self, *args, **options):
        Lost.frames += 1
        if Lost.frames == 2:
            raise DeviceLostError('the device has fallen off the bus')
        return super().compute(*args, **options)
sys.exit(main(matcher_factory=Lost))
"""

#: A node without standard output and error, with something in C that fails when the interpreter
#: destroys it, which is the last of all, like a participant of DDS beside peers that were killed.
CLOSED_NODE = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)    # the tests themselves may run under nohup
os.close(1)
os.close(2)
sys.stdout = sys.stderr = None
from stereo_bp_ros.system import process
from stereo_bp_ros.node.main import main
process.end_despite_faults.__defaults__ = (1.0,)
class Failing:
    def __del__(self, fail=os.kill, own=os.getpid(), number=11):
        fail(own, number)
failing = Failing()
sys.exit(main())
"""

#: A node as ``nohup`` starts it.
NOHUP_NODE = """
import signal, sys
from stereo_bp_ros.node.main import main
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(main())
"""

#: A node whose arguments look like parameters.
REMAPPED_NODE = """
import sys
from stereo_bp_ros.node.main import main
sys.argv[1:1] = ['preset:=road', 'points2:=/mine']
sys.exit(main())
"""

LISTENER = """
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
rclpy.init()
node = rclpy.create_node('listener')
node.create_subscription(DiagnosticArray, '/diagnostics',
                         lambda message: print(message.status[-1].message, flush=True), 10)
rclpy.spin(node)
"""


def test_an_end_waits_for_a_late_listener_and_leaves_no_shared_memory(
        start: Any, textured_pair: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """Under nohup, where SIGHUP is ignored. Of two signals the first one counts."""
    client = start(FAST, code=NOHUP_NODE)
    client.match(*textured_pair(96, 64, 5))
    node = client.node_process
    node.process.send_signal(signal.SIGHUP)
    assert client.state() == 'active'
    own = {name for name in machine.segments_of(node.process.pid)
           if (machine.FOLDER / f'{name}_el').exists()}
    own -= machine.segments_of(os.getpid())
    assert own
    heard = tmp_path / 'heard'
    with open(heard, 'w') as output:
        listener = subprocess.Popen([sys.executable, '-c', LISTENER], stdout=output,
                                    env={**os.environ, 'ROS_DOMAIN_ID': str(node.domain)})
    try:
        client.wait_until(heard.read_text, what='a listener')
        listener.send_signal(signal.SIGSTOP)
        before = cpu_seconds(node.process.pid)
        node.process.send_signal(signal.SIGTERM)
        node.wait_for_log('shutting down', LIMIT)
        assert cpu_seconds(node.process.pid) - before < 1
        node.process.send_signal(signal.SIGINT)
        time.sleep(0.95)                # without a listener it has ended by then
        assert node.process.poll() is None
        listener.send_signal(signal.SIGCONT)
        assert node.process.wait(LIMIT) == 0
    finally:
        listener.kill()
        listener.wait(10)
    assert 'shutting down (SIGTERM)' in node.log
    assert 'Traceback' not in node.log
    # One that a node of another domain has taken over is no longer this node's.
    assert machine.left_behind(own) == []


def test_a_node_with_closed_outputs_answers_and_ends_as_ever_whatever_fails_in_c_at_the_end(
        start: Any) -> None:
    client = start(FAST, code=CLOSED_NODE, wait='')
    client.connect()
    node = client.node_process
    files = {os.readlink(f'/proc/{node.process.pid}/fd/{number}') for number in (1, 2)}
    assert files == {os.devnull}
    assert node.end(signal.SIGHUP) == 0


def test_an_end_while_the_executor_prepares_its_next_wait_is_not_missed() -> None:
    preparing, go_on = threading.Event(), threading.Event()
    errors, ends = list[BaseException](), list[str]()

    class Slow(SingleThreadedExecutor):
        def get_nodes(self) -> list[Any]:
            nodes = super().get_nodes()
            preparing.set()
            go_on.wait(LIMIT)
            return nodes

    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('spun', context=context)
    executor = Slow(context=context)
    executor.add_node(node)
    spinner = Spinner(executor, on_error=errors.append, on_endless=ends.append)
    try:
        assert preparing.wait(LIMIT)
        threading.Timer(0.2, go_on.set).start()
        assert spinner.end(10.0)
        assert (errors, ends) == ([], [])
    finally:
        go_on.set()
        context.try_shutdown()


def test_a_signal_is_answered_within_a_second_while_the_engine_compiles(start: Any) -> None:
    client = start(FAST, wait='configuring:', code=SLOW_NODE, client={'topics': ()})
    node = client.node_process
    assert client.status('device').message == 'configuring'
    assert client.set_parameters(speckle_size=3)[0].successful
    assert client.state() == 'configuring'
    node.wait_for_log('still compiling after', LIMIT)
    # It computes all the time: what a busy machine keeps from it does not count.
    before = cpu_seconds(node.process.pid)
    node.process.send_signal(signal.SIGINT)
    node.wait_for_log('shutting down', LIMIT)
    assert cpu_seconds(node.process.pid) - before < 1
    # Its matcher would go on for ever.
    assert node.process.wait(LIMIT) == 0
    assert 'Traceback' not in node.log


def test_a_lost_device_ends_the_process_with_an_error_status(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    client = start(FAST, code=LOST_NODE)
    pair = textured_pair(96, 64, 5)
    client.match(*pair)
    seen = client.reports
    client.send_pair(*map(client.image, pair))
    node = client.node_process
    assert node.process.wait(LIMIT) == 3
    assert 'the device has fallen off the bus' in node.log
    assert len(client.received['disparity']) == 1
    # The node's last word: one of every second may have come before it.
    assert 'device lost' in client.status('device', after=seen, level=2).message


@pytest.mark.parametrize(('parameters', 'arguments', 'words'), [
    ({'disparity_range': 1000}, [], 'disparity_range'),
    ({}, ['--params-file', '/no/such/file.yaml'], 'stereo_bp_node: ')])
def test_what_is_refused_at_the_start_is_one_line_and_an_exit_status(
        start_node: Any, parameters: dict[str, Any], arguments: list[str], words: str) -> None:
    node = start_node(parameters, *arguments, wait='')
    assert node.process.wait(LIMIT) == 2
    assert words in node.log
    assert 'Traceback' not in node.log


def test_help_needs_no_rclpy_and_a_start_without_it_says_what_is_missing(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    assert main(['-h', '--ros-args', '-p', 'preset:=road']) == 0
    assert 'usage: stereo_bp_node' in capsys.readouterr().out
    assert main([]) == 2
    line, = capsys.readouterr().err.splitlines()
    assert 'needs rclpy' in line


def test_a_start_that_fails_in_the_middle_says_why_and_can_be_tried_again(start: Any) -> None:
    override = 'qos_overrides./right/camera_info.subscription.reliability'
    client = start({**FAST, override: 'nonsense'}, wait='activating failed',
                   client={'topics': ()})
    assert 'nonsense' in client.log()
    status = client.status('device')
    assert status.level == 2
    assert 'activating failed' in status.message
    assert client.state() == 'inactive'
    assert client.image_publishers['left'].get_subscription_count() == 0
    assert not client.change_state('activate')
    assert client.state() == 'inactive'
    assert client.node_process.end() == 0


def test_names_and_remappings_are_ros_as_usual_and_mistakes_are_warned_of(
        start: Any, textured_pair: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / 'old.yaml'
    file.write_text('/stereo/disparity_node: {ros__parameters: {disparity_range: 16}}\n')
    topics = ('left/image_rect', 'right/image_rect', 'left/camera_info', 'right/camera_info',
              'disparity', 'depth', 'latency')
    names = ['__ns:=/robot', '__node:=depth_engine', *(f'{name}:=/{name}' for name in topics)]
    client = start(FAST, *(word for name in names for word in ('-r', name)), '--params-file',
                   str(file), code=REMAPPED_NODE, client={'node': '/robot/depth_engine'})
    client.match(*textured_pair(96, 64, 5))
    latency = client.result('latency', client.stamps()[-1])
    assert latency.status[0].name == '/robot/depth_engine: latency'
    log = client.log()
    assert 'preset:=road is a remapping; a parameter is --ros-args -p preset:=road' in log
    assert 'points2:=/mine is' not in log
    assert 'sets nothing here: its parameters are for /stereo/disparity_node' in log


def test_sim_time_is_the_clock_of_ages_stamps_and_silence(
        client: Any, textured_pair: Callable[..., Any]) -> None:
    from rosgraph_msgs.msg import Clock

    second = 10**9
    assert client.set_parameters(use_sim_time=True)[0].successful
    clock = client.node.create_publisher(Clock, '/clock', 10)
    client.wait_for_status('input', lambda s: 'nothing comes on /clock' in s.message)

    def set_clock(seconds: int) -> None:
        message = Clock()
        message.clock.sec = seconds

        def is_set(status: Any) -> bool:
            clock.publish(message)      # best effort
            return bool(status.stamp_ns == seconds * second)

        client.wait_for_status('input', is_set)

    for side in ('left', 'right'):
        client.send_info(side, client.info(side, 96, 64))
    left, right = (client.image(image) for image in textured_pair(96, 64, 5))
    client.wait_until(clock.get_subscription_count)
    set_clock(1000)
    client.send_pair(left, right, 1000 * second - second // 10)     # fresh in sim time
    message = client.result('latency', 1000 * second - second // 10)
    assert float(message.status[0].values[-1].value) == pytest.approx(100, abs=1)       # its age
    stale = client.counts()['dropped pairs: stale']
    client.send_pair(left, right, 999 * second)
    client.wait_until(lambda: client.counts()['dropped pairs: stale'] == stale + 1)
    # Stamps of /diagnostics are sim time; a clock that stands still lets nothing look silent.
    assert client.status('input').stamp_ns == 1000 * second
    time.sleep(1.2)
    assert 'nothing on' not in client.status('input').message
    set_clock(1003)
    client.wait_for_status('input', lambda s: 'nothing on /left/image_rect for' in s.message)
