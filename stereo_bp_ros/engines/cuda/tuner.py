"""Searches the tilings that are fastest on the device that is there; see ``docs/tuning.md``.

Candidates are those that the time model of ``tiling`` thinks well of, its favourite among them;
what decides is the time of whole frames. Never called while frames are matched.
"""

from __future__ import annotations

import abc
import datetime
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import (
    beliefs,
    compiler,
    device,
    layout,
    messages,
    storage_layout,
    storage_plan,
    tiling,
    tuning,
)
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.tiling import Tiling
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.partitions import Partitioning, whole

#: Level to tiling, or setting to value; {} = what an engine takes by itself.
Candidate = dict[Any, Any]

#: Part of its time by which a candidate must be faster to be taken: the spread of medians.
MARGIN = 0.004

#: A candidate slower than this after its first turns is given up.
HOPELESS = 1.03

#: Candidates of a level: ways to divide its iterations among passes, then other tiles.
DIVISIONS, TILES = 5, 6

#: Turns of two contestants, and milliseconds of one turn.
TURNS, FINAL_TURNS, TURN_MS = 7, 25, 6.0


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
    """The search for one configuration and size.

    Its state is written after every group of candidates, and a search that was interrupted goes
    on after the last one.

    :param width, height: of what is matched at once, pixels.
    :param progress: called with (groups done, groups, what is being done).
    :param afresh: begin anew, whatever has been written.
    """

    def __init__(self, config: MatcherConfig, width: int, height: int, found: Properties,
                 on: dict[str, str], timer: Timer,
                 progress: Callable[[int, int, str], None] = lambda *_: None,
                 afresh: bool = False) -> None:
        self._config = config
        self._size = width, height
        self._found = found
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
        content, _ = tuning.read(tuning.place(self._problem, self._on))
        if not tuning.usable(content, self._problem, self._on):
            return
        self._best = {**tuning.sound_tilings(self._config, content, self._found),
                      **tuning.sound_settings(self._config, content, self._found)}
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
        return [f'level {k} {what}' for k in range(self._config.levels)
                for what in ('passes', 'tiles')]

    def _candidates(self, group: str) -> list[Candidate]:
        _, number, what = group.split()
        k = int(number)
        # The model's favourite way to divide the iterations stands until another is faster.
        cuts = (self._ranked(k)[1:] if what == 'passes'
                else self._neighbours(k, self._best.get(k) or self._ranked(k)[0]))
        return [{**self._best, k: cut} for cut in cuts if self._is_feasible(k, cut)]

    def _everything(self) -> list[Candidate]:
        return [{k: cut} for k in range(self._config.levels)
                if f'level {k} tiles' not in self._done
                for division in self._ranked(k)
                for cut in (division, *self._neighbours(k, division))]

    def _ranked(self, k: int) -> list[Tiling]:
        return tiling.ranked(self._config, *self._size, k, self._found)[:DIVISIONS]

    def _neighbours(self, k: int, chosen: Tiling) -> list[Tiling]:
        return tiling.neighbours(self._config, *self._size, k, self._found, chosen)[:TILES]

    def _is_feasible(self, k: int, cut: Tiling) -> bool:
        keeps_vectors_on_chip = cut.iterations > 1 or cut.last is not None
        return not keeps_vectors_on_chip or most_disparities(
            self._config, self._found, with_label=k == 0) >= self._config.disparity_range


