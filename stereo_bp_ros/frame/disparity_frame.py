"""What a matcher hands out: the disparity frame and its parts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config.arguments import choice_of, path_of
from stereo_bp_ros.errors import ConfigError, InputError
from stereo_bp_ros.images import device_arrays
from stereo_bp_ros.issues import IssueCode


class Output(NamedTuple):
    """Something that a matcher can hand out for each pixel of the reference image.

    dtype:      NumPy's name of the type of its values.
    channels:   values of a pixel; 0 = one, without an axis of its own.
    is_derived: computed from the finished disparity in a stage that has the output's name, not
                within ``refine``.
    needs_calibration: there is none without a ``Calibration``.
    is_decimated: there is one for every ``points_decimation``-th column and row only.
    """

    dtype: str
    channels: int = 0
    is_derived: bool = False
    needs_calibration: bool = False
    is_decimated: bool = False

    def shape(self, image: tuple[int, int], decimation: int = 1) -> tuple[int, ...]:
        """The shape of the array for images of (height, width).

        :param decimation: the setting ``points_decimation``.
        """
        height, width = image
        if self.is_decimated:
            height, width = -(-height // decimation), -(-width // decimation)
        return (height, width, self.channels) if self.channels else (height, width)

    def empty(self, image: tuple[int, int], decimation: int = 1) -> np.ndarray[Any, Any]:
        """An uninitialised array of this shape."""
        return np.empty(self.shape(image, decimation), self.dtype)


#: Every output of ``StereoMatcher.compute(outputs=...)``, by its name.
OUTPUTS = {
    'disparity': Output('float32'),
    'depth': Output('float32', needs_calibration=True),
    'confidence': Output('float32'),
    'fixed_disparity': Output('int16'),
    'depth_mm': Output('uint16', needs_calibration=True),
    'disparity_color': Output('uint8', channels=3, is_derived=True),
    'points': Output('float32', 4, is_derived=True, needs_calibration=True, is_decimated=True),
}

#: Names of the outputs that have stages of their own.
DERIVED = tuple(name for name, output in OUTPUTS.items() if output.is_derived)

#: Stages of a frame inside an engine, in order; the keys of ``DisparityFrame.timings``.
ENGINE_STAGES = ('convert', 'upload', 'preprocess', 'cost', 'messages', 'refine', *DERIVED,
                 'download')


def outputs_of(name: str, outputs: Any) -> tuple[str, ...]:
    """Names of outputs; a text is one.

    :raises ConfigError: one of them is not in ``OUTPUTS``.
    """
    try:
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    except TypeError:
        names = (outputs,)
    return tuple(choice_of(name, one, tuple(OUTPUTS)) for one in names)


def output_arrays(outputs: Sequence[str] | str, out: Mapping[str, Any], image: tuple[int, int],
                  decimation: int) -> dict[str, Any]:
    """The array of each output: the caller's, or a fresh one.

    :param outputs, out: as for ``StereoMatcher.compute``; image: height and width, pixels.
    :param decimation: the setting ``points_decimation``.
    :raises StereoError: an output is not known, or an array does not fit.
    """
    if not isinstance(out, Mapping):
        raise ConfigError('out', out, "must be arrays by their outputs: {'disparity': array}")
    arrays: dict[str, Any] = {}
    for name in (*outputs_of('outputs', outputs), *outputs_of('out', out)):
        output = OUTPUTS[name]
        if name not in out:
            arrays[name] = output.empty(image, decimation)
            continue
        array = device_arrays.located(out[name], f'out[{name!r}]')
        if (array.shape != output.shape(image, decimation) or array.dtype != output.dtype
                or not array.flags.c_contiguous or not array.flags.writeable):
            raise InputError(
                IssueCode.BAD_ARRAY, f'out[{name!r}] is {array.dtype} {array.shape}',
                f'it must be a writeable C-contiguous {output.dtype} array of shape '
                f'{output.shape(image, decimation)}')
        arrays[name] = array
    return arrays


@dataclasses.dataclass(frozen=True)
class ValidWindow:
    """The rectangle of pixels that can have a disparity (``sensor_msgs/RegionOfInterest``).

    Pixels x in [x_offset, x_offset + width), y in [y_offset, y_offset + height). An empty
    window has width and height 0.
    """

    x_offset: int
    y_offset: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Row and column slices of the window, for NumPy indexing."""
        return (slice(self.y_offset, self.y_offset + self.height),
                slice(self.x_offset, self.x_offset + self.width))


class PointCloud(NamedTuple):
    """Points that are known, N of them.

    xyz: float32 N x 3, metres in the optical frame of the reference camera (right, down, forward).
    rgb: uint8 N x 3, red, green and blue.
    """

    xyz: np.ndarray
    rgb: np.ndarray


