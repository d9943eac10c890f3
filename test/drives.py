"""Drives through the rendered street as folders of pairs."""

from __future__ import annotations

import pathlib

import numpy as np

from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes.sequence import RoadSequence


def write_drive(folder: pathlib.Path, scene: RoadSequence, first_ns: int = 0) -> None:
    """Every fifth frame, named by its stamp, with P of both cameras, as a sequence has it."""
    for index in range(0, len(scene), 5):
        frame = scene.frame(index)
        for side, image in (('left', frame.left), ('right', frame.right)):
            (folder / side).mkdir(exist_ok=True)
            files.write_image(folder / side / f'{first_ns + frame.stamp_ns}.png', image)
    for side, shift in (('left', 0.0), ('right', -scene.focal_px * scene.baseline_m)):
        np.savetxt(folder / f'P_{side}.txt', [
            [scene.focal_px, 0, scene.cx, shift], [0, scene.focal_px, scene.cy, 0], [0, 0, 1, 0]])
