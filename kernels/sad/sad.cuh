// Shared by the kernels of stage sad: arguments, 8-bit pixels, keys.
#pragma once
#include "frame/right_labels.cuh"
#include "frame/subpixel.cuh"

constexpr int LABEL_BITS = RightKey<uint32>::LABEL_BITS;  // a key is a SAD above a label
constexpr uint32 LABEL_MASK = RightKey<uint32>::LABEL_MASK;

struct Windows {
    const void* left;  // H x W, uint8 or float32: the images that are matched
    const void* right;
    short* label;           // d - min_disparity
    signed char* fraction;  // sixteenths to where two lines meet
    uint32* best;           // least SAD
    uint32* second;         // least SAD of the labels further than 1 away, or NO_SECOND
    uint32* right_keys;     // per pixel of the other image: least SAD << 9 | label
    uint64* stamp;          // time at which the stage starts, ns; null = none
    int width, height, window;
    int min_disparity, disparities;
    int x_begin, x_end, y_begin, y_end;  // centres of the windows that have a label
    int rows;                            // of windows, that one block slides down
    int offset;                          // added to float images before they are cut to 8 bits
};

// A pixel in 8 bits: floor(value + offset + 1/2), clipped. Every step is exact.
DEVICE uint32 rounded(float value, int offset) {
    value = fminf(fmaxf(value, -512.0f), 512.0f);
    const float whole = floorf(value);
    return min(max(int(whole) + (value - whole >= 0.5f) + offset, 0), 255);
}
