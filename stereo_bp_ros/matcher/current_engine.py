"""The engine of a matcher, and when another one takes its place."""

from __future__ import annotations

import time
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks.checks import check_calibration_size
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice, geometry
from stereo_bp_ros.engines.backend import SHARE, Engine, Resolved
from stereo_bp_ros.engines.plan import Plan


class CurrentEngine:
    """One engine at a time, for the size, the configuration and the calibration of the frames.

    resolved:    what engines run where the configuration was set.
    calibration: the latest one given; None before the first.
    engine:      None before the first frame.
    compile_time: seconds that the last ``prepare`` or ``reconfigure`` spent on compiling.

    Only one thread may be inside at a time.

    :raises BackendUnavailable: the back end cannot run here.
    """

    def __init__(self, config: MatcherConfig) -> None:
        self.calibration: Calibration | None = None
        self.resolved: Resolved[Any] = choice.resolve(config)
        self.engine: Engine | None = None
        self.compile_time = 0.0
        self._warm: MatcherConfig | None = None

    @property
    def plan(self) -> Plan | None:
        """That of the engine; any thread may ask."""
        engine = self.engine        # another thread may close it meanwhile
        return None if engine is None else engine.plan

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height of the images that the engine is for, pixels."""
        return None if (plan := self.plan) is None else plan.source

    def prepare(self, width: int, height: int, calibration: Calibration | None) -> None:
        """As ``StereoMatcher.prepare``."""
        self.apply_calibration(calibration, width, height)
        if width and height:
            known = self.engine
            engine = self.for_size(width, height)
            # The first image waits here: what has been warmed up is not run once more.
            is_warm = self._warm is not None and self._warm.is_live_change(self.resolved.config)
            seconds = 0.0 if is_warm else engine.warm_up()
            self.compile_time = seconds + (engine.compile_time if engine is not known else 0)
        else:
            self.compile_time = _warm_up(self.resolved)
        self._warm = self.resolved.config

    def reconfigure(self, config: MatcherConfig, calibration: Calibration | None) -> bool:
        """As ``StereoMatcher.reconfigure``."""
        calibration = calibration or self.calibration
        is_new = self._switch_to(config, calibration)
        self.calibration = calibration
        return is_new

    def apply_calibration(self, calibration: Calibration | None, width: int, height: int) -> None:
        """Search as far as ``min_depth`` is by a calibration, in images of a size.

        :raises StereoError: as ``StereoMatcher.compute``; what is resolved stays.
        """
        given = self.resolved.given
        if calibration is not None and width and height:
            check_calibration_size(calibration, *geometry.rectified_size(given, width, height))
        if calibration is None or calibration == self.calibration:
            return
        if geometry.effective(given, calibration) != self.resolved.config:
            if self.size == (width, height):
                self._switch_to(given, calibration)
            else:                               # images of this size need another one anyway
                resolved = choice.resolve(given, calibration)
                self.close()
                self.resolved = resolved
        self.calibration = calibration

    def for_size(self, width: int, height: int) -> Engine:
        """The engine for images of this size."""
        engine = self.engine
        if engine is None or engine.plan.source != (width, height):
            self.close()
            engine = self.resolved.backend.create(self.resolved.plan(width, height))
            self.engine = engine
        return engine

    def close(self) -> None:
        """Give the memory of the engine back, if there is one."""
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    def _switch_to(self, given: MatcherConfig, calibration: Calibration | None) -> bool:
        """``reconfigure``, for the pairs of a calibration."""
        resolved = self.resolved.changed(given, calibration)
        if self.resolved.config.is_live_change(resolved.config):
            if self.engine is not None:
                self.engine.update(resolved.passes)
            self.resolved = resolved
            return False
        resolved, old = choice.resolve(given, calibration), self.engine
        if old is None:
            self.compile_time = _warm_up(resolved)
        else:
            plan, fits_beside = self._plan_successor(old, resolved)
            if not fits_beside:
                # If the new one fails all the same, the next frame builds this one again.
                self.close()
            engine = resolved.backend.create(plan)
            try:
                self.compile_time = engine.compile_time + engine.warm_up()
            except BaseException:
                engine.close()
                raise
            self.engine = engine
            old.close()
        self.resolved, self._warm = resolved, resolved.config
        return True

    def _plan_successor(self, old: Engine, resolved: Resolved[Any]
                        ) -> tuple[Plan, bool]:
        """The plan of an engine after an older one, and whether it fits beside that.

        What the old one holds counts as free: the plan is that of a fresh start.

        :raises StereoError: it does not fit without the old one either.
        """
        backend = resolved.backend
        if not backend.shares_memory_with(self.resolved.backend):
            return resolved.plan(*old.plan.source), True
        plan: Plan = resolved.plan(*old.plan.source, backend.allowed(
            resolved.config, old.plan.memory.total))
        return plan, plan.memory.total <= SHARE * backend.free_memory()


def _warm_up(resolved: Resolved[Any]) -> float:
    """Compile for images of whatever size; returns the seconds."""
    start = time.perf_counter()
    resolved.backend.warm_up(resolved, 0, 0)
    return time.perf_counter() - start
