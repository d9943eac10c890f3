"""What the user says of the cameras of a bag or folder, in place of what lies beside images."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Maps, Rectification, remapped
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.datasets.entries import Pair

#: The sentence for raw images that a player sends.
SENT_RAW = ('the raw images go out as they come, with the camera_info of {}: have the node '
            'rectify them (rectify)')


class GivenCalibration:
    """The calibration of rectified images, or how raw ones are rectified.

    :param image: the left image of a folder, which determines the cameras of KITTI.
    :raises ValueError: the file of the calibration cannot be read.
    """

    def __init__(self, topics: StereoTopics, image: pathlib.Path | None = None) -> None:
        self._calibration = topics.assumed
        if topics.calibration:
            self._calibration = Calibration.from_file(topics.calibration, image)
        self._path = topics.rectification
        self._rectifications: dict[tuple[int, int], tuple[Rectification, dict[str, Maps]]] = {}

    def __bool__(self) -> bool:
        return bool(self._path) or self._calibration is not None

    def camera(self, width: int, height: int) -> Rectification | Calibration:
        """What describes the cameras of images of this size, pixels, raw or rectified ones.

        :raises ValueError: the file cannot be read, or is of images of another size.
        """
        if self._path:
            return self._prepared(width, height)[0]
        assert self._calibration is not None
        return self._calibration

    def of(self, images: Mapping[str, RawImage]
           ) -> tuple[dict[str, RawImage], Calibration | None]:
        """Rectified images of both sides, unchanged or in grey values, and their calibration.

        :raises ValueError: as ``camera``; the sizes of the images differ.
        """
        if not self._path:
            return dict(images), self._calibration
        sizes = [(images[side].width, images[side].height) for side in SIDES]
        if sizes[0] != sizes[1]:
            raise ValueError('the left image is {} x {}, the right one {} x {}'.format(
                *sizes[0], *sizes[1]))
        rectification, maps = self._prepared(*sizes[0])
        return ({side: RawImage.from_array(remapped(images[side], maps[side])) for side in SIDES},
                rectification.calibration)

    def applied(self, pair: Pair) -> Pair:
        """A pair of a folder with this calibration, rectified where it is raw.

        :raises ValueError: as ``of``.
        """
        if not self._path:
            return dataclasses.replace(pair, calibration=self._calibration)
        images, calibration = self.of(dict(zip(SIDES, pair.images, strict=True)))
        return dataclasses.replace(pair, left=images['left'].pixels, right=images['right'].pixels,
                                   calibration=calibration)

    def _prepared(self, width: int, height: int) -> tuple[Rectification, dict[str, Maps]]:
        if (width, height) not in self._rectifications:
            found = Rectification.from_file(self._path, (width, height))
            if (found.width, found.height) != (width, height):
                raise ValueError(f'{self._path} rectifies images of {found.width} x '
                                 f'{found.height}, and these are {width} x {height}')
            self._rectifications[width, height] = found, {
                side: found.maps(side) for side in SIDES}
        return self._rectifications[width, height]
