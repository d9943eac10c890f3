"""The kernels of refinement, run on the host, leave the bits of the CPU engine's refinement."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from test.cases import slow
from test.engines.support import host_cuda

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.engines.cpu.stages import preprocess as on_cpu
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.memory import matches, on_device
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import preprocess
from stereo_bp_ros.engines.cuda.stages import refine as stage
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.types import DERIVED, OUTPUTS
from test.engines.support.outputs import rubbish
from test.engines.support.refinement import CALIBRATION, bp, holed, refine

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

#: What the stage itself writes.
REFINED = tuple(name for name in OUTPUTS if name not in DERIVED)

#: A kernel of blocks of 32 x N threads, or of one row of them; blocks one after the other.
RUN = """
extern "C" void run(const ARGUMENT* argument, int columns, int rows, int wide, int high) {
    HostBlock block(wide * high);
    for (unsigned y = 0; y < unsigned(rows); ++y)
        for (unsigned x = 0; x < unsigned(columns); ++x)
            block.run({x, y, 0}, {unsigned(columns), unsigned(rows), 1}, [&] {
                blockDim = {unsigned(wide), unsigned(high), 1};
                threadIdx = {threadIdx.x % wide, threadIdx.x / wide, 0};
                KERNEL(*argument);
            });
}
"""
FILLING = ('fill_matches', 'publish_filled', 'fill_bands', 'smooth', 'add_conf', 'average_')
WIDTH, HEIGHT = 66, 13

#: Outputs that refinement writes itself.
REFINED = tuple(name for name in OUTPUTS if name not in DERIVED)


class HostKernel:
    """A kernel as ``compiler.kernel`` returns it, on the host."""

    def __init__(self, file: str, name: str, directory: pathlib.Path) -> None:
        directory.mkdir()
        text = host_cuda.source(file).replace('extern __shared__ uint32 valid[];',
                                              'static uint32 valid[64];')
        run = RUN.replace('ARGUMENT', 'Filling' if name.startswith(FILLING) else 'Frame')
        self._library = host_cuda.compiled('#define __shared__ static\n' + text
                                           + run.replace('KERNEL', name), directory)

    def launch(self, _stream: int, grid: tuple[int, int, int], block: tuple[int, int, int],
               _shared_bytes: int, argument: ctypes.Structure) -> None:
        self._library.run(ctypes.byref(argument), *grid[:2], *block[:2])


@pytest.fixture(scope='module')
def host_kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Kernels run on the host; each is compiled once."""
    kernels: dict[str, HostKernel] = {}

    def kernel(_found: Any, file: str, name: str) -> HostKernel:
        if name not in kernels:
            kernels[name] = HostKernel(file, name, tmp_path_factory.mktemp('kernel') / 'k')
        return kernels[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, 'kernel', kernel)
        yield kernels


