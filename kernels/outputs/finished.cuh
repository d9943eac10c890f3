// What outputs are made of: the finished disparity of a frame, as large as its images.
#pragma once
#include "frame/convert.cuh"
#include "frame/refine.cuh"

// Argument of every kernel that computes an output.
struct Finished {
    const Parameters* parameters;  // of the outputs
    const short* disparity;        // H x W: sixteenths from min_disparity on, below 0 = invalid
    const uint8* reference;        // the image that colours are taken of; rows are tight
    uint64* stamp;                 // time at which the stage starts, ns; null = none
    uint64* end;                   // time at which it ends
    uint32* ended;                 // blocks that have ended
    int width, height;
    int min_disparity;
    int layout, pixel_bytes, first;  // of ``reference``; see Source
    int reference_width, reference_height;
    int reference_factor;  // pixels of the disparity for each of ``reference``
    int is_mirrored;       // columns of ``reference`` are reversed
};
