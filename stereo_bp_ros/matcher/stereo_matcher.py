"""StereoMatcher: the public API. Two rectified images in, a disparity frame out."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy.typing as npt

from stereo_bp_ros.cameras.calibration import Calibration, calibration_of
from stereo_bp_ros.cameras.rectification import Rectification, RightWarp, rectification_of
from stereo_bp_ros.checks.checks import check_fixed_point, check_rectification
from stereo_bp_ros.config.arguments import choice_of, size_of, whole
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig, default_preset, is_of_presets
from stereo_bp_ros.engines import choice, geometry
from stereo_bp_ros.engines.backend import Resolved
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Plan
from stereo_bp_ros.errors import ConfigError, InputError
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame, output_arrays
from stereo_bp_ros.frame.pending import Pending
from stereo_bp_ros.images import device_arrays
from stereo_bp_ros.images.raw_images import check_limits, check_pair, image_of
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.matcher.current_engine import CurrentEngine
from stereo_bp_ros.matcher.opencv_interface import OpenCvStereoMatcher
from stereo_bp_ros.system.atomic_files import PathLike
from stereo_bp_ros.system.entrance import Entrance

#: A RawImage, or an array of NumPy or of any library that has DLPack or the CUDA array interface.
Image = Any

#: Frames that may be in flight through ``StereoMatcher.submit``.
SLOTS = 2


class StereoMatcher:
    """Turns rectified stereo pairs into disparity with one configuration at a time.

    It builds an engine for the size of the first pair, and again when size or configuration
    change; otherwise only results are allocated. With the setting ``min_depth`` a calibration
    that changes the range is such a change, too; before the first one ``disparity_range`` holds.
    Different matchers never disturb each other. Usable as a context manager.

    It checks formats and sizes alone. ``StereoStream`` reports images that are exchanged, black or
    frozen, and corrects vertical disparity.

        StereoMatcher()
        StereoMatcher('road')
        StereoMatcher(preset='road', min_depth=3)
        StereoMatcher(MatcherConfig(disparity_range=128))

    :param config: the name of a preset (``preset_names()``), or a configuration. 'auto' is the
        preset for roads with the fewest errors that keeps 10 Hz on this machine, as in the node,
        for the size of the first pair; a later size does not change it. None: 'auto', or 'none'
        beside ``settings`` that presets have. Robots indoors take 'indoor'.
    :param backend: 'auto', 'cuda' or 'cpu'; None takes that of the configuration.
    :param preset: as ``config``, by its name.
    :param concurrent: what a thread gets that enters while another one is inside: 'raise', a
        RuntimeError, or 'wait', its turn.
    :param size: width and height of the images, pixels, by which 'auto' chooses at once; no other
        takes it.
    :param settings: of ``MatcherConfig``; they win over the preset's.
    :raises ConfigError: an unknown preset or setting, whose closest is named, or a rejected value.
    :raises InputError: ``size`` is not of whole numbers.
    :raises BackendUnavailable: the back end cannot run here; the text says what would help.
    """

    def __init__(self, config: MatcherConfig | str | None = None, backend: str | None = None, *,
                 preset: str | None = None, concurrent: str = 'raise',
                 size: tuple[int, int] | None = None, **settings: Any) -> None:
        if config is not None and preset is not None:
            raise ConfigError('preset', preset, f'config is {config!r}: give one of the two')
        choice_of('concurrent', concurrent, ('raise', 'wait'))
        changes = settings if backend is None else {**settings, 'backend': backend}
        if config is None:
            config = default_preset(changes) if preset is None else preset
        if size is not None:
            size = size_of('size', size, 1)
            if not isinstance(config, str) or config != AUTO:
                raise ConfigError('size', size, f'only the preset {AUTO} takes it')
        self._settings = changes
        self._chosen: CurrentEngine | None = None       # until there is a size for 'auto'
        if size is None and isinstance(config, str) and config == AUTO:
            # Rejects settings and back end now; the preset is that of any size.
            self._before = choice.resolve(config_of(config, (0, 0), changes))
        else:
            self._chosen = CurrentEngine(config_of(config, size, changes))
        self._warp: RightWarp | None = None
        # Rectification of the latest frame, and the size of its rectified images.
        self._rectified: tuple[Rectification | None, int, int] | None = None
        self._entrance = Entrance(waits=concurrent == 'wait')
        self._slots = threading.Semaphore(SLOTS)
        # Starts its thread with the first frame.
        self._worker = ThreadPoolExecutor(1, 'stereo_bp_matcher')

    @property
    def config(self) -> MatcherConfig:
        """The configuration that was set, or chosen for 'auto'.

        :raises RuntimeError: 'auto' has not been chosen yet.
        """
        return self._current.resolved.given

    @property
    def _current(self) -> CurrentEngine:
        if self._chosen is None:
            raise RuntimeError(f'the preset {AUTO} is chosen with the first pair, or by '
                               'prepare(width, height)')
        return self._chosen

    @property
    def _resolved(self) -> Resolved[Any]:
        """What is run; before 'auto' is chosen, what would be for images of any size."""
        return self._before if self._chosen is None else self._chosen.resolved

    @property
    def effective_config(self) -> MatcherConfig:
        """The configuration of the engines: ``config`` with the ``disparity_range`` that
        ``min_depth`` and ``calibration`` give, and ``min_depth`` 0. Raises as ``config``."""
        return self._current.resolved.config

    @property
    def calibration(self) -> Calibration | None:
        """The latest one given, from which ``min_depth`` gets its range; None before the first."""
        return None if (chosen := self._chosen) is None else chosen.calibration

    @property
    def backend(self) -> str:
        """What computes: 'cpu' or 'cuda'."""
        return self._resolved.backend.name

    @property
    def backend_reason(self) -> str:
        """Why this back end, in one line."""
        return self._resolved.backend.reason

    @property
    def device(self) -> dict[str, str]:
        """What computes and how, for people: ``device`` is its name, and ``threads`` how many
        there are on the CPU."""
        return self._resolved.backend.describe(self._resolved.config)

    @property
    def size(self) -> tuple[int, int] | None:
        """(width, height) of the images that memory is allocated for; None before the first
        frame."""
        return None if (chosen := self._chosen) is None else chosen.size

    @property
    def memory_plan(self) -> geometry.MemoryPlan | None:
        """The arrays of the engine; None before the first frame."""
        return None if (plan := self._plan) is None else plan.memory

    @property
    def partitions(self) -> Partitioning | None:
        """How the engine cuts images to fit the memory allowed; None before the first frame."""
        return None if (plan := self._plan) is None else plan.parts

    @property
    def _plan(self) -> Plan | None:
        return None if (chosen := self._chosen) is None else chosen.plan

    @property
    def compile_time(self) -> float:
        """Seconds that the last ``prepare`` or ``reconfigure`` spent on compiling, or on reading
        compiled code from the disk."""
        return 0.0 if (chosen := self._chosen) is None else chosen.compile_time

    def choose_preset(self, width: int, height: int) -> None:
        """Choose what 'auto' is, for images of this size in pixels; a later size changes nothing.

        ``prepare`` and the first pair do it, too.

        :raises InputError: images of this size are rejected.
        """
        width, height = whole('width', width, 1), whole('height', height, 1)
        with self._entrance:
            self._choose(width, height)

    def _choose(self, width: int, height: int) -> None:
        given = self._resolved.given
        check_limits(width, height, given.max_image_width, given.max_image_height)
        if self._chosen is None:
            self._chosen = CurrentEngine(config_of(AUTO, (width, height), self._settings))

    def prepare(self, width: int = 0, height: int = 0,
                calibration: Calibration | PathLike | None = None) -> float:
        """Compile, and allocate for images of this size where it is given; returns seconds.

        Afterwards no frame of this size compiles or allocates anything, unless its calibration
        makes ``min_depth`` end the search elsewhere.

        :param width, height: whole numbers of pixels, both or neither (0).
        :param calibration: of the frames to come; None = the latest one.
        :raises StereoError: as ``compute``.
        :raises RuntimeError: as ``config``, without a size.
        """
        start = time.perf_counter()
        width, height = whole('width', width, 0), whole('height', height, 0)
        if bool(width) != bool(height):
            raise InputError(IssueCode.BAD_SIZE, f'{width} x {height}',
                             'give width and height, or neither')
        with self._entrance:
            if width:
                self._choose(width, height)
            self._current.prepare(width, height, calibration_of(calibration))
        return time.perf_counter() - start

    def reconfigure(self, config: MatcherConfig | str,
                    calibration: Calibration | PathLike | None = None) -> bool:
        """Use another configuration from the next frame on.

        Returns True where a new engine was needed. The new engine compiles and is allocated
        here, beside the old one, or after it where the memory allowed does not hold both. When
        that fails the old configuration stays.

        :param config: or the name of a preset: what presets do not set, as ``backend``, stays.
            'auto' needs a frame before it.
        :param calibration: of the frames to come; None = the latest one.
        :raises StereoError: the new configuration cannot run here or does not fit.
        """
        with self._entrance:
            if not isinstance(config, MatcherConfig):
                config = config_of(config, self.size, {
                    name: value for name, value in self._resolved.given.to_mapping().items()
                    if not is_of_presets(name)})
            current = self._chosen or CurrentEngine(config)
            is_new = current.reconfigure(config, calibration_of(calibration)) or (
                current is not self._chosen)
            self._chosen = current
            if config.row_correction != 'correct':
                self._warp = None
            return is_new

    def correct_rows(self, homography: npt.ArrayLike | None) -> None:
        """Correct the right image by a homography from the next frame on, until another one comes.

        It is that of an error of the right camera, and close to the identity. The right image is
        remapped as ``rectify`` does it, bilinearly and in 32nds of a pixel; the left one stays as
        it is. What lies outside the right image is black. With the setting ``rectify`` one remap
        does both. Results are those of a right camera without the error: with
        ``reference_image`` right ``points`` keep the colors of the image as it comes.

        Any thread may call this. Its maps are computed here once a frame has shown what images
        there are, else in the next frame.

        :param homography: 3 x 3, or its 9 numbers row by row: from a pixel (x, y, 1) of the
            corrected right rectified image, as large as that is before ``downscale``, to its
            place in the right rectified image. 12 numbers: and then what ``RightWarp`` may have;
            None = no correction, which costs nothing.
        :raises ConfigError: the setting ``row_correction`` is not 'correct'.
        :raises InputError: bad calibration: not 9 or 12 finite numbers, or it moves a corner of
            the image by more than ``rectification.MAX_WARP``. The earlier correction stays. Before
            the first frame, and with images of another size, the frame raises it.
        """
        if homography is None:
            self._warp = None
            return
        if (setting := self.config.row_correction) != 'correct':
            raise ConfigError('row_correction', setting,
                              'a homography was given: set it to correct')
        warp = RightWarp(homography)
        if (known := self._warp) is not None and warp.numbers == known.numbers:
            return
        if (latest := self._rectified) is not None:
            warp.prepare(*latest)
        self._warp = warp

    def compute(self, left: Image, right: Image, *,
                calibration: Calibration | PathLike | None = None,
                rectification: Rectification | PathLike | None = None,
                outputs: Sequence[str] | str = ('disparity',),
                out: Mapping[str, Any] | None = None, stream: Any = None,
                encoding: str | None = None) -> DisparityFrame:
        """Match one rectified pair, or with the setting ``rectify`` a raw one.

        Images and arrays may be on the matcher's CUDA device: those of PyTorch, CuPy, Numba and
        others with DLPack or the CUDA array interface. They are read and written there, without
        a copy through the host. The result is complete when this returns, for every stream.

        :param left, right: RawImage, or arrays: H x W uint8 or uint16 (grey), H x W x 3 uint8
            (red, green, blue), H x W x 4 uint8 (with an alpha, which is ignored).
        :param encoding: what the arrays hold instead: 'bgr8' for colour images of ``cv2.imread``,
            or another encoding of ``RawImage.from_array``.
        :param calibration: shifts disparities by ``cx_left - cx_right`` (unless the setting
            pre_adjust_disparity is false); depth needs it, and ``min_depth`` ends the search by
            it. None = that of the rectification. A path is read by ``Calibration.from_file``,
            here and in every call.
        :param rectification: of raw images, or a path for ``Rectification.from_file``; its maps
            are computed when another one comes.
        :param outputs: names of ``OUTPUTS``, or one; only these are computed.
        :param out: name to the caller's C-contiguous array to fill, of the shape and type that
            ``OUTPUTS`` says for the size of the rectified images; without it arrays are
            fresh, NumPy's, and the caller's.
        :param stream: on which arrays on the device are made, or were used last: CUDA's handle,
            or a stream of PyTorch or CuPy. None = the default stream. The frame waits for what
            it holds by now.
        :raises ConfigError: ``fixed_disparity`` of a range that 16 bits do not hold, a
            calibration with which ``min_depth`` is out of reach, or no such output.
        :raises InputError: an image, the calibration or an array of ``out`` is rejected; an
            image that is None says that its file was not read.
        :raises ValueError: as ``from_file``.
        :raises MemoryLimitError: the pair's size needs more than ``memory_limit``.
        :raises RuntimeError: the matcher was entered from two threads at once (without
            ``concurrent='wait'``), or is closed.
        """
        with self._entrance:
            return self._compute(left, right, calibration, rectification, outputs, out,
                                 stream, encoding)

    def submit(self, left: Image, right: Image, *,
               calibration: Calibration | PathLike | None = None,
               rectification: Rectification | PathLike | None = None,
               outputs: Sequence[str] | str = ('disparity',),
               out: Mapping[str, Any] | None = None, stream: Any = None,
               encoding: str | None = None) -> Pending:
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
                                         rectification, outputs, out, stream, encoding)
        except BaseException:
            self._slots.release()
            self._entrance.check_open()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return Pending(future)

    def as_opencv(self) -> OpenCvStereoMatcher:
        """This matcher with the interface of ``cv2.StereoMatcher``: see there."""
        return OpenCvStereoMatcher(self)

    def __repr__(self) -> str:
        size = '' if (found := self.size) is None else ', {} x {}'.format(*found)
        config = AUTO if self._chosen is None else self.config
        return f'StereoMatcher({config!r}) on {self.backend}{size}'

    def close(self) -> None:
        """Wait for every frame in flight and give all memory back; may be called twice.

        Submitted frames are computed to their end, and a call of another thread is waited for.
        Calls that come later raise.

        :raises RuntimeError: the calling thread is inside the matcher (a signal handler).
        """
        self._entrance.close()
        self._worker.shutdown(wait=True)
        with self._entrance.lock:
            if self._chosen is not None:
                self._chosen.close()

    def __enter__(self) -> StereoMatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _compute_submitted(self, *arguments: Any) -> DisparityFrame:
        self._entrance.acquire()
        try:
            return self._compute(*arguments)
        finally:
            self._entrance.release()

    def _compute(self, left: Image, right: Image, calibration: Calibration | PathLike | None,
                 rectification: Rectification | PathLike | None, outputs: Sequence[str] | str,
                 out: Mapping[str, Any] | None, stream: Any, encoding: str | None
                 ) -> DisparityFrame:
        out = {} if out is None else out
        left, right = image_of('left', left, encoding), image_of('right', right, encoding)
        config = self._resolved.given
        check_pair(left, right, config.max_image_width, config.max_image_height)
        if self._chosen is None:
            self._choose(left.width, left.height)
            config = self.config
        width, height = geometry.rectified_size(config, left.width, left.height)
        calibration = calibration_of(calibration)
        rectification = rectification_of(
            rectification, (left.width, left.height),
            (config.rectified_width, config.rectified_height))
        check_rectification(config, rectification, left.width, left.height)
        if rectification is not None and calibration is None:
            calibration = rectification.calibration
        arrays = output_arrays(outputs, out, (height, width), config.points_decimation)
        uncalibrated = [name for name in arrays if OUTPUTS[name].needs_calibration]
        if uncalibrated and calibration is None:
            raise InputError(IssueCode.BAD_CALIBRATION, 'none was given',
                             f'{uncalibrated[0]} needs a calibration')
        self._current.apply_calibration(calibration, left.width, left.height)
        config = self.effective_config
        if 'fixed_disparity' in arrays:
            check_fixed_point(config)
        on_device = device_arrays.among({'left': left.data, 'right': right.data, **arrays})
        if on_device:
            self._current.resolved.backend.check_places(on_device)
        engine = self._current.for_size(left.width, left.height)
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


def config_of(config: Any, size: tuple[int, int] | None, settings: Mapping[str, Any]
              ) -> MatcherConfig:
    """A configuration, or that of a preset by its name, with some settings.

    :param size: width and height of the images, pixels, for 'auto'; 0 = any, None: not known.
    :raises ConfigError: it is neither, or a setting is rejected.
    """
    if isinstance(config, MatcherConfig):
        return config.replace(**settings)
    if not isinstance(config, str):
        raise ConfigError('config', config, "must be a MatcherConfig, or a preset's name, which "
                          'preset_names() gives')
    if config == AUTO:
        if size is None:
            raise ConfigError('preset', config, 'what is best depends on the images: '
                              "StereoMatcher(preset='auto', size=(width, height))")
        config, _ = choice.best_preset(settings, *size)
    return MatcherConfig.preset(config, **settings)
