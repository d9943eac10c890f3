"""Stage ``messages`` of tiled belief propagation: BP-M tile by tile, a diagonal side by side.

Liang, Cheng, Lai, Chen & Chen, Hardware-efficient belief propagation, in the order of
Kotsifakou's thesis (2019, sections 2.2 and 4.2). ``docs/explanation/algorithms.md`` defines what
is computed.

A thread has one tile at a time in its scratch, as planes of values: *along x*
[x][label][y], for the sweeps right and left, all rows at once; *along y* [y][label][x], for the
sweeps down and up, all columns at once. The last index is padded to whole vectors. Between tiles
only what they sent over their edges is kept: [side][row of tiles][column of tiles][label][place on
the edge]. Arrays are flat in the kernels, and places in them offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.hierarchical.labels import sixteenths
from stereo_bp_ros.engines.cpu.memory import Matches
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import lanes, load, minimum, splat, store

# Sides that a message comes from; opposite ones differ in the last bit.
LEFT, RIGHT, ABOVE, BELOW = range(4)

# Planes of a tile, ``scratch.TILE_PLANES``: the data cost along x and along y, what arrives from
# above and below along x, what arrives from each side along y, and one for sums.
_COST_X, _COST_Y, _ABOVE_X, _BELOW_X, _ARRIVING_Y, _SUM = 0, 1, 2, 3, 4, 8

# Rows [label][line] of a thread beside its planes, ``scratch.TILE_ROWS``: the messages of a sweep
# or the beliefs of a row come first, the sums that a message is computed from are the second.
_COPY = 1


class Tiles(NamedTuple):
    """The tiles of an image.

    size: pixels of a side; rows, columns: of tiles; stride: values from one label to the next.
    """

    size: int
    rows: int
    columns: int
    labels: int
    stride: int


class Energy(NamedTuple):
    """Data and smoothness cost in the units of messages.

    first: min_disparity. weight, bound, rounding: of the data cost. reach: labels that a step may
    lead over; below 0 = any number.
    """

    first: int
    weight: Any
    bound: Any
    rounding: Any
    slope: Any
    truncation: Any
    reach: int


def pass_messages(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any],
                  config: ResolvedConfig, out: Matches,
                  scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Match every pixel of the left image by tiled belief propagation.

    The result does not depend on the number of threads.

    :param left, right: float32 H x W, the images that are matched.
    :param out: filled. Every pixel gets a label, those of the border of the image, too; the
        fraction leads to the vertex of the parabola through the beliefs. Pixels of the other
        image are compared with those of this one that have data cost for every d.
    :param scratch: the arrays of ``scratch.tiled``.
    """
    sent = scratch['tile_edges']
    sent[...] = 0
    kind = sent.dtype.type
    slope, truncation = quantisation.message_smoothness(config)
    real, rounding = (np.float64, 0.5) if sent.dtype == np.uint16 else (np.float32, 0.0)
    reach = -1
    if config.option('computation', 'plain') == 'fast':
        reach = min(config.disparity_range - 1, _reach(slope, truncation))
    energy = Energy(config.min_disparity,
                    real(config.data_weight * quantisation.message_scale(config)),
                    real(config.data_truncation), real(rounding), kind(min(slope, truncation)),
                    kind(truncation), reach)
    if out.with_right:
        out.right_label[...] = -1
    _, rows, columns, labels, stride = sent.shape
    tiles = Tiles(config.tile_size, rows, columns, labels, stride)
    planes, lines = (scratch[name].reshape(len(scratch[name]), -1)
                     for name in ('tile_planes', 'tile_rows'))
    for outer in range(config.outer_iterations):
        for is_reverse in (False, True):
            is_last = is_reverse and outer + 1 == config.outer_iterations
            for step in range(rows + columns - 1):
                diagonal = rows + columns - 2 - step if is_reverse else step
                _visit_diagonal(len(planes), diagonal, tiles, left, right, energy,
                                config.inner_iterations, sent.reshape(-1), planes, lines,
                                is_last, out, scratch['tile_right_least'])


def _reach(slope: float, truncation: float) -> int:
    """Labels that a step may lead over before it costs the truncation."""
    return max(0, int(np.ceil(truncation / slope)) - 1)


@parallel_kernel
def _visit_diagonal(part: int, diagonal: int, tiles: Tiles, left: Any, right: Any, energy: Any,
                    iterations: int, sent: Any, planes: Any, lines: Any, is_last: bool, out: Any,
                    right_least: Any) -> None:
    parts = planes.shape[0]
    first_row = max(0, diagonal - tiles.columns + 1)
    end_row = min(tiles.rows, diagonal + 1)
    for row in range(first_row + part, end_row, parts):
        _visit_tile(row, diagonal - row, tiles, left, right, energy, iterations, sent,
                    planes[part], lines[part])
        if is_last:
            _select(row * tiles.size, (diagonal - row) * tiles.size, left.shape[0],
                    left.shape[1], tiles, energy.first, planes[part], lines[part], out,
                    right_least)


