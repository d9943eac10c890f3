"""Writes rendered pairs as a folder that `evaluation.datasets` reads: described sets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.scenes.frames import SceneFrame
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence, render

SPARE_DISPARITIES = 2
"""Labels that a matcher searches beyond the largest disparity of the truth."""

SCENE = 'scene.json'


def prepare(folder: Path) -> None:
    """Make a folder for pairs.

    :raises ValueError: there is a file, or the folder has something in it.
    :raises OSError: it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'{folder} is a file: name a folder')
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f'{folder} is not empty: name another folder, or remove it')
    folder.mkdir(parents=True, exist_ok=True)


def write(sequence: RoadSequence, folder: Path, workers: int = 0,
          progress: Callable[[int, int], None] | None = None) -> None:
    """Draw all frames of a sequence into a folder that `prepare` made.

    Each frame is a folder, 000000 and so on, with left.png, right.png, disparity.pfm, the masks
    vehicles.png, sky.png and occluded.png (255 where they are), those of `SceneFrame.classes` in
    classes/, and P_left.txt and P_right.txt of the perfect pair. sets.yaml says how many
    disparities to search and the time of each frame, `SCENE` how all was drawn.

    workers, progress: as of `render`.

    :raises ValueError: a file cannot be written.
    """
    sets = {}
    for frame in render(sequence, workers, progress):
        name = f'{frame.index:06}'
        (folder / name).mkdir()
        _write_frame(frame, sequence, folder / name)
        # The scale is that of a disparity.png, which a set may have instead.
        sets[name] = {'disparities': sequence.max_disparity + SPARE_DISPARITIES,
                      'disparity_scale': int(files.KITTI_SCALE), 'stamp_ns': frame.stamp_ns}
    (folder / SCENE).write_text(json.dumps(dataclasses.asdict(sequence), indent=2) + '\n',
                                encoding='utf-8')
    (folder / 'sets.yaml').write_text(yaml.safe_dump(sets, sort_keys=False), encoding='utf-8')


def _write_frame(frame: SceneFrame, sequence: RoadSequence, folder: Path) -> None:
    files.write_image(folder / 'left.png', frame.left)
    files.write_image(folder / 'right.png', frame.right)
    files.write_pfm(folder / 'disparity.pfm', frame.disparity)
    for name in ('vehicles', 'sky', 'occluded'):
        files.write_image(folder / f'{name}.png', np.uint8(255) * getattr(frame, name))
    for name, found in frame.classes.items():
        (folder / 'classes').mkdir(exist_ok=True)
        files.write_image(folder / 'classes' / f'{name}.png', np.uint8(255) * found)
    focal = sequence.focal_px
    for side, x in (('left', 0.0), ('right', -focal * sequence.baseline_m)):
        (folder / f'P_{side}.txt').write_text(
            f'{focal!r} 0 {sequence.cx!r} {x!r}\n0 {focal!r} {sequence.cy!r} 0\n0 0 1 0\n',
            encoding='utf-8')
