// From sixteenths of a reduced pixel to those of a pixel.
#pragma once
#include "frame/refine.cuh"

// Sixteenths of a reduced pixel by which neighbours on one surface may differ.
constexpr int ONE_SURFACE = 16;

// Two reduced pixels around the centre of a pixel, in one direction, and the weight of the second
// in parts of 2 * factor.
struct ReducedPlace { int first, second, weight; };
DEVICE ReducedPlace reduced_place(int at, int factor, int length) {
    const int place = 2 * at + 1 - factor;
    const int first = place < 0 ? -1 : place / (2 * factor);
    return {min(max(first, 0), length - 1), min(first + 1, length - 1),
            place - 2 * factor * first};
}

// Bilinear within a surface, the nearest across its borders: of the four around a pixel, those
// that are invalid or far from the nearest count as the nearest. ``value``: of a reduced row and
// column.
template <typename Value>
DEVICE int enlarged(const Value& value, int x, int y, int factor, int reduced_width,
                    int reduced_height) {
    const int own
        = value(min(y / factor, reduced_height - 1), min(x / factor, reduced_width - 1));
    const ReducedPlace column = reduced_place(x, factor, reduced_width);
    const ReducedPlace row = reduced_place(y, factor, reduced_height);
    const auto near = [&](int reduced_y, int reduced_x) {
        const int found = value(reduced_y, reduced_x);
        return found < 0 || abs(found - own) > ONE_SURFACE ? own : found;
    };
    const int weights = 2 * factor;
    const auto across = [&](int reduced_y) {
        return (weights - column.weight) * near(reduced_y, column.first)
            + column.weight * near(reduced_y, column.second);
    };
    const int total
        = (weights - row.weight) * across(row.first) + row.weight * across(row.second);
    return own < 0 ? INVALID : (total + weights) / (2 * weights);
}
