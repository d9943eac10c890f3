"""Frames, figures and texts for Rerun; a file, a browser and a window show them alike.

Each camera or matcher has its entities below its name: ``PICTURES``, ``points``, ``PLOTS`` and
``TEXTS``. Timelines are the
``stamp`` of the left image, the number of the ``frame``, and, with a truth, ``worst_first``.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation.showing import bad_pixels
from stereo_bp_ros.images import pictures
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.system import atomic_files

APPLICATION = 'stereo_bp'

#: Entities of pictures, plots and texts and their titles, by the order in which they are laid
#: out. The left image is below the camera, whose frustum it fills in the view of the points.
LEFT = 'camera/left'
PICTURES = {LEFT: 'left image', 'disparity': 'disparity px', 'confidence': 'confidence',
            'truth': 'truth px', 'error': 'error'}
PLOTS = {'latency_ms': 'latency ms', 'rate_hz': 'rate Hz', 'dropped': 'dropped',
         'vertical_offset_px': 'vertical offset px', 'memory_mib': 'memory MiB',
         'bad_3': 'bad-3 %'}
TEXTS = {'status': 'status', 'diagnostics': 'log'}

#: Of the latencies, those of the whole frame; the others are of stages, and sum up to them.
WHOLE = ('total', 'age')

#: Plots and texts in a row: of so many each has room for its title.
PLOT_COLUMNS = 3

#: Shares of pictures and of what is beside them, with points and without.
WITH_POINTS, WITHOUT = (2, 3), (3, 1)

#: Width / height of a window, the part of its height that the title of a picture takes, and width
#: / height of images before the first one is there.
WINDOW, TITLE, ASPECT = 1.85, 0.035, 4 / 3

#: Colours of curves, RGB, one after another.
CURVES = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189),
          (140, 86, 75), (227, 119, 194), (127, 127, 127), (188, 189, 34), (23, 190, 207))

#: What is shown of a running node.
LIVE = (LEFT, 'disparity', 'confidence', 'points', *(kind for kind in PLOTS if kind != 'bad_3'),
        *TEXTS)

#: Metres from the camera to the image in its frustum.
FRUSTUM_M = 1.0

JPEG_QUALITY = 85

#: Part of the colour map below the minimum disparity, which invalid pixels have.
DARK = 0.07

#: Seconds that a viewer may take to accept a frame.
FLUSH_LIMIT_S = 5.0

#: What a recording ends with, and bytes that hold it; without it a recording was cut off.
END, END_BYTES = b'RRF2FOOT', 16

PIPE_BYTES = 2**16

Map = tuple[np.ndarray, np.ndarray]
"""Disparity, float H x W in pixels, and where it is valid, bool H x W."""


def blueprint(layout: Mapping[str, Sequence[str]], timeline: str = 'stamp',
              aspects: Mapping[str, float] | None = None) -> rrb.Blueprint:
    """A tab with the views of each name, as far as it has them.

    :param timeline: that is shown: without a time on it nothing is.
    :param aspects: width / height of the images of each name; of others ``ASPECT``.
    """
    return rrb.Blueprint(
        rrb.Tabs(*(_tab(name, kinds, (aspects or {}).get(name, ASPECT))
                   for name, kinds in layout.items())),
        rrb.BlueprintPanel(state='hidden'), rrb.SelectionPanel(state='hidden'),
        rrb.TimePanel(state='collapsed', timeline=timeline))


def _tab(name: str, kinds: Sequence[str], aspect: float) -> rrb.Horizontal:
    """Pictures beside the points, and plots and texts below these."""
    shares = WITH_POINTS if 'points' in kinds else WITHOUT
    images = [rrb.Spatial2DView(origin=f'{name}/{kind}', name=title)
              for kind, title in PICTURES.items() if kind in kinds]
    stack = rrb.Grid(*images, grid_columns=picture_columns(
        len(images), aspect, WINDOW * shares[0] / sum(shares)))
    texts = [view(origin=f'{name}/{kind}', name=TEXTS[kind]) for kind, view in (
        ('status', rrb.TextDocumentView), ('diagnostics', rrb.TextLogView)) if kind in kinds]
    others = [*(_plot(name, kind) for kind in PLOTS if kind in kinds),
              *([rrb.Tabs(*texts)] if texts else [])]
    if 'points' not in kinds:
        return rrb.Horizontal(stack, rrb.Vertical(*others), column_shares=shares, name=name)
    space = rrb.Spatial3DView(
        origin=name, contents=['$origin/points', '$origin/camera/**'], name='points',
        eye_controls=rrb.EyeControls3D(position=(-2.6, -2.3, -2.6), look_target=(0.2, 0.7, 6),
                                       eye_up=(0, -1, 0)))
    return rrb.Horizontal(stack, rrb.Vertical(space, rrb.Grid(
        *others, grid_columns=min(PLOT_COLUMNS, len(others)))), column_shares=shares, name=name)


def picture_columns(count: int, aspect: float, area: float) -> int:
    """In how many columns pictures are largest: wide ones are stacked.

    :param aspect: width / height of each.
    :param area: width / height of the part of the window that they share.
    """
    def size(columns: int) -> float:
        return min(area / columns / aspect, 1 / -(-count // columns) - TITLE)
    return max(range(1, count + 1), key=size)


def _plot(name: str, kind: str) -> rrb.TimeSeriesView | rrb.Tabs:
    """A plot whose title says what its only curve is; stages have one of their own."""
    origin, title = f'{name}/{kind}', PLOTS[kind]
    if kind != 'latency_ms':
        return rrb.TimeSeriesView(origin=origin, name=title,
                                  plot_legend=rrb.PlotLegend(visible=False))
    legend = rrb.PlotLegend(visible=True, corner=rrb.Corner2D.LeftTop)
    whole = [f'$origin/{one}' for one in WHOLE]
    return rrb.Tabs(
        rrb.TimeSeriesView(origin=origin, contents=whole, name=title, plot_legend=legend),
        rrb.TimeSeriesView(origin=origin, name='stages ms', plot_legend=legend,
                           contents=['+ $origin/**', *(f'- {one}' for one in whole)]))


class _Recording:
    """Writes what Rerun sends through a pipe into a file.

    Rerun's own thread would say nothing of a full disk, and be waited for for ever.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._error: Exception | None = None
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._copy, name='recording', daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def way_in(self) -> Iterator[str]:
        """A path that Rerun opens and writes; the file is whole once Rerun closes it."""
        try:
            yield f'/proc/self/fd/{self._write}'
        finally:
            os.close(self._write)

    def _copy(self) -> None:
        with open(self._read, 'rb', buffering=0) as pipe:
            try:
                with atomic_files.opened(self._path) as file:
                    end = b''
                    while part := pipe.read(PIPE_BYTES):
                        file.write(part)
                        end = (end + part)[-END_BYTES:]
                    if END not in end:
                        raise ValueError(f'{self._path} cannot be written: Rerun has not ended it')
            except Exception as error:
                self._error = error
                while pipe.read(PIPE_BYTES):    # else Rerun would wait
                    pass

    def check(self) -> None:
        """:raises ValueError: the file cannot be written."""
        if self._error:
            raise self._error

    def close(self) -> None:
        """Wait until the file is on the disk, once Rerun has closed its end.

        :raises ValueError: as ``check``.
        """
        self._thread.join()
        self.check()


