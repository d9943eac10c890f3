"""The common ground of an engine's stages."""

from __future__ import annotations

from typing import NamedTuple

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.runtime.device import Properties


class Context(NamedTuple):
    """What each stage is built from; width and height of the images in pixels."""

    device: Properties
    config: ResolvedConfig
    width: int
    height: int
    arena: Arena
