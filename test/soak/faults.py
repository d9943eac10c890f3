"""The table of faults: what each does to a rig, and what is to come of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from test.node.client import Status
from test.node.processes import LIMIT
from test.soak.rig import MIN_WAIT, Rig, Violation, subscribing_process

#: Seconds between two announcements of a participant, the one thing of another that this end
#: hears.
ANNOUNCED = 3.0

#: What a fault does, until the context is left.
Lasting = Callable[[Rig, random.Random], contextlib.AbstractContextManager[None]]


def lasting(generator: Callable[..., Iterator[None]]) -> Callable[..., Lasting]:
    """Make ``f(rig, draw, ...)`` a context that is called in two steps, the others first."""
    context = contextlib.contextmanager(generator)
    return lambda *options, **named: lambda rig, draw: context(rig, draw, *options, **named)


class Span(NamedTuple):
    """While a fault lasted: places of the first and last frame.

    reports, since: the last report before, and the time of a steady clock.
    """

    first: int
    last: int
    reports: int
    since: float


#: What is missing that would show that a fault took place; '' = nothing.
Shown = Callable[[Rig, Span], str]


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    name, expects: in words, for people.
    lasting:  does it; undone when its context is left.
    rig:      which of the two it meets: 'front', or 'rear', which goes by a simulated clock.
    says:     status and words (a regular expression) by which the node names it, or None.
    once:     it is an event, told in one report.
    results:  whether frames sent meanwhile are published; None = some may be, all need not.
    frames:   sent while it lasts, at least.
    restarts: the node is another process afterwards.
    loses:    messages may be lost on the way: an end was not there all the time.
    beside:   may last beside another fault of the same rig, whose outcome it does not change.
    alone:    no other may last beside it.
    shown:    tells whether it has taken place, where nothing else does.
    needs:    returns why it cannot be tried on this machine, '' where it can.
    """

    name: str
    expects: str
    lasting: Lasting
    rig: str = 'front'
    says: tuple[str, str] | None = None
    once: bool = False
    results: bool | None = True
    frames: int = 30
    restarts: bool = False
    loses: bool = False
    beside: bool = False
    alone: bool = False
    shown: Shown = lambda rig, span: ''
    needs: Callable[[], str] = lambda: ''

    def is_named_in(self, report: Status) -> bool:
        """Whether this report of the status in ``says`` has its words."""
        return bool(self.says and re.search(self.says[1], report.message))


def results(**wanted: Any) -> Shown:
    """A result came of a pair that shows this."""
    def missing(rig: Rig, span: Span) -> str:
        shown = [one._asdict() for one in rig.ledger.shown_between(span.first, span.last)]
        return '' if any(wanted.items() <= one.items() for one in shown) else (
            f'no result has {wanted}')
    return missing


def told(text: str) -> Shown:
    """A value of the status of the input had this text."""
    def missing(rig: Rig, span: Span) -> str:
        status = rig.find_status('input', lambda status: any(
            text in value for value in status.values.values()), span.reports)
        return '' if status else f'no status has {text}'
    return missing


def sent_faster_than(rate: float) -> Shown:
    """Frames were sent at a rate, per second, if there was a core for who sends them."""
    def missing(rig: Rig, span: Span) -> str:
        sent = rig.ledger.rate_between(span.first, span.last)
        is_busy = rig.waits.since(span.since) > MIN_WAIT
        return '' if sent > rate or is_busy else f'{sent:.0f} frames a second were sent'
    return missing


@lasting
def camera(rig: Rig, draw: random.Random, **settings: Any) -> Iterator[None]:
    """The camera has these settings."""
    rig.camera.set(**settings)
    yield


@lasting
def parameters(rig: Rig, draw: random.Random, *choices: tuple[str, Any]) -> Iterator[None]:
    """One of these parameters has its value, and is then what it was."""
    name, value = draw.choice(choices)
    before = rig.get_parameters(name)[name]
    _set(rig, name, value)
    yield
    _set(rig, name, before)