@kernel
def _visit_tile(row: int, column: int, tiles: Tiles, left: Any, right: Any, energy: Any,
                iterations: int, sent: Any, planes: Any, lines: Any) -> None:
    size, rows, columns, labels, stride = tiles
    y_first, x_first = row * size, column * size
    height = min(size, left.shape[0] - y_first)
    width = min(size, left.shape[1] - x_first)
    edge = labels * stride
    plane = size * edge
    _data_cost(left, right, y_first, x_first, height, width, energy, labels, stride, planes,
               _COST_X * plane, _COST_Y * plane)
    planes[_ABOVE_X * plane:_BELOW_X * plane + plane] = 0
    # Where the neighbours' messages lie; below 0 = there are none.
    from_left = ((RIGHT * rows + row) * columns + column - 1) * edge if column > 0 else -1
    from_right = (((LEFT * rows + row) * columns + column + 1) * edge
                  if column + 1 < columns else -1)
    from_above = ((BELOW * rows + row - 1) * columns + column) * edge if row > 0 else -1
    from_below = (((ABOVE * rows + row + 1) * columns + column) * edge
                  if row + 1 < rows else -1)
    for x in range(width):
        for d in range(labels):
            at = (x * labels + d) * stride
            if from_above >= 0:
                planes[_ABOVE_X * plane + at] = sent[from_above + d * stride + x]
            if from_below >= 0:
                planes[_BELOW_X * plane + at + height - 1] = sent[from_below + d * stride + x]
    for iteration in range(iterations):
        goes_on = iteration + 1 < iterations
        _sum(planes, _COST_X * plane, _ABOVE_X * plane, _BELOW_X * plane, _SUM * plane,
             width * edge)
        for side in (LEFT, RIGHT):
            _sweep(planes, _SUM * plane, sent, from_left if side == LEFT else from_right,
                   (((side ^ 1) * rows + row) * columns + column) * edge, width, height, labels,
                   stride, side == RIGHT, energy, lines,
                   (_ARRIVING_Y + side) * plane, -1)
        _sum(planes, _COST_Y * plane, (_ARRIVING_Y + LEFT) * plane,
             (_ARRIVING_Y + RIGHT) * plane, _SUM * plane, height * edge)
        for side in (ABOVE, BELOW):
            across = _ABOVE_X if side == ABOVE else _BELOW_X
            _sweep(planes, _SUM * plane, sent, from_above if side == ABOVE else from_below,
                   (((side ^ 1) * rows + row) * columns + column) * edge, height, width, labels,
                   stride, side == BELOW, energy, lines,
                   across * plane if goes_on else -1, (_ARRIVING_Y + side) * plane)


@kernel
def _data_cost(left: Any, right: Any, y_first: int, x_first: int, height: int, width: int,
               energy: Any, labels: int, stride: int, planes: Any, along_x: int, along_y: int
               ) -> None:
    first, weight, bound, rounding, _, _, _ = energy
    real = type(weight)
    for y in range(height):
        for x in range(width):
            partner = x_first + x - first
            has_evidence = partner - labels + 1 >= 0 and partner < left.shape[1]
            for d in range(labels):
                cost = real(0)
                if has_evidence:
                    difference = abs(real(left[y_first + y, x_first + x])
                                     - real(right[y_first + y, partner - d]))
                    cost = weight * min(difference, bound) + rounding
                planes[along_y + (y * labels + d) * stride + x] = cost
                planes[along_x + (x * labels + d) * stride + y] = cost


@kernel
def _sum(planes: Any, cost: int, first: int, second: int, total: int, count: int) -> None:
    for at in range(0, count, lanes(planes)):
        store(planes, total + at, (load(planes, cost + at) + load(planes, first + at))
              + load(planes, second + at))


@kernel
def _sweep(planes: Any, total: int, sent: Any, arriving: int, leaving: int, count: int, size: int,
           labels: int, stride: int, is_backward: bool, energy: Any, lines: Any, across: int,
           along: int) -> None:
    """Pass messages through ``count`` places of ``size`` lines, a vector of lines at a time.

    :param total: [place][label][line] of ``planes``: what is added to the message at each place.
    :param arriving: [label][line] of ``sent``: the messages that come in, below 0 = zeros;
        ``leaving``: those that go out.
    :param lines: scratch, ``TILE_ROWS`` of [label][line].
    :param across: of ``planes``: gets what arrives at each place as [line][label][place];
        below 0 = not wanted.
    :param along: the same as [place][label][line].
    """
    at_once = lanes(planes)
    zero = splat(planes.dtype.type(0))
    for first in range(0, size, at_once):
        for d in range(labels):
            store(lines, d * at_once,
                  load(sent, arriving + d * stride + first) if arriving >= 0 else zero)
        for step in range(count):
            place = count - 1 - step if is_backward else step
            at = place * labels * stride + first
            if along >= 0:
                for d in range(labels):
                    store(planes, along + at + d * stride, load(lines, d * at_once))
            if across >= 0:
                for line in range(min(at_once, size - first)):
                    for d in range(labels):
                        planes[across + ((first + line) * labels + d) * stride + place] = lines[
                            d * at_once + line]
            if energy.reach < 0:
                _message(planes, total + at, labels, stride, energy.slope, energy.truncation,
                         lines)
            else:
                _message_of_neighbours(planes, total + at, labels, stride, energy.slope,
                                       energy.truncation, energy.reach, lines)
        for d in range(labels):
            store(sent, leaving + d * stride + first, load(lines, d * at_once))


