"""Measures what the tables ask for, and says in words what cannot be measured here."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

import numpy as np

from benchmarks.papers.images import Images
from benchmarks.papers.table import Cell, Missing, cell
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.evaluation import metrics, timing
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.papers.plain_steps import cuda_arrays
from stereo_bp_ros.papers.plain_steps.tune import occupancy_walk

Settings = Mapping[str, Value]
#: Times of a variant, or why there are none.
Timed = Union[timing.Times, StereoError]

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
        self._streaming: dict[object, StreamingTimes] = {}
        for name in BACKENDS:
            if backend not in ('auto', name):
                self.absent[name] = f'only {backend} was asked for'
                continue
            try:
                self.devices[name] = self._describe(MatcherConfig(backend=name))
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

    def require(self, backend: str) -> str:
        """The name of the device of a back end.

        :raises Missing: it is not here.
        """
        if backend in self.absent:
            raise Missing(self.absent[backend])
        return self.devices[backend]

    def compare(self, image: str, disparities: int, variants: Mapping[str, Settings]
                ) -> dict[str, Timed]:
        """Times of variants that take turns on one image, by their names and in their order.

        Asked the same again, it answers the same.
        """
        key = (image, disparities, tuple(
            (name, tuple(sorted(settings.items()))) for name, settings in variants.items()))
        if key not in self._known:
            try:
                self._known[key] = self._compare(image, disparities, variants)
            except Missing as missing:
                self._known[key] = dict.fromkeys(variants, missing)
        return self._known[key]

    def _compare(self, image: str, disparities: int, variants: Mapping[str, Settings]
                 ) -> dict[str, Timed]:
        found = self.images.load(image)
        results: dict[str, Timed] = {}
        able = []
        for name, settings in variants.items():
            try:
                able.append(timing.Variant(name, self._config(settings, disparities)))
            except Missing as missing:
                results[name] = missing
        compile_side_by_side(
            (one.config for one in able), lambda done, count: self._progress(
                f'{image}: {done} of {count} kernels compiled'))
        self._progress(f'{image}, {len(able)} variants')
        refused: dict[str, StereoError] = {}
        for one in timing.measure(
                timing.Pair(image, found.left, found.right, disparities), able, self.frames,
                choice.choose, seconds=self._seconds, refused=refused):
            results[one.variant] = one
            self.runs.append({**one.to_dict(), 'settings': dict(variants[one.variant])})
        results |= refused
        return {name: results[name] for name in variants}

    def score(self, image: str, disparities: int, settings: Settings
              ) -> metrics.Score | StereoError:
        """How one map compares with the image's truth; with no tolerance, as well."""
        try:
            found = self.images.load(image)
            if found.truth is None:
                return Missing(f'the image {image} has no ground truth among the data')
            with StereoMatcher(self._config(settings, disparities)) as matcher:
                frame = matcher.compute(found.left, found.right)
        except StereoError as error:
            return error
        assert frame.disparity is not None
        return metrics.score(frame.disparity, found.truth, frame.valid,
                             thresholds=(0.0, 1.0, 3.0))

    def occupancies(self, disparities: int, settings: Settings, initial_values: int,
                    max_values: int) -> list[tuple[float, dict[str, int]]]:
        """The LCPC 2010 paper's walk on CUDA: ``tune.occupancy_walk``.

        :raises Missing: there is no CUDA device.
        """
        self.require('cuda')
        return self._walk(self._config({**settings, 'backend': 'cuda'}, disparities),
                          initial_values, max_values)

    def streaming(self, image: str, disparities: int, settings: Settings, repeats: int
                  ) -> StreamingTimes:
        """Times of the matching kernel of SAD in every data-streaming variant, on CUDA.

        :param repeats: graphs that a median is of.
        :raises Missing: there is no CUDA device, or no image.
        """
        key = (image, disparities, tuple(sorted(settings.items())), repeats)
        if key not in self._streaming:
            found = self.images.load(image)
            config = self._config({**settings, 'backend': 'cuda'}, disparities)
            self._progress(f'{image}: ways of streaming')
            self._streaming[key] = self._variant_times(config, found.left, found.right, repeats)
        return self._streaming[key]

    # What asks the devices.

    def _describe(self, config: MatcherConfig) -> str:
        info = choice.choose(config).describe(config)
        return info['device'] + (f', {info["threads"]} threads' if 'threads' in info else '')

    def _walk(self, config: MatcherConfig, initial_values: int, max_values: int
              ) -> list[tuple[float, dict[str, int]]]:
        return occupancy_walk(config, initial_values, max_values)

    def _variant_times(self, config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                       repeats: int) -> StreamingTimes:
        from benchmarks.papers.streaming import variant_times
        return variant_times(config, left, right, repeats)

    def _config(self, settings: Settings, disparities: int) -> MatcherConfig:
        values = {'backend': self.backend, **settings, 'disparity_range': disparities}
        self.require(str(values['backend']))
        try:
            config: MatcherConfig = MatcherConfig.from_mapping(values)
        except ConfigError as error:
            raise Missing(str(error)) from error
        return config


def milliseconds(timed: Timed, pattern: str = '{}') -> Cell:
    """The median time of a frame, image in memory to disparity in memory."""
    return cell(operator.attrgetter('median'), timed, pattern=pattern)


def speedup(before: Timed, after: Timed) -> Cell:
    """How many times as fast the second one is."""
    return cell(lambda one, other: one.median / other.median, before, after)


def fastest(*timed: Timed) -> Timed:
    """The one with the least median; the first missing one where all are missing."""
    there = [one for one in timed if isinstance(one, timing.Times)]
    return min(there, key=lambda one: one.median) if there else timed[0]


def compile_side_by_side(configs: Iterable[MatcherConfig],
                         progress: Callable[[int, int], None]) -> None:
    """Compile the plain steps of many configurations at once, for engines built later.

    Of a configuration with other kernels, on the CPU or rejected here, nothing is compiled.

    :param progress: called with (kernels done, kernels).
    """
    names: dict[str, set[str]] = {}
    for config in configs:
        with contextlib.suppress(StereoError):
            backend = choice.choose(config)
            if isinstance(backend, CudaBackend) and config.program == 'plain_steps':
                names.setdefault(backend.device.architecture, set()).update(
                    cuda_arrays.all_kernels(backend.resolve(config)[-1]))
    for architecture, wanted in names.items():
        compiler.compile_side_by_side((('papers/plain_steps.cu', name) for name in wanted),
                                      architecture, progress)
