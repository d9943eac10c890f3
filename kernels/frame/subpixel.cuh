// The vertex of the parabola through the costs of three neighbouring labels, in sixteenths of a
// label from the middle one: floor(16 (before - after) / (2 curvature) + 1/2), where curvature is
// before - 2 least + after. 0 on a flat or concave parabola.
#pragma once
#include "device.cuh"

// Of beliefs, every step rounded in float64.
__device__ __forceinline__ int sixteenths(double before, double least, double after) {
    const double curvature = __dadd_rn(__dadd_rn(before, -2.0 * least), after);
    if (!(curvature > 0.0)) return 0;
    return int(floor(__dadd_rn(8.0 * (before - after) / curvature, 0.5)));
}

// Of sums of absolute differences, in float32. The quotient is raised by 8 and thus at most 16.5;
// of two numbers below 2^27 it is within 1 of the true one. The remainder corrects it.
__device__ __forceinline__ int whole_sixteenths(int before, int least, int after) {
    const int curvature = before - 2 * least + after;
    const int divisor = 2 * curvature, dividend = 16 * (before - after) + 17 * curvature;
    int quotient = int(__fdividef(float(dividend), float(divisor)));
    const int rest = dividend - quotient * divisor;
    quotient += (rest >= divisor) - (rest < 0);
    return curvature > 0 ? quotient - 8 : 0;
}
