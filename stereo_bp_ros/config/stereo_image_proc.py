"""Parameters of stereo_image_proc, of ROS 1 and 2, that are not as here: names, units, nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The node whose place this package's takes.
NODE = 'disparity_node'

_COLOURS = 'points2 has colours and 16 bytes a point'
_SEMI_GLOBAL = 'it belongs to semi-global matching'

#: Parameters that have no effect here, and why.
IGNORED = {
    'prefilter_size': 'the default prefilter of stereo_image_proc has no window',
    'P1': _SEMI_GLOBAL,
    'P2': _SEMI_GLOBAL,
    'sgbm_mode': _SEMI_GLOBAL,
    'full_dp': _SEMI_GLOBAL,
    'fullDP': _SEMI_GLOBAL,
    'use_color': _COLOURS,
    'avoid_point_cloud_padding': _COLOURS,
    'use_image_transport_camera_info': 'camera_info keeps its own name, whatever an image is '
                                       'remapped to; remap it, too',
}

#: What to set in place of a parameter, or of an argument of its launch files.
HINTS = {
    'disp12MaxDiff': 'its name here is disp12_max_diff',
    'downsampling_factor': 'its name here is downscale',
    'texture_ratio': 'its name here is texture_threshold',
    'launch_image_proc': 'set rectify to match raw images',
    'container': 'this node is a process of its own; leave it out',
}

_SIXTEENTHS = 16


def hint(name: str) -> str:
    """What to do about a name that only stereo_image_proc has; '' = it is none."""
    return f'{IGNORED[name]}; leave it out' if name in IGNORED else HINTS.get(name, '')


def translate(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values as this package means them, and sentences about what changes or is left out.

    stereo_image_proc names its algorithms by numbers. Of its block matching, number 0, OpenCV
    compares disparities in sixteenths with ``speckle_range``; of semi-global matching in pixels.

    :param values: what one source sets: parameters at the start, a request, a parameter file.
    """
    sentences = [f'{name} has no effect: {IGNORED[name]}' for name in values if name in IGNORED]
    values = {name: value for name, value in values.items() if name not in IGNORED}
    step = values.get('speckle_range')
    is_block_matching = (values.get('stereo_algorithm') == 0
                         and not isinstance(values['stereo_algorithm'], bool))
    if not is_block_matching or isinstance(step, bool) or not isinstance(step, (int, float)):
        return values, sentences
    pixels = step / _SIXTEENTHS
    return {**values, 'stereo_algorithm': 'sad', 'speckle_range': pixels}, [
        *sentences,
        f'speckle_range {step:g} beside stereo_algorithm 0 counts sixteenths of a pixel, as in '
        f'stereo_image_proc, and becomes {pixels:g}; beside stereo_algorithm sad it counts pixels']
