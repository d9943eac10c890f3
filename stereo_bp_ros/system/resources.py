"""Where kernels and presets lie: in an installed package, or at the top of the sources."""

from __future__ import annotations

import pathlib


def _folder(installed: str, in_sources: str) -> pathlib.Path:
    here = pathlib.Path(__file__).resolve().parents[1]
    return here / installed if (here / installed).is_dir() else here.parent / in_sources


#: CUDA C++ sources, in folders by algorithm.
KERNELS = _folder('kernels', 'kernels')

#: ROS parameter files by the name of the preset, the profiles of Fast DDS, and what launch files
#: need: layouts and files of cameras.
PRESETS = _folder('presets', 'config')
