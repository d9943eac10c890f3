"""Keeps the engine in step with the parameters and the size of the images."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from stereo_bp_ros import engines
from stereo_bp_ros.camera import image_size
from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.node.conditions import Conditions
from stereo_bp_ros.node.engine_room import EngineRoom
from stereo_bp_ros.node.mailbox import Mailbox
from stereo_bp_ros.node.parameters import Parameters
from stereo_bp_ros.node.worker import Worker


class EngineKeeper:
    """Decides when the worker builds another engine; called from the executor's thread.

    :param log: is told, in words, when a new engine is in use.
    :param warm_up: compiles what a configuration needs for a width and height, 0 = not known;
        called in a thread of its own.
    """

    def __init__(self, *, engine_room: EngineRoom, worker: Worker, mailbox: Mailbox,
                 conditions: Conditions, log: Callable[[str], object],
                 warm_up: Callable[[MatcherConfig, int, int], object] = engines.warm_up
                 ) -> None:
        self._engine_room = engine_room
        self._worker = worker
        self._mailbox = mailbox
        self._conditions = conditions
        self._log = log
        self._warm_up = warm_up
        self._lock = threading.Lock()
        self._compiling = False
        self._compiled: set[tuple[object, ...]] = set()
        self._size_asked: tuple[int, int] | None = None

    @property
    def compiling(self) -> bool:
        """Whether a new configuration is being compiled, which the worker does not have yet."""
        return self._compiling

    def forget_size(self) -> None:
        """The next camera_info tells the size anew."""
        self._size_asked = None

    def known_size(self, settings: NodeConfig) -> tuple[int, int]:
        """Width and height that images will have: of the engine, told by camera_info, or set by
        parameters; 0 = not known."""
        matcher = self._engine_room.matcher
        built = matcher.size if matcher is not None else None
        return built or self._size_asked or (settings.image_width, settings.image_height)

    def check(self, active: MatcherConfig, wanted: MatcherConfig, settings: NodeConfig) -> None:
        """Whether a configuration fits, as far as that can be told without a device.

        :raises StereoError: it cannot run here, or needs more memory than allowed.
        """
        size = self.known_size(settings)
        if all(size) and not active.is_live_change(wanted):
            engines.memory_plan(wanted, *size).check(engines.memory_allowed(wanted))

    def apply(self, parameters: Parameters) -> None:
        """Have the worker change over to the configuration that is wanted by then.

        What has to be compiled for it is compiled first, while the old engine goes on serving.
        """
        active, wanted = self._engine_room.config, parameters.matcher
        if active is None or not self._needs_compiler(wanted, self.known_size(parameters.node)):
            self._worker.post(lambda: self._apply(parameters))
            return
        with self._lock:
            if self._compiling:         # that thread looks at the parameters again
                return
            self._compiling = True
        threading.Thread(target=self._compile_ahead, args=(parameters,),
                         name='stereo_bp_compiler', daemon=True).start()

    def _needs_compiler(self, wanted: MatcherConfig, size: tuple[int, int]) -> bool:
        active = self._engine_room.config
        if active is not None:
            self._compiled.add(engines.kernels_of(active, *size))
        try:
            needed = engines.kernels_of(self._engine_room.effective(wanted), *size)
            return needed not in self._compiled
        except StereoError:
            return False                # refused where it is applied, and set back

    def _compile_ahead(self, parameters: Parameters) -> None:
        while True:
            with self._lock:
                wanted = self._engine_room.effective(parameters.matcher)
                size = self.known_size(parameters.node)
                if not self._needs_compiler(wanted, size):
                    self._worker.post(lambda: self._apply(parameters))
                    self._compiling = False
                    return
            # What cannot be compiled is refused where it is applied, too.
            with contextlib.suppress(Exception):
                self._warm_up(wanted, *size)
            self._compiled.add(engines.kernels_of(wanted, *size))

    def prepare_for(self, left_info: Any, right_info: Any, config: MatcherConfig) -> None:
        """Allocate for the size that the first camera_info tells, before the first image."""
        if self._size_asked is not None or left_info is None or right_info is None:
            return
        size = image_size(left_info)
        if (size == image_size(right_info) and 0 < size[0] <= config.max_image_width
                and 0 < size[1] <= config.max_image_height):
            self._size_asked = size
            self._worker.post(lambda: self._prepare(*size))

    def _apply(self, parameters: Parameters) -> None:
        active, wanted = self._engine_room.config, parameters.matcher
        if active is None or self._engine_room.effective(wanted) == active:
            return
        self._mailbox.reconfiguring = True
        try:
            if self._engine_room.reconfigure(wanted):
                self._log('a new engine is in use: ' + ', '.join(wanted.differences(active))
                          + ' changed')
            self._conditions.clear('configuration')
        except Exception as error:
            text = str(error) if isinstance(error, StereoError) else repr(error)
            self._conditions.warn('configuration', f'the new parameters could not be applied '
                                  f'and are set back: {text}')
            parameters.restore(wanted, active)
        finally:
            self._mailbox.reconfiguring = False

    def _prepare(self, width: int, height: int) -> None:
        try:
            start = time.perf_counter()
            if self._engine_room.prepare(width, height) and self._engine_room.matcher is not None:
                self._log(f'ready for {width} x {height} after {time.perf_counter() - start:.1f} s'
                          f', {self._engine_room.matcher.compile_time:.1f} s of it compiling')
        except StereoError as error:
            self._conditions.error('input', f'no engine for {width} x {height}: {error}')
