"""Raw images of a bag: told from rectified ones by their ``CameraInfo``, and rectified."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.camera import check_image_size
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.bag_topics import is_rectified_name
from stereo_bp_ros.evaluation.grey import grey_values
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.rectification import SIDES, Rectification

#: Radians of R above which ``unused_rotation`` warns: less than a pixel at 1000 of focal length.
LEAST_TURN = 1e-3


def why_not_rectified(topic: str, info: Any) -> str:
    """Why the images of a topic are not rectified by its ``CameraInfo``; '' = they may be.

    A CameraInfo describes the camera beside its rectified images, so that distortion alone
    tells nothing about a topic that is named as rectified.
    """
    k, p = (np.reshape(np.asarray(values, float), (3, -1)) for values in (info.k, info.p))
    if is_rectified_name(topic) or not k.any():
        return ''
    reasons = [reason for reason, holds in (
        ('distortion', np.any(np.asarray(info.d, float))),
        ('a rotation R', not np.allclose(np.reshape(info.r, (3, 3)), np.eye(3), atol=1e-6)),
        ('K unlike P', not np.allclose(k, p[:, :3], rtol=1e-6, atol=1e-3))) if holds]
    if not reasons:
        return ''
    return f'{topic} is not rectified: its camera_info has {", ".join(reasons)}'


def unused_rotation(info: Any) -> str:
    """A sentence where the frame of a CameraInfo may not be that of its rectified images."""
    turn = float(np.linalg.norm(cv2.Rodrigues(np.reshape(np.asarray(info.r, float), (3, 3)))[0]))
    if turn < LEAST_TURN:
        return ''
    return (f'The frame {shown(info.header.frame_id)} is taken as that of the rectified left '
            f'image, as image_geometry does. R of its camera_info, {np.rad2deg(turn):.2g} '
            'degrees, is not applied to the cloud')


class Rectifier:
    """Rectifies the pairs of two topics where a CameraInfo says that they are not.

    Maps are computed when another calibration comes.
    """

    def __init__(self, left_topic: str, right_topic: str) -> None:
        self._topics = dict(zip(SIDES, (left_topic, right_topic), strict=True))
        self._rectification: Rectification | None = None
        self._maps: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, images: dict[str, RawImage], infos: dict[str, Any]) -> dict[str, RawImage]:
        """The images of both sides, rectified to mono8 or mono16 where one is not rectified.

        They get the values of the matcher's own ``rectify``: bilinear between grey values, 0
        where the raw image does not reach.

        :param images, infos: of 'left' and 'right'.
        :raises InputError: they are not rectified, and cannot be with this calibration.
        """
        if not any(why_not_rectified(self._topics[side], infos[side]) for side in SIDES):
            return images
        wanted = Rectification.from_camera_info(infos['left'], infos['right'])
        for side in SIDES:
            check_image_size(side, infos[side], images[side].width, images[side].height)
        if wanted != self._rectification:
            self._maps = {side: wanted.maps(side) for side in SIDES}
            self._rectification = wanted
        return {side: RawImage.from_array(cv2.remap(
            grey_values(images[side]), *self._maps[side], cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_CONSTANT, borderValue=0)) for side in SIDES}

