"""Where ``stereo_bp evaluate`` computes: in this process, or spread over several."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import scale
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.sources.pairs import Sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--workers."""
    parser.add_argument('--workers', type=shared.whole(1, 1024), default=0, metavar='N',
                        help='spread sequences, and blocks of pairs without stamps, over N '
                             'processes of this machine, each with one thread and, in turn, one '
                             'CUDA device; 1: this process, with one thread (default: this '
                             'process, with the threads of num_threads)')


def for_workers(options: argparse.Namespace, config: MatcherConfig) -> MatcherConfig:
    """A configuration for one process of several: one thread, unless it has a number."""
    if options.workers and not config.num_threads:
        return config.replace(num_threads=1)
    return config


@contextlib.contextmanager
def start(options: argparse.Namespace, configs: Mapping[str, MatcherConfig],
          names: Sequence[str], method: Method, sources: Sources
          ) -> Iterator[tuple[Iterator[Result], scale.Run]]:
    """Results of an evaluation where the command line wants it, and what else it finds.

    Pages show what is collected, with ``--output`` alone.
    """
    run = scale.Run(Showing(sources.count) if options.output else None)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as opened:
        if options.workers > 1:
            results = scale.spread(functools.partial(
                scale.on_device, configs, names, method, _devices(options)),
                sources, run, options.workers)
        else:
            evaluation = opened.enter_context(Evaluation(configs, names, method))
            results = scale.judge_here(evaluation, sources, run)
        yield opened.enter_context(contextlib.closing(results)), run


def _devices(options: argparse.Namespace) -> int:
    """CUDA devices to take in turn; 0: only that of ``device_id``, or none is needed."""
    if (options.backend == 'cpu'
            or any(text.startswith('device_id=') for text in options.settings)):
        return 0
    from stereo_bp_ros.engines.cuda.runtime import device
    return device.count()
