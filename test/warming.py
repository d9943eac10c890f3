"""Compiles what most tests match with: otherwise all processes of xdist compile it at once."""

from __future__ import annotations

import concurrent.futures
import multiprocessing

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice

#: They share little, and have most kernels of the others.
PRESETS = 'road', 'five_sets', 'sad_fast'


def warm(preset: str) -> float:
    """Compile the kernels of the CPU for a preset; returns the seconds that it took."""
    return choice.warm_up(MatcherConfig.preset(preset).replace(backend='cpu'), 320, 240)


if __name__ == '__main__':
    with concurrent.futures.ProcessPoolExecutor(
            mp_context=multiprocessing.get_context('spawn')) as processes:
        list(processes.map(warm, PRESETS))
