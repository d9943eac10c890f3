// Data costs in less than the bits of a message.
#pragma once
#include "hierarchical/formats/int16_bytes.cuh"

// Costs beside int16 messages, in bytes: 8 for each chunk, in the order of its words.
struct Bytes : Int16 { using Unit = uint2; };

// Costs beside int16 messages that are multiples of one factor, at most 15 times that: the
// multiples in 4 bits. Of the 8 of a chunk first the low values of words 0 to 3, then the high
// ones.
struct Nibbles : Int16 { using Unit = uint32; };

// Costs of 8-bit images beside messages of floats: whole numbers, to be multiplied by one factor.
// Sums of the costs of many pixels, in 16 bits:
struct MultipleSums : Int16 {
    using Sum = MultipleSums;
    static constexpr bool IS_SCALED = true;
};
// Costs of level 0, or sums of 4 or 16 of them, in 8 bits, in the order of Bytes:
struct Multiples : MultipleSums { using Unit = uint2; };