def _set(rig: Rig, name: str, value: Any) -> None:
    result, = rig.set_parameters(**{name: value})
    if not result.successful:
        raise Violation(f'{name} {value} was refused: {result.reason}')
    if (current := rig.get_parameters(name)[name]) != value:
        raise Violation(f'{name} was set to {value}, and is {current}')
    if name == 'disparity_range':
        value = f'0 to {value - 1}'
    if key := {'stereo_algorithm': 'algorithm', 'disparity_range': 'disparities'}.get(name):
        rig.wait_for_status('device', lambda status: status.values.get(key) == value)


@lasting
def refused_parameters(rig: Rig, draw: random.Random) -> Iterator[None]:
    """Values that are no values are refused, with the reason."""
    for name, value in (('disparity_range', 0), ('correlation_window_size', 4),
                        ('uniqueness_ratio', -1.0), ('stereo_algorithm', 'magic')):
        result, = rig.set_parameters(**{name: value})
        if result.successful or not result.reason:
            raise Violation(f'{name} {value!r} was not refused with a reason')
    yield


@lasting
def transitions(rig: Rig, draw: random.Random, there: Sequence[str], back: Sequence[str]
                ) -> Iterator[None]:
    """The node goes through these, and afterwards through the others."""
    def go(names: Sequence[str]) -> None:
        for name in names:
            if not rig.change_state(name):
                raise Violation(f'{name} failed')
    go(there)
    yield
    go(back)
    rig.wait_until_connected()


@lasting
def no_subscribers(rig: Rig, draw: random.Random) -> Iterator[None]:
    """Nobody wants a result."""
    rig.camera.set(running=False)
    before = rig.totals()
    # DDS counts one that was killed until it is missed, and the node has heard more of it.
    if rig.node.count_subscribers('disparity') > 1:
        rig.wait_until(lambda: rig.node.count_subscribers('disparity') == 1, LIMIT,
                       'the end of other subscribers')
        time.sleep(ANNOUNCED)
    rig.stop_listening()
    try:
        rig.wait_until_known()
        rig.camera.set()
        yield
        # A frame that is still on its way would have a subscriber again.
        rig.wait_until_done(before)
    finally:
        rig.listen()
    rig.wait_until(lambda: rig.node.count_publishers('disparity'))
    rig.wait_until_known()


@lasting
def hanging_subscriber(rig: Rig, draw: random.Random, dies: bool) -> Iterator[None]:
    """A reliable subscriber receives and is stopped; it goes on, or is killed so."""
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(subscribing_process(rig))
        _stop(process.pid)
        if dies:
            rig.wait_for_frames(20)
            stack.close()
            yield
            return
        yield
        if not is_stopped(process.pid):
            raise Violation('the subscriber does not hang')
        process.send_signal(signal.SIGCONT)


@lasting
def misfit_subscribes(rig: Rig, draw: random.Random) -> Iterator[None]:
    """A subscription asks for more than the publisher offers."""
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from stereo_msgs.msg import DisparityImage
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    other = rig.node.create_subscription(DisparityImage, 'disparity', print, latched)
    try:
        yield
    finally:
        rig.node.destroy_subscription(other)


@lasting
def namesake(rig: Rig, draw: random.Random) -> Iterator[None]:
    """Another node has the name of this one."""
    import rclpy
    other = rclpy.create_node('stereo_bp', context=rig.context, namespace=rig.namespace,
                              start_parameter_services=False)
    try:
        yield
    finally:
        other.destroy_node()


