"""Validation of pairs, calibrations and recordings.

Node, command line, evaluation, replay and Python ask the same functions. Each returns issues, or
raises where nothing may be computed first. ``issues`` has their codes; docs/reference/checks.md
lists them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration, Intrinsics, image_size
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.errors import ConfigError, InputError, ignored_codes, quoted
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, IssueCode, IssueLevel

if TYPE_CHECKING:
    # Importing the package is quick without OpenCV.
    from stereo_bp_ros.cameras.row_correction import RowCorrection
    from stereo_bp_ros.cameras.row_estimator import RowState


def enforce(issues: Iterable[Issue], config: MatcherConfig) -> list[Issue]:
    """The issues without those that the setting ``ignored_checks`` names.

    :raises InputError: one of them rejects the input.
    """
    kept = list(issues)
    if config.ignored_checks:
        ignored = ignored_codes(config.ignored_checks)
        kept = [one for one in kept if one.code not in ignored]
    for one in kept:
        if one.level is IssueLevel.ERROR:
            raise InputError(one.code, one.text)
    return kept


# Calibration

#: Metres between the cameras of a pair that somebody has built.
MIN_BASELINE, MAX_BASELINE = 0.005, 2.0

#: Where a principal point lies in the image, as a part of its width or height.
CENTRAL_RANGE = (0.3, 0.7)

#: Focal lengths of lenses, in widths of the image: fields of view of 136 and 11 degrees.
MIN_FOCAL, MAX_FOCAL = 0.2, 5.0

#: Difference of two ratios of sizes that may be one, as a part of one.
RATIO_TOLERANCE = 0.1

#: Difference of two focal lengths, as a part of one; rows by which principal points may differ;
#: and how much of a baseline may be vertical: a row at 100 pixels of disparity.
FOCAL_TOLERANCE, ROW_TOLERANCE, VERTICAL_TOLERANCE = 1e-3, 0.5, 0.01


def check_baseline(calibration: Calibration) -> list[Issue]:
    """The baseline of a calibration is plausible."""
    baseline, focal = calibration.baseline_m, calibration.focal_px
    if MIN_BASELINE <= baseline <= MAX_BASELINE:
        return []
    text = (f'the baseline is {baseline:g} m, but cameras are {MIN_BASELINE:g} to '
            f'{MAX_BASELINE:g} m apart: depth is probably in another unit')
    if MIN_BASELINE <= baseline * focal <= MAX_BASELINE:
        text += (f'. If {baseline * focal:g} m is right, P[3] is -baseline; it must be -focal '
                 'length x baseline')
    elif meant := [f'if {baseline / unit:g} m is right, P[3] is in {name}'
                   for unit, name in ((1000, 'millimetres'), (100, 'centimetres'))
                   if MIN_BASELINE <= baseline / unit <= MAX_BASELINE]:
        text += f'. I{", ".join(meant)[1:]}; it must be in pixels x metres'
    return [IssueCode.BASELINE.issue(text)]


def check_intrinsics(calibration: Calibration, width: int, height: int) -> list[Issue]:
    """What a calibration was made of fits images of a size, pixels.

    That it names their size proves nothing: drivers fill that in without changing K and P.
    """
    own = calibration.projections
    described = list(calibration.intrinsics)
    if not any(one.name.startswith('P') for one in described) and (
            own or calibration.cx_left or calibration.cy):
        described.insert(0, Intrinsics('P of the left camera', calibration.focal_px,
                                       calibration.cx_left, calibration.cy, width, height))
    for one in described:
        found = _misfit(one) if one.width and one.height else []
        if found:
            return found
    return []


def _misfit(one: Intrinsics) -> list[Issue]:
    """Why numbers of a matrix are hardly those of an image; one cause at most."""
    low, high = CENTRAL_RANGE
    image = f'images of {one.width} x {one.height}'
    ratios = 2 * one.cx / one.width, 2 * one.cy / one.height
    for name, value, ratio in zip(('cx', 'cy'), (one.cx, one.cy), ratios, strict=True):
        if 2 * low <= ratio <= 2 * high:
            continue
        text = f'{name} in {one.name} is {value:g} in {image}: '
        mean = sum(ratios) / 2
        if mean > 0 and abs(ratios[0] - ratios[1]) <= RATIO_TOLERANCE * mean:
            text += (f'it is probably of images of about {one.width * mean:.0f} x '
                     f'{one.height * mean:.0f}, and depth {mean:.2g} times what it should be')
        else:
            text += ('it is probably of images of another size, and depth in another scale; or '
                     'of images that were cropped later, and points lie beside where they are')
        return [IssueCode.PRINCIPAL_POINT.issue(text)]
    if MIN_FOCAL <= one.focal / one.width <= MAX_FOCAL:
        return []
    degrees = 2 * math.degrees(math.atan(one.width / (2 * one.focal)))
    return [IssueCode.FIELD_OF_VIEW.issue(
        f'the focal length in {one.name} is {one.focal:g} pixels in {image}, a field of view of '
        f'{degrees:.2g} degrees: it is probably of images of another size, or not in pixels, and '
        'depth in another scale')]


def check_calibration_size(calibration: Calibration, width: int, height: int) -> None:
    """A calibration is of images of this size, pixels.

    :raises InputError: camera_info size.
    """
    if calibration.width and (calibration.width, calibration.height) != (width, height):
        raise InputError(
            IssueCode.CAMERA_INFO_SIZE, f'the images are {width} x {height}',
            f'their calibration is of images of {calibration.width} x {calibration.height} '
            'pixels: depth and min_depth would be in another scale')


def check_rectification(config: MatcherConfig, rectification: Rectification | None, width: int,
                         height: int) -> None:
    """Reject a rectification that does not fit the settings and images of a size.

    :raises StereoError: it, or none, with the setting ``rectify`` as it is.
    """
    if not config.rectify:
        if rectification is not None:
            raise ConfigError('rectify', False, 'a rectification was given: set it')
        return
    if rectification is None:
        raise InputError(IssueCode.BAD_CALIBRATION, 'no rectification was given',
                         'the setting rectify needs one')
    for what, found, expected in (
            ('images are', (width, height), (rectification.width, rectification.height)),
            ('rectified images are', geometry.rectified_size(config, width, height),
             (rectification.rectified_width, rectification.rectified_height))):
        if found != expected:
            raise InputError(IssueCode.CAMERA_INFO_SIZE, '{} {} x {}'.format(what, *found),
                             'the rectification has {} x {}'.format(*expected))


def check_fixed_point(config: MatcherConfig) -> None:
    """Reject a search that ``fixed_disparity`` does not hold.

    :raises ConfigError: names min_disparity and the range.
    """
    first, end = config.min_disparity - 1, config.min_disparity + config.disparity_range
    if 16 * first < -2**15 or 16 * end > 2**15:
        raise ConfigError('min_disparity', config.min_disparity,
                          f'disparities from {first} to {end} have no sixteenths in the 16 bits '
                          'of fixed_disparity')


def check_image_size(side: str, info: Any, width: int, height: int) -> None:
    """Compare an image's size in pixels with its CameraInfo, where that has one.

    :raises InputError: camera_info size, naming both.
    """
    expected = image_size(info)
    if expected not in ((width, height), (0, 0)):       # which simulators leave out
        raise InputError(
            IssueCode.CAMERA_INFO_SIZE, f'the {side} image is {width} x {height}',
            f'its camera_info describes {expected[0]} x {expected[1]} '
            '((roi or full size) / binning)')


def check_frame_id(side: str, frame_id: str) -> list[Issue]:
    """A frame that is handed on is one that others can place."""
    if frame_id and not frame_id.startswith('/'):
        return []
    wrong = f'is {quoted(frame_id)}, with a slash in front' if frame_id else 'is empty'
    return [IssueCode.FRAME_ID.issue(
        f'frame_id of the {side} camera_info {wrong}, and published so: TF rejects it, RViz and '
        'costmaps drop every depth and cloud. Have the driver set '
        + (quoted(frame_id.lstrip('/')) if frame_id.strip('/') else 'a name'))]


def check_projections(calibration: Calibration) -> list[Issue]:
    """The rows of two cameras match, by what a calibration was made of."""
    if calibration.projections is None:
        return []
    left, right = calibration.projections
    baseline = left[3] / left[0] - right[3] / right[0]
    vertical = (left[7] - right[7]) / right[0]
    texts = []
    if abs(vertical) > VERTICAL_TOLERANCE * abs(baseline):
        texts.append(f'vertical baseline in P[7] ({left[7]:g} and {right[7]:g}): the pair is not '
                     'rectified to rows')
    for index, name in ((0, 'focal lengths'), (5, 'vertical focal lengths')):
        if abs(left[index] - right[index]) > FOCAL_TOLERANCE * abs(left[index]):
            texts.append(f'{name} differ ({left[index]:g} and {right[index]:g}): '
                         + ('depth is wrong' if index == 0 else 'rows do not match')
                         + '; both cameras of a rectified pair have one')
    if abs(left[6] - right[6]) > ROW_TOLERANCE:
        texts.append(f'principal points differ by {abs(left[6] - right[6]):g} rows: '
                     'rows do not match')
    return [IssueCode.PROJECTIONS.issue(text) for text in texts]


# Images

#: Part of the pixels that must be dark or bright for an image to count as black or saturated.
MIN_SHARE = 0.99

#: Grey values, of 255, below which a pixel is black and from which it is saturated.
BLACK, SATURATED = 8, 250

#: Every so many rows and columns are looked at.
STRIDE = 8

#: Values of two images that are compared at a time.
COMPARED = 32768


def check_identical(left: RawImage, right: RawImage) -> list[Issue]:
    """The images are of two cameras."""
    return [IssueCode.IDENTICAL.issue(
        'left and right image are identical: is one camera published twice?'
    )] if same_pixels(left, right) else []


def check_exposure(left: RawImage, right: RawImage, mono16_scale: float) -> list[Issue]:
    """There is something to be matched.

    :param mono16_scale: factor from 16-bit values to grey values 0..255.
    """
    texts = []
    for side, image in (('left', left), ('right', right)):
        grey = _grey_sample(image, mono16_scale)
        hint = ' (does mono16_scale fit the camera?)' if image.layout.bits == 16 else ''
        if np.mean(grey < BLACK) >= MIN_SHARE:
            texts.append(f'the {side} image is black{hint}')
        elif np.mean(grey >= SATURATED) >= MIN_SHARE:
            texts.append(f'the {side} image is saturated{hint}')
    return [IssueCode.EXPOSURE.issue(text) for text in texts]


def check_bits(left: RawImage, right: RawImage, mono16_scale: float) -> list[Issue]:
    """The values of 16-bit images fill the range that ``mono16_scale`` expects."""
    if left.layout.bits != 16 or right.layout.bits != 16:
        return []
    highest = max(int(image.pixels.max(initial=0)) for image in (left, right))
    if not highest or highest * mono16_scale >= 128:
        return []
    bits = max(8, highest.bit_length())
    return [IssueCode.BITS.issue(
        f'the maximum value of the 16-bit images is {highest}, {bits} bits, a grey value of '
        f'{highest * mono16_scale:.3g} of 255: matching sees little texture. With {bits} bits '
        f'from the camera set mono16_scale to {255 / (2**bits - 1):.6g}')]


def same_pixels(one: RawImage, other: RawImage) -> bool:
    """Whether two images have the same bytes."""
    if (one.encoding, one.big_endian, one.width, one.height) != (
            other.encoding, other.big_endian, other.width, other.height):
        return False
    a, b = one.pixels, other.pixels
    # Not all at once: what compares takes as much memory as the images have values.
    rows = max(1, COMPARED * len(a) // max(1, a.size))
    return (np.array_equal(a[::4 * STRIDE], b[::4 * STRIDE])
            and all(np.array_equal(a[first:first + rows], b[first:first + rows])
                    for first in range(0, len(a), rows)))


def _grey_sample(image: RawImage, mono16_scale: float) -> np.ndarray:
    sample = image.pixels[::STRIDE, ::STRIDE]
    layout = image.layout
    if layout.luma >= 0:
        return sample[..., layout.luma]
    if layout.channels > 1:
        return np.asarray(sample[..., :3].max(axis=-1))
    if layout.bits == 16:
        return np.asarray(sample * np.float32(mono16_scale))
    return sample


#: Seconds between two pairs that count at most: a clock that is set says nothing of a camera.
MAX_STEP_S = 10.0


class FrozenCameras:
    """Follows the images of a pair over time, and finds those that do not change.

    Of pairs of which only some are examined, an image has to be that of the examined one before
    and that of the pair before: a short loop of pictures is neither, nor is each picture twice.
    """

    def __init__(self) -> None:
        self._last: dict[str, RawImage] = {}
        self._before: dict[str, RawImage] = {}
        self._since: dict[str, int] = {}
        self._stamp_ns = 0

    def examine(self, left: RawImage, right: RawImage, stamp_ns: int) -> list[Issue]:
        """Compare a pair with the one before; its images must stay unchanged until the next."""
        sides = []
        skipped_ns = max(0, stamp_ns - self._stamp_ns - round(MAX_STEP_S * 1e9))
        for side, image in (('left', left), ('right', right)):
            earlier = [known[side] for known in (self._last, self._before) if side in known]
            self._last[side] = image
            if not earlier or stamp_ns <= self._stamp_ns or not all(
                    same_pixels(one, image) for one in earlier):
                self._since[side] = stamp_ns
            else:
                sides.append(side)
                self._since[side] += skipped_ns
        self._stamp_ns = stamp_ns
        self._before = {}
        if not sides:
            return []
        seconds = 1e-9 * (stamp_ns - max(self._since[side] for side in sides))
        which = 'both images repeat' if len(sides) > 1 else f'the {sides[0]} image repeats'
        return [IssueCode.FROZEN.issue(
            f'{which} for {seconds:.1f} s: the same bytes under new stamps. Does a camera or its '
            'driver stand still?', seconds)]

    def pass_by(self, left: RawImage, right: RawImage) -> None:
        """Keep a pair that is not examined; its images must stay unchanged until the next."""
        self._before = {'left': left, 'right': right}


# Both images together

#: Corners that must have one partner only, and the part of them that must lie on the wrong side.
MIN_CORNERS, EXCHANGED = 10, 0.85

#: Maximum median vertical disparity of corners, pixels. With KITTI's 0.5, and 2.4 at an edge of
#: the image, block matching is as good as without (sensitivity.md).
MAX_VERTICAL_OFFSET = 0.75


def check_exchanged(left: np.ndarray, right: np.ndarray, config: MatcherConfig) -> list[Issue]:
    """The left image is of the left camera.

    :param left, right: uint8 or float32 H x W, grey values of rectified images.
    """
    # Not above: importing the package is quick without OpenCV.
    from stereo_bp_ros.cameras.alignment import corner_disparities

    first, last = config.min_disparity, config.max_disparity
    reach = max(abs(first), abs(last))
    found = corner_disparities(left, right, -reach, reach)
    beyond = found[found < first - 1]
    if len(found) < MIN_CORNERS or len(beyond) < EXCHANGED * len(found):
        return []
    low, high = np.percentile(beyond, (5, 95))
    return [IssueCode.EXCHANGED_IMAGES.issue(
        f'{len(beyond)} of {len(found)} corners have disparities below the range, mostly from '
        f'{low:.0f} to {high:.0f} px, and the search begins at {first}; left and right image are '
        'probably exchanged: exchange them, or lower min_disparity where the cameras converge')]


def check_vertical_offset(state: RowState, limit: float, is_corrected: bool,
                          corrected: RowCorrection | None, reference: RowCorrection | None,
                          width: int, height: int) -> list[Issue]:
    """The rows of a sequence of pairs match.

    :param limit: of the median vertical disparity of the corners, pixels.
    :param is_corrected: whether the matcher corrects what is significant.
    :param corrected: what it corrects; None = nothing.
    :param reference: what the rows are compared with; None = nothing yet.
    :param width, height: of the rectified images, pixels.
    """
    now = state.estimate
    if now is None:
        return []
    found = []
    if (half := state.typical(corrected)) > limit:
        max_px = state.remaining_px if is_corrected else state.max_px
        why = f' ({state.reason})' if is_corrected and state.reason else ''
        found.append(IssueCode.VERTICAL_OFFSET.issue(
            f'the vertical disparity is up to {max_px:.2f} px{why}, {half:.2f} px in the median '
            f'of the corners (max_vertical_offset {limit:g}): the right image is {now.text}. '
            'Are the images rectified, with the calibration of these cameras?', half))
    if reference is not None and not is_corrected and (half := state.typical(reference)) > limit:
        max_px = float(np.abs(now.rows_of_image(width, height)
                            - reference.rows_of_image(width, height)).max())
        found.append(IssueCode.VERTICAL_OFFSET.issue(
            f'the vertical disparity has changed by up to {max_px:.2f} px since the first pairs, '
            f'{half:.2f} px in the median of the corners (max_vertical_offset {limit:g}): has a '
            'camera moved in its mounting?', half))
    return found


def check_rectified_once(raw: float | None, limit: float) -> list[Issue]:
    """Rows of raw images do not match before they are rectified, where they do not match after.

    :param raw: median vertical disparity of the corners before, pixels; None = not known.
    """
    if raw is None or raw > limit:
        return []
    return [IssueCode.RECTIFIED.issue(
        f'the median vertical disparity is {raw:.2f} px before rectification, and larger after '
        'it: the images seem to be rectified already; set rectify to false')]


def examine_images(left: RawImage, right: RawImage, config: MatcherConfig) -> list[Issue]:
    """All that two images show without being compared by their content; about 0.1 ms."""
    return [*check_identical(left, right), *check_exposure(left, right, config.mono16_scale),
            *check_bits(left, right, config.mono16_scale)]


def examine_calibration(calibration: Calibration | None, width: int, height: int
                        ) -> list[Issue]:
    """All that a calibration shows beside images of this size, pixels.

    :raises InputError: camera_info size.
    """
    if calibration is None:
        return []
    check_calibration_size(calibration, width, height)
    return [*check_projections(calibration), *check_baseline(calibration),
            *check_intrinsics(calibration, width, height)]
