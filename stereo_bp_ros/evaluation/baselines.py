"""OpenCV's stereo matchers, to be compared with on the same pairs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import cv2
import numpy as np

from stereo_bp_ros.errors import BackendUnavailable

#: Name of each matcher here, and in OpenCV.
NAMES = {'sgbm': 'StereoSGBM', 'sgbm_hh': 'StereoSGBM', 'bm': 'StereoBM'}

#: What all have in stereo_image_proc.
_COMMON = {'PreFilterCap': 31, 'UniquenessRatio': 15, 'SpeckleWindowSize': 100, 'SpeckleRange': 4}

#: P1 and P2 are 8 and 32 times the area of the window, as is usual for it.
_SGBM = {'BlockSize': 5, 'P1': 8 * 5**2, 'P2': 32 * 5**2, 'Disp12MaxDiff': 0, **_COMMON}

#: Settings of each matcher but its range, by the names of OpenCV.
SETTINGS: dict[str, dict[str, int]] = {
    'sgbm': {**_SGBM, 'Mode': cv2.STEREO_SGBM_MODE_SGBM_3WAY},
    'sgbm_hh': {**_SGBM, 'Mode': cv2.STEREO_SGBM_MODE_HH},
    'bm': {'BlockSize': 15, 'PreFilterSize': 9, 'TextureThreshold': 10, **_COMMON}}


class Baseline:
    """One of OpenCV's matchers for a range of disparities.

    name:     'sgbm' (its mode 3WAY), 'sgbm_hh' (all eight directions) or 'bm'.
    settings: all settings, by the names of OpenCV.

    :raises BackendUnavailable: this OpenCV was built without its stereo matchers.
    """

    def __init__(self, name: str, disparity_range: int, min_disparity: int = 0) -> None:
        """Make it for disparities from ``min_disparity``; a range is rounded up to 16 n."""
        kind = getattr(cv2, NAMES[name], None)
        if kind is None:
            raise BackendUnavailable(f'OpenCV {cv2.__version__} was built without {NAMES[name]}',
                                     'pip install opencv-python-headless, which has it')
        self.name = name
        self._min_disparity = min_disparity
        self.settings = {**SETTINGS[name], 'MinDisparity': min_disparity,
                         'NumDisparities': -(-disparity_range // 16) * 16}
        self._matcher = kind.create()
        for key, value in self.settings.items():
            getattr(self._matcher, f'set{key}')(value)

    def compute(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Disparities, float32 H x W in pixels, and where they are valid, bool H x W.

        left, right: uint8 H x W.

        :raises ValueError: OpenCV rejects images of this size.
        """
        try:
            sixteenths = self._matcher.compute(left, right)
        except cv2.error as error:
            raise ValueError(f'OpenCV {NAMES[self.name]} does not match {left.shape[1]} x '
                             f'{left.shape[0]} pixels: {error.err}') from error
        return (sixteenths / np.float32(16),
                np.asarray(sixteenths >= 16 * self._min_disparity))


def device(threads: int) -> dict[str, str]:
    """What computes, as ``StereoMatcher.device``."""
    return {'device': f'OpenCV {cv2.__version__}', 'threads': str(threads)}


@contextlib.contextmanager
def threads(count: int) -> Iterator[int]:
    """Let OpenCV use this many threads, 0 = as many as it likes; yields how many these are."""
    before = cv2.getNumThreads()
    if count:
        cv2.setNumThreads(count)
    try:
        yield cv2.getNumThreads()
    finally:
        cv2.setNumThreads(before)
