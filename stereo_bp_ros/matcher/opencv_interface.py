"""A matcher with the interface of ``cv2.StereoMatcher``, for programs that are written for it."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.frame.disparity_frame import DisparityFrame

#: What follows get or set in OpenCV's names, and the setting that it is.
SETTINGS = {
    'MinDisparity': 'min_disparity', 'NumDisparities': 'disparity_range',
    'BlockSize': 'correlation_window_size', 'SpeckleWindowSize': 'speckle_size',
    'SpeckleRange': 'speckle_range', 'Disp12MaxDiff': 'disp12_max_diff',
    'UniquenessRatio': 'uniqueness_ratio', 'TextureThreshold': 'texture_threshold',
    'PreFilterCap': 'prefilter_cap'}

_PENALTY = ('its scale is that of the data cost: set path_step_penalty and path_jump_penalty, or '
            'discontinuity_slope and discontinuity_truncation, of MatcherConfig')
_PREFILTER = 'set preprocessing of MatcherConfig'
_WINDOW = 'every frame has its own valid_window'

#: Those that no setting is, and what to do instead.
UNMAPPED = {
    'P1': _PENALTY, 'P2': _PENALTY, 'Mode': 'set stereo_algorithm of MatcherConfig, or a preset',
    'PreFilterType': _PREFILTER, 'PreFilterSize': _PREFILTER, 'ROI1': _WINDOW, 'ROI2': _WINDOW,
    'SmallerBlockSize': 'there is one window: set correlation_window_size of MatcherConfig'}


class Matcher(Protocol):
    """What is used of a ``StereoMatcher``."""

    @property
    def config(self) -> MatcherConfig:
        """Its configuration."""

    def reconfigure(self, config: MatcherConfig) -> bool:
        """As that of a ``StereoMatcher``."""

    def compute(self, left: Any, right: Any, *, outputs: Any, out: Any, encoding: str | None
                ) -> DisparityFrame:
        """As that of a ``StereoMatcher``."""


class OpenCvStereoMatcher:
    """``compute``, and getters and setters, as those of ``cv2.StereoBM`` and ``cv2.StereoSGBM``.

    getMinDisparity, getNumDisparities, getSpeckleWindowSize, getSpeckleRange, getDisp12MaxDiff,
    getUniquenessRatio, getTextureThreshold, getPreFilterCap, and getBlockSize where
    ``stereo_algorithm`` is sad; setters by the same names. They have the values of the settings (a
    speckle range in pixels, as StereoSGBM), which the next ``compute`` matches with. Other names
    raise an AttributeError that says what to set instead.

    Functions of OpenCV that are written in C++ take no class of Python:
    ``cv2.ximgproc.createRightMatcher`` does not. The setting ``reference_image`` right gives the
    disparities of the right image.
    """

    def __init__(self, matcher: Matcher) -> None:
        if not isinstance(getattr(matcher, 'config', None), MatcherConfig):
            raise ConfigError('matcher', matcher, 'must be a StereoMatcher: use its as_opencv()')
        self._matcher = matcher
        self._config = matcher.config

    def compute(self, left: np.ndarray, right: np.ndarray, disparity: np.ndarray | None = None
                ) -> np.ndarray:
        """Match a rectified pair.

        :param left, right: H x W uint8 or uint16, or H x W x 3 uint8 in OpenCV's order (blue,
            green, red).
        :param disparity: int16 H x W, to be filled.
        :returns: int16 H x W, sixteenths of a pixel; 16 (min_disparity - 1) where invalid.
        :raises StereoError: as ``StereoMatcher.compute``.
        """
        if self._config != self._matcher.config:
            self._matcher.reconfigure(self._config)
        frame = self._matcher.compute(
            left, right, encoding='bgr8' if getattr(left, 'ndim', 2) == 3 else None,
            outputs=('fixed_disparity',),
            out=None if disparity is None else {'fixed_disparity': disparity})
        assert frame.fixed_disparity is not None
        return frame.fixed_disparity

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kind, word = name[:3], name[3:]
        if kind not in ('get', 'set') or word not in SETTINGS | UNMAPPED:
            raise AttributeError(f'a stereo matcher has no {name}')
        if word in UNMAPPED:
            raise AttributeError(f'{name} has no equivalent here: {UNMAPPED[word]}')
        if word == 'BlockSize' and self._config.stereo_algorithm != 'sad':
            raise AttributeError(f'{name} has no equivalent in stereo_algorithm '
                                 f'{self._config.stereo_algorithm}: it has no window to match')
        if kind == 'get':
            return lambda: getattr(self._config, SETTINGS[word])

        def change(value: float) -> None:
            if word == 'Disp12MaxDiff' and isinstance(value, numbers.Real):
                value = max(0, value)           # OpenCV's -1 is off
            self._config = self._config.replace(**{SETTINGS[word]: value})
        return change

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(kind + word for kind in ('get', 'set') for word in SETTINGS)]
