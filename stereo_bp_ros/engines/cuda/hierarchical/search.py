"""Searches the tilings that are fastest on the device that is there; see ``docs/howto/tune.md``.

Candidates resemble what the table of ``tilings`` has; the time of whole frames decides.
Never called while frames are matched.
"""

from __future__ import annotations

import abc
import datetime
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical import tilings, tuning
from stereo_bp_ros.engines.cuda.hierarchical.formats import CHUNK, MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import Tiling
from stereo_bp_ros.engines.cuda.runtime.device import Properties

#: Level to tiling, or setting to value; {} = what an engine takes by itself.
Candidate = dict[Any, Any]

#: Part of its time by which a candidate must be faster to be taken: the spread of medians.
MARGIN = 0.004

#: Candidates of a level: ways to divide its iterations among launches, then other tiles.
DIVISIONS, TILES = 4, 6

#: Turns of two contestants.
TURNS, FINAL_TURNS = 7, 25


class Timer(Protocol):
    """What the search measures with."""

    def prepare(self, candidates: list[Candidate]) -> None:
        """Compile what frames of these candidates run."""

    def compare(self, ours: Candidate, theirs: Candidate, turns: int) -> tuple[float, float]:
        """Milliseconds of a frame with each of two, measured in turn."""


class Result(NamedTuple):
    """best: what was found, {} = the engine's own choice stands; untuned, tuned: ms."""

    best: Candidate
    untuned: float
    tuned: float

    @property
    def ratio(self) -> float:
        """Tuned time over untuned."""
        return self.tuned / self.untuned


class Search(abc.ABC):
    """The search for one configuration and size, those of ``Plan.config`` and ``Plan.parts``.

    Its state is written after every group of candidates, and a search that was interrupted goes
    on after the last one.

    :param width, height: of what is matched at once, pixels.
    :param progress: called with (groups done, groups, what is being done).
    :param afresh: begin anew, whatever has been written.
    """

    def __init__(self, config: ResolvedConfig, width: int, height: int, device: Properties,
                 on: dict[str, str], timer: Timer,
                 progress: Callable[[int, int, str], None] = lambda *_: None,
                 afresh: bool = False) -> None:
        self._config = config
        self._size = width, height
        self._device = device
        self._on = on
        self._timer = timer
        self._progress = progress
        self._problem = tuning.Problem.of(config, width, height)
        self._best: Candidate = {}
        self._done: list[str] = []
        self._result: Result | None = None
        if not afresh:
            self._resume()

    @abc.abstractmethod
    def _groups(self) -> list[str]:
        """Names of the groups of candidates, in their order."""

    @abc.abstractmethod
    def _candidates(self, group: str) -> list[Candidate]:
        """What is tried in a group, now that the best so far is ``_best``."""

    @abc.abstractmethod
    def _everything(self) -> list[Candidate]:
        """Whatever may still be tried, so that all of it is compiled side by side."""

    def _resume(self) -> None:
        content, problem = tuning.read(tuning.place(self._problem, self._on), self._problem,
                                       self._on)
        if problem:
            return
        self._best = tuning.sound(self._config, content, self._device)
        if content.get('finished'):
            self._result = Result(self._best, *content['milliseconds'])
        else:
            self._done = list(content['done'])

    def run(self) -> Result:
        """Try every group; a search that was finished earlier is not repeated."""
        if self._result is not None:
            return self._result
        groups = self._groups()
        self._progress(0, len(groups) + 1, 'compiling')
        self._timer.prepare(self._everything())
        for i, group in enumerate(groups):
            self._progress(i, len(groups) + 1, group)
            if group not in self._done:
                self._try(self._candidates(group))
                self._done.append(group)
                self._write(finished=False)
        self._progress(len(groups), len(groups) + 1, 'whole frames')
        tuned, untuned = self._timer.compare(self._best, {}, FINAL_TURNS)
        if not self._best or tuned > (1 - MARGIN) * untuned:
            self._best, tuned = {}, untuned
        result = Result(self._best, untuned, tuned)
        self._write(finished=True, ratio=result.ratio, milliseconds=[untuned, tuned])
        self._progress(len(groups) + 1, len(groups) + 1, 'done')
        return result

    def _try(self, candidates: list[Candidate]) -> None:
        for candidate in candidates:
            ours, theirs = self._timer.compare(candidate, self._best, TURNS)
            if ours < (1 - MARGIN) * theirs:
                self._best = candidate

    def _write(self, **more: Any) -> None:
        tuning.write(self._problem, self._on, self._best, done=self._done,
                     date=datetime.date.today().isoformat(), **more)


class TileSearch(Search):
    """Level by level, the finest first, which takes most of the time."""

    def _groups(self) -> list[str]:
        return [f'level {k} {what}' for k in self._levels for what in ('launches', 'tiles')]

    def _candidates(self, group: str) -> list[Candidate]:
        _, number, what = group.split()
        k = int(number)
        chosen = self._best.get(k) or self._chosen(k)
        found = self._divisions(k) if what == 'launches' else self._neighbours(k, chosen)
        return [{**self._best, k: tiling} for tiling in found]

    def _everything(self) -> list[Candidate]:
        return [{k: tiling} for k in self._levels
                if f'level {k} tiles' not in self._done
                for division in (self._chosen(k), *self._divisions(k))
                for tiling in (division, *self._neighbours(k, division))]

    @property
    def _levels(self) -> list[int]:
        return [k for k, iterations in enumerate(self._config.iterations_of_levels) if iterations]

    def _chosen(self, k: int) -> Tiling:
        return tilings.choose(self._config, *self._size, k, self._device)

    def _divisions(self, k: int) -> list[Tiling]:
        return tilings.alternatives(self._config, *self._size, k, self._device)[:DIVISIONS]

    def _neighbours(self, k: int, chosen: Tiling) -> list[Tiling]:
        return tilings.neighbours(self._config, *self._size, k, self._device, chosen)[:TILES]


def most_disparities(config: ResolvedConfig, device: Properties, with_label: bool) -> int:
    """The longest vectors of which a block's shared memory holds the least tile, 3 x 3 nodes.

    Inequality (3) of the AI 2009 paper (section 3.2): five vectors a node, and its label where it
    is chosen.
    """
    message = MessageFormat.of(config)
    values = device.shared_memory * CHUNK * message.chunks // message.message_bytes
    return max(0, (values // 9 - with_label) // 5)
