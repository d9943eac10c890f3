"""Options that say where the pairs of a bag, a folder or a video are, and how they are found."""

from __future__ import annotations

import argparse
import logging
import pathlib
from collections.abc import Sequence

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli.options import real, require
from stereo_bp_ros.config.mappings import stamp_tolerance_s
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.errors import shown
from stereo_bp_ros.images.side_by_side import LAYOUTS
from stereo_bp_ros.sources.bag_topics import MAX_SCALE, Globs, StereoTopics, is_bag
from stereo_bp_ros.sources.pairs import Input, Sources

_log = logging.getLogger(__name__)

#: What a source may be, for --help.
SOURCE = ('data set folder, bag (needs rosbags and mcap), video, or with --side-by-side an image '
          'or a video of both cameras')


def add_source_options(parser: argparse.ArgumentParser, *, with_truth: bool = True) -> None:
    """Where the images of a source are, how stamps may differ in a pair, and the calibration.

    :param with_truth: whether the verb compares with a truth.
    """
    parser.add_argument('--side-by-side', choices=LAYOUTS, default='',
                        help='each image holds those of both cameras: how they lie in it; a bag '
                             'then has one image topic (--left names it), a folder one folder of '
                             'images, a video one file; a calibration is of one half')
    for side, other in (('left', 'right'), ('right', 'left')):
        parser.add_argument(f'--{side}-glob', default='', metavar='PATTERN',
                            help=f"{side} images in a folder, e.g. 'cam_{side[0]}/*.png'; pairs "
                                 f'by the numbers in their names; or one video; with '
                                 f'--{other}-glob')
    for side in ('left', 'right'):
        parser.add_argument(f'--{side}', default='', metavar='TOPIC', dest=f'{side}_image',
                            help=f'{side} images in a bag (default: found by its name)')
    for side in ('left', 'right'):
        parser.add_argument(f'--{side}-info', default='', metavar='TOPIC',
                            help=f'camera_info of the {side} images (default: beside them)')
    parser.add_argument('--rectified', choices=('auto', 'yes', 'no'), default='auto',
                        help='whether the images of a bag are rectified; auto (default) measures '
                             'it where their camera_info describes a camera that distorts')
    parser.add_argument('--calibration', type=pathlib.Path, metavar='FILE',
                        help='calibration of the rectified images, in place of that beside them, '
                             'or of camera_info in a bag: calib.txt of Middlebury, ETH3D or '
                             'KITTI, left.yaml (camera_info of ROS) or P_left.txt with that of '
                             "the right camera beside it, or OpenCV's stereo YAML in metres")
    parser.add_argument('--rectify', type=pathlib.Path, metavar='FILE',
                        help='rectify raw images to grey ones first: left.yaml (camera_info of '
                             "ROS), or OpenCV's stereo YAML, with D, K, R and P; in place of "
                             '--calibration; replay sends them raw with this camera_info')
    parser.add_argument('--approximate-sync', type=real(0, 10), metavar='SECONDS',
                        help='pair images whose stamps differ by at most as much, as the node '
                             'with approximate_sync (default: as a parameter file says, else '
                             'stamps have to be equal)')
    if with_truth:
        _add_truth_options(parser)


def _add_truth_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--truth-glob', default='', metavar='PATTERN',
                        help='truths of the images of --left-glob: PFM, or images of disparity '
                             '(default: disparity/ with the names of the left images)')
    parser.add_argument('--truth-topic', default='', metavar='TOPIC',
                        help='truth in a bag: a DisparityImage, an image of disparity or depth, '
                             'or a PointCloud2 of a LiDAR (default: ground_truth/disparity or '
                             'ground_truth/depth, if any)')
    add_truth_scale_option(parser)
    parser.add_argument('--truth-tolerance', type=real(0, 10), metavar='SECONDS',
                        default=StereoTopics.truth_tolerance_s,
                        help='a truth belongs to a pair whose stamp differs by at most as much; '
                             'the nearest one counts (default: '
                             f'{StereoTopics.truth_tolerance_s:g})')


