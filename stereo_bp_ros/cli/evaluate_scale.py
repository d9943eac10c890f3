"""Where ``stereo_bp evaluate`` computes: in this process, or spread over several."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation, Matched, Skipped, judge_all
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.evaluation.sources import Sources, Unread

#: Pairs that a worker is handed at once; fewer of short sources, so that all have work.
MAX_CHUNK = 32

Collect = Callable[[int, Evaluation, Matched], None]
"""Is handed the place of a pair, who has judged it, and the pair."""

class InProcess:
    """An evaluation in this process, with the attributes of ``scale.Workers``."""

    def __init__(self, evaluation: Evaluation, showing: Showing | None,
                 collectors: Sequence[Collect]) -> None:
        self.skipped: list[Skipped] = []
        self.collected = showing
        self._evaluation = evaluation
        self._collectors: list[Collect] = [
            *([showing.collect] if showing else []), *collectors]

    @property
    def backend(self) -> str:
        """What computes."""
        return self._evaluation.backend

    @property
    def devices(self) -> dict[str, list[Mapping[str, str]]]:
        """What has computed each matcher."""
        return {name: [one] for name, one in self._evaluation.devices.items()}

    def judge(self, pairs: Iterable[Unread], skip: bool) -> Iterator[Result]:
        """Results of all pairs, in their order."""
        every = judge_all(self._evaluation, pairs, skipped=self.skipped if skip else None)
        for number, matched in enumerate(every):
            for collect in self._collectors:
                collect(number + len(self.skipped), self._evaluation, matched)
            yield matched.result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--workers."""
    parser.add_argument('--workers', type=shared.whole(1, 1024), default=0, metavar='N',
                        help='spread pairs over N processes of this machine, each with one thread '
                             'and, in turn, one CUDA device; 1: this process, with one thread')


def for_workers(options: argparse.Namespace, config: MatcherConfig) -> MatcherConfig:
    """A configuration for one process of several: one thread, unless it has a number."""
    if options.workers and not config.num_threads:
        return config.replace(num_threads=1)
    return config


@contextlib.contextmanager
def start(options: argparse.Namespace, configs: Mapping[str, MatcherConfig],
          names: Sequence[str], method: Method, sources: Sources,
          collectors: Sequence[Collect] = ()) -> Iterator[tuple[Iterator[Result], Any]]:
    """Results of an evaluation where the command line wants it, and what computes them.

    That has ``backend``, ``devices`` and ``skipped`` once there is a result, and ``collected``:
    what a page shows of the frames so far; None without ``--output``.

    :param collectors: are handed every pair, its place and who has judged it; in this process
        alone.
    """
    showing = Showing(sources.count) if options.output else None
    if showing:
        options.output.mkdir(parents=True, exist_ok=True)
    if options.workers <= 1:
        with (Evaluation(configs, names, method) as evaluation,
              contextlib.closing(sources.unread()) as pairs):
            here = InProcess(evaluation, showing, collectors)
            yield here.judge(pairs, method.skip_unreadable), here
        return
    from stereo_bp_ros.evaluation import scale
    size = max(1, min(MAX_CHUNK, sources.count // (4 * options.workers)))
    plan = scale.Plan(configs, names, method, _devices(options), showing)
    with (scale.Workers(plan, options.workers) as workers,
          contextlib.closing(workers.judge(sources.chunks(size))) as found):
        yield found, workers


def _devices(options: argparse.Namespace) -> int:
    """CUDA devices to take in turn; 0: only that of ``device_id``, or none is needed."""
    if (options.backend == 'cpu'
            or any(text.startswith('device_id=') for text in options.settings)):
        return 0
    from stereo_bp_ros.engines.cuda.runtime import device
    return device.count()
