"""What one vector of nodes sends: sums of what arrives, and their lower envelope.

The arguments of both ways to do it: offsets of the tile's cost (``data``), of the messages that
arrive (``at``, ``formats.Arriving``) and of those that leave (``own``); ``scratch`` of
4 x labels vectors; ``truncations`` of the four messages, from ``bounds`` on; the lanes
[first, end) that have interior nodes. ``unreached`` is more than any envelope, and still is after
one step down.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from stereo_bp_ros.engines.cpu.hierarchical.formats import (
    deferred,
    kept,
    lead,
    load_planes,
    next_values,
    start_values,
    upper,
)
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import lanes, load, minimum, splat, store, where_lane

#: From so many labels on, four directions of them crowd the first-level cache as a buffer.
IN_PLACE_LABELS = 32


@kernel
def send(cost: Any, data: int, messages: Any, at: Any, own: int, scratch: Any, labels: int,
         planes: int, slope: Any, first_step: Any, truncations: Any, bounds: int, unreached: Any,
         first: int, end: int) -> None:
    """The four messages of the nodes in lanes [first, end) of one vector, in one pass.

    The minimum of a message is that of h, so the backward pass subtracts it on its way.

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
    place, direction, next_label = own, sent, width
    if not in_place:
        place, direction, next_label = 0, width, 4 * width
    values = start_values(messages, at)
    for label in range(labels):
        values = next_values(messages, at, label, values)
        below, above, beside_right, beside_left = values
        data_cost = load(cost, data + label * width)
        vertical = (below + above) + data_cost
        horizontal = (beside_right + beside_left) + data_cost
        up, least_up = _step_forward(forward, place + UP * direction, horizontal + below, up,
                                     least_up, step, first_step)
        down, least_down = _step_forward(forward, place + DOWN * direction, horizontal + above,
                                         down, least_down, step, first_step)
        left, least_left = _step_forward(forward, place + LEFT * direction,
                                         vertical + beside_right, left, least_left, step,
                                         first_step)
        right, least_right = _step_forward(forward, place + RIGHT * direction,
                                           vertical + beside_left, right, least_right, step,
                                           first_step)
        place += next_label

    place -= next_label
    up, least_up, rest_up, bound_up = _turn(
        messages, forward, place + UP * direction, least_up, truncations, bounds + UP * width)
    down, least_down, rest_down, bound_down = _turn(
        messages, forward, place + DOWN * direction, least_down, truncations,
        bounds + DOWN * width)
    left, least_left, rest_left, bound_left = _turn(
        messages, forward, place + LEFT * direction, least_left, truncations,
        bounds + LEFT * width)
    right, least_right, rest_right, bound_right = _turn(
        messages, forward, place + RIGHT * direction, least_right, truncations,
        bounds + RIGHT * width)
    sent_up, sent_down, sent_left, sent_right = up, down, left, right
    for backwards in range(1, labels):
        # A label is written when the one before it is known, which differences need.
        target = own + (lead(messages) + labels - backwards) * width
        place -= next_label
        up, sent_up = _step_back(forward, place + UP * direction, up, least_up, bound_up, step,
                                 first_step, sent_up, messages, target + UP * sent, is_whole,
                                 first, end)
        down, sent_down = _step_back(forward, place + DOWN * direction, down, least_down,
                                     bound_down, step, first_step, sent_down, messages,
                                     target + DOWN * sent, is_whole, first, end)
        left, sent_left = _step_back(forward, place + LEFT * direction, left, least_left,
                                     bound_left, step, first_step, sent_left, messages,
                                     target + LEFT * sent, is_whole, first, end)
        right, sent_right = _step_back(forward, place + RIGHT * direction, right, least_right,
                                       bound_right, step, first_step, sent_right, messages,
                                       target + RIGHT * sent, is_whole, first, end)
    _keep_first(messages, own + UP * sent, sent_up - rest_up, is_whole, first, end)
    _keep_first(messages, own + DOWN * sent, sent_down - rest_down, is_whole, first, end)
    _keep_first(messages, own + LEFT * sent, sent_left - rest_left, is_whole, first, end)
    _keep_first(messages, own + RIGHT * sent, sent_right - rest_right, is_whole, first, end)


