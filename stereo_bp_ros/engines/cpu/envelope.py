"""What one vector of nodes sends: sums of what arrives, and their lower envelope.

The arguments of both ways to do it: offsets of the vector's values at label 0 in ``cost`` and
``messages`` (``data``, ``from_below`` ..., ``own``), ``scratch`` of 4 x labels vectors, the
distance ``stride`` from one label to the next, and the lanes [first, end) that have interior
nodes. ``unreached`` is more than any envelope, and still is after one step down.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from stereo_bp_ros.engines.cpu.plan import DOWN, LEFT, RIGHT, UP
from stereo_bp_ros.engines.cpu.runtime import kernel
from stereo_bp_ros.engines.cpu.vectors import lanes, load, minimum, splat, store, where_lane

#: From so many labels on, four directions of them crowd the first-level cache as a buffer.
IN_PLACE_LABELS = 32


@kernel
def send(cost: Any, data: int, messages: Any, from_below: int, from_above: int,
          from_right: int, from_left: int, own: int, scratch: Any, stride: int, labels: int,
          slope: Any, truncation: Any, unreached: Any, first: int, end: int) -> None:
    """The four messages of the nodes in lanes [first, end) of one vector, in one pass.

    The least value of a message is that of h, so the backward pass subtracts it on its way.
    """
    step, bound = splat(slope), splat(truncation)
    up = down = left = right = splat(unreached)
    least_up = least_down = least_left = least_right = up
    width = lanes(messages)
    all_planes = labels * stride
    is_whole = first <= 0 and end >= width
    # Many labels: the forward pass leaves its values where the messages will lie, which saves
    # the caches a buffer. A vector with lanes on the border of the image must not write those.
    # Nor may values on the way be rounded to the halves that messages may be kept as.
    in_place = (labels >= IN_PLACE_LABELS and is_whole
                and messages.itemsize == scratch.itemsize)
    kept = _either(in_place, messages, scratch)
    origin, direction, next_label = own, all_planes, stride
    if not in_place:
        origin, direction, next_label = 0, width, 4 * width
    for label in range(labels):
        plane = label * stride
        below, above = load(messages, from_below + plane), load(messages, from_above + plane)
        vertical = below + above
        beside_right = load(messages, from_right + plane)
        beside_left = load(messages, from_left + plane)
        data_cost = load(cost, data + plane)
        horizontal = (beside_right + beside_left) + data_cost
        vertical = vertical + data_cost

        h = horizontal + below
        least_up = minimum(h, least_up)
        up = minimum(h, up + step)
        h = horizontal + above
        least_down = minimum(h, least_down)
        down = minimum(h, down + step)
        h = vertical + beside_right
        least_left = minimum(h, least_left)
        left = minimum(h, left + step)
        h = vertical + beside_left
        least_right = minimum(h, least_right)
        right = minimum(h, right + step)

        place = origin + label * next_label
        store(kept, place + UP * direction, up)
        store(kept, place + DOWN * direction, down)
        store(kept, place + LEFT * direction, left)
        store(kept, place + RIGHT * direction, right)

    up = down = left = right = bound
    for backwards in range(labels):
        label = labels - 1 - backwards
        place = origin + label * next_label
        up = minimum(load(kept, place + UP * direction) - least_up, minimum(up + step, bound))
        down = minimum(load(kept, place + DOWN * direction) - least_down,
                       minimum(down + step, bound))
        left = minimum(load(kept, place + LEFT * direction) - least_left,
                       minimum(left + step, bound))
        right = minimum(load(kept, place + RIGHT * direction) - least_right,
                        minimum(right + step, bound))
        target = own + label * stride
        if is_whole:
            store(messages, target + UP * all_planes, up)
            store(messages, target + DOWN * all_planes, down)
            store(messages, target + LEFT * all_planes, left)
            store(messages, target + RIGHT * all_planes, right)
        else:
            _store_lanes(messages, target + UP * all_planes, up, first, end)
            _store_lanes(messages, target + DOWN * all_planes, down, first, end)
            _store_lanes(messages, target + LEFT * all_planes, left, first, end)
            _store_lanes(messages, target + RIGHT * all_planes, right, first, end)


def _either(is_first: bool, first: Any, second: Any) -> Any:
    """One of two arrays; where their types differ always the second."""
    raise TypeError('for kernels only')


@overload(_either)
def _either_of_types(is_first: bool, first: Any, second: Any) -> Any:
    def chosen(is_first: bool, first: Any, second: Any) -> Any:
        return first if is_first else second

    def always_second(is_first: bool, first: Any, second: Any) -> Any:
        return second
    return chosen if first == second else always_second


@kernel
def _store_lanes(array: Any, offset: int, vector: Any, first: int, end: int) -> None:
    """Write the lanes [first, end); the others belong to the border of the image."""
    store(array, offset, where_lane(first, end, vector, load(array, offset)))


@kernel
def send_exactly(cost: Any, data: int, messages: Any, from_below: int, from_above: int,
                  from_right: int, from_left: int, own: int, scratch: Any, stride: int,
                  labels: int, slope: Any, truncation: Any, unreached: Any, first: int,
                  end: int) -> None:
    """As ``send``, with the order of sums and the mean of the reference maps.

    float32 sums depend on their order: the messages come in the order from below, from above,
    from the right, from the left, then the data cost; the mean is a sum over rising labels.
    """
    all_planes = labels * stride
    _send_one_exactly(cost, data, messages, from_below, from_right, from_left,
                      own + UP * all_planes, scratch, stride, labels, slope, truncation,
                      unreached, first, end)
    _send_one_exactly(cost, data, messages, from_above, from_right, from_left,
                      own + DOWN * all_planes, scratch, stride, labels, slope, truncation,
                      unreached, first, end)
    _send_one_exactly(cost, data, messages, from_below, from_above, from_right,
                      own + LEFT * all_planes, scratch, stride, labels, slope, truncation,
                      unreached, first, end)
    _send_one_exactly(cost, data, messages, from_below, from_above, from_left,
                      own + RIGHT * all_planes, scratch, stride, labels, slope, truncation,
                      unreached, first, end)


@kernel
def _send_one_exactly(cost: Any, data: int, messages: Any, source_1: int, source_2: int,
                      source_3: int, target: int, scratch: Any, stride: int, labels: int,
                      slope: Any, truncation: Any, unreached: Any, first: int,
                      end: int) -> None:
    """One message: ``h = ((s1 + s2) + s3) + cost``, envelope, cut, minus its mean."""
    step = splat(slope)
    width = lanes(messages)
    least = message = splat(unreached)
    for label in range(labels):
        plane = label * stride
        h = load(messages, source_1 + plane) + load(messages, source_2 + plane)
        h = (h + load(messages, source_3 + plane)) + load(cost, data + plane)
        least = minimum(h, least)
        message = minimum(h, message + step)
        store(scratch, label * width, message)
    bound = least + splat(truncation)
    message = splat(unreached)
    for backwards in range(labels):
        place = (labels - 1 - backwards) * width
        message = minimum(load(scratch, place), message + step)
        store(scratch, place, minimum(message, bound))
    total = load(scratch, 0)
    for label in range(1, labels):
        total = total + load(scratch, label * width)
    mean = total / splat(np.float32(labels))
    for label in range(labels):
        message = load(scratch, label * width) - mean
        _store_lanes(messages, target + label * stride, message, first, end)
