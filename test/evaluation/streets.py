"""What the truth of a rendered pair says of its pictures."""

from __future__ import annotations

import cv2
import numpy as np

from stereo_bp_ros.sources.scenes.renderer import SceneFrame

TRUTH = ('disparity', 'occluded', 'sky', 'labels')


def warped(frame: SceneFrame, beside: float = 0.0) -> np.ndarray:
    """The right image brought into the left one by the truth, or by some pixels more."""
    height, width = frame.disparity.shape
    x = np.arange(width, dtype=np.float32) - frame.disparity - np.float32(beside)
    y = np.repeat(np.arange(height, dtype=np.float32)[:, None], width, axis=1)
    return cv2.remap(frame.right.astype(np.float32), x, y, cv2.INTER_CUBIC)


def error_of_truth(frame: SceneFrame, beside: float = 0.0) -> np.ndarray:
    """Difference of the left image and the right one brought there, grey levels."""
    return np.abs(warped(frame, beside) - frame.left)


def away_from_depth_edges(frame: SceneFrame) -> np.ndarray:
    """Pixels whose surroundings belong to one surface: those at edges mix two."""
    box = np.ones((5, 5), np.uint8)
    spread = cv2.dilate(frame.disparity, box) - cv2.erode(frame.disparity, box)
    return (spread < 1.5) & (frame.disparity > 0)


def assert_same(one: SceneFrame, other: SceneFrame, *names: str) -> None:
    """These images and masks of two frames are equal."""
    for name in names or ('left', 'right', *TRUTH):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