class HostStage:
    """The stage for one configuration and what matching has handed over."""

    def __init__(self, config: MatcherConfig, inputs: dict[str, np.ndarray]) -> None:
        image = inputs['label'].shape
        plan = MemoryPlan.lay_out(on_device(config, image, image, image, config.downscale,
                                            matches(config, image)))
        self._memory = np.full(plan.total // 8 + 64, 0x5b5b5b5b5b5b5b5b, np.uint64)     # rubbish
        base = -(-self._memory.ctypes.data // 256) * 256
        self.device = {spec.name: base + spec.offset for spec in plan.arrays}
        self._arrays = {
            spec.name: np.frombuffer((ctypes.c_char * spec.nbytes).from_address(
                self.device[spec.name]), spec.dtype).reshape(spec.shape) for spec in plan.arrays}
        for name, array in inputs.items():
            if name != 'grey':
                self._arrays[name][...] = array
        if 'grey' in inputs:
            on_cpu.contrast(inputs['grey'], self._arrays['contrast'],
                            np.empty(image, np.float32))
        self._stage = stage.Refine(Context(TYPICAL, config, image[1], image[0], self))
        self._parameters = stage.Parameters.from_buffer(self._arrays['parameters'][0].data)

    def stamp(self, _stage: str) -> None:
        return None

    def run(self, config: MatcherConfig, calibration: Calibration, names: tuple[str, ...]
            ) -> dict[str, np.ndarray]:
        height, width = self._arrays['label'].shape
        outputs = rubbish(names, (height, width))
        self._parameters.fill(config, calibration)
        self._parameters.bind({name: array.ctypes.data for name, array in outputs.items()})
        self._stage.enqueue(0, stage.steps(config, names))
        return outputs


def check(config: MatcherConfig, changes: list[dict[str, Any]],
          names: tuple[str, ...] = REFINED) -> None:
    """One stage under live settings, one after the other."""
    inputs = holed(config, WIDTH, HEIGHT)
    on_host = HostStage(config, inputs)
    for live in changes:
        changed = config.replace(**live)
        found = on_host.run(changed, CALIBRATION, names)
        largest = on_host._parameters.largest_cost
        expected = refine(changed, inputs, CALIBRATION, names, largest)
        for name in names:
            np.testing.assert_array_equal(found[name], expected[name], f'{name}, {live}')


STEPS = [{'filling': filling, 'bilateral_passes': passes, 'median_window_size': 3 * (passes == 1)}
         for filling in ('none', 'background', 'plane') for passes in (0, 1, 2)]


@pytest.mark.parametrize('reference', ['left', *slow('right')])
@pytest.mark.usefixtures('host_kernels')
def test_every_combination_of_filling_and_passes_has_the_bits_of_the_cpu(reference: str) -> None:
    config = bp(message_type='int16', disparity_range=6, reference_image=reference)
    check(config, STEPS if reference == 'left' else STEPS[-1:])
    planes, rows = (refine(config.replace(filling=filling), holed(config, WIDTH, HEIGHT))
                    for filling in ('plane', 'background'))
    assert (planes['disparity'] != rows['disparity']).sum() > 20


@pytest.mark.usefixtures('host_kernels')
def test_the_sigma_is_live() -> None:
    config = bp(message_type='int16', disparity_range=200, border='keep', filling='background')
    check(config, [{'bilateral_passes': 1, 'bilateral_sigma': sigma}
                   for sigma in (0.1, 1.0, 30.0, 100.0)], ('disparity',))


@pytest.mark.parametrize('names', [(name,) for name in REFINED])
@pytest.mark.usefixtures('host_kernels')
def test_every_output_can_be_alone(names: tuple[str, ...]) -> None:
    config = bp(message_type='float32', disparity_range=6, disp12_max_diff=2)
    check(config, [{'filling': filling, 'bilateral_passes': 1} for filling in ('none', 'plane')],
          names)


@pytest.mark.parametrize('reference', ['left', *slow('right')])
@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.usefixtures('host_kernels')
def test_what_is_not_trusted_leaves_no_value(reference: str, message_type: str) -> None:
    config = bp(message_type=message_type, disparity_range=6, reference_image=reference)
    check(config, [{'confidence_window_size': side, 'confidence_threshold': least, **more}
                   for side, least in ((1, 0.3), (5, 0.0), (5, 0.2), (51, 0.2))
                   for more in ({}, {'bilateral_passes': 1}, {'filling': 'background'})])


@pytest.mark.usefixtures('host_kernels')
def test_contrast_leaves_pixels_out() -> None:
    config = bp(message_type='int16', disparity_range=6)
    check(config, [{'contrast_threshold': least, 'confidence_window_size': side}
                   for least in (30.0, 240.0, 255.0) for side in (1, 3)])


@pytest.mark.parametrize(('pixel', 'kind'), [('uint8', np.uint8), ('float', np.float32)])
def test_contrast_is_that_of_the_cpu(pixel: str, kind: type, tmp_path: pathlib.Path) -> None:
    source = host_cuda.source('frame/preprocess.cu').replace(
        'extern __shared__ double shared_memory[];', 'static double shared_memory[1];')
    library = host_cuda.compiled(
        '#define __shared__ static\n' + source
        + RUN.replace('ARGUMENT', 'Planes').replace('KERNEL', f'contrast<{pixel}>'), tmp_path)
    for width, height in ((66, 37), (5, 3)):
        grey = np.random.default_rng(0).integers(90, 120, (height, width)).astype(kind)
        grey[:, width // 2:] += (np.arange(width - width // 2) % 3).astype(kind)
        grey[height // 3:, :width // 2] = 255
        found, ranges, expected = np.empty((3, height, width), np.float32)
        planes = on_device_planes(grey.ctypes.data, found.ctypes.data, width, height)
        library.run(ctypes.byref(planes), -(-width // preprocess.TILE_WIDTH),
                    -(-height // preprocess.TILE_HEIGHT), *preprocess.BLOCK[:2])
        on_cpu.contrast(grey.astype(np.float32), expected, ranges)
        np.testing.assert_array_equal(found, expected)


def on_device_planes(source: int, target: int, width: int, height: int) -> preprocess._Planes:
    return preprocess._Planes((ctypes.c_void_p * 2)(source), (ctypes.c_void_p * 2)(target), width,
                              height)
