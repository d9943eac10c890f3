// The minimum between the costs of three neighbouring labels, in sixteenths of a label from the
// middle one.
#pragma once
#include "device.cuh"

// Of beliefs, the vertex of a parabola: floor(16 (before - after) / (2 curvature) + 1/2), where
// curvature is before - 2 least + after. 0 where it is flat or concave. Every step is rounded in
// float64.
DEVICE int sixteenths(double before, double least, double after) {
    const double curvature = __dadd_rn(__dadd_rn(before, -2.0 * least), after);
    if (!(curvature > 0.0)) return 0;
    return int(floor(__dadd_rn(8.0 * (before - after) / curvature, 0.5)));
}

// Of sums of absolute differences, where two lines of one slope meet: floor(16 (before - after) /
// (2 rise) + 1/2), where rise is max(before, after) - least. 0 where all three are equal. In
// float32: the quotient is raised by 8 and thus at most 16.5; of two numbers below 2^27 it is
// within 1 of the true one. The remainder corrects it.
DEVICE int whole_sixteenths(int before, int least, int after) {
    const int rise = max(before, after) - least;
    const int divisor = 2 * rise, dividend = 16 * (before - after) + 17 * rise;
    int quotient = int(__fdividef(float(dividend), float(divisor)));
    const int rest = dividend - quotient * divisor;
    quotient += (rest >= divisor) - (rest < 0);
    return rise > 0 ? quotient - 8 : 0;
}