class Sink:
    """Sends to a file, a viewer's server, or both; a context manager.

    :param file: recording to write (.rrd).
    :param url: of the server of a viewer.
    :param every: send each n-th row and column of images.
    :param points_every: send each n-th point.
    :param is_open: whether somebody may still look.
    """

    def __init__(self, *, file: pathlib.Path | None = None, url: str = '', every: int = 1,
                 points_every: int = 1, is_open: Callable[[], bool] = lambda: True) -> None:
        self.is_open = is_open
        self._every, self._points_every = every, points_every
        self._layout: dict[str, Sequence[str]] = {}
        self._timeline = 'stamp'
        self._aspects: dict[str, float] = {}
        self._ranges: dict[str, tuple[float, float]] = {}
        self._curves: dict[str, int] = {}
        self._cameras: dict[str, tuple[Any, ...]] = {}
        self._stream = rr.RecordingStream(APPLICATION, recording_id=uuid.uuid4())
        self._file, self._url = file, url
        self._recording: _Recording | None = None

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
        finally:
            self._stream.disconnect()
        if self._recording:
            self._recording.close()

    def check(self) -> None:
        """Reject a file that cannot be written.

        :raises ValueError: names it and the reason.
        """
        if self._recording:
            self._recording.check()

    def lay_out(self, layout: Mapping[str, Sequence[str]], timeline: str = 'stamp') -> None:
        """Add names and what is shown of each, a part of ``LIVE`` or of what ``judged`` sends."""
        if not self._layout:        # what is never shown leaves no file
            with contextlib.ExitStack() as stack:
                sinks = [rr.GrpcSink(self._url)] if self._url else []
                if self._file:
                    self._recording = _Recording(self._file)
                    sinks.append(rr.FileSink(stack.enter_context(self._recording.way_in())))
                self._stream.set_sinks(*sinks)
        self._layout |= layout
        self._timeline = timeline
        for name in layout:
            self._log(name, rr.ViewCoordinates.RDF, static=True)
        self._stream.send_blueprint(blueprint(self._layout, timeline, self._aspects))

    def at(self, frame: int, stamp_ns: int | None = None) -> None:
        """Set the time of what is sent from here on."""
        self._stream.reset_time()
        self._stream.set_time('frame', sequence=frame)
        if stamp_ns is not None:
            self._stream.set_time('stamp', timestamp=np.datetime64(stamp_ns, 'ns'))

    def flush(self) -> bool:
        """Wait until what was sent has been accepted, so that nothing queues up.

        Returns whether it was within ``FLUSH_LIMIT_S``.
        """
        try:
            self._stream.flush(timeout_sec=FLUSH_LIMIT_S)
        except RuntimeError:
            return False
        return True

    def left(self, name: str, image: np.ndarray | RawImage) -> None:
        """Send the left image: mono8, mono16 or rgb8 H x W, or raw."""
        self._picture(f'{name}/{LEFT}', pictures.grey_picture(image))

    def disparity(self, name: str, found: Map, kind: str = 'disparity') -> None:
        """Send a disparity in colours of the values that this name has had so far.

        A pointer shows pixels; what is not valid has the darkest colour.
        """
        self._set_size(name, *found[0].shape)
        disparity, valid = (self._thinned(array) for array in found)
        low, high = self._widen_range(name, found)
        least = low - DARK * (high - low)
        self._log(f'{name}/{kind}', rr.DepthImage(
            np.where(valid & np.isfinite(disparity), disparity, least).astype(np.float16),
            colormap='turbo', depth_range=(least, high)))

    def confidence(self, name: str, confidence: np.ndarray) -> None:
        """Send a confidence, float H x W in [0, 1], 0 where there is no disparity."""
        self._log(f'{name}/confidence', rr.DepthImage(
            self._thinned(confidence).astype(np.float16), colormap='viridis',
            depth_range=(0.0, 1.0)))

    def camera(self, name: str, calibration: Calibration, width: int, height: int) -> None:
        """Send the frustum of the left camera, where it is another one than before.

        width, height: of the images as they come, pixels.
        """
        numbers = (calibration.focal_px, calibration.focal_y_px, calibration.cx_left,
                   calibration.cy, width, height)
        if self._cameras.get(name) == numbers:
            return
        self._cameras[name] = numbers
        fx, fy, cx, cy, *_ = (number / self._every for number in numbers)
        self._log(f'{name}/camera', rr.Pinhole(
            focal_length=(fx, fy), principal_point=(cx, cy), width=-(-width // self._every),
            height=-(-height // self._every), image_plane_distance=FRUSTUM_M), static=True)

    def points(self, name: str, points: np.ndarray) -> None:
        """Send points, float32 ... x 4: metres, and the bits of red, green and blue."""
        points = points.reshape(-1, 4)
        points = points[np.isfinite(points[:, 2])][::self._points_every]
        bits = np.ascontiguousarray(points[:, 3]).view(np.uint32)
        colours = np.stack([bits >> shift & 255 for shift in (16, 8, 0)], axis=-1)
        self._log(f'{name}/points', rr.Points3D(points[:, :3], colors=colours.astype(np.uint8)))

    def numbers(self, name: str, kind: str, values: Mapping[str, float] | float) -> None:
        """Send figures to plot: one, or several by their names."""
        if not isinstance(values, Mapping):
            self._curve(f'{name}/{kind}', PLOTS[kind], values)
            return
        for key, value in values.items():
            self._curve(f'{name}/{kind}/{key.replace(" ", "_")}', key, value)

    def _curve(self, entity: str, title: str, value: float) -> None:
        if entity not in self._curves:
            plot = entity.rpartition('/')[0]
            place = sum(one.startswith(f'{plot}/') for one in self._curves)
            self._curves[entity] = place
            self._log(entity, rr.SeriesLines(
                colors=CURVES[place % len(CURVES)], names=title), static=True)
        self._log(entity, rr.Scalars(value))

    def text(self, name: str, level: str, text: str) -> None:
        """Send a line of the log, of the level INFO, WARN or ERROR."""
        self._log(f'{name}/diagnostics', rr.TextLog(text, level=level))

    def status(self, name: str, markdown: str) -> None:
        """Send what is the case now."""
        self._log(f'{name}/status', rr.TextDocument(markdown, media_type='text/markdown'))

    def judged(self, name: str, place: int, left: np.ndarray | RawImage, found: Map, *,
               latency_ms: Mapping[str, float], truth: np.ndarray | None = None,
               confidence: np.ndarray | None = None, points: np.ndarray | None = None,
               stamp_ns: int | None = None) -> None:
        """Send a pair as a matcher of this name matched it.

        place: in the sequence, from 0.
        found: unshifted.
        latency_ms: by stages.
        truth: float H x W, pixels, not finite = unknown.
        confidence: float H x W in [0, 1].
        points: as ``points`` takes them.
        """
        if truth is not None and not np.isfinite(truth).any():
            truth = None
        if name not in self._layout:
            self.lay_out({name: [kind for kind, is_there in {
                LEFT: True, 'disparity': True, 'confidence': confidence is not None,
                'truth': truth is not None, 'error': truth is not None,
                'points': points is not None, 'latency_ms': True,
                'bad_3': truth is not None}.items() if is_there]}, 'frame')
        self.at(place + 1, stamp_ns)
        if truth is not None:
            wrong = _wrong(found, truth)
            # The time of a frame is the earlier, the worse it is.
            self._stream.set_time('worst_first', sequence=round(1000 * (100 - wrong)))
            self.numbers(name, 'bad_3', wrong)
            self._picture(f'{name}/error', pictures.error_picture(found[0], truth, found[1]),
                          is_lossless=True)
            self._widen_range(name, found)      # both in the same colours
            self.disparity(name, (truth, np.isfinite(truth)), 'truth')
        self.left(name, left)
        self.disparity(name, found)
        # Stages that a configuration does not have take no time.
        self.numbers(name, 'latency_ms', {stage: ms for stage, ms in latency_ms.items() if ms})
        if confidence is not None:
            self.confidence(name, confidence)
        if points is not None:
            self.points(name, points)
        self.flush()
        self.check()

    def _set_size(self, name: str, height: int, width: int) -> None:
        """Lay the pictures of a name out anew where they have another size."""
        aspect = width / max(1, height)
        if name in self._layout and self._aspects.get(name, ASPECT) != aspect:
            self._aspects[name] = aspect
            self._stream.send_blueprint(blueprint(self._layout, self._timeline, self._aspects))

    def _widen_range(self, name: str, found: Map) -> tuple[float, float]:
        """The range of colours of a name, pixels; it never shrinks, so that frames compare."""
        low, high = pictures.color_range(found)
        before = self._ranges.get(name, (low, high))
        self._ranges[name] = min(low, before[0]), max(high, before[1])
        return self._ranges[name]

    def _picture(self, entity: str, picture: np.ndarray, *, is_lossless: bool = False) -> None:
        image = rr.Image(np.ascontiguousarray(self._thinned(picture)), 'BGR')
        self._log(entity, image if is_lossless else image.compress(JPEG_QUALITY))

    def _thinned(self, array: np.ndarray) -> np.ndarray:
        return array[::self._every, ::self._every]

    def _log(self, entity: str, what: Any, *, static: bool = False) -> None:
        self._stream.log(entity, what, static=static)


def _wrong(found: Map, truth: np.ndarray) -> float:
    """Per cent of the pixels with truth that are wrong by more than 3 px, or holes."""
    bad, known = bad_pixels(*found, truth)
    return 100.0 * int(bad.sum()) / max(1, int(known.sum()))
