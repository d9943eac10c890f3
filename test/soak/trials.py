"""One fault after another: inject, expect, undo, recover, and count."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
import traceback
from collections.abc import Iterator, Sequence

from test.node.client import Status
from test.soak.faults import CAMERA_FAULTS, CLOCK_FAULTS, NODE_FAULTS, Fault, Span
from test.soak.ledger import transport_losses
from test.soak.machine_faults import MACHINE_FAULTS
from test.soak.rig import Rig, Violation, usage
from test.soak.row_faults import ROW_FAULTS

FAULTS = (*CAMERA_FAULTS, *NODE_FAULTS, *CLOCK_FAULTS, *MACHINE_FAULTS, *ROW_FAULTS)

#: Frames after the end of a fault, of which one at least is published.
RECOVERY = 2

#: Reports, of which there is one a second, within which the words of a fault come and go. A second
#: that threads have waited for a core allows one more, up to ``SLACK``.
NAMED, GONE, SLACK = 3, 2, 2

#: Rounds from one that ends processes to the next: only long lives tell what grows.
RESTART_EVERY = 10

#: Part of the faults that another one lasts beside.
BESIDE = 0.3

#: Frames sent to the other camera, after which one of them must have been published.
UNDISTURBED = 40


@dataclasses.dataclass
class Trial:
    """What became of one fault.

    beside:    another fault that lasted longer than this one, or ''.
    at, seconds: since the beginning, and until the next one.
    told:      the status in which it was named; '' where nothing is expected.
    named:     reports until that.
    recovery:  frames until the first result; reports: until the words had gone.
    dropped:   images and pairs by reason, of both sides.
    lost:      messages that never arrived, and had nobody to arrive at.
    """

    number: int
    fault: str
    rig: str
    at: float
    beside: str = ''
    seconds: float = 0.0
    told: str = ''
    named: int = 0
    recovery: int = 0
    reports: int = 0
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    lost: dict[str, int] = dataclasses.field(default_factory=dict)
    violations: list[str] = dataclasses.field(default_factory=list)


def deal(seed: int, faults: Sequence[Fault]) -> Iterator[Fault]:
    """The faults in random order, all of them before one comes again, without an end.

    Those that end a process come in every ``RESTART_EVERY``-th round alone.
    """
    random_ = random.Random(seed)
    number = 0
    while True:
        hand = [fault for fault in faults
                if not fault.restarts or not number % RESTART_EVERY or len(faults) == 1]
        random_.shuffle(hand)
        yield from hand
        number += 1


class Soak:
    """Two rigs and what was found.

    :param rigs: 'front' and 'rear', started.
    :param faults: that may be tried.
    """

    def __init__(self, rigs: dict[str, Rig], seed: int, faults: Sequence[Fault]) -> None:
        self.rigs, self.seed, self._faults = rigs, seed, faults
        self.trials: list[Trial] = []
        #: Of each node, by process: hours since the beginning, and its usage at rest.
        self.lives: dict[str, list[list[tuple[float, dict[str, float]]]]] = {
            name: [] for name in rigs}
        self._pids: dict[str, int] = {}
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start

    @property
    def violations(self) -> list[tuple[Trial, str]]:
        """All of them, each with its trial."""
        return [(trial, text) for trial in self.trials for text in trial.violations]

    def attempt(self, fault: Fault) -> Trial:
        """Try one fault, whatever comes of it; the rigs are healthy or new afterwards."""
        number = len(self.trials)
        trial = Trial(number, fault.name, fault.rig, round(self.elapsed, 1))
        self.trials.append(trial)
        rig = self.rigs[fault.rig]
        try:
            self._attempt(fault, rig, trial, random.Random(f'{self.seed} {number}'))
        except (Violation, AssertionError) as violation:
            trial.violations.append(str(violation))
        except Exception as error:
            trial.violations.append(f'{type(error).__name__}: {error}')
            traceback.print_exc()
        for one in self.rigs.values():
            trial.violations += [f'{one.name}: {text}' for text in one.ledger.take_violations()]
        if trial.violations:
            self._mend(rig, trial)
        trial.seconds = round(self.elapsed - trial.at, 1)
        return trial

    def _attempt(self, fault: Fault, rig: Rig, trial: Trial, draw: random.Random) -> None:
        other = next(one for one in self.rigs.values() if one is not rig)
        for one in self.rigs.values():
            if one.before is None:
                one.camera.set(running=False)
                one.before = one.totals()
        for one in self.rigs.values():
            one.camera.set()
        _wait_until_healthy(fault, rig)
        sent_elsewhere, before = other.ledger.sent, rig.reports
        sent, since = rig.ledger.sent, time.monotonic()
        with contextlib.ExitStack() as ending:
            if companion := self._companion(fault, draw):
                trial.beside = companion.name
                ending.enter_context(companion.lasting(rig, draw))
            ending.enter_context(fault.lasting(rig, draw))
            begun, entered = rig.ledger.sent, rig.reports
            named = wait_until_named(fault, rig, trial, before)
            if named and not fault.once:
                check_time(rig, trial, named.number - entered, since)
            rig.wait_for_frames(max(0, fault.frames - (rig.ledger.sent - begun)))
            if fault.results and not rig.wait_for_result(begun):
                raise Violation('nothing was published while it lasted')
            if named and not fault.once:
                check_lasting(fault, rig, named)
            rig.camera.set(running=False)
            ended = rig.ledger.sent
        if missing := fault.shown(rig, Span(begun + 1, ended, before, since)):
            raise Violation(f'nothing shows that it took place: {missing}')
        if fault.results is False and (frames := rig.ledger.shown_between(begun + 1, ended)):
            raise Violation(f'{len(frames)} results of frames that were to have none')
        trial.recovery = rig.frames_to_recover()
        if trial.recovery > RECOVERY:
            raise Violation(f'recovery took {trial.recovery} frames')
        recovered = rig.reports
        rig.camera.set()
        if fault.says:
            wait_until_gone(fault, rig, trial, recovered)
        count = other.ledger.sent - sent_elsewhere
        if count >= UNDISTURBED and not other.ledger.shown_between(
                sent_elsewhere + 1, other.ledger.sent):
            raise Violation(f'{other.name}: {count} frames sent, and none published')
        # While an end was not there nothing could arrive; all else must.
        self.rest(rig, trial, ended - sent if fault.loses else 0)

    def _companion(self, fault: Fault, draw: random.Random) -> Fault | None:
        # What ends processes takes those with it that listen to them.
        if fault.restarts or fault.alone or fault.beside or draw.random() >= BESIDE:
            return None
        candidates = [one for one in self._faults if one.beside]
        return draw.choice(candidates) if candidates else None

    def rest(self, rig: Rig, trial: Trial, may_lose: int) -> None:
        """Nothing is sent: everything must add up, and memory is comparable.

        :param may_lose: messages of each kind that this rig may have lost.
        """
        for one in self.rigs.values():
            one.camera.set(running=False)
        for one in self.rigs.values():
            now, before = one.totals(), one.before
            if before is not None:
                impossible, lost = transport_losses(before, now)
                trial.lost |= {f'{one.name} {name}': count for name, count in lost.items()}
                allowed = may_lose if one is rig else 0
                impossible += [f'{count} {name} have not arrived'
                               for name, count in lost.items() if count > allowed]
                trial.violations += [f'{one.name}: {text}' for text in impossible]
            if one is rig:
                trial.dropped = {
                    key.removeprefix('dropped '): change for key, value in now.node.items()
                    if key.startswith('dropped ')
                    and (change := value - (before.node[key] if before else 0))}
            one.before = now
            if one.process.pid != self._pids.get(one.name):
                self._pids[one.name] = one.process.pid
                self.lives[one.name].append([])
            self.lives[one.name][-1].append((self.elapsed / 3600, usage(one.process.pid)))

    @staticmethod
    def _mend(rig: Rig, trial: Trial) -> None:
        """After a violation, go on with a new process."""
        try:
            rig.kill()
            rig.start()
        except Exception as error:
            trial.violations.append(f'the node cannot be started again: {error}')
            raise


def _wait_until_healthy(fault: Fault, rig: Rig) -> None:
    rig.wait_for_status('input', lambda status: not status.level)
    if fault.says:
        rig.wait_for_status(fault.says[0], lambda status: not fault.is_named_in(status))
    if not rig.wait_for_result(rig.ledger.sent):
        raise Violation('nothing is published before the fault')


def wait_until_named(fault: Fault, rig: Rig, trial: Trial, before: int) -> Status | None:
    """Wait until the fault is named, and for the next report, which names it, too."""
    if not fault.says:
        if not fault.frames:
            for _ in range(3):
                rig.status('pairing')
        return None
    name, words = fault.says
    status = rig.wait_for_status(name, fault.is_named_in, after=before if fault.once else None)
    if not fault.once and not fault.is_named_in(following := rig.status(name)):
        raise Violation(f'"{words}" was told once, but the fault lasts: {following.message!r}')
    trial.told = status.message
    return status


def check_time(rig: Rig, trial: Trial, reports: int, since: float) -> None:
    """:raises Violation: the fault was named too late."""
    trial.named = max(0, reports)
    if trial.named > NAMED + min(SLACK, int(rig.waits.since(since))):
        raise Violation(f'it took {trial.named} reports to say "{trial.told}"')


def check_lasting(fault: Fault, rig: Rig, named: Status) -> None:
    """:raises Violation: a report since it was named has its words no more."""
    without = rig.find_status(fault.says[0], lambda status: not fault.is_named_in(status),
                              named.number)
    if without is not None:
        raise Violation(f'"{fault.says[1]}" was told, but no more while it lasted: '
                        f'{without.message!r}')


def wait_until_gone(fault: Fault, rig: Rig, trial: Trial, recovered: int) -> None:
    """Wait for a report without its words, behind the first after the recovery."""
    since = time.monotonic()
    status = rig.wait_for_status(
        fault.says[0], lambda status: not fault.is_named_in(status), after=recovered)
    trial.reports = status.number - recovered
    if trial.reports > GONE + min(SLACK, int(rig.waits.since(since))):
        raise Violation(f'"{fault.says[1]}" took {trial.reports} reports to go')
