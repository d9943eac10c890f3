"""The matcher in the worker's hands: built, changed, lost and replaced here. Only its thread
calls these methods."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.cameras.row_correction import RowCorrection
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import DeviceLostError, OutOfDeviceMemory, StereoError, reason_of
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher

#: Seconds without a new attempt after a failed one for want of device memory, doubled each time.
FIRST_BACK_OFF, MAX_BACK_OFF = 1.0, 60.0


MatcherFactory = Callable[[MatcherConfig], StereoMatcher]


class MatcherHost:
    """Owns the matcher from configure to cleanup.

    :param factory: makes a matcher; ``StereoMatcher`` but in tests.
    :param log: is notified, in words, when memory for another size is there.
    """

    def __init__(self, factory: MatcherFactory,
                 log: Callable[[str], object] = lambda text: None) -> None:
        self._factory = factory
        self._log = log
        #: The matcher and its configuration; None before configure and after cleanup.
        self.matcher: StereoMatcher | None = None
        self.config: MatcherConfig | None = None
        #: What may be built, where there is no matcher because the first image tells; else None.
        self.waiting: MatcherConfig | None = None
        #: Name of the device that computes and how, for people.
        self.device: Mapping[str, str] = {}
        #: What happened to the device, where it was lost and replaced by the CPU; else ''.
        self.lost = ''
        self._back_off = 0.0
        self._retry_at = 0.0
        self._is_new = False
        #: When an engine, or the first frame of one, was begun that is not done yet, and when
        #: the last one was; seconds of ``time.monotonic``, for any thread.
        self.building_since: float | None = None
        self.built_at = -math.inf

    @property
    def effective_config(self) -> MatcherConfig | None:
        """``StereoMatcher.effective_config``; None before configure and after cleanup."""
        matcher = self.matcher      # the worker may let it go meanwhile
        return None if matcher is None else matcher.effective_config

    def build(self, config: MatcherConfig, width: int, height: int,
              calibration: Calibration | None = None) -> float:
        """Compile, and allocate where the size is known; returns the seconds it took.

        :param calibration: what ``min_depth`` ends the search by; None = not known.
        :raises StereoError: the configuration cannot run here.
        """
        previous = self.config
        try:
            self.release()
        finally:
            # A rebuild that fails may be tried again, with what was in use before.
            self.config = previous
        start = time.perf_counter()
        config = self.usable(config)
        matcher = self._made(config, width, height, calibration)
        self._note_built()
        self._use(matcher, config)
        return time.perf_counter() - start

    def _made(self, config: MatcherConfig, width: int, height: int,
              calibration: Calibration | None) -> StereoMatcher:
        matcher = self._factory(config)
        try:
            with self._building():
                matcher.prepare(width, height, calibration)
        except DeviceLostError:
            raise                       # nothing may touch its device again
        except BaseException:
            matcher.close()
            raise
        return matcher

    def wait_for_image(self, config: MatcherConfig) -> float:
        """Let the first image decide what is built; compiles what that may be, returns seconds.

        :raises StereoError: the configuration cannot run here.
        """
        start = time.perf_counter()
        self.release()
        self._made(self.usable(config), 0, 0, None).close()
        self.waiting = config
        return time.perf_counter() - start

    def begin(self, config: MatcherConfig) -> None:
        """Use a configuration once the first image has come; ``prepare`` builds its matcher."""
        self.config, self.waiting = self.usable(config), None

    def usable(self, config: MatcherConfig) -> MatcherConfig:
        """A configuration as it can be used here: on the CPU once the device is lost."""
        return config.replace(backend='cpu') if self.lost else config

    def reconfigure(self, config: MatcherConfig, calibration: Calibration | None = None) -> bool:
        """Change over to another configuration; returns whether a new engine was needed.

        :param calibration: of the pairs to come; None = that of the latest one.
        :raises StereoError: it cannot run here; the old configuration stays.
        """
        if self.matcher is None:
            return False
        config = self.usable(config)
        with self._building():
            needed = self.matcher.reconfigure(config, calibration)
        if needed:
            self._note_built()
            self._use(self.matcher, config)
        self.config = config
        return needed

    def prepare(self, width: int, height: int, calibration: Calibration | None = None) -> bool:
        """Compile and allocate for images of this size, and as far as ``min_depth`` is by their
        calibration; returns False where that was done before.

        :raises OutOfDeviceMemory: now, or in a recent attempt.
        :raises StereoError: as ``StereoMatcher.compute``.
        """
        matcher = self.matcher
        if matcher is None and self.config is not None:
            with self._backing_off():
                seconds = self.build(self.config, width, height, calibration)
            self._log_ready(seconds)
            return True
        if matcher is None or (matcher.size == (width, height)
                               and calibration in (None, matcher.calibration)):
            return False
        before = matcher.size, matcher.effective_config
        with self._backing_off(), self._building():
            seconds = matcher.prepare(width, height, calibration)
        now = matcher.effective_config
        if before == ((width, height), now):
            return False
        self._note_built()
        self._log_ready(seconds)
        return True

    def _log_ready(self, seconds: float) -> None:
        matcher = self.matcher
        assert matcher is not None
        now, size = matcher.effective_config, matcher.size
        assert size is not None
        reach = (f', disparities {now.min_disparity} to {now.max_disparity},'
                 if matcher.config.min_depth else '')
        self._log(f'ready for {size[0]} x {size[1]}{reach} after {seconds:.1f} s, '
                  f'{matcher.compile_time:.1f} s of it compiling')

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration,
                out: Mapping[str, np.ndarray[Any, Any]],
                rectification: Rectification | None = None,
                correction: RowCorrection | None = None) -> DisparityFrame:
        """Match one pair; rebuilds once when the device has run out of memory.

        :param correction: of the right image; None = none.
        :raises OutOfDeviceMemory: the rebuild failed too, or failed recently.
        :raises StereoError: as ``StereoMatcher.compute``.
        """
        if self.config is None:
            raise RuntimeError('there is no matcher: the node is not configured')
        # Frames that follow allocate nothing.
        first = self._building() if self._is_new else contextlib.nullcontext()
        with self._backing_off(), first:
            try:
                frame = self._match(left, right, calibration, out, rectification, correction)
            except OutOfDeviceMemory:
                self.build(self.config, left.width, left.height, calibration)
                frame = self._match(left, right, calibration, out, rectification, correction)
        self._back_off = 0.0
        if self._is_new:
            self.built_at, self._is_new = time.monotonic(), False
        return frame

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        """An engine may be in the making, and results are not expected yet."""
        outer = self.building_since
        self.building_since = outer or time.monotonic()
        try:
            yield
        except BaseException:
            self._note_built()
            raise
        finally:
            self.building_since = outer

    def _note_built(self) -> None:
        """An engine is ready, or will not be; results are expected from now on."""
        self.built_at, self._is_new = time.monotonic(), True

    @contextlib.contextmanager
    def _backing_off(self) -> Iterator[None]:
        """An attempt, which is not made again at once when it fails for want of device memory."""
        seconds = self._retry_at - time.monotonic()
        if seconds > 0:
            raise OutOfDeviceMemory(f'the device ran out of memory; trying again in '
                                    f'{seconds:.0f} s')
        try:
            yield
        except OutOfDeviceMemory:
            self._back_off = min(MAX_BACK_OFF, 2 * self._back_off or FIRST_BACK_OFF)
            self._retry_at = time.monotonic() + self._back_off
            raise

    def pin(self, buffer: Any) -> None:
        """Have the device write into a buffer directly, where it is one that can."""
        if self.matcher is not None and self.matcher.backend == 'cuda':
            known = choice.known(self.matcher.config)
            if known is not None and known.backend.tools is not None:
                known.backend.tools.pin(buffer)

    def fall_back_to_cpu(self, error: DeviceLostError) -> None:
        """Replace a lost back end by the CPU's, for the rest of this process.

        Where the device was lost while an engine was built, there is no matcher: the next frame
        has the size.

        :raises StereoError: that cannot run here either.
        """
        config, old = self.config, self.matcher
        if config is None:
            raise StereoError('there is no matcher: the node is not configured')
        size, calibration = (old.size, old.calibration) if old is not None else (None, None)
        self.lost = f'the device was lost ({reason_of(error)}), cpu goes on'
        self.abandon()
        self.build(config, *(size or (0, 0)), calibration)

    def abandon(self) -> None:
        """Let a matcher go without closing it: nothing may touch its device again."""
        self.matcher = self.config = self.waiting = None

    def release(self) -> None:
        """Give everything back; may be called twice."""
        self.config = self.waiting = None
        matcher, self.matcher = self.matcher, None
        if matcher is not None:
            matcher.close()

    def _use(self, matcher: StereoMatcher, config: MatcherConfig) -> None:
        self.matcher, self.config = matcher, config
        try:
            config = config.replace(backend=matcher.backend)
            self.device = choice.choose(config).describe(config)
        except StereoError:
            self.device = {}

    def _match(self, left: RawImage, right: RawImage, calibration: Calibration,
               out: Mapping[str, np.ndarray[Any, Any]],
               rectification: Rectification | None, correction: RowCorrection | None
               ) -> DisparityFrame:
        if self.matcher is None:
            assert self.config is not None
            self.build(self.config, left.width, left.height, calibration)
        matcher = self.matcher
        assert matcher is not None
        matcher.correct_rows(correction.warp() if correction is not None else None)
        return matcher.compute(left, right, calibration=calibration, rectification=rectification,
                               outputs=tuple(out), out=out)
