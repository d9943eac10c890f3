"""StereoMatcher: the public API. Two rectified images in, a disparity frame out."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros import device_arrays, engines, geometry
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.checks import (
    check_calibration_size,
    check_fixed_point,
    check_rectification,
)
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.entrance import Entrance
from stereo_bp_ros.errors import ConfigError, InputError, InputReason
from stereo_bp_ros.images import RawImage, check_pair
from stereo_bp_ros.partitions import Partitioning
from stereo_bp_ros.rectification import Rectification, RightWarp
from stereo_bp_ros.types import OUTPUTS, DisparityFrame, output_arrays

#: A RawImage, or an array of NumPy or of any library that has DLPack or the CUDA array interface.
Image = Any

#: Frames that may be in flight through ``StereoMatcher.submit``.
SLOTS = 2


class Pending:
    """A frame in flight: a result that is or will be there."""

    def __init__(self, future: concurrent.futures.Future[DisparityFrame]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> DisparityFrame:
        """Wait for the frame, at most ``timeout`` seconds.

        :raises TimeoutError: the frame is not there yet.
        :raises StereoError: what computing it raised.
        """
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if self._future.done():     # just now, or by a TimeoutError of its own
                return self._future.result()
            raise TimeoutError(f'no result within {timeout} s') from error


class StereoMatcher:
    """Turns rectified stereo pairs into disparity with one configuration at a time.

    It builds an engine for the size of the first pair, and again when size or configuration
    change; otherwise only results are allocated. With the setting ``min_depth`` a calibration
    that changes the range is such a change, too; before the first one ``disparity_range`` holds.
    A matcher that is entered from two threads at once raises; different matchers never disturb
    each other. Usable as a context manager.

    :param config: settings; ``MatcherConfig.preset(name)`` or ``MatcherConfig(...)``.
    :param backend: 'auto', 'cuda' or 'cpu'; None takes ``config.backend``.
    :raises BackendUnavailable: the back end cannot run here; the text says what would help.
    """

    def __init__(self, config: MatcherConfig | None = None, backend: str | None = None) -> None:
        config = config or MatcherConfig()
        if backend is not None:
            config = config.replace(backend=backend)
        self._config = config
        self._calibration: Calibration | None = None
        self._effective: MatcherConfig = geometry.searched(config, None)
        self._backend = engines.choose(self._effective)
        self._engine: engines.Engine | None = None
        self._warp: RightWarp | None = None
        # Rectification of the latest frame, and the size of its rectified images.
        self._rectified: tuple[Rectification | None, int, int] | None = None
        self._compile_time = 0.0
        self._warm: MatcherConfig | None = None
        self._entrance = Entrance()
        self._slots = threading.Semaphore(SLOTS)
        # Starts its thread with the first frame.
        self._worker = concurrent.futures.ThreadPoolExecutor(1, 'stereo_bp_matcher')

    @property
    def config(self) -> MatcherConfig:
        """The configuration that was set."""
        return self._config

    @property
    def effective_config(self) -> MatcherConfig:
        """The configuration of the engines: ``config`` with the ``disparity_range`` that
        ``min_depth`` and ``calibration`` give, and ``min_depth`` 0."""
        return self._effective

    @property
    def config_in_force(self) -> MatcherConfig:
        """Deprecated: ``effective_config``."""
        warnings.warn('StereoMatcher.config_in_force is now effective_config',
                      DeprecationWarning, stacklevel=2)
        return self.effective_config

    @property
    def calibration(self) -> Calibration | None:
        """The latest one given, from which ``min_depth`` gets its range; None before the first."""
        return self._calibration

    @property
    def backend(self) -> str:
        """What computes: 'cpu' or 'cuda'."""
        return self._backend.name

    @property
    def backend_reason(self) -> str:
        """Why this back end, in one line."""
        return self._backend.reason

    @property
    def device(self) -> dict[str, str]:
        """What computes and how, for people: ``device`` is its name, and ``threads`` how many
        there are on the CPU."""
        return self._backend.describe(self._effective)

    @property
    def size(self) -> tuple[int, int] | None:
        """(width, height) of the images that memory is allocated for; None before the first
        frame."""
        return None if (plan := self._plan) is None else plan.source

    @property
    def memory_plan(self) -> geometry.MemoryPlan | None:
        """The arrays of the engine; None before the first frame."""
        return None if (plan := self._plan) is None else plan.memory

    @property
    def partitions(self) -> Partitioning | None:
        """How the engine cuts images to fit the memory allowed; None before the first frame."""
        return None if (plan := self._plan) is None else plan.parts

    @property
    def _plan(self) -> engines.Plan | None:
        engine = self._engine       # another thread may close it meanwhile
        return None if engine is None else engine.plan

    @property
    def compile_time(self) -> float:
        """Seconds that the last ``prepare`` or ``reconfigure`` spent on compiling, or on reading
        compiled code from the disk."""
        return self._compile_time

    def prepare(self, width: int = 0, height: int = 0,
                calibration: Calibration | None = None) -> float:
        """Compile, and allocate for images of this size where it is given; returns seconds.

        Afterwards no frame of this size compiles or allocates anything, unless its calibration
        makes ``min_depth`` end the search elsewhere.

        :param calibration: of the frames to come; None = the latest one.
        :raises StereoError: as ``compute``.
        """
        start = time.perf_counter()
        with self._entrance:
            self._apply_calibration(calibration, width, height)
            if width and height:
                known = self._engine
                engine = self._engine_for(width, height)
                # The first image waits here: what has been warmed up is not run once more.
                is_warm = self._warm is not None and self._warm.is_live_change(self._effective)
                seconds = 0.0 if is_warm else engine.warm_up()
                self._compile_time = seconds + (engine.compile_time if engine is not known else 0)
            else:
                self._compile_time = _warm_up(self._backend, self._effective)
            self._warm = self._effective
        return time.perf_counter() - start

    def reconfigure(self, config: MatcherConfig, calibration: Calibration | None = None) -> bool:
        """Use another configuration from the next frame on.

        Returns True where a new engine was needed. The new engine compiles and is allocated
        here, beside the old one, or after it where the memory allowed does not hold both. When
        that fails the old configuration stays.

        :param calibration: of the frames to come; None = the latest one.
        :raises StereoError: the new configuration cannot run here or does not fit.
        """
        with self._entrance:
            calibration = calibration or self._calibration
            is_new = self._switch_to(geometry.searched(config, calibration))
            self._config, self._calibration = config, calibration
            if config.row_correction != 'correct':
                self._warp = None
            return is_new

    def correct_rows(self, homography: Sequence[float] | None) -> None:
        """Correct the right image by a homography from the next frame on, until another one comes.

        It is that of an error of the right camera, and close to the identity. The right image is
        remapped as ``rectify`` does it, bilinearly and in 32nds of a pixel; the left one stays as
        it is. What lies outside the right image is black. With the setting ``rectify`` one remap
        does both. Results are those of a right camera without the error: with
        ``reference_image`` right ``points`` keep the colors of the image as it comes.

        Any thread may call this. Its maps are computed here once a frame has told what images
        there are, else in the next frame.

        :param homography: 3 x 3, row by row: from a pixel (x, y, 1) of the corrected right
            rectified image, as large as that is before ``downscale``, to its place in the right
            rectified image, and then what ``RightWarp`` may have; None = no correction, which
            costs nothing.
        :raises ConfigError: the setting ``row_correction`` is not 'correct'.
        :raises InputError: bad calibration: not 9 or 12 finite numbers, or it moves a corner of
            the image by more than ``rectification.MAX_WARP``. The earlier correction stays. Before
            the first frame, and with images of another size, the frame raises it.
        """
        if homography is None:
            self._warp = None
            return
        if self._config.row_correction != 'correct':
            raise ConfigError('row_correction', self._config.row_correction,
                              'a homography was given: set it to correct')
        warp = RightWarp(homography)
        if self._warp is not None and warp.numbers == self._warp.numbers:
            return
        if (latest := self._rectified) is not None:
            warp.prepare(*latest)
        self._warp = warp

    def compute(self, left: Image, right: Image, *, calibration: Calibration | None = None,
                rectification: Rectification | None = None,
                outputs: Sequence[str] = ('disparity',),
                out: Mapping[str, Any] | None = None, stream: Any = None) -> DisparityFrame:
        """Match one rectified pair, or with the setting ``rectify`` a raw one.

        Images and arrays may be on the matcher's CUDA device: those of PyTorch, CuPy, Numba and
        others with DLPack or the CUDA array interface. They are read and written there, without
        a copy through the host. The result is complete when this returns, for every stream.

        :param left, right: RawImage, or arrays: H x W uint8 (mono8), H x W uint16 (mono16),
            H x W x 3 uint8 (rgb8).
        :param calibration: shifts disparities by ``cx_left - cx_right`` (unless the setting
            pre_adjust_disparity is false); depth needs it, and ``min_depth`` ends the search by
            it. None = that of the rectification.
        :param rectification: of raw images; its maps are computed when another one comes.
        :param outputs: names of ``types.OUTPUTS``; only these are computed.
        :param out: name to the caller's C-contiguous array to fill, of the shape and type that
            ``types.OUTPUTS`` says for the size of the rectified images; without it arrays are
            fresh, NumPy's, and the caller's.
        :param stream: on which arrays on the device are made, or were used last: CUDA's handle,
            or a stream of PyTorch or CuPy. None = the default stream. The frame waits for what
            it holds by now.
        :raises ConfigError: ``fixed_disparity`` of a range that 16 bits do not hold, or a
            calibration with which ``min_depth`` is out of reach.
        :raises InputError: an image, the calibration or an array of ``out`` is rejected.
        :raises MemoryLimitError: the pair's size needs more than ``memory_limit``.
        :raises RuntimeError: the matcher was entered from two threads at once, or is closed.
        """
        with self._entrance:
            return self._compute(left, right, calibration, rectification, outputs, out or {},
                                 stream)

    def submit(self, left: Image, right: Image, *, calibration: Calibration | None = None,
               rectification: Rectification | None = None,
               outputs: Sequence[str] = ('disparity',),
               out: Mapping[str, Any] | None = None, stream: Any = None) -> Pending:
        """As ``compute``, without waiting for the result.

        At most ``SLOTS`` frames are in flight: a further call waits until one is done. Any
        number of threads may call this. The images must stay unchanged until the result is
        there. ``stream`` is waited for as it is when the frame begins.

        :raises RuntimeError: the matcher is closed.
        """
        self._entrance.check_open()
        self._slots.acquire()
        try:
            # Raises once the matcher is closed, which may have happened during the wait.
            future = self._worker.submit(self._compute_submitted, left, right, calibration,
                                         rectification, outputs, out or {}, stream)
        except BaseException:
            self._slots.release()
            self._entrance.check_open()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return Pending(future)

    def close(self) -> None:
        """Wait for every frame in flight and give all memory back; may be called twice.

        Submitted frames are computed to their end, and a call of another thread is waited for.
        Calls that come later raise.

        :raises RuntimeError: the calling thread is inside the matcher (a signal handler).
        """
        self._entrance.close()
        self._worker.shutdown(wait=True)
        with self._entrance.lock:
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def __enter__(self) -> StereoMatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _switch_to(self, config: MatcherConfig) -> bool:
        """``reconfigure``, to a configuration without ``min_depth``."""
        if self._effective.is_live_change(config):
            if self._engine is not None:
                self._engine.update(config)
            self._effective = config
            return False
        backend, old = engines.choose(config), self._engine
        if old is None:
            self._compile_time = _warm_up(backend, config)
        else:
            plan, fits_beside = self._plan_successor(old, backend, config)
            if not fits_beside:
                # If the new one fails all the same, the next frame builds this one again.
                self._engine = None
                old.close()
            engine = backend.create(plan)
            try:
                self._compile_time = engine.compile_time + engine.warm_up()
            except BaseException:
                engine.close()
                raise
            self._engine = engine
            old.close()
        self._effective, self._backend, self._warm = config, backend, config
        return True

    def _apply_calibration(self, calibration: Calibration | None, width: int, height: int) -> None:
        """Search as far as ``min_depth`` is by a calibration, in images of a size.

        :raises StereoError: as ``compute``; the effective configuration stays.
        """
        if calibration is not None and width and height:
            check_calibration_size(calibration, *geometry.rectified_size(
                self._config, width, height))
        if calibration is None or calibration == self._calibration:
            return
        wanted = geometry.searched(self._config, calibration)
        if wanted != self._effective:
            backend = engines.choose(wanted)
            if self.size == (width, height):
                self._switch_to(wanted)
            elif self._engine is not None:      # images of this size need another one anyway
                self._engine.close()
                self._engine = None
            self._backend, self._effective = backend, wanted
        self._calibration = calibration

    def _plan_successor(self, old: engines.Engine, backend: engines.Backend, config: MatcherConfig
                        ) -> tuple[engines.Plan, bool]:
        """The plan of an engine after an older one, and whether it fits beside that.

        What the old one holds counts as free: the plan is that of a fresh start.

        :raises StereoError: it does not fit without the old one either.
        """
        if not backend.shares_memory_with(self._backend):
            return backend.fit(config, *old.plan.source), True
        plan = backend.fit(config, *old.plan.source, old.plan.memory.total)
        return plan, plan.memory.total <= engines.SHARE * backend.free_memory()

    def _engine_for(self, width: int, height: int) -> engines.Engine:
        engine = self._engine
        if engine is None or engine.plan.source != (width, height):
            if engine is not None:
                self._engine = None
                engine.close()
            engine = self._backend.create(self._backend.fit(self._effective, width, height))
            self._engine = engine
        return engine

    def _compute_submitted(self, *arguments: Any) -> DisparityFrame:
        self._entrance.acquire()
        try:
            return self._compute(*arguments)
        finally:
            self._entrance.release()

    def _compute(self, left: Image, right: Image, calibration: Calibration | None,
                 rectification: Rectification | None, outputs: Sequence[str],
                 out: Mapping[str, Any], stream: Any) -> DisparityFrame:
        config = self._config
        left, right = _raw(left), _raw(right)
        check_pair(left, right, config.max_image_width, config.max_image_height)
        width, height = geometry.rectified_size(config, left.width, left.height)
        check_rectification(config, rectification, left.width, left.height)
        if rectification is not None and calibration is None:
            calibration = rectification.calibration
        arrays = output_arrays(outputs, out, (height, width), config.points_decimation)
        uncalibrated = [name for name in arrays if OUTPUTS[name].needs_calibration]
        if uncalibrated and calibration is None:
            raise InputError(InputReason.BAD_CALIBRATION, 'none was given',
                             f'{uncalibrated[0]} needs a calibration')
        self._apply_calibration(calibration, left.width, left.height)
        config = self._effective
        if 'fixed_disparity' in arrays:
            check_fixed_point(config)
        on_device = device_arrays.among({'left': left.data, 'right': right.data, **arrays})
        if on_device:
            self._backend.check_places(on_device)
        engine = self._engine_for(left.width, left.height)
        if on_device:
            engine.wait_for(device_arrays.stream_handle(stream))
        self._rectified = rectification, width, height
        warp = self._warp if config.row_correction == 'correct' else None
        if warp is not None:
            warp.prepare(rectification, width, height)
        timings = engine.compute(left, right, calibration, arrays, rectification, warp)
        results = {**arrays, **out}
        shift = 0.0
        if calibration is not None and config.pre_adjust_disparity:
            shift = calibration.shift
        return DisparityFrame(
            **{name: results.get(name) for name in OUTPUTS},
            min_disparity=config.min_disparity - shift,
            max_disparity=config.max_disparity - shift,
            delta_d=geometry.disparity_step(config),
            valid_window=geometry.valid_window(config, width, height),
            timings=timings, backend=self.backend)


def _warm_up(backend: engines.Backend, config: MatcherConfig) -> float:
    """Compile for images of whatever size; returns the seconds."""
    start = time.perf_counter()
    backend.warm_up(config, 0, 0)
    return time.perf_counter() - start


def _raw(image: Image) -> RawImage:
    if isinstance(image, RawImage):
        return image
    is_exported = device_arrays.is_exported(image)
    return RawImage.from_dlpack(image) if is_exported else RawImage.from_array(image)
