"""Configurations that many tests match with."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros import MatcherConfig

_SHARED = ('preprocessing', 'data_weight', 'data_truncation', 'discontinuity_slope',
           'discontinuity_truncation')
_PRESET = MatcherConfig.preset('five_sets')


def five_sets(disparity_range: int, **changes: Any) -> MatcherConfig:
    """Data costs and smoothness of the preset ``five_sets``; the other settings' defaults."""
    return MatcherConfig.from_mapping({
        **{name: getattr(_PRESET, name) for name in _SHARED},
        'disparity_range': disparity_range, **changes})


def paper(disparity_range: int, **changes: Any) -> MatcherConfig:
    """As ``five_sets``, and as in the paper every pixel has a label, and a whole one."""
    return five_sets(disparity_range, **{'border': 'keep', 'subpixel': False, **changes})


def plain(**settings: Any) -> dict[str, Any]:
    """Program plain_steps with settings of its own: ``plain(storage='register')``."""
    return {'program': 'plain_steps',
            **{f'plain_steps.{name}': value for name, value in settings.items()}}


def streamed(variant: str) -> dict[str, Any]:
    """Program streamed_sad in a variant; auto = program default."""
    return {} if variant == 'auto' else {'program': 'streamed_sad',
                                         'streamed_sad.variant': variant}


def tiled(schedule: str = 'auto', **settings: Any) -> dict[str, Any]:
    """Program tiled_barriers with settings of its own."""
    return {'program': 'tiled_barriers', 'tiled_barriers.schedule': schedule,
            **{f'tiled_barriers.{name}': value for name, value in settings.items()}}
