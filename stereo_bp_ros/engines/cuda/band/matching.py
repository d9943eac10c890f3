"""Search of a narrow band: belief propagation over labels near the map of a first pass."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.band import stage
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.memory import PARAMETER_BYTES
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import ArenaPart
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import preprocess, refine
from stereo_bp_ros.engines.geometry import Wanted

#: Begins the names of the arrays of the first pass.
COARSE = 'coarse_'

#: Arrays that the first pass has together with the second.
SHARED = ('parameters', 'left_raw', 'right_raw')

#: Threads of a block of ``halve``.
BLOCK = 32, 8, 1


@declared_in('band/centres.cu')
class HalveLaunch(ctypes.Structure):
    """``HalveLaunch`` in ``centres.cu``."""


class Band(CudaMatching):
    """See ``CudaMatching``.

    The first pass is the engine's own on images of half the size: ``Plan.first``.
    """

    stages = ('cost',)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        assert plan.first is not None
        return [*stage.arrays(plan.config, (plan.height, plan.width), plan.parts),
                *((f'{COARSE}{array.name}', array.shape, array.dtype)
                  for array in plan.first.memory.arrays if array.name not in SHARED)]

    @classmethod
    def of(cls, context: Context, plan: Plan) -> Band:
        return cls(context, plan)

    def __init__(self, context: Context, plan: Plan) -> None:
        super().__init__(context)
        coarse, arena = plan.first, context.arena
        assert coarse is not None
        self._part = ArenaPart(
            arena, COARSE, {'parameters': arena.device['parameters'] + 2 * PARAMETER_BYTES})
        of_coarse = Context(context.device, coarse.config, coarse.width, coarse.height,
                            self._part)
        self._coarse = coarse.config
        self._preprocess = preprocess.Preprocess(of_coarse)
        self._matching = Hierarchical.of(of_coarse, coarse)
        self._refine = refine.Refine(of_coarse)
        self._stage = stage.BandStage(context, plan.parts)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        compiler.kernel(self._device, *halved(has_whole_grey))
        self._preprocess.load()
        self._matching.load(self._preprocess.result('values'), False)
        self._refine.load()
        self._stage.load(preprocess.PIXELS[matched])

    def initialise(self, stream: int) -> None:
        from cupy.cuda import runtime
        for name in ('label', 'right_keys'):
            runtime.memsetAsync(self._part.device[name], 0xff, self._part.nbytes[name], stream)
        self._matching.initialise(stream)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        self._match_coarse(stream, 'grey' if has_whole_grey else 'values', wanted)
        device = self._arena.device
        self._stage.enqueue(stream, preprocess.PIXELS[matched], device[f'left_{matched}'],
                            device[f'right_{matched}'], self._part.device['final'], self._coarse,
                            wanted, self._arena.stamp('cost'))
        return False

    def _match_coarse(self, stream: int, grey: str, wanted: refine.Steps) -> None:
        """Fill ``coarse_final``.

        :param grey: end of the names of the images before the Gaussian.
        """
        width, height = geometry.coarse_size(self._width, self._height)
        launch = HalveLaunch(width=self._width, height=self._height, reduced_width=width,
                             reduced_height=height)
        for i, side in enumerate(('left', 'right')):
            launch.source[i] = self._arena.device[f'{side}_{grey}']
            launch.to[i] = self._part.device[f'{side}_values']
        compiler.kernel(self._device, *halved(grey == 'grey')).launch(
            stream, (-(-width // BLOCK[0]), -(-height // BLOCK[1]), 2), BLOCK, 0, launch)
        self._preprocess.enqueue(stream, 'values', False, False, 0)
        # Left-right check and median may be changed while the engine runs.
        steps = refine.steps(self._coarse, (), is_reduced=True)._replace(
            right=wanted.right, median=wanted.median)
        self._matching.enqueue(stream, self._preprocess.result('values'), False, steps,
                               self._refine.frame())
        self._refine.enqueue(stream, steps, 'values')


def halved(has_whole_grey: bool) -> tuple[str, str]:
    """File and name of the kernel that makes the images of the first pass."""
    return 'band/centres.cu', f'halve<{"uint8" if has_whole_grey else "float"}>'
