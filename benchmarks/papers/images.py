"""The images of the papers: found among the data or named as missing, never replaced."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import numpy as np

from benchmarks.papers.table import Missing
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.datasets.entries import StereoPair
from stereo_bp_ros.sources.scenes import sequence as scenes

#: Width and height of the papers' images, pixels; None where the paper does not say.
SIZES: Mapping[str, tuple[int, int] | None] = {
    'tsukuba': (384, 288), 'venus': (434, 383), 'barn1': (432, 381), 'cones_quarter': (450, 375),
    'cones_half': (900, 750), 'cones_full': (1800, 1500), 'red_barrel': None}

#: Drawn here, since the sequences of the AI 2009 paper are not public any more.
ROAD = 'road'
ROAD_OTHER_EXPOSURE = 'road, other exposure'

#: Largest disparity of the road of the AI 2009 paper: n = 33 labels from 0.
ROAD_DISPARITY = 32


class Images:
    """The papers' images in a folder of data sets, or in its subfolder ``middlebury``.

    :param folder: None = there are no data; only what is drawn here is found then.
    :raises ValueError: there is no such folder.
    """

    def __init__(self, folder: pathlib.Path | None) -> None:
        if folder is not None and not folder.is_dir():
            raise ValueError(f'there is no folder {folder}')
        self._folders = () if folder is None else (folder, folder / 'middlebury')
        self._found: dict[str, StereoPair] = {}

    def load(self, name: str) -> StereoPair:
        """A pair by its name in ``SIZES``, or a drawn one.

        :raises Missing: it is not among the data.
        :raises ValueError: its files are damaged.
        """
        if name not in self._found:
            self._found[name] = (_draw_road(name) if name in (ROAD, ROAD_OTHER_EXPOSURE)
                                 else self._look(name))
        return self._found[name]

    def cut(self, name: str, columns: int, rows: int, padding: int) -> tuple[str, ...]:
        """Cut an image into parts of one size; returns the names under which to load them.

        They overlap as partitions do, ``padding`` pixels on both sides of a cut at least, but
        start anywhere: each is matched as an image of its own.

        :raises Missing: as ``load``.
        :raises ValueError: the image is too small for so many parts.
        """
        found = self.load(name)
        height, width = found.left.shape[:2]
        across, down = (partitions.split(length, count, 1, padding)
                        for length, count in ((width, columns), (height, rows)))
        if across is None or down is None:
            raise ValueError(f'{width} x {height} pixels cannot be cut into {columns} x {rows} '
                             f'parts with padding {padding}')
        names = []
        for y in down.starts:
            for x in across.starts:
                part = (slice(y, y + down.size), slice(x, x + across.size))
                names.append(f'{name}, {across.size} x {down.size} pixels from ({x}, {y})')
                self._found[names[-1]] = StereoPair(
                    names[-1], np.ascontiguousarray(found.left[part]),
                    np.ascontiguousarray(found.right[part]))
        return tuple(names)

    def _look(self, name: str) -> StereoPair:
        size = SIZES[name]
        called = name + (f' ({size[0]} x {size[1]})' if size else '')
        for folder in self._folders:
            if not (folder / name).is_dir():
                continue
            pair = open_dataset(folder / name)[0]
            found = pair.left.shape[1], pair.left.shape[0]
            if size is not None and found != size:
                raise Missing(f'the image {called} is {found[0]} x {found[1]} among the data')
            return dataclasses.replace(pair, name=name)
        raise Missing(f'the image {called} is not among the data: a folder {name} with left.png '
                      'and right.png is wanted')


@functools.lru_cache(maxsize=2)
def _draw_road(name: str) -> StereoPair:
    """A drawn 640x480 street with at most ``ROAD_DISPARITY`` pixels of disparity.

    With other exposure the right camera exposes shorter and has a higher black level.
    """
    gain, offset = (1.0, 0.0) if name == ROAD else (0.8, 10.0)
    frame = scenes.RoadSequence(max_disparity=ROAD_DISPARITY, frames=1, exposure_gain=gain,
                                exposure_offset=offset).frame(0)
    return StereoPair(name, frame.left, frame.right, frame.disparity)
