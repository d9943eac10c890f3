"""Raw images of a bag: found by ``CameraInfo`` and content, and rectified."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.cameras.alignment import corners_in_their_rows
from stereo_bp_ros.cameras.rectification import Rectification, remapped
from stereo_bp_ros.checks.checks import check_image_size
from stereo_bp_ros.errors import shown
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.sources.bag_topics import is_rectified_name

#: Radians of R above which ``unused_rotation`` warns: less than a pixel at 1000 of focal length.
MIN_TURN_RAD = 1e-3


def why_not_rectified(topic: str, info: Any) -> str:
    """Why the images of a topic are not rectified by its ``CameraInfo``; '' = they may be.

    A CameraInfo describes the camera beside its rectified images, so that distortion alone
    shows nothing about a topic that is named as rectified.
    """
    k, p = (np.reshape(np.asarray(values, float), (3, -1)) for values in (info.k, info.p))
    if is_rectified_name(topic) or not k.any():
        return ''
    reasons = [reason for reason, holds in (
        ('distortion', np.any(np.asarray(info.d, float))),
        # Whatever its D: r = f theta is no pinhole.
        ('an equidistant lens', info.distortion_model == 'equidistant'),
        ('a rotation R', not np.allclose(np.reshape(info.r, (3, 3)), np.eye(3), atol=1e-6)),
        ('K unlike P', not np.allclose(k, p[:, :3], rtol=1e-6, atol=1e-3))) if holds]
    if not reasons:
        return ''
    return f'{topic} is not rectified: its camera_info has {", ".join(reasons)}'


def unused_rotation(info: Any) -> str:
    """A sentence where the frame of a CameraInfo may not be that of its rectified images."""
    turn = float(np.linalg.norm(cv2.Rodrigues(np.reshape(np.asarray(info.r, float), (3, 3)))[0]))
    if turn < MIN_TURN_RAD:
        return ''
    return (f'The frame {shown(info.header.frame_id)} is taken as that of the rectified left '
            f'image, as image_geometry does. R of its camera_info, {np.rad2deg(turn):.2g} '
            'degrees, is not applied to the cloud')


#: Pairs at the beginning of a bag that are measured, and disparities on both sides of 0, pixels.
MEASURED_PAIRS, REACH = 3, 128

#: Corners that must be in their rows, and how many times as many as once rectified, to overrule a
#: ``CameraInfo``: rows that match both ways tell nothing.
MIN_CORNERS, LEAD = 10, 2


class Decision(NamedTuple):
    """Whether images are rectified before they are matched, and why, in a sentence."""

    rectify: bool
    why: str


class Rectifier:
    """Rectifies the pairs of two topics where a CameraInfo says that they are not.

    Maps are computed when another calibration comes.

    :param rectified: as of ``StereoTopics``.
    """

    def __init__(self, left_topic: str, right_topic: str, rectified: str = 'auto') -> None:
        self._topics = dict(zip(SIDES, (left_topic, right_topic), strict=True))
        self._rectified = rectified
        self._rectification: Rectification | None = None
        self._maps: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def may_be_raw(self, infos: dict[str, Any]) -> bool:
        """Whether images may have to be rectified: where they do not, nobody need decide."""
        return self._rectified == 'no' or (
            self._rectified == 'auto' and bool(self._reasons(infos)))

    def _reasons(self, infos: dict[str, Any]) -> list[str]:
        return [reason for side in SIDES
                if (reason := why_not_rectified(self._topics[side], infos[side]))]

    def decide(self, infos: dict[str, Any],
               pairs: Iterable[tuple[dict[str, RawImage], dict[str, Any]]]) -> Decision:
        """Decide by camera_infos, and where they describe a camera that distorts by content.

        Pictures of recordings are often rectified already, with the camera_info of the raw ones.

        :param infos: the first of 'left' and 'right'.
        :param pairs: the first images and infos of both sides.
        """
        if self._rectified != 'auto':
            return Decision(self._rectified == 'no', '')
        reasons = '. '.join(self._reasons(infos))
        if not reasons:
            return Decision(False, '')
        counts = np.zeros(2, int)
        for images, of_pair in pairs:
            counts += [self._corners(images), self._corners(self.rectified(images, of_pair))]
        as_they_come, rectified = counts.tolist()
        measured = (f'{as_they_come} corners have their partner in the same row as they come, '
                    f'{rectified} once they are rectified')
        if max(counts) < MIN_CORNERS:
            return Decision(True, f'{reasons}. Whether the images are rectified all the same '
                            f'cannot be seen in the pictures ({measured}): they are rectified '
                            '(--rectified yes if they are already)')
        if as_they_come >= LEAD * rectified:
            return Decision(False, f'{reasons}. The images themselves are rectified already: '
                            f'{measured}. They are matched as they come (--rectified no to '
                            'rectify them)')
        return Decision(True, f'{reasons}. Both images are rectified with it before they are '
                        f'matched: {measured} (--rectified yes if they are already)')

    def _corners(self, images: dict[str, RawImage]) -> int:
        left, right = (to_8_bits(images[side], _scale(images[side])) for side in SIDES)
        return corners_in_their_rows(left, right, min(REACH, left.shape[1] // 3))[0]

    def rectified(self, images: dict[str, RawImage], infos: dict[str, Any]
                  ) -> dict[str, RawImage]:
        """The images of both sides, rectified to mono8 or mono16.

        They get the values of the matcher's own ``rectify``: bilinear between grey values, 0
        where the raw image does not reach.

        :param images, infos: of 'left' and 'right'.
        :raises InputError: they cannot be rectified with this calibration.
        """
        wanted = Rectification.from_camera_info(infos['left'], infos['right'])
        for side in SIDES:
            check_image_size(side, infos[side], images[side].width, images[side].height)
        if wanted != self._rectification:
            self._maps = {side: wanted.maps(side) for side in SIDES}
            self._rectification = wanted
        return {side: RawImage.from_array(remapped(images[side], self._maps[side]))
                for side in SIDES}


def _scale(image: RawImage) -> float:
    """From values of 16 bits to 0..255, whatever the camera's bits."""
    return 255 / max(1, int(image.pixels.max(initial=0))) if image.layout.bits == 16 else 1.0
