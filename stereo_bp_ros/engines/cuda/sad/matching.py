"""Stage ``sad``: labels by block matching, from the matched images."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.stages import preprocess, refine, right_labels
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.papers import programs

#: The C++ types of pixels.
PIXELS = {'uint8': 'unsigned char', 'float': 'float', 'int32': 'int'}


@declared_in('sad/sad.cuh')
class Windows(ctypes.Structure):
    """As ``Windows`` in ``sad.cuh``."""


def windows(config: ResolvedConfig, width: int, height: int, rows: int,
            addresses: Mapping[str, int | None]) -> Windows:
    """Arguments of the kernels.

    :param rows: of windows that one block goes down.
    :param addresses: of ``left``, ``right``, ``label`` ... ``right_keys``; none = not wanted.
    """
    valid = geometry.matched_window(config, width, height)
    is_signed = config.preprocessing in ('sobel_x', 'residual')
    return Windows(
        **addresses, width=width, height=height, window=config.correlation_window_size,
        min_disparity=config.min_disparity, disparities=config.disparity_range,
        x_begin=valid.x_offset, x_end=valid.x_offset + valid.width, y_begin=valid.y_offset,
        y_end=valid.y_offset + valid.height, rows=rows,
        offset=quantisation.SIGNED_OFFSET if is_signed else 0)


def wanted_arrays(device: Mapping[str, int], wanted: refine.Steps) -> dict[str, int | None]:
    """Addresses of what a frame wants to be filled."""
    asked = {'label': True, 'fraction': wanted.fraction, 'best': wanted.costs,
             'second': wanted.costs, 'right_keys': wanted.right}
    return {name: device[name] if is_asked else None for name, is_asked in asked.items()}


def kernel_name(launch: sad_launch.Launch, image: str, wanted: refine.Steps) -> str:
    """The kernel in ``sad.cu`` for matched images of this type, 'uint8' or 'float'."""
    outputs = ('EVERYTHING' if wanted.costs or wanted.right
               else 'LABELS_AND_FRACTIONS' if wanted.fraction else 'LABELS_ALONE')
    return _name(launch, image, outputs)


def _name(launch: sad_launch.Launch, image: str, outputs: str) -> str:
    return (f'match_windows<{PIXELS[image]}, {launch.tiles}, {launch.label_tiles}, '
            f'{launch.chunks}, {launch.strips}, {launch.copies}, {outputs}>')


class Sad(CudaMatching):
    """See ``CudaMatching``."""

    @classmethod
    def replacement(cls, config: ResolvedConfig, device: Properties) -> ResolvedConfig:
        if sad_launch.is_possible(config, device):
            return config
        return config.replace(**programs.SINGLE_WINDOWS)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return sad_launch.arrays((plan.height, plan.width))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._launch = sad_launch.launch_of(self._config, self._width, self._height, self._device)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        image = preprocess.PIXELS[matched]
        right_labels.load(self._device, 'uint32')
        for outputs in ('LABELS_ALONE', 'LABELS_AND_FRACTIONS', 'EVERYTHING'):
            compiler.kernel(self._device, 'sad/sad.cu', _name(self._launch, image, outputs))

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        launch, device, image = self._launch, self._arena.device, preprocess.PIXELS[matched]
        arguments = windows(self._config, self._width, self._height, launch.rows, {
            'left': device[f'left_{matched}'], 'right': device[f'right_{matched}'],
            'stamp': self._arena.stamp('messages'), **wanted_arrays(device, wanted)})
        compiler.kernel(self._device, 'sad/sad.cu', kernel_name(launch, image, wanted)).launch(
            stream, launch.grid, (launch.threads, 1, 1), launch.shared_bytes, arguments)
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint32')
        return False