@dataclasses.dataclass(frozen=True, repr=False)
class DisparityFrame:
    """The result for one stereo pair; arrays belong to the caller.

    An array that was given in ``out`` is here as it was given, of whichever library and place.

    disparity:  float32 H x W, pixels, of the reference image. Less than ``min_disparity`` =
                invalid; every invalid pixel has the one finite value ``min_disparity - 1``.
                None where it was not asked for.
    depth:      float32 H x W, metres along the optical axis (REP 118), NaN = no depth; or None.
    confidence: float32 H x W in [0, 1], 0 where invalid; or None.
    fixed_disparity: int16 H x W, sixteenths of a pixel, the fixed-point numbers of OpenCV's
                matchers: 16 times the unshifted disparity, without the
                shift by ``cx_left - cx_right``; 16 (``min_disparity`` - 1) of the settings where
                invalid; or None. Half the bytes of ``disparity`` on the way from a GPU.
    depth_mm:   uint16 H x W, millimetres along the optical axis, rounded half up; 0 = no depth,
                or one beyond 65.535 m; or None.
    disparity_color: uint8 H x W x 3, the disparity in colours (blue, green, red) by ``color_map``,
                black where invalid; or None.
    points:     float32 H x W x 4 (every ``points_decimation``-th row and column): x, y and z in
                metres in the optical frame of the reference camera (right, down, forward;
                REP 103), all three NaN = no point; and the bits of a colour,
                ``points[..., 3].view('uint32')`` = red << 16 | green << 8 | blue; or None.
    min_disparity, max_disparity: range of the valid values, pixels, with the same shift by
                ``cx_left - cx_right`` as the values.
    delta_d:    smallest step between two disparities, pixels.
    valid_window: where a disparity can be found at all.
    timings:    stage name (``ENGINE_STAGES``) to milliseconds; fused stages report their sum
                under the later name.
    backend:    'cpu' or 'cuda'.
    """

    disparity: np.ndarray | None
    depth: np.ndarray | None
    confidence: np.ndarray | None
    min_disparity: float
    max_disparity: float
    delta_d: float
    valid_window: ValidWindow
    timings: Mapping[str, float]
    backend: str
    fixed_disparity: np.ndarray | None = None
    depth_mm: np.ndarray | None = None
    disparity_color: np.ndarray | None = None
    points: np.ndarray | None = None

    @property
    def valid(self) -> np.ndarray:
        """Bool H x W: pixels that have a disparity; where the disparity is.

        :raises ValueError: the frame was computed without the disparity output.
        """
        disparity = self._output('disparity')
        valid: np.ndarray = disparity >= float(np.float32(self.min_disparity))
        return valid

    def point_cloud(self) -> PointCloud:
        """The valid points of ``points`` and their colours, as NumPy's arrays of two dimensions.

        :raises ValueError: the frame was computed without the points output, or it is on a GPU.
        """
        from stereo_bp_ros.images import output_files  # not above: it loads OpenCV
        xyz, bits = output_files.cloud(self._on_host('points'))
        return PointCloud(xyz, output_files.colours(bits))

    def save(self, path: str | os.PathLike[str], output: str = '') -> None:
        """Write an output in the format that the ending of the name says.

        .pfm, .tiff and .npy have float32; .png has 16 bits (disparity: 1/256 pixel, depth: mm,
        confidence: 1/65535; 0 = unknown); .ply and .pcd are clouds with colours
        (``docs/reference/files.md``).

        :param output: its name; '' = points where the name ends in .ply or .pcd, else disparity.
        :raises ConfigError: there is no such output, or ``path`` is none.
        :raises ValueError: the frame was computed without it, it is on a GPU, or the file has no
            such ending or cannot be written.
        """
        from stereo_bp_ros.images import output_files  # not above: it loads OpenCV
        path = path_of('path', path)
        if not isinstance(output, str) or output:
            choice_of('output', output, tuple(OUTPUTS))
        output = output or output_files.output_of(path)
        values = self._on_host(output)
        if output == 'disparity':
            values = np.where(values >= np.float32(self.min_disparity), values, np.float32(np.nan))
        output_files.write(path, output, values)

    def _output(self, name: str) -> Any:
        if (found := getattr(self, name)) is None:
            raise ValueError(f'this frame was computed without the {name} output')
        return found

    def _on_host(self, name: str) -> np.ndarray:
        found = device_arrays.located(self._output(name))
        if not isinstance(found, np.ndarray):
            raise ValueError(f'{name} of this frame is in the memory of a CUDA device: copy it')
        return found

    def _summary(self) -> list[str]:
        """What it holds, in phrases."""
        held = {name: value for name in OUTPUTS if (value := getattr(self, name)) is not None}
        height, width = next(iter(held.values())).shape[:2] if held else (0, 0)
        if isinstance(self.disparity, np.ndarray):
            valid = f', {100 * self.valid.mean():.1f} % valid'
        else:
            valid = ''
        return [f'{width} x {height} pixels, disparities {self.min_disparity:g} to '
                f'{self.max_disparity:g} px{valid}', ', '.join(held) or 'no output',
                f'{sum(self.timings.values()):.1f} ms ({self.backend})']

    def __repr__(self) -> str:
        return f'DisparityFrame({"; ".join(self._summary())})'

    def _repr_html_(self) -> str:
        """For notebooks: pictures of disparity, confidence and depth, with their units."""
        from stereo_bp_ros.images import pictures  # not above: it loads OpenCV
        panels, legends, lines = [], [], self._summary()
        if isinstance(self.disparity, np.ndarray):
            low, high = self.min_disparity, self.max_disparity
            panels.append(('disparity', pictures.disparity_picture(
                self.disparity, self.valid, low, high)))
            legends.append(pictures.disparity_bar(self.disparity.shape[0], low, high))
        if isinstance(self.confidence, np.ndarray):
            panels.append(('confidence, blue = 0 to yellow = 1',
                           pictures.confidence_picture(self.confidence)))
        if isinstance(self.depth, np.ndarray) and np.isfinite(self.depth).any():
            near, far, low, high, median = np.nanpercentile(self.depth, (1, 99, 0, 100, 50))
            lines.append(f'depth {low:.2f} to {high:.2f} m, median {median:.2f} m')
            panels.append((f'depth, red = {near:.2f} m to blue = {far:.2f} m',
                           pictures.depth_picture(self.depth, near, max(far, 1.01 * near))))
        picture = pictures.data_uri(
            pictures.sheet(panels, 1, legends).picture) if panels else ''
        return (f'<p>{"<br>".join(lines)}</p>'
                + (f'<img alt="disparity in pixels" src="{picture}">' if picture else ''))
