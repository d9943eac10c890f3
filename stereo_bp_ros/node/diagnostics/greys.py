"""Grey values that monitors look at."""

from __future__ import annotations

import cv2
import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.rectification import Maps, Rectification
from stereo_bp_ros.stamps import SIDES


class RectifiedGreys:
    """Images as rectified grey values; the maps of the latest rectification are kept."""

    def __init__(self) -> None:
        self._maps: tuple[Rectification, dict[str, Maps]] | None = None

    def of(self, side: str, image: RawImage, config: MatcherConfig,
           rectification: Rectification | None) -> np.ndarray:
        """uint8 H x W.

        :param rectification: of raw images.
        """
        grey = to_8_bits(image, config.mono16_scale)
        if rectification is None:
            return grey
        maps = self._maps
        if maps is None or maps[0] != rectification:
            maps = self._maps = rectification, {
                side: rectification.maps(side) for side in SIDES}
        return cv2.remap(grey, *maps[1][side], cv2.INTER_LINEAR)
