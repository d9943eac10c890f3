"""Searches the tilings that are fastest on the device that is there; see ``docs/tuning.md``.

Candidates are those that the time model of ``tiling`` thinks well of, its favourite among them;
what decides is the time of whole frames. Never called while frames are matched.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import beliefs, compiler, device, messages, tiling, tuning
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.tiling import Tiling
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.partitions import Partitioning, whole

Tilings = dict[int, Tiling]

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

    def prepare(self, candidates: list[Tilings]) -> None:
        """Compile what frames with these tilings run."""

    def compare(self, ours: Tilings, theirs: Tilings, turns: int) -> tuple[float, float]:
        """Milliseconds of a frame with each of two, measured in turn."""


class Result(NamedTuple):
    """tilings: what was found, {} = the engine's own choice stands; untuned, tuned: ms."""

    tilings: Tilings
    untuned: float
    tuned: float

    @property
    def ratio(self) -> float:
        """Tuned time over untuned."""
        return self.tuned / self.untuned


class Search:
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
        self._best: Tilings = {}
        self._done: list[str] = []
        self._result: Result | None = None
        if not afresh:
            self._resume()

    def _resume(self) -> None:
        content, _ = tuning.read(tuning.place(self._problem, self._on))
        if not tuning.usable(content, self._problem, self._on):
            return
        self._best = tuning.sound_tilings(self._config, content, self._found)
        if content.get('finished'):
            self._result = Result(self._best, *content['milliseconds'])
        else:
            self._done = list(content['done'])

    def run(self) -> Result:
        """Search level by level, the finest first, which takes most of the time.

        A search that was finished earlier is not repeated.
        """
        if self._result is not None:
            return self._result
        groups = [(k, what) for k in range(self._config.levels) for what in ('passes', 'tiles')]
        names = [f'level {k} {what}' for k, what in groups]
        self._progress(0, len(names) + 1, 'compiling')
        self._timer.prepare(self._everything())
        for i, (name, (k, what)) in enumerate(zip(names, groups, strict=True)):
            self._progress(i, len(names) + 1, name)
            if name not in self._done:
                self._try(k, self._candidates(k, what))
                self._done.append(name)
                self._write(finished=False)
        self._progress(len(names), len(names) + 1, 'whole frames')
        tuned, untuned = self._timer.compare(self._best, {}, FINAL_TURNS)
        if not self._best or tuned > (1 - MARGIN) * untuned:
            self._best, tuned = {}, untuned
        result = Result(self._best, untuned, tuned)
        self._write(finished=True, ratio=result.ratio, milliseconds=[untuned, tuned])
        self._progress(len(names) + 1, len(names) + 1, 'done')
        return result

    def _everything(self) -> list[Tilings]:
        """Whatever may be measured, so that all of it is compiled side by side."""
        return [{k: cut} for k in range(self._config.levels)
                if f'level {k} tiles' not in self._done
                for division in self._ranked(k)[:DIVISIONS]
                for cut in (division, *self._neighbours(k, division))]

    def _ranked(self, k: int) -> list[Tiling]:
        return tiling.ranked(self._config, *self._size, k, self._found)

    def _neighbours(self, k: int, chosen: Tiling) -> list[Tiling]:
        return tiling.neighbours(self._config, *self._size, k, self._found, chosen)[:TILES]

    def _candidates(self, k: int, what: str) -> list[Tiling]:
        """The model's favourite way to divide the iterations stands until another is faster."""
        if what == 'passes':
            return self._ranked(k)[1:DIVISIONS]
        return self._neighbours(k, self._best.get(k) or self._ranked(k)[0])

    def _try(self, k: int, cuts: list[Tiling]) -> None:
        for cut in cuts:
            candidate = {**self._best, k: cut}
            ours, theirs = self._timer.compare(candidate, self._best, TURNS)
            if ours < (1 - MARGIN) * theirs:
                self._best = candidate

    def _write(self, **more: Any) -> None:
        tuning.write(self._problem, self._on, self._best, done=self._done,
                     date=datetime.date.today().isoformat(), **more)


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

    def prepare(self, candidates: list[Tilings]) -> None:
        names: set[tuple[str, str]] = {
            messages.kernel_of(self._config, step) for tilings in candidates
            for step in tiling.passes(self._config, self._parts.width, self._parts.height,
                                      self._found, tilings)}
        names.add(('beliefs.cu', beliefs.kernel_name(self._config)))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(lambda name: compiler.compiled(
                name[0], name[1], self._found.architecture), sorted(names)))

    def compare(self, ours: Tilings, theirs: Tilings, turns: int) -> tuple[float, float]:
        keys = [tuple(sorted(tilings.items())) for tilings in (ours, theirs)]
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
            engine = CudaEngine(self._config, *self._size, tilings=dict(key), parts=self._parts)
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

    :raises StereoError: an engine cannot be built.
    :raises OSError: the cache directory cannot be written.
    """
    found = device.properties(config.device_id)
    timer = FrameTimer(config, width, height, found, parts)
    size = (parts.width, parts.height) if parts else (width, height)
    try:
        return Search(config, *size, found, tuning.machine(found), timer, progress, afresh).run()
    finally:
        timer.close()
