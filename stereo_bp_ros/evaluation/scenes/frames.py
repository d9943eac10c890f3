"""One frame of a synthetic scene: the pair, its ground truth and its masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stereo_bp_ros.evaluation.scenes import meshes


@dataclass(frozen=True)
class SceneFrame:
    """One stereo pair with its ground truth.

    index:       number in the sequence, from 0.
    stamp_ns:    time of both images, nanoseconds.
    left, right: uint8 H x W, grey levels.
    disparity:   float32 H x W, pixels: pixel (x, y) of the left image shows the same point as
                 (x - disparity, y) of the right one. Exact at pixel centres. The sky is infinitely
                 far and has disparity 0, a known value.
    occluded:    bool H x W, True where the left pixel's surface is hidden from the right camera
                 or outside its picture.
    sky:         bool H x W, True where the left pixel's centre shows the sky. Exact.
    labels:      uint8 H x W, what the left pixel's centre shows: OTHER, VEHICLE, THIN or FENCE of
                 `meshes`. Exact; `vehicles`, `thin` and `fence` are masks made of it.
    """

    index: int
    stamp_ns: int
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    occluded: np.ndarray
    sky: np.ndarray
    labels: np.ndarray

    @property
    def vehicles(self) -> np.ndarray:
        """Where vehicles are, without their shadows, bool H x W."""
        return self.labels == meshes.VEHICLE

    @property
    def thin(self) -> np.ndarray:
        """Where poles, lamp posts and signs are, bool H x W."""
        return self.labels == meshes.THIN

    @property
    def fence(self) -> np.ndarray:
        """Where fences are, without the gaps between their bars, bool H x W."""
        return self.labels == meshes.FENCE

    @property
    def classes(self) -> dict[str, np.ndarray]:
        """`thin` and `fence` by these names, where there are any."""
        found = {'thin': self.thin, 'fence': self.fence}
        return {name: mask for name, mask in found.items() if mask.any()}


def hidden(truth: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left pixels whose point is not in the right picture, whose disparities are at half pixels.

    A point is hidden when both neighbouring samples of the right camera lie in front of it; on a
    surface that both cameras see, one of them always lies on it or behind.
    """
    width = truth.shape[1]
    place = np.arange(width, dtype=np.float32) - truth
    sample = 2.0 * np.clip(place, 0, width - 1) + 1.0
    below = np.floor(sample).astype(np.intp)
    rows = right[1::2]
    behind = np.minimum(np.take_along_axis(rows, below, axis=1),
                        np.take_along_axis(rows, below + 1, axis=1))
    return (place < 0) | (behind > truth + 0.01)
