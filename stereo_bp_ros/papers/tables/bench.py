"""Measures what the tables ask for, and says in words what cannot be measured here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from stereo_bp_ros import engines
from stereo_bp_ros.config import MatcherConfig, Value
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.evaluation import metrics, timing
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.papers.plain_steps.cuda import compile_side_by_side
from stereo_bp_ros.papers.plain_steps.tune import occupancy_walk
from stereo_bp_ros.papers.tables.images import Images, Missing
from stereo_bp_ros.papers.tables.results import Cell

Settings = Mapping[str, Value]
Timed = Union[timing.Times, Missing]

#: Way of streaming, type of pixel, whether sums are unrolled, threads of a block.
Streaming = tuple[str, str, bool, int]
#: Microseconds of the default kernel and of every variant; None = it does not fit.
StreamingTimes = tuple[float, Mapping[Streaming, Union[float, None]]]

BACKENDS = ('cuda', 'cpu')


class Bench:
    """The devices of this machine and the images, ready to be timed.

    :param frames: of every variant of a comparison.
    :param seconds: a comparison begins no round of frames after this time.
    :param backend: 'cuda' or 'cpu' measures on nothing else; 'auto' on both.
    :param progress: called with the name of each comparison before it is made.

    devices: back end to the name of its device; ``absent``: to why there is none.
    backend: what measures where a table does not say.
    """

    def __init__(self, images: Images, *, frames: int = 20,
                 seconds: float = 20.0, backend: str = 'auto',
                 progress: Callable[[str], None] | None = None) -> None:
        self.images = images
        self.frames = frames
        self.devices: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.runs: list[dict[str, Any]] = []
        self._seconds = seconds
        self._progress = progress or (lambda text: None)
        self._known: dict[object, dict[str, Timed]] = {}
        self._streaming: dict[object, StreamingTimes | Missing] = {}
        for name in BACKENDS:
            if backend not in ('auto', name):
                self.absent[name] = f'only {backend} was asked for'
                continue
            try:
                self.devices[name] = self._described(MatcherConfig(backend=name))
            except StereoError as error:
                self.absent[name] = str(error)
        if not self.devices:
            raise StereoError('; '.join(self.absent.values()))
        self.backend = next(iter(self.devices))

    @property
    def device(self) -> str:
        """Name of the device that measures where a table does not say."""
        return self.devices[self.backend]

    @property
    def machine(self) -> str:
        """Names of all devices."""
        return ' and '.join(self.devices.values())

    def compare(self, image: str, disparities: int, variants: Mapping[str, Settings]
                ) -> dict[str, Timed]:
        """Times of variants that take turns on one image, by their names and in their order.

        Asked the same again, it answers the same.
        """
        key = (image, disparities, tuple(
            (name, tuple(sorted(settings.items()))) for name, settings in variants.items()))
        if key not in self._known:
            self._known[key] = self._compare(image, disparities, variants)
        return self._known[key]

    def _compare(self, image: str, disparities: int, variants: Mapping[str, Settings]
                 ) -> dict[str, Timed]:
        found = self.images.load(image)
        if isinstance(found, Missing):
            return dict.fromkeys(variants, found)
        results: dict[str, Timed] = {}
        able = []
        for name, settings in variants.items():
            config = self._config(settings, disparities)
            if isinstance(config, Missing):
                results[name] = config
            else:
                able.append(timing.Variant(name, config))
        compile_side_by_side(
            (one.config for one in able), lambda done, count: self._progress(
                f'{image}: {done} of {count} kernels compiled'))
        self._progress(f'{image}, {len(able)} variants')
        refused: dict[str, StereoError] = {}
        for one in timing.measure(
                timing.Pair(image, found.left, found.right, disparities), able, self.frames,
                engines.choose, seconds=self._seconds, refused=refused):
            results[one.variant] = one
            self.runs.append({**one.to_dict(), 'settings': dict(variants[one.variant])})
        results |= {name: Missing(str(error)) for name, error in refused.items()}
        return {name: results[name] for name in variants}

    def score(self, image: str, disparities: int, settings: Settings) -> metrics.Score | Missing:
        """How one map compares with the image's truth; with no tolerance, as well."""
        found = self.images.load(image)
        if isinstance(found, Missing):
            return found
        if found.truth is None:
            return Missing(f'the image {image} has no ground truth among the data')
        config = self._config(settings, disparities)
        if isinstance(config, Missing):
            return config
        try:
            with StereoMatcher(config) as matcher:
                frame = matcher.compute(found.left, found.right)
        except StereoError as error:
            return Missing(str(error))
        assert frame.disparity is not None
        return metrics.score(frame.disparity, found.truth, frame.valid,
                             thresholds=(0.0, 1.0, 3.0))

    def occupancies(self, disparities: int, settings: Settings, initial_values: int,
                    most_values: int) -> list[tuple[float, dict[str, int]]] | Missing:
        """The LCPC 2010 paper's walk on CUDA: ``tune.occupancy_walk``."""
        config = self._config({**settings, 'backend': 'cuda'}, disparities)
        if isinstance(config, Missing):
            return config
        return self._walk(config, initial_values, most_values)

    def streaming(self, image: str, disparities: int, settings: Settings, repeats: int
                  ) -> StreamingTimes | Missing:
        """Times of the matching kernel of SAD in every data-streaming variant, on CUDA.

        :param repeats: graphs that a median is of.
        """
        key = (image, disparities, tuple(sorted(settings.items())), repeats)
        if key not in self._streaming:
            found = self.images.load(image)
            config = self._config({**settings, 'backend': 'cuda'}, disparities)
            if isinstance(found, Missing):
                self._streaming[key] = found
            elif isinstance(config, Missing):
                self._streaming[key] = config
            else:
                self._progress(f'{image}: ways of streaming')
                self._streaming[key] = self._variant_times(
                    config, found.left, found.right, repeats)
        return self._streaming[key]

    # What asks the devices.

    def _described(self, config: MatcherConfig) -> str:
        info = engines.choose(config).describe(config)
        return info['device'] + (f', {info["threads"]} threads' if 'threads' in info else '')

    def _walk(self, config: MatcherConfig, initial_values: int, most_values: int
              ) -> list[tuple[float, dict[str, int]]]:
        return occupancy_walk(config, initial_values, most_values)

    def _variant_times(self, config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                       repeats: int) -> StreamingTimes:
        from stereo_bp_ros.papers.streamed_sad.timing import variant_times
        return variant_times(config, left, right, repeats)

    def _config(self, settings: Settings, disparities: int) -> MatcherConfig | Missing:
        values = {'backend': self.backend, **settings, 'disparity_range': disparities}
        if values['backend'] in self.absent:
            return Missing(self.absent[str(values['backend'])])
        try:
            config: MatcherConfig = MatcherConfig.from_mapping(values)
        except ConfigError as error:
            return Missing(str(error))
        return config


