"""The engine of a matcher, and when another one takes its place."""

from __future__ import annotations

import time

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks.checks import check_calibration_size
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice, geometry
from stereo_bp_ros.engines.backend import SHARE, Backend, Engine, Plan


class CurrentEngine:
    """One engine at a time, for the size, the configuration and the calibration of the frames.

    config:      the configuration that was set.
    effective:   that of the engine, with the ``disparity_range`` that ``min_depth`` gives.
    calibration: the latest one given; None before the first.
    engine:      None before the first frame.
    compile_time: seconds that the last ``prepare`` or ``reconfigure`` spent on compiling.

    Only one thread may be inside at a time.

    :raises BackendUnavailable: the back end cannot run here.
    """

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.calibration: Calibration | None = None
        self.effective: MatcherConfig = geometry.searched(config, None)
        self.backend = choice.choose(self.effective)
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
            is_warm = self._warm is not None and self._warm.is_live_change(self.effective)
            seconds = 0.0 if is_warm else engine.warm_up()
            self.compile_time = seconds + (engine.compile_time if engine is not known else 0)
        else:
            self.compile_time = _warm_up(self.backend, self.effective)
        self._warm = self.effective

    def reconfigure(self, config: MatcherConfig, calibration: Calibration | None) -> bool:
        """As ``StereoMatcher.reconfigure``."""
        calibration = calibration or self.calibration
        is_new = self._switch_to(geometry.searched(config, calibration))
        self.config, self.calibration = config, calibration
        return is_new

    def apply_calibration(self, calibration: Calibration | None, width: int, height: int) -> None:
        """Search as far as ``min_depth`` is by a calibration, in images of a size.

        :raises StereoError: as ``StereoMatcher.compute``; the effective configuration stays.
        """
        if calibration is not None and width and height:
            check_calibration_size(calibration, *geometry.rectified_size(
                self.config, width, height))
        if calibration is None or calibration == self.calibration:
            return
        wanted = geometry.searched(self.config, calibration)
        if wanted != self.effective:
            backend = choice.choose(wanted)
            if self.size == (width, height):
                self._switch_to(wanted)
            elif self.engine is not None:       # images of this size need another one anyway
                self.close()
            self.backend, self.effective = backend, wanted
        self.calibration = calibration

    def for_size(self, width: int, height: int) -> Engine:
        """The engine for images of this size."""
        engine = self.engine
        if engine is None or engine.plan.source != (width, height):
            self.close()
            engine = self.backend.create(self.backend.fit(self.effective, width, height))
            self.engine = engine
        return engine

    def close(self) -> None:
        """Give the memory of the engine back, if there is one."""
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    def _switch_to(self, config: MatcherConfig) -> bool:
        """``reconfigure``, to a configuration without ``min_depth``."""
        if self.effective.is_live_change(config):
            if self.engine is not None:
                self.engine.update(config)
            self.effective = config
            return False
        backend, old = choice.choose(config), self.engine
        if old is None:
            self.compile_time = _warm_up(backend, config)
        else:
            plan, fits_beside = self._plan_successor(old, backend, config)
            if not fits_beside:
                # If the new one fails all the same, the next frame builds this one again.
                self.close()
            engine = backend.create(plan)
            try:
                self.compile_time = engine.compile_time + engine.warm_up()
            except BaseException:
                engine.close()
                raise
            self.engine = engine
            old.close()
        self.effective, self.backend, self._warm = config, backend, config
        return True

    def _plan_successor(self, old: Engine, backend: Backend, config: MatcherConfig
                        ) -> tuple[Plan, bool]:
        """The plan of an engine after an older one, and whether it fits beside that.

        What the old one holds counts as free: the plan is that of a fresh start.

        :raises StereoError: it does not fit without the old one either.
        """
        if not backend.shares_memory_with(self.backend):
            return backend.fit(config, *old.plan.source), True
        plan = backend.fit(config, *old.plan.source, old.plan.memory.total)
        return plan, plan.memory.total <= SHARE * backend.free_memory()


def _warm_up(backend: Backend, config: MatcherConfig) -> float:
    """Compile for images of whatever size; returns the seconds."""
    start = time.perf_counter()
    backend.warm_up(config, 0, 0)
    return time.perf_counter() - start
