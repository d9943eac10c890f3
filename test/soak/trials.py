"""One fault after another: inject, expect, undo, recover, and count."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from test.soak.faults import CAMERA_FAULTS, CLOCK_FAULTS, NODE_FAULTS, Fault
from test.soak.ledger import transport_losses, unaccounted
from test.soak.machine_faults import MACHINE_FAULTS
from test.soak.rig import Report, Rig, Violation, usage

FAULTS = (*CAMERA_FAULTS, *NODE_FAULTS, *CLOCK_FAULTS, *MACHINE_FAULTS)

#: Frames after the end of a fault, of which one at least is published.
RECOVERY = 2

#: Reports, of which there is one a second, within which the words of a fault go, and how many more
#: are allowed on a machine that does other work.
GONE, SLACK = 2, 2

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
    recovery:  frames until the first result; reports: until the words had gone.
    dropped:   images and pairs by reason, of both sides.
    lost:      messages that never arrived.
    """

    number: int
    fault: str
    rig: str
    at: float
    beside: str = ''
    seconds: float = 0.0
    told: str = ''
    recovery: int = 0
    reports: int = 0
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    lost: dict[str, int] = dataclasses.field(default_factory=dict)
    violations: list[str] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


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
        #: Of the front node, by process: hours since the beginning, and its usage at rest.
        self.lives: list[list[tuple[float, dict[str, float]]]] = [[]]
        self._start = time.monotonic()
        self._pid = rigs['front'].process.pid

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
        except Violation as violation:
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
            one.camera.set()
        self._wait_until_healthy(fault, rig)
        sent_elsewhere, before = other.ledger.sent, rig.reports
        with contextlib.ExitStack() as ending:
            if companion := self._companion(fault, draw):
                trial.beside = companion.name
                ending.enter_context(companion.lasting(rig, draw))
            ending.enter_context(fault.lasting(rig, draw))
            begun = rig.ledger.sent
            self._watch(fault, rig, trial, before)
            rig.wait_for_frames(max(0, fault.frames - (rig.ledger.sent - begun)))
            if fault.results and not rig.wait_for_result(begun):
                raise Violation('nothing was published while it lasted')
            rig.camera.set(running=False)
            ended = rig.ledger.sent
        if fault.results is False and (count := rig.ledger.delivered_between(begun + 1, ended)):
            raise Violation(f'{count} results of frames that were to have none')
        trial.recovery = rig.frames_to_recover()
        if trial.recovery > RECOVERY:
            raise Violation(f'recovery took {trial.recovery} frames')
        recovered = rig.reports
        rig.camera.set()
        if fault.says:
            self._wait_until_gone(fault, rig, trial, recovered)
        self._check_other(other, sent_elsewhere)
        self._rest(fault, rig, trial)

    def _companion(self, fault: Fault, draw: random.Random) -> Fault | None:
        # What ends processes takes those with it that listen to them.
        if fault.restarts or fault.beside or draw.random() >= BESIDE:
            return None
        candidates = [one for one in self._faults if one.beside]
        return draw.choice(candidates) if candidates else None

    @staticmethod
    def _words(fault: Fault, report: Report) -> bool:
        return bool(fault.says and re.search(fault.says[1], report.message))

    def _wait_until_healthy(self, fault: Fault, rig: Rig) -> None:
        rig.wait_for_report('input', lambda report: not report.level,
                            what='a healthy state before the fault')
        if fault.says:
            rig.wait_for_report(fault.says[0], lambda report: not self._words(fault, report),
                                what=f'a status without {fault.says[1]!r}')
        if not rig.wait_for_result(rig.ledger.sent):
            raise Violation('nothing is published before the fault')

    def _watch(self, fault: Fault, rig: Rig, trial: Trial, before: int) -> None:
        """Wait until the fault is named, and for the next report, which names it, too."""
        if not fault.says:
            if not fault.frames:
                for _ in range(3):
                    rig.counts_now()
            return
        name, words = fault.says
        if fault.once:
            found = rig.find(before, name, lambda report: self._words(fault, report))
            found = found or rig.wait_for_words(name, words)
        else:
            found = rig.wait_for_words(name, words)
            following = rig.wait_for_report(name, lambda report: True)
            if not self._words(fault, following):
                raise Violation(f'"{words}" was told once, but the fault lasts: '
                                f'{following.message!r}')
        trial.told = found.message

    def _wait_until_gone(self, fault: Fault, rig: Rig, trial: Trial, recovered: int) -> None:
        assert fault.says is not None
        report = rig.find(recovered, fault.says[0],
                          lambda report: not self._words(fault, report))
        report = report or rig.wait_for_report(
            fault.says[0], lambda report: not self._words(fault, report),
            what=f'the end of "{fault.says[1]}"')
        trial.reports = report.number - recovered
        if trial.reports > GONE + SLACK:
            raise Violation(f'"{fault.says[1]}" took {trial.reports} reports to go')

    @staticmethod
    def _check_other(other: Rig, sent: int) -> None:
        if other.ledger.sent - sent >= UNDISTURBED and not other.ledger.delivered_between(
                sent + 1, other.ledger.sent):
            raise Violation(f'{other.name}: {other.ledger.sent - sent} frames sent, and none '
                            'published')

    def _rest(self, fault: Fault, rig: Rig, trial: Trial) -> None:
        """Nothing is sent: everything must add up, and memory is comparable."""
        for one in self.rigs.values():
            one.camera.set(running=False)
        for one in self.rigs.values():
            now, before = one.totals(), one.before
            trial.violations += [f'{one.name}: {text}' for text in unaccounted(now.node)]
            if before is not None:
                impossible, lost = transport_losses(before, now)
                trial.violations += [f'{one.name}: {text}' for text in impossible]
                if not (fault.loses and one is rig):
                    trial.lost |= {f'{one.name} {name}': count for name, count in lost.items()}
            if one is rig:
                trial.dropped = {
                    key.removeprefix('dropped '): change for key, value in now.node.items()
                    if key.startswith('dropped ')
                    and (change := value - (before.node[key] if before else 0))}
            one.before = now
        front = self.rigs['front']
        if front.process.pid != self._pid:
            self._pid = front.process.pid
            self.lives.append([])
        self.lives[-1].append((self.elapsed / 3600, usage(self._pid)))

    def _mend(self, rig: Rig, trial: Trial) -> None:
        """After a violation, go on with a new process."""
        try:
            rig.kill()
            rig.start()
        except Exception as error:
            trial.violations.append(f'the node cannot be started again: {error}')
            raise
