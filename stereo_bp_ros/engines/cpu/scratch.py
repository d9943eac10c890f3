"""Working arrays of the stages around matching: names, shapes and types for the memory plan.

Arrays of one name in different stages are one array: no stage finds anything in its scratch
that an earlier one left there. H x W are the rows and columns of the image, D the number of
disparities.
"""

from __future__ import annotations

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.geometry import Wanted, align

#: Pixels that SAD sums up before it selects their labels.
SAD_PIXELS = 8

#: Planes of a tile, and rows [label][line] beside them; as ``tiled`` numbers them.
TILE_PLANES, TILE_ROWS = 9, 2


def convert(width: int, height: int) -> Wanted:
    """Working arrays of ``convert.to_grey``; the size is that of the images as they come."""
    return [('grey8', (height, width), 'uint8'), ('mosaic16', (2, height, width), 'uint16')]


def enlarge(factor: int, image_width: int, image_height: int, width: int, height: int) -> Wanted:
    """What lies between the images as they come and those that are matched.

    :param factor: how many times they are reduced. An image of 1 x 1 stays as large.
    """
    image = image_height, image_width
    if factor == 1:
        return []
    return [('image_grey', image, 'float32'), ('enlarged', image, 'int16'),
            ('reduced_confidence', (height, width), 'float32')]


def rectify(config: MatcherConfig, width: int, height: int, source: tuple[int, int]) -> Wanted:
    """Working arrays of ``rectify.to_grey`` and ``outputs.fill_levels``.

    :param source: width and height of the images as they come.
    """
    if not geometry.mapped_sides(config):
        return []
    return [('rectified8', (height, width), 'uint8'), ('raw_grey', source[::-1], 'float32'),
            *[('reference_levels', (height, width), 'uint8')] * config.rectify]


def preprocess(config: ResolvedConfig, width: int, height: int) -> Wanted:
    """Working arrays of ``preprocess.preprocess``."""
    if config.preprocessing in ('sobel', 'residual'):
        return [('plane_a', (height, width), 'float32')]
    return []


def sad(config: ResolvedConfig, width: int, height: int, threads: int) -> Wanted:
    """Working arrays of ``sad.match``; one row of each belongs to one thread.

    Rows, and a pixel's disparities in them, start on cache lines: threads do not write to each
    other's, and a vector that lies across two costs half as much again. Vectors reach over the
    last disparity, so what they read and write is that much longer.
    """
    disparities = _lines(config.disparity_range, 2)
    return [
        ('sad_rows', (threads, 2, _lines(width + disparities, 2)), 'uint16'),
        ('sad_column_sums', (threads, width * disparities), 'uint16'),
        ('sad_window_columns', (threads, config.correlation_window_size * disparities),
         'uint16'),
        ('sad_keys', (threads, SAD_PIXELS * disparities), 'uint32'),
        ('sad_least', (threads, SAD_PIXELS), 'uint32'),
        ('sad_right_keys', (threads, _lines(width + disparities, 4)), 'uint32'),
    ]


def tiled(config: ResolvedConfig, width: int, height: int, threads: int) -> Wanted:
    """Working arrays of ``tiled.pass_messages``: the messages between tiles, and one tile each."""
    size, labels = config.tile_size, config.disparity_range
    kind, itemsize = ('uint16', 2) if config.message_type == 'int16' else ('float32', 4)
    lines = _lines(size, itemsize)
    return [
        ('tile_edges', (4, -(-height // size), -(-width // size), labels, lines), kind),
        ('tile_planes', (threads, TILE_PLANES, size, labels, lines), kind),
        ('tile_rows', (threads, TILE_ROWS, labels, lines), kind),
        ('tile_right_least', (height, width), kind),
    ]


def _lines(values: int, itemsize: int) -> int:
    """The number of values padded to whole cache lines."""
    return align(values * itemsize) // itemsize


def refine(config: ResolvedConfig, width: int, height: int) -> Wanted:
    """Working arrays of ``refine.refine``.

    All of them, whatever is on: the settings that decide are live and must not allocate.
    """
    return [
        ('plane_a', (height, width), 'float32'),
        ('plane_b', (height, width), 'float32'),
        ('sixteenths', (height, width), 'int16'),
        ('sixteenths_median', (height, width), 'int16'),
        ('filled', (height, width), 'int16'),
        ('smoothed', (height, width), 'int16'),
        ('final', (height, width), 'int16'),
        ('confidence', (height, width), 'float32'),
        # What cv2.filterSpeckles of OpenCV 5 asks for, and confidence.judge.
        ('speckle_buffer', (1, 13 * height * width + 64), 'uint8'),
    ]


def all_stages(config: ResolvedConfig, width: int, height: int, matching: Wanted) -> Wanted:
    """Working arrays of every stage between conversion and outputs, each once.

    :param matching: those of its way of matching.
    """
    stages = [*preprocess(config, width, height), *refine(config, width, height), *matching]
    return list({array[0]: array for array in stages}.values())
