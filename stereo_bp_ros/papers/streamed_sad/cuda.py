"""The data-streaming variants of stage ``sad`` (Pudpai, Kim & Liu), one SAD at a time."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.sad import matching as sad
from stereo_bp_ros.engines.cuda.stages import preprocess, refine, right_labels
from stereo_bp_ros.engines.geometry import Wanted

#: Name of a variant to its name in ``streamed_sad.cu``.
STREAMING = {'global': 'GLOBAL', 'shared_one': 'SHARED_ONE', 'shared_all': 'SHARED_ALL'}

#: Widest window whose sums are unrolled unless something else is asked for.
MAX_UNROLLED = 11

#: Most rows of windows that a block goes down.
MAX_ROWS = 16


class Variant(NamedTuple):
    """One way of streaming the images.

    streaming: key of ``STREAMING``; pixel: 'uint8' or 'int32', as the images are kept; unrolled:
    the sums over a window; threads: of a block, which are windows in x.
    """

    streaming: str
    pixel: str
    unrolled: bool
    threads: int

    @classmethod
    def of(cls, config: ResolvedConfig, streaming: str) -> Variant:
        """What the engine takes for a way of streaming: what was fastest."""
        return cls(streaming, 'uint8',
                   config.correlation_window_size <= MAX_UNROLLED, 128)

    def kernel_name(self, window: int) -> str:
        """The kernel in ``streamed_sad.cu`` for a window of this side."""
        return (f'stream_windows<{sad.PIXELS[self.pixel]}, {window if self.unrolled else 0}, '
                f'{STREAMING[self.streaming]}>')

    def shared_bytes(self, config: ResolvedConfig) -> int:
        """Bytes of the rows that a block keeps on chip."""
        if self.streaming == 'global':
            return 0
        window = config.correlation_window_size
        row = 2 * (self.threads + window - 1) + config.disparity_range - 1
        return window * row * (1 if self.pixel == 'uint8' else 4)

    def rows(self, config: ResolvedConfig, width: int, height: int, device: Properties) -> int:
        """Rows of windows that a block goes down: many, but with blocks for all processors."""
        valid = geometry.valid_window(config, width, height)
        if self.streaming == 'global' or valid.width == 0:
            return min(1, valid.height)
        threads = -(-valid.width // self.threads) * self.threads * valid.height
        return min(MAX_ROWS, max(1, threads // (512 * device.multiprocessors)))


class Streamed(CudaMatching):
    """Block matching in one of the variants; see ``CudaMatching``."""

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        image = plan.height, plan.width
        return [*((f'{side}_8bit', image, 'uint8') for side in ('left', 'right')),
                *sad_launch.arrays(image)]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._variant = Variant.of(self._config, self._config.streamed_sad.variant)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        image = preprocess.PIXELS[matched]
        right_labels.load(self._device, 'uint32')
        compiler.kernel(self._device, 'papers/streamed_sad.cu', _rounding_name(image))
        compiler.kernel(self._device, 'papers/streamed_sad.cu', self._variant.kernel_name(
            self._config.correlation_window_size))

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        config, device, image = self._config, self._arena.device, preprocess.PIXELS[matched]
        count = self._width * self._height
        rows = self._variant.rows(config, self._width, self._height, self._device)
        arguments = sad.windows(config, self._width, self._height, rows, {
            'left': device['left_8bit'], 'right': device['right_8bit'],
            **sad.wanted_arrays(device, wanted)})
        compiler.kernel(self._device, 'papers/streamed_sad.cu', _rounding_name(image)).launch(
            stream, (-(-count // 256), 1, 1), (256, 1, 1), 0,
            *(ctypes.c_void_p(device[name]) for name in (
                f'left_{matched}', f'right_{matched}', 'left_8bit', 'right_8bit')),
            ctypes.c_int(count), ctypes.c_int(arguments.offset),
            ctypes.c_void_p(self._arena.stamp('messages')))
        enqueue(self._device, stream, self._variant, config, arguments)
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint32')
        return False


def enqueue(device: Properties, stream: int, variant: Variant, config: ResolvedConfig,
            arguments: sad.Windows) -> None:
    """Launch one variant over images that are kept as its pixels."""
    if arguments.rows == 0:
        return
    columns = arguments.x_end - arguments.x_begin
    rows = arguments.y_end - arguments.y_begin
    grid = (-(-columns // variant.threads), -(-rows // arguments.rows), 1)
    kernel = compiler.kernel(device, 'papers/streamed_sad.cu',
                             variant.kernel_name(arguments.window))
    kernel.launch(
        stream, grid, (variant.threads, 1, 1), variant.shared_bytes(config), arguments)


def _rounding_name(image: str) -> str:
    return f'cut_to_8bit<{sad.PIXELS[image]}, unsigned char>'