def milliseconds(timed: Timed, pattern: str = '{}') -> Cell:
    """The median time of a frame, image in memory to disparity in memory."""
    if isinstance(timed, Missing):
        return Cell(missing=timed.reason)
    return Cell((timed.median,), pattern)


def speedup(before: Timed, after: Timed) -> Cell:
    """How many times as fast the second one is."""
    if isinstance(before, Missing):
        return Cell(missing=before.reason)
    if isinstance(after, Missing):
        return Cell(missing=after.reason)
    return Cell((before.median / after.median,))


def megabytes(timed: Timed) -> Cell:
    """What the engine allocates, in units of 10^6 bytes."""
    if isinstance(timed, Missing):
        return Cell(missing=timed.reason)
    return Cell((timed.memory / 1e6,))


def total(parts: Sequence[Timed]) -> Cell:
    """The median times of all parts of an image together."""
    medians = []
    for one in parts:
        if isinstance(one, Missing):
            return Cell(missing=one.reason)
        medians.append(one.median)
    return Cell((math.fsum(medians),), '{} ms')


def fastest(*timed: Timed) -> Timed:
    """The one with the least median; the first missing one where all are missing."""
    there = [one for one in timed if not isinstance(one, Missing)]
    return min(there, key=lambda one: one.median) if there else timed[0]


def mean(cells: list[Cell]) -> Cell:
    """Arithmetic mean of cells of one figure; missing where one of them is."""
    for cell in cells:
        if not cell.values or cell.values[0] is None:
            return Cell(missing=cell.missing)
    return Cell((float(np.mean([cell.values[0] for cell in cells])),))
