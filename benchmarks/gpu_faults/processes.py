"""Children of the benchmark, and the pairs that they match."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.scenes import sequence as scenes
from stereo_bp_ros.matcher import StereoMatcher

#: Seconds that a child may take for an answer, and for its end.
ANSWER_LIMIT, END_LIMIT = 60.0, 20.0

#: Different pairs that are matched in turn.
PAIRS = 3

#: Partitions would change bits: an engine that does not fit in one piece is to be refused.
WHOLE = {'partition_columns': 1, 'partition_rows': 1}


class ChildError(Exception):
    """A child ended, or said nothing for too long."""


class Child:
    """A process that answers a JSON line with a JSON line.

    :param arguments: of ``benchmarks.gpu_faults.child``.
    :param environment: what it has beside this process's variables.
    """

    def __init__(self, *arguments: object, environment: Mapping[str, str] | None = None) -> None:
        self.begin = time.monotonic()
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.gpu_faults.child', *map(str, arguments)],
            env={**os.environ, **(environment or {})}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._threads = [threading.Thread(target=self._read, daemon=True),
                         threading.Thread(target=self._listen, daemon=True)]
        for thread in self._threads:
            thread.start()
        self.answer()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(5)

    @property
    def said(self) -> str:
        """Its standard error."""
        return ''.join(self._said)

    def tell(self, do: str, **question: Any) -> None:
        """Send a question; ``answer`` waits for what it answers."""
        assert self.process.stdin is not None
        try:
            print(json.dumps({'do': do, **question}), file=self.process.stdin, flush=True)
        except OSError as error:
            raise self._failure('it no longer reads') from error

    def answer(self) -> dict[str, Any]:
        """The next answer.

        :raises ChildError: none came.
        """
        try:
            line = self._lines.get(timeout=ANSWER_LIMIT)
        except queue.Empty:
            raise self._failure(f'no answer within {ANSWER_LIMIT:g} s') from None
        if not line:
            raise self._failure('it ended')
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, do: str, **question: Any) -> dict[str, Any]:
        """``tell`` and ``answer``."""
        self.tell(do, **question)
        return self.answer()

    def end(self) -> str:
        """Ask for its end: its exit status, or a word for why there is none."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return str(self.process.wait(END_LIMIT))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f'killed: it had not ended after {END_LIMIT:g} s'

    def _failure(self, why: str) -> ChildError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
            self._threads[1].join(1)
        status = self.process.poll()
        last = self.said.strip().splitlines()[-1:] or ['nothing on standard error']
        return ChildError(f'{why} (status {status}): {last[0]}')

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith('{'):
                self._lines.put(line)
        self._lines.put('')

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self._said.extend(self.process.stderr)


def settings(backend: str, disparities: int) -> dict[str, Any]:
    """Of every matcher: whole numbers, of which both back ends make the same bits."""
    return {'backend': backend, 'disparity_range': disparities, 'message_type': 'int16', **WHOLE}


def write_pairs(path: pathlib.Path, small: common.Size, large: common.Size) -> None:
    """Pairs of two sizes with the CPU engine's disparity of each.

    That also fills the kernel cache of the CPU, as an installation does.
    """
    arrays: dict[str, Any] = {}
    for size, suffix in ((small, ''), (large, '_large')):
        sequence = scenes.RoadSequence(width=size.width, height=size.height, frames=PAIRS,
                                       max_disparity=small.disparities - 2, noise_sigma=1.5)
        frames = list(scenes.render(sequence, len(os.sched_getaffinity(0))))
        left, right = ([getattr(frame, side) for frame in frames] for side in ('left', 'right'))
        config = MatcherConfig.from_mapping(settings('cpu', small.disparities))
        with StereoMatcher(config) as matcher:
            found = [np.array(matcher.compute(one, other).disparity)
                     for one, other in zip(left, right, strict=True)]
        arrays |= {f'left{suffix}': left, f'right{suffix}': right, f'expected{suffix}': found}
    np.savez(path, **arrays)