def most_disparities(config: MatcherConfig, found: Properties, with_label: bool) -> int:
    """The longest vectors of which a block's shared memory can hold the least tile.

    Inequalities (2) to (4) of the AI 2009 paper for this device and these messages: the form for
    messages, or that for the disparity map.
    """
    vector = layout.shape(config)
    value_bytes = vector.unit_bytes * vector.units // (8 * vector.chunks)
    return storage_plan.most_disparities(found.shared_memory // value_bytes, with_label)


class OccupancyWalk(Search):
    """The LCPC 2010 paper's walk (section 7) over what ``message_storage: hybrid`` can be."""

    def __init__(self, *arguments: Any, limits: storage_plan.Limits, **more: Any) -> None:
        self._walk = {f'occupancy {occupancy:.2f}': settings_of(walked) for occupancy, walked in
                      storage_plan.candidates(limits, arguments[0].disparity_range,
                                              value_bytes=storage_layout.VALUE_BYTES)}
        super().__init__(*arguments, **more)

    def _groups(self) -> list[str]:
        return list(self._walk)

    def _candidates(self, group: str) -> list[Candidate]:
        """One; none where the paper's split is more than a block of the device can hold."""
        settings = self._walk[group]
        try:
            storage_layout.check(self._config.replace(**settings), self._found)
        except ConfigError:
            return []
        return [settings]

    def _everything(self) -> list[Candidate]:
        return [candidate for group in self._groups() if group not in self._done
                for candidate in self._candidates(group)]


def settings_of(walked: storage_plan.Walked) -> Candidate:
    """What the walk has chosen, as settings."""
    return dict(zip(tuning.STORAGE_SETTINGS,
                    (walked.split.registers, walked.split.shared, walked.block_width,
                     walked.block_height, walked.blocks), strict=True))


class FrameTimer:
    """Times the graphs of whole frames; at most two engines are there at a time.

    :param parts: how the image is cut; None = not at all.
    """

    def __init__(self, config: MatcherConfig, width: int, height: int, found: Properties,
                 parts: Partitioning | None = None) -> None:
        self._config = config
        self._size = width, height
        self._found = found
        self._parts = parts or whole(width, height)
        rng = np.random.default_rng(0)
        self._pair = [RawImage.from_array(rng.integers(0, 256, (height, width), dtype=np.uint8))
                      for _ in range(2)]
        self._outputs = {'disparity': np.empty((height, width), np.float32)}
        self._engines: dict[tuple[Any, ...], Any] = {}

    def prepare(self, candidates: list[Candidate]) -> None:
        compiler.compile_side_by_side(
            (name for candidate in candidates for name in self._kernels(candidate)),
            self._found.architecture)

    def _kernels(self, candidate: Candidate) -> list[tuple[str, str]]:
        """Files and names of those that a candidate decides about."""
        config, tilings = self._split(candidate)
        if config.repeats_papers:
            return [('storage.cu', name) for name in storage_layout.all_kernels(config)]
        steps = tiling.passes(config, self._parts.width, self._parts.height, self._found, tilings)
        names: set[tuple[str, str]] = set()
        for image in ('uint8', 'float'):
            base = messages.base_cost(config, image, steps)
            names.update(beliefs.kernels(config, steps[-1], base))
            names.update(messages.kernel_of(config, step, base, has_more)
                         for step in steps for has_more in (False, True))
        return sorted(names)

    def _split(self, candidate: Candidate) -> tuple[MatcherConfig, dict[int, Tiling]]:
        """Configuration and tilings of a candidate."""
        settings = {key: value for key, value in candidate.items() if isinstance(key, str)}
        return self._config.replace(**settings), {
            key: value for key, value in candidate.items() if isinstance(key, int)}

    def compare(self, ours: Candidate, theirs: Candidate, turns: int) -> tuple[float, float]:
        keys = [tuple(sorted(candidate.items())) for candidate in (ours, theirs)]
        for key in list(self._engines):
            if key not in keys:
                self._engines.pop(key).close()
        contestants = [self._engine(key) for key in keys]
        times: tuple[list[float], list[float]] = ([], [])
        for i in range(turns):
            for engine, found in zip(contestants, times, strict=True):
                found.append(_turn(engine))
            first, second = map(statistics.median, times)
            if i == 1 and first > HOPELESS * second:
                break
        return first, second

    def close(self) -> None:
        """Give the memory back."""
        while self._engines:
            self._engines.popitem()[1].close()

    def _engine(self, key: tuple[Any, ...]) -> Any:
        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        if key not in self._engines:
            config, tilings = self._split(dict(key))
            engine = CudaEngine(config, *self._size, tilings=tilings, parts=self._parts)
            self._engines[key] = engine
            for _ in range(2):
                engine.compute(self._pair[0], self._pair[1], None, self._outputs)
        return self._engines[key]


def _turn(engine: Any) -> float:
    """Milliseconds of a frame: the median of as many as fit into a turn."""
    times = [engine.replay() * 1e3]
    while len(times) < 3 or sum(times) < TURN_MS:
        times.append(engine.replay() * 1e3)
    return statistics.median(times[1:])


def tune(config: MatcherConfig, width: int, height: int, parts: Partitioning | None = None,
         progress: Callable[[int, int, str], None] = lambda *_: None,
         afresh: bool = False) -> Result:
    """Tune for images of a size on the device of a configuration, and keep what is found.

    :raises ConfigError: there is nothing to tune about the configuration.
    :raises StereoError: an engine cannot be built.
    :raises OSError: the cache directory cannot be written.
    """
    if not tuning.can_be_tuned(config):
        raise ConfigError('message_storage', config.message_storage,
                          'only auto has tilings to tune, and hybrid, with storage_registers and '
                          'storage_shared 0, a split')
    found = device.properties(config.device_id)
    timer = FrameTimer(config, width, height, found, parts)
    size = (parts.width, parts.height) if parts else (width, height)
    arguments = (config, *size, found, tuning.machine(found), timer, progress, afresh)
    try:
        if not config.repeats_papers:
            return TileSearch(*arguments).run()
        from stereo_bp_ros.engines.cuda.storage import limits
        return OccupancyWalk(*arguments, limits=limits(config.device_id)).run()
    finally:
        timer.close()
