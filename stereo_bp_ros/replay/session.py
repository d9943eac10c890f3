"""One measured run: the node, the player and the recorder, each where it belongs.

The node and the player are processes of their own, as in a vehicle; results come back over DDS
into a bag. Every process has a time limit and is stopped by its own id.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import posixpath
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from stereo_bp_ros.config.mappings import stamp_tolerance_s
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.replay import frames
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.system import atomic_files, transport

if TYPE_CHECKING:
    from stereo_bp_ros.replay.recorder import Recorder

START_LIMIT_S = 180.0
STOP_LIMIT_S = 30.0

#: Seconds that the player waits for the subscribers of all topics; the node is active by then.
_MATCH_LIMIT_S = 60.0

#: Seconds without a change after which a frame that has not arrived is lost, and seconds that
#: the last answers are waited for at most.
QUIET_S, SETTLE_LIMIT_S = 5.0, 60.0

#: Messages that wait in every queue of a run that is to lose nothing: 5 s of 20 Hz.
QUEUE_DEPTH = 100

#: Namespaces of the images, by side.
_CAMERAS = {side: side for side in SIDES}

#: A warning in the log of a node: '[WARN] [time] [node]: sentence'.
_WARNING = re.compile(r'\[WARN\] \[[0-9.]+\] (\[.+?\]: .+)')

#: Called with the stage of a run and the number of disparity images recorded so far.
Progress = Callable[[str, int], None]


@dataclasses.dataclass(frozen=True)
class SessionResult:
    """What a run left: files in its folder, and how the processes ended.

    sent: what the player printed, with ``pairs``, ``messages``, ``seconds``, ``worst_delay_ms``,
        ``waited_s`` and ``skipped_s``.
    recorded: messages that reached the recorder, per topic.
    frames: what became of every frame, as ``frames.account`` gives it.
    bag: rosbag2 folder with disparity, latency and /diagnostics.
    node_status: exit status of the node after SIGINT, 0 when all is well or others started it.
    ready_s: how long the node was waited for, seconds.
    settings: matcher settings in force when the run began; empty where they are unknown.
    tolerance_s: how far the node lets the stamps of a pair be apart, seconds; None = unknown.
    device: what computed, ``frames.DEVICE``; empty where it is unknown.
    is_lossless: whether the node had ``reliable_overrides`` for certain: this package started it.
    """

    sent: dict[str, Any]
    recorded: dict[str, int]
    frames: dict[str, Any]
    bag: pathlib.Path
    node_status: int
    ready_s: float
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerance_s: float | None = None
    is_lossless: bool = False


def private_environment() -> dict[str, str]:
    """Environment for ROS processes that talk to each other and to nobody else.

    What the user has set stays: discovery range, domain, and Fast DDS profile.
    """
    environment = dict(os.environ)
    environment.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    environment.setdefault('ROS_DOMAIN_ID', str(_free_domain()))
    transport.prepare(environment)
    return environment


def _free_domain() -> int:
    """A domain at random of those in which nobody on this machine is, if there is any."""
    domains = random.SystemRandom().sample(range(1, 101), 100)
    bound: set[int] = set()
    for name in ('udp', 'udp6'):
        with contextlib.suppress(OSError, ValueError, IndexError):
            lines = pathlib.Path('/proc/net', name).read_text('ascii').splitlines()[1:]
            bound |= {int(line.split()[1].rpartition(':')[2], 16) for line in lines}
    # Participants of a domain have ports of 250 by the rule of RTPS.
    busy = {(port - 7400) // 250 for port in bound}
    return next((one for one in domains if one not in busy), domains[0])


def node_command() -> list[str]:
    """How to start the node: its executable in a sourced workspace, else this interpreter."""
    for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        executable = pathlib.Path(prefix) / 'lib/stereo_bp_ros/stereo_bp_node'
        if prefix and executable.is_file():
            return [str(executable)]
    return [sys.executable, '-m', 'stereo_bp_ros.node.main']


def run_session(source: pathlib.Path, directory: pathlib.Path, parameters: Mapping[str, Value],
                *, topics: StereoTopics | None = None, player_options: tuple[str, ...] = (),
                progress: Progress | None = None) -> SessionResult:
    """Start the node, play ``source`` to it, record what it answers, and stop it.

    :param source: bag or folder that ``open_source`` opens.
    :param directory: gets ``node.yaml`` (its parameters), ``node.log``, ``player.log`` and the
        bag ``output``; it must have none of them yet.
    :param parameters: the node's; ``image_transport`` follows the source where it is not set.
    :param topics: those of a bag that are not to be found by their names.
    :param player_options: further ones of ``stereo_bp replay``.
    :param progress: called with 'ready', 'playing' or 'stopping' and the messages recorded.
    :raises StereoError: a process did not start, or ended before its time; names the log.
    """
    environment = _own_environment()
    compressed = open_source(source, topics=topics).compressed
    transport = {'image_transport': 'compressed'} if compressed else {}
    parameter_file = directory / 'node.yaml'
    atomic_files.write_text(parameter_file, yaml.safe_dump(
        {'/**': {'ros__parameters': {**transport, **parameters, **reliable_overrides(),
                                     'use_sim_time': True}}}, sort_keys=False))
    command = [*node_command(), '--ros-args', '--params-file', str(parameter_file)]
    return dataclasses.replace(
        _run(command, environment, source, directory, topics=topics,
             player_options=player_options, progress=progress), is_lossless=True)


def run_command(source: pathlib.Path, directory: pathlib.Path, command: Sequence[str], *,
                topics: StereoTopics | None = None, player_options: tuple[str, ...] = (),
                ros_arguments: tuple[str, ...] = (), progress: Progress | None = None
                ) -> SessionResult:
    """As ``run_session``, with a command that starts the node, for instance ``ros2 launch``.

    It and all that it has started are stopped at the end, as by Ctrl-C. The node has to live in
    the time of the source (``use_sim_time``).

    :raises StereoError: there is no such command, or as ``run_session``.
    """
    environment = _own_environment()
    try:
        return dataclasses.replace(
            _run(command, environment, source, directory, topics=topics, is_group=True,
                 player_options=player_options, ros_arguments=ros_arguments, progress=progress),
            node_status=0)      # of what the command makes of Ctrl-C
    except OSError as error:
        if error.filename != command[0]:
            raise
        raise StereoError(f'{command[0]} cannot be started: {error.strerror}') from error


def warnings_of(log: pathlib.Path) -> list[str]:
    """What a node has warned of in its log, every sentence once, in the order of the log."""
    if not log.is_file():
        return []
    return list(dict.fromkeys(_WARNING.findall(log.read_text('utf-8', 'replace'))))


def _own_environment() -> dict[str, str]:
    """``private_environment``, for this process, too."""
    environment = private_environment()
    os.environ.update({name: environment[name] for name in environment
                       if name.startswith(('ROS_', 'FAST'))})
    return environment


def _run(command: Sequence[str], environment: Mapping[str, str], source: pathlib.Path,
         directory: pathlib.Path, *, is_group: bool = False, **options: Any) -> SessionResult:
    """:param is_group: whether the command may start others, which are stopped with it."""
    with _process(command, directory / 'node.log', environment,
                  start_new_session=is_group) as node:
        return record_session(source, directory, node=node, environment=environment, **options)


def record_session(source: pathlib.Path, directory: pathlib.Path, *,
                   topics: StereoTopics | None = None,
                   node: subprocess.Popen[str] | None = None,
                   environment: Mapping[str, str] | None = None,
                   player_options: tuple[str, ...] = (), ros_arguments: tuple[str, ...] = (),
                   progress: Progress | None = None) -> SessionResult:
    """Play ``source`` with /clock to a node and record what it answers, as ``run_session``.

    :param node: the node's process, which is stopped at the end; None = one that others started.
    :param ros_arguments: --ros-args and what follows, for the player and the recorder.
    :raises StereoError: no node is active in time, or the node or the player ends too soon.
    :raises ValueError: the bag ``output`` cannot be written.
    """
    import rclpy

    from stereo_bp_ros.replay.recorder import SYNC, Recorder

    report = progress or (lambda stage, count: None)
    images = open_source(source, topics=topics).image_topic('left')
    context = rclpy.Context()
    try:
        rclpy.init(context=context, args=list(ros_arguments))
    except RuntimeError as error:
        raise StereoError(f'ROS refuses {" ".join(ros_arguments)}: {error}') from error
    try:
        ros_node = rclpy.create_node('stereo_bp_recorder', context=context)
        recorder = Recorder(ros_node, directory / 'output', QUEUE_DEPTH)
        try:
            start = time.perf_counter()
            log = directory / 'node.log' if node else None
            _wait_until_active(ros_node, images, recorder, node, log)
            ready_s = time.perf_counter() - start
            settings = recorder.settings_of_publisher('disparity')
            report('ready', 0)
            sent = _play([str(source), '--clock', '--json', '--wait', f'{_MATCH_LIMIT_S:g}',
                          *player_options,
                          *(topics.options() if topics else ()), *ros_arguments],
                         directory, environment, recorder, node, report)
            report('stopping', recorder.counts['disparity'])
            found = _settled_frames(recorder, sent['messages'])
            status = _stop(node, directory / 'node.log') if node else 0
        finally:
            recorder.close()
    finally:
        rclpy.try_shutdown(context=context)
    sync = {name: settings.pop(name) for name in SYNC if name in settings}
    return SessionResult(sent, dict(recorder.counts), found, directory / 'output', status,
                         ready_s, settings, recorder.device,
                         stamp_tolerance_s(sync) if sync else None)


def reliable_overrides(namespace: str = '/', *, cameras: Mapping[str, str] = _CAMERAS,
                       image: str = 'image_rect', depth: int = QUEUE_DEPTH) -> dict[str, Value]:
    """Parameters of the node for runs that lose nothing.

    Reliable and seconds deep: images that have arrived wait here for a node that does not come to
    them, and a full queue drops the oldest one, reliable or not.

    :param namespace: the node's, such as '/robot': parameters are named by resolved topics.
    :param cameras: namespaces of the images by side, in the node's unless they begin with '/'.
    :param image: what the topics of images are named, image_raw with ``rectify``.
    :param depth: messages that wait in every queue.
    """
    def policies(*names: str) -> str:
        return 'qos_overrides.' + posixpath.join('/', namespace, *names)

    images = {f'{policies(cameras[side], topic)}.subscription.{policy}': value
              for side in SIDES
              for topic in (image, f'{image}/compressed', 'camera_info')
              for policy, value in (('reliability', 'reliable'), ('depth', depth))}
    # A result without its latency is not judged.
    results = {f'{policies(topic)}.publisher.depth': depth
               for topic in ('disparity', 'latency')}
    return {**images, **results}


@contextlib.contextmanager
def _process(command: Sequence[str], log: pathlib.Path, environment: Mapping[str, str],
             start_new_session: bool = False, **options: Any
             ) -> Iterator[subprocess.Popen[str]]:
    """A child process that never outlives the block; its output goes into ``log``.

    :param start_new_session: whether it leads a group, of which none outlives the block either.
    """
    with open(log, 'w', encoding='utf-8') as file:
        options.setdefault('stdout', file)
        child = subprocess.Popen(command, stderr=file, env=dict(environment), text=True,
                                 stdin=subprocess.DEVNULL,
                                 start_new_session=start_new_session, **options)
        try:
            yield child
        finally:
            if start_new_session:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            if child.poll() is None:
                child.kill()
                child.wait()


def _play(options: list[str], directory: pathlib.Path, environment: Mapping[str, str] | None,
          recorder: Recorder, node: subprocess.Popen[str] | None,
          report: Callable[[str, int], None]) -> dict[str, Any]:
    command = [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'replay', *options]
    with _process(command, directory / 'player.log', environment or os.environ,
                  stdout=subprocess.PIPE) as player:
        while player.poll() is None:
            recorder.check()
            _check_running(node, directory / 'node.log')
            report('playing', recorder.counts['disparity'])
            time.sleep(0.1)
        assert player.stdout is not None
        output = player.stdout.read()
        if player.returncode or not output:     # one that was interrupted has none
            raise StereoError(f'the player ended with status {player.returncode}; see '
                              f'{directory / "player.log"}')
        sent: dict[str, Any] = json.loads(output)
        return sent


def _wait_until_active(ros_node: Any, image_topic: str, recorder: Recorder,
                       node: subprocess.Popen[str] | None, log: pathlib.Path | None) -> None:
    """The node subscribes to images when it is activated, and publishes from then on.

    Its counters, which other players may have raised before, are to be recorded first. A node of
    the recorder's namespace that cannot become active is waited for no longer.
    """
    namespace = ros_node.get_namespace()
    images, results = (ros_node.resolve_topic_name(topic)
                       for topic in (image_topic, 'disparity'))
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        recorder.check()
        if (ros_node.count_subscribers(images) and ros_node.count_publishers(results)
                and recorder.first):
            return
        _check_running(node, log)
        if failure := frames.failure_in(namespace, recorder.failures):
            raise StereoError(failure + (f'; see {log}' if log else ''))
        if time.monotonic() > deadline:
            hint = f'see {log}' if log else (
                f'nobody subscribes to {images}' if not ros_node.count_subscribers(images)
                else f'nobody publishes {results}')
            raise StereoError(f'the node was not active after {START_LIMIT_S:g} s; {hint}')
        time.sleep(0.05)


def _check_running(node: subprocess.Popen[str] | None, log: pathlib.Path | None) -> None:
    if node is not None and node.poll() is not None:
        raise StereoError(f'the node ended with status {node.returncode}; see {log}')


def _stop(node: subprocess.Popen[str], log: pathlib.Path) -> int:
    if os.getpgid(node.pid) == node.pid:        # as Ctrl-C in its terminal
        os.killpg(node.pid, signal.SIGINT)
    else:
        node.send_signal(signal.SIGINT)
    try:
        return node.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise StereoError(f'the node did not end after SIGINT; see {log}') from error


def _settled_frames(recorder: Recorder, sent: Mapping[str, int]) -> dict[str, Any]:
    """What became of every frame, once that is final or has been waited for long enough.

    :param sent: messages that the player published, by topic.
    """
    images = {side: sum(count for topic, count in sent.items()
                        if topic.startswith(f'{side}/image')) for side in SIDES}
    assert recorder.first is not None
    before = recorder.first.counters
    settling = frames.Settling(images, before, QUIET_S)
    seen, deadline = recorder.last, time.monotonic() + SETTLE_LIMIT_S
    while True:
        recorder.check()
        told, recorded = recorder.last, recorder.counts['disparity']
        assert told is not None
        # The latency of a frame follows its disparity.
        is_over = told is not seen and settling.is_over(
            told.at_s, told.counters, min(recorded, recorder.counts['latency']))
        if is_over or time.monotonic() > deadline:
            return frames.account(images, recorded, before, told.counters)
        seen = told
        time.sleep(0.05)