@kernel
def _message(planes: Any, total: int, labels: int, stride: int, slope: Any, truncation: Any,
             lines: Any) -> None:
    """The next message of each line in place of the last: a pass up and a pass down the labels.

    Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, section 3.1.
    """
    at_once = lanes(planes)
    step, bound = splat(slope), splat(truncation)
    value = load(planes, total) + load(lines, 0)
    least = value
    store(lines, 0, value)
    for d in range(1, labels):
        h = load(planes, total + d * stride) + load(lines, d * at_once)
        least = minimum(h, least)
        value = minimum(h, value + step)
        store(lines, d * at_once, value)
    for backwards in range(labels):
        d = labels - 1 - backwards
        value = minimum(load(lines, d * at_once), value + step)
        store(lines, d * at_once, minimum(value - least, bound))


@kernel
def _message_of_neighbours(planes: Any, total: int, labels: int, stride: int, slope: Any,
                           truncation: Any, reach: int, lines: Any) -> None:
    """The same where no step leads over more than ``reach`` labels, each label by itself.

    Farther ones cost the truncation at least, which bounds every label alike (Cheng, Liang, Lai,
    Chen & Chen, Fast belief propagation process element, 2009).
    """
    at_once, kind = lanes(planes), planes.dtype.type
    sums = _COPY * labels * stride
    bound = splat(truncation)
    least = load(planes, total) + load(lines, 0)
    for d in range(labels):
        h = load(planes, total + d * stride) + load(lines, d * at_once)
        least = minimum(h, least)
        store(lines, sums + d * at_once, h)
    for d in range(labels):
        value = load(lines, sums + d * at_once)
        for other in range(max(0, d - reach), min(labels, d + reach + 1)):
            step = splat(kind(abs(d - other) * slope))
            value = minimum(load(lines, sums + other * at_once) + step, value)
        store(lines, d * at_once, minimum(value - least, bound))


@kernel
def _select(y_first: int, x_first: int, rows: int, columns: int, tiles: Tiles, first: int,
            planes: Any, lines: Any, out: Any, right_least: Any) -> None:
    """Labels of one tile."""
    size, labels, stride = tiles.size, tiles.labels, tiles.stride
    edge = labels * stride
    plane = size * edge
    beliefs = lines[:edge].reshape(labels, stride)
    for row in range(min(size, rows - y_first)):
        y = y_first + row
        for at in range(0, edge, lanes(planes)):
            belief = load(planes, _COST_Y * plane + row * edge + at)
            for side in range(4):
                belief = belief + load(planes, (_ARRIVING_Y + side) * plane + row * edge + at)
            store(lines, at, belief)
        for i in range(min(size, columns - x_first)):
            x = x_first + i
            found = 0
            for d in range(1, labels):
                if beliefs[d, i] < beliefs[found, i]:
                    found = d
            out.label[y, x] = found
            out.fraction[y, x] = 0
            if 0 < found < labels - 1:
                out.fraction[y, x] = sixteenths(beliefs[found - 1, i], beliefs[found, i],
                                                beliefs[found + 1, i])
            if out.with_costs:
                out.best[y, x] = beliefs[found, i]
                out.second[y, x] = _second(beliefs, i, found)
            if out.with_right and first + labels - 1 <= x < columns + first:
                for d in range(labels):
                    _offer(beliefs[d, i], d, right_least[y], out.right_label[y], x - first - d)


@kernel
def _second(beliefs: Any, i: int, found: int) -> Any:
    second = -1
    for d in range(beliefs.shape[0]):
        if abs(d - found) > 1 and (second < 0 or beliefs[d, i] < beliefs[second, i]):
            second = d
    return NO_SECOND if second < 0 else beliefs[second, i]


@kernel
def _offer(belief: Any, d: int, least: Any, label: Any, x: int) -> None:
    """Tell a pixel of the other image what it would cost; the lowest label wins ties."""
    if (label[x] < 0 or belief < least[x] or (belief == least[x] and d < label[x])):
        least[x] = belief
        label[x] = d