def add_truth_scale_option(parser: argparse.ArgumentParser) -> None:
    """--truth-scale."""
    parser.add_argument('--truth-scale', type=_scale, metavar='NUMBERS',
                        help='numbers of a truth per pixel of disparity (grey levels), or per '
                             'metre of depth; below 0 they have the other sign (default: as its '
                             'set says; else 256 of images of 16 bits, 1 of PFM and float topics, '
                             '1000 of depths of 16 bits; an image of 8 bits has none)')


def _scale(text: str) -> float:
    value = real(-MAX_SCALE, MAX_SCALE)(text)
    if abs(value) < 1e-3:
        raise argparse.ArgumentTypeError(f'{shown(text)} is nearer to 0 than 0.001')
    return value


def chosen_topics(options: argparse.Namespace) -> StereoTopics:
    """Where the command line says that the pairs of a source are, and how they are found.

    :raises ConfigError: a parameter file says what a node would not take.
    :raises ValueError: two options exclude each other.
    """
    tolerance_s, path = options.approximate_sync, getattr(options, 'params_file', None)
    if tolerance_s is None:
        tolerance_s = stamp_tolerance_s(load_parameter_file(path)) if path else 0.0
    if options.calibration and options.rectify:
        raise ValueError('--rectify has a calibration: leave --calibration out')
    for name in ('left_info', 'right_info', 'rectified'):
        if (options.calibration or options.rectify) and getattr(options, name) not in ('', 'auto'):
            raise ValueError(f'--{name.replace("_", "-")} and --calibration or --rectify exclude '
                             'each other: the file says it')
    for name in ('left_glob', 'right_glob', 'right_image'):
        if options.side_by_side and getattr(options, name):
            option = f'--{name.removesuffix("_image").replace("_", "-")}'
            raise ValueError(f'{option} and --side-by-side exclude each other: one image holds '
                             'both')
    focal, baseline = (getattr(options, name, None) for name in ('focal', 'baseline'))
    calibration, rectification = (str(path.absolute()) if path else '' for path in (
        options.calibration, options.rectify))
    return StereoTopics(options.left_image, options.right_image, options.left_info,
                        options.right_info, getattr(options, 'truth_topic', ''),
                        truth_tolerance_s=getattr(options, 'truth_tolerance',
                                                  StereoTopics.truth_tolerance_s),
                        tolerance_s=tolerance_s, truth_scale=getattr(options, 'truth_scale', None),
                        rectified=options.rectified, globs=_chosen_globs(options),
                        calibration=calibration, rectification=rectification,
                        assumed=Calibration(focal, baseline, 0, 0, 0) if focal and baseline
                        else None, side_by_side=options.side_by_side)


def open_sources(inputs: Sequence[Input], topics: StereoTopics, limit: int = 0) -> Sources:
    """All pairs; warns of what is not read, or not as the inputs say.

    :raises BackendUnavailable: a bag, without what reads it.
    :raises StereoError, ValueError: an input has no pair, or cannot be read.
    """
    if not topics.globs and any(isinstance(one.source, pathlib.Path) and is_bag(one.source)
                                for one in inputs):
        require('rosbags', 'mcap')       # which folders of images do without
    sources = Sources(inputs, topics, limit)
    for warning in sources.warnings:
        _log.warning(warning)
    return sources


def _chosen_globs(options: argparse.Namespace) -> Globs | None:
    """Patterns of images and truths; None: the command line names none.

    :raises ValueError: it names one of those that need each other.
    """
    truth = getattr(options, 'truth_glob', '')
    if bool(options.left_glob) != bool(options.right_glob):
        raise ValueError('--left-glob and --right-glob go together')
    if truth and not options.left_glob:
        raise ValueError('--truth-glob needs --left-glob and --right-glob')
    return Globs(options.left_glob, options.right_glob, truth) if options.left_glob else None
