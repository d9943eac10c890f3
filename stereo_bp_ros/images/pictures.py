"""Pictures for people: colour-coded disparity, errors, and several panels on one sheet.

Every function returns BGR, uint8 H x W x 3, ready for `cv2.imwrite` and the bgr8 encoding.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.images.raw_images import RawImage

#: Colour of pixels without an estimate in `disparity_picture`, BGR: darker than any disparity.
INVALID = (26, 24, 22)

UNKNOWN = (0, 0, 0)
#: Colours in `error_picture`, BGR: no ground truth, and ground truth but no estimate.
MISSING = (96, 92, 88)

ERROR_STEPS = (
    (0.25, (149, 54, 49)), (0.5, (180, 117, 69)), (1.0, (209, 173, 116)),
    (2.0, (233, 217, 171)), (3.0, (144, 224, 254)), (5.0, (97, 174, 253)),
    (10.0, (67, 109, 244)), (math.inf, (38, 0, 165)))
"""Upper limit of the error in pixels and its colour, BGR, from blue (good) to red; safe for people
who confuse red and green."""

#: Width / height that `comparison` aims at: that of a screen.
SHEET_ASPECT = 1.6

#: Per cent of the values of a map: outside of these, colours are those of the nearer end.
COLOR_TAILS = (0.5, 99.5)

Map = tuple[np.ndarray, np.ndarray | None]
"""Disparity and valid, as in `disparity_picture`."""

PAPER = (34, 31, 29)
INK = (228, 226, 224)
FONT = cv2.FONT_HERSHEY_SIMPLEX


def disparity_picture(disparity: np.ndarray, valid: np.ndarray | None = None, low: float = 0.0,
                      high: float = 64.0) -> np.ndarray:
    """Disparity in colours of the Turbo map, blue = far (`low`) to red = near (`high`).

    disparity: H x W, pixels; not finite = invalid.
    valid:     bool H x W or None (all finite ones).
    low, high: the range in pixels; fixed, so that a colour means the same in every frame. Values
               outside take the colour of the nearer end.

    :raises ValueError: `high` is not above `low`.
    """
    if not high > low:
        raise ValueError(f'the range of colours is {low:g} to {high:g}, but must rise')
    known = np.isfinite(disparity)
    if valid is not None:
        known &= valid.astype(bool)
    place = (np.where(known, disparity, low) - low) / (high - low)
    level = np.rint(255 * _turbo_part(np.clip(place, 0, 1))).astype(np.uint8)
    picture = cv2.applyColorMap(level, cv2.COLORMAP_TURBO)
    picture[~known] = INVALID
    return np.asarray(picture)


def color_range(*maps: Map) -> tuple[float, float]:
    """Range of colours for the valid values of maps: whole pixels, without `COLOR_TAILS`.

    maps: disparity H x W in pixels and valid, as in `disparity_picture`.
    """
    values = np.concatenate([
        disparity[np.isfinite(disparity) & (True if valid is None else valid.astype(bool))]
        for disparity, valid in maps])
    if not values.size:
        return 0.0, 1.0
    low, high = np.percentile(values, COLOR_TAILS)
    low = math.floor(low)
    return float(low), float(max(math.ceil(high), low + 1))


def _turbo_part(place: np.ndarray) -> np.ndarray:
    # Both ends of Turbo are too dark to be told from invalid pixels.
    return 0.07 + 0.89 * place


def error_picture(disparity: np.ndarray, truth: np.ndarray, valid: np.ndarray | None = None
                  ) -> np.ndarray:
    """Absolute error in the steps of `ERROR_STEPS`; `UNKNOWN` and `MISSING` pixels apart.

    disparity: H x W, pixels; not finite = no estimate.
    truth:     H x W, pixels; not finite = unknown.
    valid:     bool H x W or None (all finite ones).
    """
    estimated = np.isfinite(disparity)
    if valid is not None:
        estimated &= valid.astype(bool)
    known = np.isfinite(truth)
    both = estimated & known
    error = np.abs(np.where(both, disparity, 0.0) - np.where(both, truth, 0.0))
    step = np.searchsorted([limit for limit, _ in ERROR_STEPS], error)
    picture = np.array([colour for _, colour in ERROR_STEPS], np.uint8)[step]
    picture[~estimated] = MISSING
    picture[~known] = UNKNOWN
    return np.asarray(picture)


def confidence_picture(confidence: np.ndarray) -> np.ndarray:
    """Confidence from blue (0) to yellow (1) in the Cividis map; `INVALID` where there is none.

    confidence: float H x W in [0, 1], 0 = no disparity.
    """
    level = np.rint(255 * np.clip(confidence, 0, 1)).astype(np.uint8)
    picture = cv2.applyColorMap(level, cv2.COLORMAP_CIVIDIS)
    picture[~(confidence > 0)] = INVALID
    return np.asarray(picture)


def depth_picture(depth: np.ndarray, near: float, far: float) -> np.ndarray:
    """Depth by its logarithm in the Turbo map, red = `near` to blue = `far`, `INVALID` elsewhere.

    depth: float H x W, metres, NaN = none.
    """
    with np.errstate(invalid='ignore', divide='ignore'):
        return disparity_picture(-np.log(depth), None, -np.log(far), -np.log(near))


def grey_picture(image: np.ndarray | RawImage) -> np.ndarray:
    """An input image (mono8, mono16, rgb8 or raw) as BGR; 16 bits are scaled to their maximum."""
    if isinstance(image, RawImage):
        image = _displayable(image)
    if image.dtype == np.uint16:
        image = (image.astype(np.float32) * (255.0 / max(int(image.max()), 1))).astype(np.uint8)
    code = cv2.COLOR_GRAY2BGR if image.ndim == 2 else cv2.COLOR_RGB2BGR
    return np.asarray(cv2.cvtColor(image, code))


def disparity_bar(height: int, low: float, high: float) -> np.ndarray:
    """Upright legend of `disparity_picture`, `height` pixels tall, labelled in pixels."""
    unit = _unit(height)
    levels = np.linspace(1.0, 0.0, _bar_length(height, unit))[:, None]
    colours = cv2.applyColorMap(np.rint(255 * _turbo_part(levels)).astype(np.uint8),
                                cv2.COLORMAP_TURBO)
    count = max(2, min(7, height // (4 * unit)))
    step = _round_step((high - low) / count)
    first = math.ceil(low / step - 1e-9)
    ticks = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return _bar(height, 'disp. px', colours,
                [((high - tick) / (high - low), f'{tick:g}') for tick in ticks])


def error_bar(height: int) -> np.ndarray:
    """Upright legend of `error_picture`, `height` pixels tall, labelled in pixels."""
    length = _bar_length(height, _unit(height))
    steps = len(ERROR_STEPS)
    number = np.minimum(np.arange(length) * steps // length, steps - 1)
    colours = np.array([colour for _, colour in ERROR_STEPS], np.uint8)[steps - 1 - number]
    labels = [(1 - (k + 1) / steps, f'{limit:g}') for k, (limit, _) in enumerate(ERROR_STEPS[:-1])]
    return _bar(height, 'error px', colours[:, None], labels)


def _unit(size: int) -> int:
    """The height of text that suits panels of this height, pixels."""
    return int(np.clip(size / 34, 11, 18))


def _bar_length(height: int, unit: int) -> int:
    return max(2, height - 3 * unit)


def _round_step(step: float) -> float:
    """The minimum of 1, 2, 5, 10, ... that is not below a step."""
    decade = 10.0 ** math.floor(math.log10(step))
    return next(factor * decade for factor in (1.0, 2.0, 5.0, 10.0)
                if factor * decade >= step * (1 - 1e-9))


def _bar(height: int, heading: str, colours: np.ndarray, labels: Sequence[tuple[float, str]]
         ) -> np.ndarray:
    unit = _unit(height)
    thick = unit + unit // 2
    wide = thick + unit // 2 + max(_text_width(label, unit) for _, label in labels)
    top, length = 2 * unit, len(colours)
    height = max(height, top + length)
    bar = np.full((height, max(wide, _text_width(heading, unit)) + 4, 3), PAPER, np.uint8)
    bar[top:top + length, :thick] = colours
    write_text(bar, heading, 0, unit, unit)
    free = -unit
    for place, label in sorted(labels):
        row = top + round(place * (length - 1))
        bar[min(row, height - 1), thick:thick + max(2, unit // 4)] = INK
        middle = min(row + unit // 2, height - 2)
        # A label that would touch the one above it is left out; its tick stays.
        if middle - unit >= free:
            write_text(bar, label, thick + unit // 2, middle, unit)
            free = middle + 1
    return bar


def _text_width(text: str, height: int) -> int:
    (width, _), _ = cv2.getTextSize(text, FONT, _font_scale(height), 1)
    return int(width)


def _font_scale(height: int) -> float:
    (_, tall), _ = cv2.getTextSize('H', FONT, 1.0, 1)
    return height / max(tall, 1)


def write_text(picture: np.ndarray, text: str, x: int, baseline: int, height: int,
               width: int | None = None) -> None:
    """Write text into a BGR picture, its capitals `height` pixels tall.

    x, baseline: lower left corner of the text, pixels.
    width:       shrink the text, and in the end cut it, to fit this many pixels.
    """
    if width is not None:
        while height > 8 and _text_width(text, height) > width:
            height -= 1
        while text and _text_width(text, height) > width:
            text = text[:-1]
    cv2.putText(picture, text, (x, baseline), FONT, _font_scale(height), INK, 1, cv2.LINE_AA)


Panel = tuple[str, np.ndarray]

#: Pixels of the longer side of a picture inside a page, and its bytes before they become text.
MAX_EMBEDDED_SIDE, MAX_EMBEDDED_BYTES = 1440, 300_000


class Sheet(NamedTuple):
    """A picture, and where its panels are: left, top, width and height as parts of its own."""

    picture: np.ndarray
    boxes: Sequence[tuple[float, float, float, float]]


def sheet(panels: Sequence[Panel], columns: int | None = None,
          legends: Sequence[np.ndarray] = ()) -> Sheet:
    """Panels beside each other, each under its caption, with legends at the right.

    panels:  (caption, BGR picture); smaller pictures are centred in the place of the largest.
    columns: panels in a row; None: all in one.
    legends: bars, for instance of `disparity_bar`, one beside the other.

    :raises ValueError: there is no panel, or `columns` is below 1.
    """
    if not panels or (columns is not None and columns < 1):
        raise ValueError(f'a sheet of {len(panels)} panels in {columns} columns cannot be made')
    columns = len(panels) if columns is None else min(columns, len(panels))
    rows = -(-len(panels) // columns)
    tall = max(picture.shape[0] for _, picture in panels)
    wide = max(picture.shape[1] for _, picture in panels)
    unit = max(_unit(tall), min(24, columns * wide // 130))     # a wide sheet is shown smaller
    gap, head = unit, 2 * unit + unit // 2
    top = gap // 2
    legend_height = max([legend.shape[0] for legend in legends], default=0)
    height = top + max(rows * (head + tall) + (rows - 1) * (gap // 2), head + legend_height) + gap
    width = gap + columns * (wide + gap) + sum(legend.shape[1] + gap for legend in legends)
    paper = np.full((height, width, 3), PAPER, np.uint8)
    boxes = []
    for number, (caption, picture) in enumerate(panels):
        row, column = divmod(number, columns)
        x = gap + column * (wide + gap)
        y = top + row * (head + tall + gap // 2) + head
        write_text(paper, caption, x, y - unit // 2 - 2, unit, wide)
        y += (tall - picture.shape[0]) // 2
        x += (wide - picture.shape[1]) // 2
        paper[y:y + picture.shape[0], x:x + picture.shape[1]] = picture
        boxes.append((x / width, y / height, picture.shape[1] / width,
                      picture.shape[0] / height))
    x = gap + columns * (wide + gap)
    for legend in legends:
        y = top + head
        paper[y:y + legend.shape[0], x:x + legend.shape[1]] = legend
        x += legend.shape[1] + gap
    return Sheet(paper, boxes)


def comparison(left: np.ndarray | RawImage, maps: Mapping[str, Map],
               truth: np.ndarray | None = None, low: float = 0.0, high: float = 64.0,
               confidence: Mapping[str, np.ndarray] | None = None) -> Sheet:
    """Input, disparity and, with `truth`, ground truth and errors, on one sheet with legends.

    left:       mono8, mono16 or rgb8 H x W, or raw.
    maps:       by the names of the matchers.
    truth:      as in `error_picture`.
    low, high:  range of the colours, pixels.
    confidence: as in `confidence_picture`, by the names of the matchers that have one.
    """
    of = {name: f' of {name}' if len(maps) > 1 else '' for name in maps}
    image = grey_picture(left)
    panels = [('left image', image)]
    if truth is not None:
        panels.append(('ground truth', disparity_picture(truth, None, low, high)))
    for name, (disparity, valid) in maps.items():
        panels.append((f'disparity{of[name]}', disparity_picture(disparity, valid, low, high)))
        if truth is not None:
            panels.append((f'error{of[name]}', error_picture(disparity, truth, valid)))
    panels += [(f'confidence{of[name]}, blue = 0 to yellow = 1', confidence_picture(one))
               for name, one in (confidence or {}).items()]
    # An error is beside its disparity.
    columns = _columns(len(panels), image, 1 if truth is None else 2)
    height = image.shape[0] * min(2, -(-len(panels) // columns))
    return sheet(panels, columns, [disparity_bar(height, low, high), *(
        [] if truth is None else [error_bar(height)])])


def _columns(count: int, picture: np.ndarray, step: int) -> int:
    """Panels in a row of so many of the size of a picture: wide ones are stacked."""
    aspect = picture.shape[1] / picture.shape[0]
    return min(range(step, count + step, step), key=lambda columns: abs(math.log(
        aspect * columns / -(-count // columns) / SHEET_ASPECT)))


def _displayable(image: RawImage) -> np.ndarray:
    """A raw image of any encoding as mono8, mono16 or rgb8.

    Bayer mosaics are left as they are: at the size of a picture their pattern is not seen.
    """
    pixels = image.pixels
    if image.layout.luma >= 0:
        return np.asarray(pixels[:, :, image.layout.luma])
    if pixels.ndim == 3:
        rgb = pixels[:, :, :3]
        return np.asarray(rgb if image.encoding.startswith('rgb') else rgb[:, :, ::-1])
    return np.asarray(pixels, dtype=pixels.dtype.newbyteorder('='))


def data_uri(picture: np.ndarray) -> str:
    """A BGR picture as text that a page embeds: PNG or JPEG, whichever is smaller.

    It is made smaller until both `MAX_EMBEDDED_SIDE` and `MAX_EMBEDDED_BYTES` hold.
    """
    limit = MAX_EMBEDDED_SIDE
    while True:
        scale = min(1.0, limit / max(picture.shape[:2]))
        size = tuple(max(1, round(length * scale)) for length in picture.shape[1::-1])
        scaled = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        png = cv2.imencode('.png', scaled)[1]
        jpeg = cv2.imencode('.jpg', scaled, [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
        kind, file = ('png', png) if png.size <= jpeg.size else ('jpeg', jpeg)
        if file.size <= MAX_EMBEDDED_BYTES:
            return f'data:image/{kind};base64,{base64.b64encode(file.tobytes()).decode()}'
        limit = limit * 3 // 4
