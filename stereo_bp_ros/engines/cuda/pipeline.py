"""The stages of one frame on CUDA, in their order."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.memory import STAMPS
from stereo_bp_ros.engines.cuda.outputs.stage import Outputs, Reference
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.stages import convert, preprocess, rectify, refine
from stereo_bp_ros.engines.geometry import mapped_sides


class Form(NamedTuple):
    """What distinguishes one captured frame from another.

    readings: how the bytes of the left and of the right image are read for matching;
    sources: where the device reads both; ``convert.STAGED`` or ``convert.ANYWHERE``.
    """

    readings: tuple[convert.Reading, convert.Reading]
    sources: convert.Sources
    steps: refine.Steps


class Timed(NamedTuple):
    """What a frame's time stamps mean, by their places in ``stamps``.

    stages: name of a stage in ``ENGINE_STAGES``, where its start and its end are.
    """

    stages: tuple[tuple[str, int, int], ...]
    first: int
    last: int

    @classmethod
    def of(cls, stamped: list[str]) -> Timed:
        """From the names of the stamps that a frame writes, in order."""
        # Without passes the labels are chosen under the name of the messages.
        return cls(tuple(('messages' if following == 'refine' else stage, STAMPS[stage],
                          STAMPS[following]) for stage, following in itertools.pairwise(stamped)),
                   STAMPS[stamped[0]], STAMPS[stamped[-1]])


class Pipeline:
    """Every stage of a plan over one arena."""

    def __init__(self, plan: Plan, arena: Arena) -> None:
        context = Context(plan.device, plan.config, plan.width, plan.height, arena)
        self._arena, self._is_rectified = arena, plan.config.rectify
        image = plan.image_width, plan.image_height
        self.convert = (rectify.Rectify(context, plan.source, image, plan.downscale)
                        if mapped_sides(plan.config)
                        else convert.Convert(context, image, plan.downscale))
        self.preprocess = preprocess.Preprocess(context)
        matching: type[CudaMatching] = programs.matching('cuda', plan.config)
        self.matching = matching.of(context, plan)
        self.refine = refine.Refine(context)
        self.outputs = Outputs(context, image, plan.downscale)

    def load(self) -> None:
        """Compile or load whatever any frame launches."""
        self.convert.load()
        self.preprocess.load()
        for grey in ('grey', 'values'):
            self.matching.load(self.preprocess.result(grey), grey == 'grey')
        self.refine.load()
        self.outputs.load()

    def initialise(self, stream: int) -> None:
        """Write once: labels of the border, and what the way of matching needs."""
        from cupy.cuda import runtime
        for name in ('label', 'right_keys'):
            runtime.memsetAsync(self._arena.device[name], 0xff, self._arena.nbytes[name], stream)
        self.matching.initialise(stream)

    def enqueue(self, stream: int, form: Form) -> Timed:
        """Put a frame's work into a stream."""
        timed, grey, matched = self._enqueue_images(stream, form)
        publishes = self.matching.enqueue(stream, matched, grey == 'grey', form.steps,
                                          self.refine.frame())
        timed += [*self.matching.stages, 'refine']
        if not publishes:
            self.refine.enqueue(stream, form.steps, grey)
        derived = self.outputs.enqueue(stream, form.steps, self._reference(form, grey))
        if derived or not publishes or self.outputs.enlarges:
            timed += [*derived, 'end']
        return Timed.of(timed)

    def _reference(self, form: Form, grey: str) -> Reference:
        """The image that outputs take colors of: as it came, or the grey values if rectified."""
        if not self._is_rectified:
            name = 'left_raw' if self.convert.is_needed(form.readings) else 'left_grey'
            return Reference(name, form.readings[0])
        layout = convert.CHANNEL if grey == 'grey' else convert.VALUES
        return Reference(f'left_{grey}', convert.Reading(layout, 1, 0), True,
                         self.convert.is_mirrored)

    def _enqueue_images(self, stream: int, form: Form) -> tuple[list[str], str, str]:
        """Everything up to the matched images.

        Returns the stages of the frame that are timed so far, and the names of the arrays of
        the grey values and of the images that are matched.
        """
        grey = self.convert.grey(form.readings)
        timed = []
        if self.convert.enqueue_upload(stream, form.readings, form.sources,
                                       self._arena.stamp('upload')):
            timed.append('upload')
        if self.convert.enqueue(stream, form.readings, self._arena.stamp('convert')):
            timed.append('convert')
        if self.preprocess.enqueue(stream, grey, form.steps.texture,
                                   form.steps.contrast, self._arena.stamp('preprocess')):
            timed.append('preprocess')
        return timed, grey, self.preprocess.result(grey)


def kernels_of(plan: Plan) -> set[tuple[str, str]]:
    """File and name of every kernel that an engine of a plan loads; asks no device."""
    arena = Arena(plan.device, plan.memory, plan.pinned, STAMPS, None)
    with compiler.collected() as names:
        Pipeline(plan, arena).load()
    return names