@kernel
def _step_forward(forward: Any, place: int, h: Any, before: Any, least: Any, step: Any,
                  first_step: Any) -> Any:
    """What the forward pass reaches at a label, which is kept at ``place``, and the minimum h."""
    reached = minimum(h, before + step)
    store(forward, place, _add_step(reached, before, first_step))
    return reached, minimum(h, least)


@kernel
def _turn(messages: Any, forward: Any, place: int, least: Any, truncations: Any, bound_at: int
          ) -> Any:
    """The last label, what to subtract on the way, from label 0 alone, and the bound of all."""
    rest = deferred(messages, least, least - least)
    bound, least = load(truncations, bound_at) + rest, least - rest
    return minimum(load(forward, place) - least, bound), least, rest, bound


@kernel
def _step_back(forward: Any, place: int, after: Any, least: Any, bound: Any, step: Any,
               first_step: Any, sent_after: Any, messages: Any, target: int, is_whole: bool,
               first: int, end: int) -> Any:
    """A label of the backward pass and what is sent of it; that of the one after is written."""
    reached = minimum(load(forward, place) - least, minimum(after + step, bound))
    sent = _add_step(reached, after, first_step)
    _keep(messages, target, kept(messages, sent_after, sent), is_whole, first, end)
    return reached, sent


@by_types
def _add_step(reached: Any, neighbour: Any, first_step: Any) -> Any:
    """What a scan leaves of a label that it has reached; ``neighbour``: the label before.

    The next label goes on from what was reached: the next step costs the slope again. That the
    backward pass begins with what the forward pass has left changes nothing, as there and back
    costs more than the direct way.
    """
    if isinstance(first_step, types.NoneType):
        return lambda reached, neighbour, first_step: reached
    return lambda reached, neighbour, first_step: minimum(reached, neighbour + splat(first_step))


@by_types
def _are_alike(first: Any, second: Any) -> Any:
    """Whether two arrays have one type."""
    is_same = first == second
    return lambda first, second: is_same


@by_types
def _either(is_first: bool, first: Any, second: Any) -> Any:
    """One of two arrays; where their types differ always the second."""
    if first == second:
        return lambda is_first, first, second: first if is_first else second
    return lambda is_first, first, second: second


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
def send_exactly(cost: Any, data: int, messages: Any, at: Any, own: int, scratch: Any,
                 labels: int, planes: int, slope: Any, truncations: Any, bounds: int,
                 unreached: Any, first: int, end: int) -> None:
    """As ``send``, with the order of sums and the mean of the reference maps.

    float32 sums depend on their order: the messages come in the order from below, from above,
    from the right, from the left, then the data cost; the mean is a sum over rising labels.
    """
    width, step = lanes(messages), splat(slope)
    is_whole = first <= 0 and end >= width
    for direction in range(4):
        least = message = splat(unreached)
        for label in range(labels):
            plane = label * width
            below, above, right, left = load_planes(messages, at, plane)
            if direction == UP:
                h = (below + right) + left
            elif direction == DOWN:
                h = (above + right) + left
            else:
                h = (below + above) + (right if direction == LEFT else left)
            h = h + load(cost, data + plane)
            least = minimum(h, least)
            message = minimum(h, message + step)
            store(scratch, plane, message)
        bound = least + load(truncations, bounds + direction * width)
        message = splat(unreached)
        for backwards in range(labels):
            place = (labels - 1 - backwards) * width
            message = minimum(load(scratch, place), message + step)
            store(scratch, place, minimum(message, bound))
        total = load(scratch, 0)
        for label in range(1, labels):
            total = total + load(scratch, label * width)
        mean = total / splat(np.float32(labels))
        target = own + direction * planes * width
        for label in range(labels):
            message = load(scratch, label * width) - mean
            _keep(messages, target + label * width, message, is_whole, first, end)
