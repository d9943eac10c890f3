"""The kernels of refinement, run on the host, leave the bits of the CPU engine's refinement."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import numpy as np
import pytest

from test.cases import slow
from test.engines.support import host_cuda

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.engines.cpu.stages import preprocess as on_cpu
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.memory import matches, on_device
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import preprocess
from stereo_bp_ros.engines.cuda.stages import refine as stage
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.frame.disparity_frame import DERIVED, OUTPUTS
from test.engines.support.outputs import rubbish
from test.engines.support.refinement import CALIBRATION, bp, holed, refine

pytestmark = [pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++'),
              pytest.mark.usefixtures('host_kernels')]

#: What the stage itself writes.
REFINED = tuple(name for name in OUTPUTS if name not in DERIVED)

WIDTH, HEIGHT = 66, 13


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
            self._arrays['left_grey' if name == 'grey' else name][...] = array
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
        self._stage.enqueue(0, stage.steps(config, names), 'grey')
        return outputs


def check(config: MatcherConfig, changes: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """One stage under live settings, one after the other."""
    inputs = holed(config, WIDTH, HEIGHT)
    on_host = HostStage(config, inputs)
    maps = set()
    for live in changes:
        changed = config.replace(**live)
        found = on_host.run(changed, CALIBRATION, names)
        largest = on_host._parameters.largest_cost
        expected = refine(changed, inputs, CALIBRATION, names, largest)
        for name in names:
            np.testing.assert_array_equal(found[name], expected[name], f'{name}, {live}')
        maps.add(found[names[0]].tobytes())
    assert names[0] != 'disparity' or len(maps) > 1


STEPS = [{'filling': filling, 'bilateral_passes': passes, 'median_window_size': 3 * (passes == 1)}
         for filling in ('none', 'background', 'plane') for passes in (0, 1, 2)]


SIGMAS = [{'bilateral_passes': 1, 'bilateral_sigma': sigma} for sigma in (0.1, 1.0, 30.0, 100.0)]
UNTRUSTED = [{'confidence_threshold': least, **more} for least in (0.0, 0.02, 0.05)
             for more in ({}, {'bilateral_passes': 1}, {'filling': 'background'},
                          {'filling': 'plane'})]
CONTRASTS = [{'contrast_threshold': least} for least in (30.0, 240.0, 255.0)]


def small(message_type: str, **changes: Any) -> Any:
    return bp(**{'message_type': message_type, 'disparity_range': 6, **changes})


@pytest.mark.parametrize(('config', 'changes', 'names'), [
    (small('int16'), [*STEPS, *UNTRUSTED, *CONTRASTS], REFINED),
    (small('float32'), UNTRUSTED, REFINED),
    (small('int16', disparity_range=200, border='keep', filling='background'), SIGMAS,
     ('disparity',)),
    *((small('float32', disp12_max_diff=2, bilateral_passes=1),
       [{'filling': 'none'}, {'filling': 'plane'}], (name,)) for name in REFINED),
    *slow(*((small(message_type, reference_image='right'), [STEPS[-1], *UNTRUSTED], REFINED)
            for message_type in ('int16', 'float32')))], ids=lambda _: '')
def test_refinement_leaves_the_bits_of_the_cpu(
        config: MatcherConfig, changes: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    check(config, changes, names)


@pytest.mark.parametrize('kind', [np.uint8, np.float32])
def test_contrast_is_that_of_the_cpu(kind: type, host_kernels: host_cuda.HostKernels) -> None:
    pixel = 'uint8' if kind is np.uint8 else 'float'
    kernel = host_kernels.kernel(TYPICAL, 'frame/preprocess.cu', f'contrast<{pixel}>')
    for width, height in ((66, 37), (5, 3)):
        grey = np.random.default_rng(0).integers(90, 120, (height, width)).astype(kind)
        grey[:, width // 2:] += (np.arange(width - width // 2) % 3).astype(kind)
        grey[height // 3:, :width // 2] = 255
        found, ranges, expected = np.empty((3, height, width), np.float32)
        planes = on_device_planes(grey.ctypes.data, found.ctypes.data, width, height)
        tiles = -(-width // preprocess.TILE_WIDTH), -(-height // preprocess.TILE_HEIGHT), 1
        kernel.launch(0, tiles, preprocess.BLOCK, 0, planes)
        on_cpu.contrast(grey.astype(np.float32), expected, ranges)
        np.testing.assert_array_equal(found, expected)


def on_device_planes(source: int, target: int, width: int, height: int) -> preprocess._Planes:
    return preprocess._Planes((ctypes.c_void_p * 2)(source), (ctypes.c_void_p * 2)(target), width,
                              height)
