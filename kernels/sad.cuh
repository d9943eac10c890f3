// What the kernels of stage sad share: their arguments, 8-bit pixels, keys, the parabola.
#pragma once
#include "words.cuh"

constexpr uint32 NO_KEY = 0xffffffffu;
constexpr int LABEL_BITS = 9;           // a key is a SAD above a label; the least one wins
constexpr uint32 LABEL_MASK = (1u << LABEL_BITS) - 1;

struct Windows {
    const void* left;               // H x W, uint8 or float32: the images that are matched
    const void* right;
    short* label;                   // d - min_disparity
    signed char* fraction;          // sixteenths to the vertex of the parabola
    uint32* best;                   // least SAD
    uint32* second;                 // least of the labels further than 1 away, or NO_SECOND
    uint32* right_keys;             // per pixel of the other image: least SAD << 9 | label
    uint64* stamp;                  // time at which the stage starts, ns; null = not wanted
    int width, height, window;
    int min_disparity, disparities;
    int x_begin, x_end, y_begin, y_end;     // centres of the windows that have a label
    int rows;                       // of windows, that one block slides down
    int offset;                     // added to float images before they are cut to 8 bits
};

// A pixel in 8 bits: floor(value + offset + 1/2), clipped. Every step is exact.
__device__ __forceinline__ uint32 rounded(float value, int offset) {
    value = fminf(fmaxf(value, -512.0f), 512.0f);
    const float whole = floorf(value);
    return min(max(int(whole) + (value - whole >= 0.5f) + offset, 0), 255);
}

// floor(16 (before - after) / (2 curvature) + 1/2), 0 on a flat or concave parabola. The quotient
// of two numbers below 2^27, at most 16.5 after a lift by 8, is within 1 in float32.
__device__ __forceinline__ int sixteenths(int before, int least, int after) {
    const int curvature = before - 2 * least + after;
    const int divisor = 2 * curvature, dividend = 16 * (before - after) + 17 * curvature;
    int quotient = int(__fdividef(float(dividend), float(divisor)));
    const int rest = dividend - quotient * divisor;
    quotient += (rest >= divisor) - (rest < 0);
    return curvature > 0 ? quotient - 8 : 0;
}
