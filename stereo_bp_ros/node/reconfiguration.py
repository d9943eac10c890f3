"""Keeps the engine in step with the parameters and the size of the images."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration, image_size
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import choice, geometry
from stereo_bp_ros.engines.backend import Resolved
from stereo_bp_ros.errors import ConfigError, InputError, StereoError, reason_of
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.input_images import calibrate
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.parameters import Parameters
from stereo_bp_ros.node.worker import Mailbox, Worker

#: Seconds without another change that end a burst of them, and that its end is waited for at most.
QUIET, MAX_BURST = 0.05, 0.5


class Reconfiguration:
    """Decides which engine the worker builds, and when another one.

    :param log: is notified, in words, when a new engine is in use.
    :param warm_up: compiles what is resolved for a width and height, 0 = not known;
        called in a thread of its own. It keeps no memory.
    """

    def __init__(self, *, matcher_host: MatcherHost, worker: Worker, mailbox: Mailbox,
                 issues: IssueLog, log: Callable[[str], object],
                 warm_up: Callable[[Resolved[Any], int, int], object] | None = None
                 ) -> None:
        self._matcher_host = matcher_host
        self._worker = worker
        self._mailbox = mailbox
        self._issues = issues
        self._log = log
        self._warm_up = warm_up or _warm_up
        self._lock = threading.Lock()
        #: Whether a new configuration is being compiled, which the worker does not have yet.
        self.compiling = False
        #: When a change that needs another engine was last asked for, and any last made.
        self._asked = self._made = -math.inf
        self._compiled: set[tuple[object, ...]] = set()
        self._size_told: tuple[int, int] | None = None
        self._infos_told: tuple[Any, Any] = None, None

    def forget_size(self) -> None:
        """The next camera_info has the size."""
        self._size_told = None

    def known_size(self, settings: NodeConfig) -> tuple[int, int]:
        """Width and height that images will have: of the engine, of camera_info, or set by
        parameters; 0 = not known."""
        return self._size_built() or self._size_told or (
            settings.image_width, settings.image_height)

    def check(self, active: MatcherConfig, wanted: MatcherConfig, settings: NodeConfig) -> None:
        """Whether a configuration fits, as far as the worker has asked its device before.

        :raises StereoError: it cannot run here, or needs more memory than allowed.
        """
        old = None
        with contextlib.suppress(ConfigError):      # min_depth is out of reach
            old = geometry.effective(active, self._calibration(active))
        try:
            wanted = geometry.effective(wanted, self._calibration(wanted))
        except ConfigError:
            if old is None:
                return                  # so it is before the change, and said of every pair
            raise
        size = self.known_size(settings)
        if all(size) and (old is None or not old.is_live_change(wanted)):
            matcher = self._matcher_host.matcher
            plan = None if matcher is None else matcher.memory_plan
            known = choice.known(wanted)
            if known is not None:       # else the worker finds out
                known.plan(*size, known.backend.allowed_at_best(
                    wanted, 0 if plan is None else plan.total))

    # In the worker's thread

    def build(self, parameters: Parameters) -> float:
        """Build the engine at configure, or what it may need where the first image decides.

        Returns the seconds it took.

        :raises StereoError: the parameters cannot be applied here.
        """
        size = parameters.node.image_width, parameters.node.image_height
        if parameters.awaits_preset and not all(size):
            given = self._given(parameters)
            name, _ = choice.best_preset(given)
            return self._matcher_host.wait_for_image(MatcherConfig.preset(name, **given))
        return self._matcher_host.build(self.choose(parameters, *size), *size)

    def choose(self, parameters: Parameters, width: int, height: int) -> MatcherConfig:
        """What images of a size are matched with from now on, with the preset that is best.

        :raises StereoError: as ``choice.best_preset`` and ``Parameters.use_preset``.
        """
        if parameters.awaits_preset:
            name, sentence = choice.best_preset(self._given(parameters), width, height)
            parameters.use_preset(name)
            self._log(sentence)
        return parameters.matcher

    def _given(self, parameters: Parameters) -> dict[str, Any]:
        return {**parameters.given, **({'backend': 'cpu'} if self._matcher_host.lost else {})}

    # In any thread

    def reconcile(self, parameters: Parameters) -> None:
        """Have the worker bring the engine in step with the parameters as they are by then.

        What has to be compiled for them is compiled first, while the old engine goes on serving.
        Parameters that cannot be applied are set back.
        """
        active, wanted = self._matcher_host.config, parameters.matcher
        if active is not None and not active.is_live_change(self._matcher_host.usable(wanted)):
            self._asked = time.monotonic()
            with self._lock:
                if self.compiling:     # that thread looks at the parameters again
                    return
                if self._missing_kernels(parameters):
                    self._compile_in_a_thread(parameters)
                    return
        self._worker.post(lambda: self._reconcile(parameters))

    def expect(self, left_info: Any, right_info: Any, parameters: Parameters) -> None:
        """Compile for the size of camera_info, or say that it will not do; memory is for
        the first image to take."""
        self._infos_told = left_info, right_info
        if self._size_built() or left_info is None or right_info is None:
            return
        size, config = image_size(left_info), parameters.matcher
        if (size == self._size_told or size != image_size(right_info)
                or not 0 < size[0] <= config.max_image_width
                or not 0 < size[1] <= config.max_image_height):
            return
        with self._lock:
            self._size_told = size
            if not self.compiling and self._missing_kernels(parameters):
                self._compile_in_a_thread(parameters)
        self._worker.post(lambda: self._foresee(*size))

    def _calibration(self, config: MatcherConfig) -> Calibration | None:
        """That of the latest camera_infos; None where it is not known, or ``min_depth`` is off."""
        left, right = self._infos_told
        if not config.min_depth or left is None or right is None:
            return None
        try:
            return calibrate(left, right, config)[0]
        except InputError:              # said of every pair
            return None

    def _known(self, config: MatcherConfig) -> Resolved[Any] | None:
        """As ``choice.known``, for the latest camera_infos."""
        config = self._matcher_host.usable(config)
        return choice.known(config, self._calibration(config))

    def _size_built(self) -> tuple[int, int] | None:
        matcher = self._matcher_host.matcher
        return matcher.size if matcher is not None else None

    def _missing_kernels(self, parameters: Parameters) -> tuple[object, ...]:
        """What is to be compiled for the parameters, as ``Backend.kernels_of``; () = nothing."""
        active, settings = self._matcher_host.effective_config, parameters.node
        if active is None:
            return ()                   # configure compiles
        try:
            old, new = choice.known(active), self._known(parameters.matcher)
            if old is None or new is None:
                return ()               # the worker asks the device, and compiles
            self._compiled.add(old.backend.kernels_of(
                old, *(self._size_built() or (settings.image_width, settings.image_height))))
            kernels = new.backend.kernels_of(new, *self.known_size(settings))
        except StereoError:
            return ()                   # refused where it is applied, and set back
        return () if kernels in self._compiled else kernels

    def _compile_in_a_thread(self, parameters: Parameters) -> None:
        self.compiling = True
        threading.Thread(target=self._compile_ahead, args=(parameters,),
                         name='stereo_bp_compiler', daemon=True).start()

    def _compile_ahead(self, parameters: Parameters) -> None:
        while True:
            with self._lock:
                wanted = parameters.matcher
                size = self.known_size(parameters.node)
                missing = self._missing_kernels(parameters)
                if not missing:
                    self.compiling = False
                    self._worker.post(lambda: self._reconcile(parameters))
                    return
            # What cannot be compiled is refused where it is applied, too.
            with contextlib.suppress(Exception):
                resolved = self._known(wanted)
                if resolved is not None:
                    self._warm_up(resolved, *size)
            self._compiled.add(missing)

    def _let_a_burst_end(self) -> None:
        """Of changes that follow each other the first is made at once, the others together.

        Meanwhile pairs wait, or are dropped for newer ones: they are to be matched with what was
        set before they came.
        """
        if self._asked > self._made + QUIET:
            return
        end = time.monotonic() + MAX_BURST
        while (seconds := min(self._asked + QUIET, end) - time.monotonic()) > 0:
            time.sleep(seconds)

    def _reconcile(self, parameters: Parameters) -> None:
        active, wanted = self._matcher_host.config, parameters.matcher
        if active is None and self._matcher_host.waiting is not None:
            self._matcher_host.waiting = wanted
        if active is None or self._matcher_host.usable(wanted) == active:
            return
        self._mailbox.reconfiguring = True
        try:
            if not active.is_live_change(self._matcher_host.usable(wanted)):
                self._let_a_burst_end()
                if self.compiling:     # that thread comes back to it
                    return
                wanted = parameters.matcher
            if self._matcher_host.reconfigure(wanted, self._calibration(wanted)):
                self._log('a new engine is in use: ' + ', '.join(wanted.differences(active))
                          + ' changed')
            self._issues.clear(IssueCode.CONFIGURATION)
        except Exception as error:
            self._issues.add(IssueCode.CONFIGURATION, 'the new parameters could not be applied '
                             f'and are set back: {reason_of(error)}')
            parameters.restore(wanted, active)
        finally:
            self._made = time.monotonic()
            self._mailbox.reconfiguring = False

    def _foresee(self, width: int, height: int) -> None:
        """Say whether images of a size would not fit; nothing is allocated for it."""
        config = self._matcher_host.config
        if config is None:
            return
        try:
            choice.resolve(config, self._calibration(config)).plan(width, height)
            self._issues.clear(IssueCode.INPUT)
        except StereoError as error:
            self._issues.add(IssueCode.INPUT, f'no engine for {width} x {height}: {error}')


def _warm_up(resolved: Resolved[Any], width: int, height: int) -> None:
    """Compile what a configuration needs, without the device that the worker has to itself."""
    resolved.backend.warm_up(resolved, width, height)
