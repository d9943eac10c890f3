"""How far a verb is: a bar where somebody watches, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from stereo_bp_ros.cli.options import say
from stereo_bp_ros.errors import visible

#: Seconds from a line to the next one, at least.
TOLD_EVERY_S = 10.0


def tell(text: str) -> None:
    """A line on standard error where nobody sees a progress bar; names in it are ``visible``."""
    if not sys.stderr.isatty():
        say(text, file=sys.stderr)
        sys.stderr.flush()


class _Description(ProgressColumn):
    """What a task is, with names in it ``visible``."""

    def render(self, task: Task) -> Text:
        return Text(visible(task.description))


class Bar(Progress):
    """A progress bar on standard error, or a line every ``TOLD_EVERY_S`` where nobody sees one.

    :param verb: whose progress it is.
    :param unit: what is counted, in the plural.
    :param clock: seconds, of any origin.
    """

    def __init__(self, verb: str, unit: str = 'pairs',
                 clock: Callable[[], float] = time.monotonic) -> None:
        console = Console(stderr=True)
        super().__init__(
            _Description(), BarColumn(), MofNCompleteColumn(), _Rate(unit), TimeElapsedColumn(),
            TimeRemainingColumn(), console=console, disable=not console.is_terminal,
            get_time=clock)
        self._verb, self._unit, self._told = verb, unit, clock()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now = self.get_time()
        if not self.disable or now - self._told < TOLD_EVERY_S:
            return
        self._told = now
        with self._lock:
            task = self._tasks[task_id]
            total = '' if task.total is None else f' of {task.total:.0f}'
            tell(f'{self._verb}: {task.completed:.0f}{total} {self._unit}'
                 + (f', {rate}' if (rate := rate_of(task, self._unit)) else ''))


class _Rate(ProgressColumn):
    """How many of its units a task does in a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(rate_of(task, self._unit))


def rate_of(task: Task, unit: str) -> str:
    """Of the latest half minute, from the first step on; '' before the second one."""
    return f'{task.speed:.3g} {unit}/s' if task.speed else ''
