"""What one vector of nodes sends: sums of what arrives, and their lower envelope.

The arguments of both ways to do it: offsets of the tile's cost (``data``), of the messages that
arrive (``from_below`` ...) and of those that leave (``own``); ``beyond`` that of the tile which
has the lane that the left or the right neighbours lack, see ``load_beside``; ``scratch`` of
4 x labels vectors; ``truncations`` of the four messages, from ``bounds`` on; the lanes
[first, end) that have interior nodes. ``unreached`` is more than any envelope, and still is after
one step down.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from stereo_bp_ros.engines.cpu.hierarchical.formats import (
    advance,
    deferred,
    kept,
    lead,
    load_beside,
    start,
    upper,
)
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import lanes, load, minimum, splat, store, where_lane

#: From so many labels on, four directions of them crowd the first-level cache as a buffer.
IN_PLACE_LABELS = 32


@kernel
def send(cost: Any, data: int, messages: Any, from_below: int, from_above: int,
         from_right: int, from_left: int, beyond: int, odd: int, own: int, scratch: Any,
         labels: int, planes: int, slope: Any, first_step: Any, truncations: Any, bounds: int,
         unreached: Any, first: int, end: int) -> None:
    """The four messages of the nodes in lanes [first, end) of one vector, in one pass.

    The least value of a message is that of h, so the backward pass subtracts it on its way.

    :param first_step: cost of a step of one label, at most the slope; None = the slope.
    """
    step = splat(slope)
    up = down = left = right = splat(unreached)
    least_up = least_down = least_left = least_right = up
    width = lanes(messages)
    sent = planes * width
    is_whole = first <= 0 and end >= width
    # Many labels: the forward pass leaves its values where the messages will lie, which saves
    # the caches a buffer. A vector with lanes on the border of the image must not write those.
    # Nor may values on the way be rounded to the halves, or be cut to the bytes, that messages
    # may be kept as.
    in_place = labels >= IN_PLACE_LABELS and is_whole and _are_alike(messages, scratch)
    forward = _either(in_place, messages, scratch)
    origin, direction, next_label = own, sent, width
    if not in_place:
        origin, direction, next_label = 0, width, 4 * width
    below = start(messages, load(messages, from_below))
    above = start(messages, load(messages, from_above))
    right_plane, left_plane = load_beside(messages, from_right, from_left, beyond, odd)
    beside_right, beside_left = start(messages, right_plane), start(messages, left_plane)
    for label in range(labels):
        plane = (lead(messages) + label) * width
        below = advance(messages, below, load(messages, from_below + plane))
        above = advance(messages, above, load(messages, from_above + plane))
        right_plane, left_plane = load_beside(messages, from_right + plane, from_left + plane,
                                              beyond + plane, odd)
        beside_right = advance(messages, beside_right, right_plane)
        beside_left = advance(messages, beside_left, left_plane)
        data_cost = load(cost, data + label * width)
        vertical = (below + above) + data_cost
        horizontal = (beside_right + beside_left) + data_cost

        h = horizontal + below
        least_up = minimum(h, least_up)
        up_before, up = up, minimum(h, up + step)
        h = horizontal + above
        least_down = minimum(h, least_down)
        down_before, down = down, minimum(h, down + step)
        h = vertical + beside_right
        least_left = minimum(h, least_left)
        left_before, left = left, minimum(h, left + step)
        h = vertical + beside_left
        least_right = minimum(h, least_right)
        right_before, right = right, minimum(h, right + step)

        place = origin + label * next_label
        store(forward, place + UP * direction, stepped(up, up_before, first_step))
        store(forward, place + DOWN * direction, stepped(down, down_before, first_step))
        store(forward, place + LEFT * direction, stepped(left, left_before, first_step))
        store(forward, place + RIGHT * direction, stepped(right, right_before, first_step))

    # Differences take the least value off at the end, from label 0 alone.
    zero = step - step
    rest_up = deferred(messages, least_up, zero)
    rest_down = deferred(messages, least_down, zero)
    rest_left = deferred(messages, least_left, zero)
    rest_right = deferred(messages, least_right, zero)
    bound_up = load(truncations, bounds + UP * width)
    bound_down = load(truncations, bounds + DOWN * width)
    bound_left = load(truncations, bounds + LEFT * width)
    bound_right = load(truncations, bounds + RIGHT * width)
    least_up, bound_up = least_up - rest_up, bound_up + rest_up
    least_down, bound_down = least_down - rest_down, bound_down + rest_down
    least_left, bound_left = least_left - rest_left, bound_left + rest_left
    least_right, bound_right = least_right - rest_right, bound_right + rest_right
    place = origin + (labels - 1) * next_label
    up = minimum(load(forward, place + UP * direction) - least_up, bound_up)
    down = minimum(load(forward, place + DOWN * direction) - least_down, bound_down)
    left = minimum(load(forward, place + LEFT * direction) - least_left, bound_left)
    right = minimum(load(forward, place + RIGHT * direction) - least_right, bound_right)
    sent_up, sent_down, sent_left, sent_right = up, down, left, right
    for backwards in range(1, labels):
        # A label is written when the one before it is known, which differences need.
        target = own + (lead(messages) + labels - backwards) * width
        place -= next_label
        later, after = sent_up, up
        up = minimum(load(forward, place + UP * direction) - least_up,
                     minimum(up + step, bound_up))
        sent_up = stepped(up, after, first_step)
        _keep(messages, target + UP * sent, kept(messages, later, sent_up), is_whole, first,
              end)
        later, after = sent_down, down
        down = minimum(load(forward, place + DOWN * direction) - least_down,
                       minimum(down + step, bound_down))
        sent_down = stepped(down, after, first_step)
        _keep(messages, target + DOWN * sent, kept(messages, later, sent_down), is_whole, first,
              end)
        later, after = sent_left, left
        left = minimum(load(forward, place + LEFT * direction) - least_left,
                       minimum(left + step, bound_left))
        sent_left = stepped(left, after, first_step)
        _keep(messages, target + LEFT * sent, kept(messages, later, sent_left), is_whole, first,
              end)
        later, after = sent_right, right
        right = minimum(load(forward, place + RIGHT * direction) - least_right,
                        minimum(right + step, bound_right))
        sent_right = stepped(right, after, first_step)
        _keep(messages, target + RIGHT * sent, kept(messages, later, sent_right), is_whole, first,
              end)
    _keep_first(messages, own + UP * sent, sent_up - rest_up, is_whole, first, end)
    _keep_first(messages, own + DOWN * sent, sent_down - rest_down, is_whole, first, end)
    _keep_first(messages, own + LEFT * sent, sent_left - rest_left, is_whole, first, end)
    _keep_first(messages, own + RIGHT * sent, sent_right - rest_right, is_whole, first, end)


def stepped(reached: Any, neighbour: Any, first_step: Any) -> Any:
    """What a scan leaves of a label that it has reached; ``neighbour``: the label before.

    The next label goes on from what was reached: the next step costs the slope again. That the
    backward pass begins with what the forward pass has left changes nothing, as there and back
    costs more than the direct way.
    """
    raise TypeError('for kernels only')


@overload(stepped)
def _stepped_of_types(reached: Any, neighbour: Any, first_step: Any) -> Any:
    def as_reached(reached: Any, neighbour: Any, first_step: Any) -> Any:
        return reached

    def lower(reached: Any, neighbour: Any, first_step: Any) -> Any:
        return minimum(reached, neighbour + splat(first_step))
    return as_reached if isinstance(first_step, types.NoneType) else lower


def _are_alike(first: Any, second: Any) -> bool:
    """Whether two arrays have one type."""
    raise TypeError('for kernels only')


@overload(_are_alike)
def _are_alike_of_types(first: Any, second: Any) -> Any:
    is_same = first == second

    def known(first: Any, second: Any) -> bool:
        return is_same
    return known


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
def _keep_first(messages: Any, offset: int, value: Any, is_whole: bool, first: int,
                end: int) -> None:
    """The planes up to that of label 0."""
    _keep(messages, offset, upper(messages, value), is_whole, first, end)
    _keep(messages, offset + lead(messages) * lanes(messages), value, is_whole, first, end)


@kernel
def _keep(array: Any, offset: int, vector: Any, is_whole: bool, first: int, end: int) -> None:
    """Write the lanes [first, end); the others belong to the border of the image."""
    if is_whole:
        store(array, offset, vector)
    else:
        store(array, offset, where_lane(first, end, vector, load(array, offset)))


@kernel
def send_exactly(cost: Any, data: int, messages: Any, from_below: int, from_above: int,
                 from_right: int, from_left: int, beyond: int, odd: int, own: int,
                 scratch: Any, labels: int, planes: int, slope: Any, truncations: Any,
                 bounds: int, unreached: Any, first: int, end: int) -> None:
    """As ``send``, with the order of sums and the mean of the reference maps.

    float32 sums depend on their order: the messages come in the order from below, from above,
    from the right, from the left, then the data cost; the mean is a sum over rising labels.
    """
    width = lanes(messages)
    for direction in range(4):
        _send_one_exactly(cost, data, messages, from_below, from_above, from_right, from_left,
                          beyond, odd, direction, own + direction * planes * width, scratch,
                          labels, slope, load(truncations, bounds + direction * width), unreached,
                          first, end)


@kernel
def _send_one_exactly(cost: Any, data: int, messages: Any, from_below: int, from_above: int,
                      from_right: int, from_left: int, beyond: int, odd: int, direction: int,
                      target: int, scratch: Any, labels: int, slope: Any, truncation: Any,
                      unreached: Any, first: int, end: int) -> None:
    """One message: ``h = ((s1 + s2) + s3) + cost``, envelope, cut, minus its mean."""
    step = splat(slope)
    width = lanes(messages)
    is_whole = first <= 0 and end >= width
    least = message = splat(unreached)
    for label in range(labels):
        plane = label * width
        right, left = load_beside(messages, from_right + plane, from_left + plane,
                                  beyond + plane, odd)
        if direction == UP:
            h = (load(messages, from_below + plane) + right) + left
        elif direction == DOWN:
            h = (load(messages, from_above + plane) + right) + left
        else:
            h = load(messages, from_below + plane) + load(messages, from_above + plane)
            h = h + (right if direction == LEFT else left)
        h = h + load(cost, data + plane)
        least = minimum(h, least)
        message = minimum(h, message + step)
        store(scratch, plane, message)
    bound = least + truncation
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
        _keep(messages, target + label * width, message, is_whole, first, end)