@lasting
def stopped(rig: Rig, draw: random.Random) -> Iterator[None]:
    """The process is stopped, and goes on."""
    _stop(rig.process.pid)
    before, place = rig.reports, rig.ledger.sent
    yield
    # One may have been on its way.
    if not is_stopped(rig.process.pid) or rig.reports > before + 1:
        raise Violation('the node goes on while it is stopped')
    limit = rig.parameters['max_latency']
    # It has seen none of them before it goes on.
    if not rig.ledger.forbid(place, time.monotonic() - limit,
                             f'it was older than {limit} s when the node went on'):
        raise Violation('the node was stopped for too short a time')
    rig.process.send_signal(signal.SIGCONT)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + LIMIT
    while not is_stopped(pid):
        if time.monotonic() > end:
            raise Violation(f'process {pid} does not stop')
        time.sleep(0.001)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped all of a process."""
    states = set()
    for path in pathlib.Path(f'/proc/{pid}/task').glob('*/stat'):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            states.add(path.read_text(encoding='utf-8').rpartition(')')[2].split()[0])
    return states == {'T'}


@lasting
def ended(rig: Rig, draw: random.Random, number: signal.Signals, status: int) -> Iterator[None]:
    """The process ends by a signal with an exit status, and another one is started."""
    got = rig.kill(number)
    if got != status:
        raise Violation(f'the exit status after {number.name} is {got}, not {status}')
    yield
    rig.start()


@lasting
def clock_is_silent(rig: Rig, draw: random.Random) -> Iterator[None]:
    """Time goes on without a message of /clock."""
    rig.clock.silent = True
    try:
        yield
    finally:
        rig.clock.silent = False
    rig.wait_until_known()


@lasting
def paused(rig: Rig, draw: random.Random) -> Iterator[None]:
    """The simulated time stands still, and nothing is sent."""
    rig.clock.frozen = True
    try:
        rig.camera.set(running=False)
        for status in (rig.status('input') for _ in range(3)):
            if status.level:
                raise Violation(f'a pause is called wrong: {status.message}')
        at = rig.clock.now_ns()
        yield
        if rig.clock.now_ns() != at:
            raise Violation('the simulation goes on')
    finally:
        rig.clock.frozen = False
    rig.wait_until_known()


@lasting
def jump(rig: Rig, draw: random.Random, least: float, most: float) -> Iterator[None]:
    """/clock jumps by some seconds, and the camera with it; back from the last image."""
    rig.camera.set(running=False)
    begun = time.monotonic()
    rig.settled()
    seconds = draw.uniform(least, most)
    # Simulated time has gone on: a shorter jump back would take no stamp back.
    before = rig.clock.now_ns()
    rig.clock.jump(seconds - (time.monotonic() - begun) if seconds < 0 else seconds)
    if abs(rig.clock.now_ns() - before) < min(abs(least), abs(most)) * 1e9:
        raise Violation('the simulated clock has not jumped')
    rig.wait_until_known()
    rig.camera.set()
    yield


NAMED = 'Nothing is published. The cause is named until it ends.'
ON_TIME = 'Results go on.'

CAMERA_FAULTS = (
    Fault('the camera stops', NAMED, camera(running=False), results=False, frames=0,
          says=('input', r'nothing on \S*/left/image_rect for')),
    Fault('one camera stops', NAMED, camera(sides=('right',)), results=False,
          says=('pairing', 'no left images')),
    Fault('images are lost', 'Complete pairs are published, and the losses are named.',
          camera(losing='left'), says=('pairing', 'left images do not arrive'), frames=60),
    Fault('pairs come ten times as fast', 'Results go on; what is superseded is counted.',
          camera(rate=200.0), frames=300, shown=sent_faster_than(30.0)),
    Fault('stamps stand still', NAMED, camera(stands=True), results=False,
          says=('pairing', 'stamps stand still')),
    Fault('stamps are zero', NAMED, camera(zero=True), results=False,
          says=('pairing', 'bad input')),
    Fault('stamps are behind', NAMED, camera(behind=(10.0, 10.0)), results=False,
          says=('input', 'max_input_age')),
    Fault('stamps are ahead', NAMED, camera(behind=(-10.0, -10.0)), results=False,
          says=('input', 'ahead of this clock')),
    Fault('the stamps of one side are behind', NAMED, camera(behind=(0.0, 10.0)), results=False,
          says=('pairing', 'the stamps of right images are')),
    Fault('the size changes', 'Results go on in the new size.', camera(width=144, height=80),
          shown=results(width=144)),
    Fault('the encoding changes', ON_TIME, camera(encoding='rgb8'), frames=60,
          shown=told('rgb8')),
    Fault('the encoding is unknown', NAMED, camera(encoding='thermal'), results=False,
          says=('input', 'unknown encoding')),
    Fault('images are cut short', NAMED, camera(short=True), results=False,
          says=('input', 'short data')),
    Fault('the calibration changes', 'Each result has the calibration of its images.',
          camera(focal=310.0), shown=results(focal=310.0)),
    Fault('the baseline is zero', NAMED, camera(baseline=0.0), results=False,
          says=('input', 'zero baseline')),
    Fault('camera_info is of another size', NAMED, camera(info_width=80), results=False,
          says=('input', 'camera_info size')),
    Fault('camera_info stops', 'Results go on with the last one, and that is said.',
          camera(infos=False), says=('input', 'its last camera_info is used')),
)

NODE_FAULTS = (
    Fault('a parameter changes', ON_TIME, parameters(
        ('uniqueness_ratio', 5.0), ('speckle_size', 20), ('disp12_max_diff', 2),
        ('texture_threshold', 10), ('median_window_size', 3), ('jump_threshold', 2.0)),
        beside=True),
    Fault('a parameter calls for a new engine', 'Results go on; the old engine serves until the '
          'new one is built.', parameters(
              ('disparity_range', 48), ('stereo_algorithm', 'bp'), ('num_threads', 1)),
          beside=True),
    Fault('a parameter is refused', ON_TIME, refused_parameters(), beside=True),
    Fault('deactivate and activate', 'Nothing is published meanwhile.',
          transitions(['deactivate'], ['activate']), results=False, loses=True,
          says=('input', '^inactive$')),
    Fault('cleanup and configure', 'Nothing is published meanwhile.',
          transitions(['deactivate', 'cleanup'], ['configure', 'activate']), results=False,
          loses=True, says=('input', '^unconfigured$')),
    Fault('nobody subscribes', 'Nothing is computed, and the node says that it is idle.',
          no_subscribers(), results=False, loses=True, alone=True,
          says=('input', '^idle: no subscribers$')),
    Fault('a subscriber hangs', ON_TIME, hanging_subscriber(dies=False), frames=60, beside=True),
    Fault('a subscriber hangs and dies', ON_TIME, hanging_subscriber(dies=True), beside=True),
    Fault('a subscriber does not fit', ON_TIME, misfit_subscribes(),
          says=('input', 'incompatible QoS')),
    Fault('a second node has the name', ON_TIME, namesake(),
          says=('device', '2 nodes are named')),
    Fault('the node is stopped for a while', 'Nothing old is published afterwards.', stopped(),
          results=None, frames=80),
    Fault('the node is killed', 'The next one publishes.', ended(signal.SIGKILL, -signal.SIGKILL),
          results=False, restarts=True),
    Fault('the node is interrupted', 'It ends with status 0, and the next one publishes.',
          ended(signal.SIGINT, 0), results=False, restarts=True),
)

CLOCK_FAULTS = (
    Fault('/clock falls silent', NAMED, clock_is_silent(), rig='rear', results=None,
          says=('input', 'ahead of this clock'), frames=40),
    Fault('the simulation is paused', 'Nothing is published, and nothing is called wrong.',
          paused(), rig='rear', results=False, frames=0),
    Fault('the simulation starts over', 'Results go on, and the jump is counted.',
          jump(-60.0, -5.0), rig='rear', says=('input', 'stamps went back'), once=True),
    Fault('/clock jumps ahead', ON_TIME, jump(5.0, 300.0), rig='rear'),
    Fault('the second camera is killed', 'The first camera is not disturbed.',
          ended(signal.SIGKILL, -signal.SIGKILL), rig='rear', results=False, restarts=True),
)
