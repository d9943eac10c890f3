// int16 messages as differences of neighbouring labels, in 6 bits.
//
// Neighbouring labels of a message differ by at most the slope, so a difference fits 6 bits where
// the slope is at most 31. A message loses a constant this way. The constant moves all values
// alike, and the receiver subtracts the least value anyway.
#pragma once
#include "hierarchical/formats/int16.cuh"

// A value minus the next one towards the middle of the range, plus 32. Two chunks are three words,
// in units of 16 bytes. Each 16-bit half of a word holds two differences in bits 0-11; bits 12-15
// hold 4 of the 6 bits of a third (table in kernels/formats.md).
struct Int16SixBits : Int16 {
    static constexpr bool IS_DELTAS = true, HAS_SIX_BITS = true;
    static constexpr uint32 BIAS = 0x00200020u;
    // Makes all words of the zero message equal: two differences of 0 in each 16-bit half.
    static constexpr uint32 FLIPPED = 0xa000a000u;

    static DEVICE Running begin(Word bound) { return bound; }
    static DEVICE void expand(uint32 a, uint32 b, uint32 c, Word (&found)[8]) {
        constexpr uint32 ALL = 0x003f003fu, LOW = 0x000f000fu, HIGH = 0x00300030u;
        c ^= FLIPPED;
        found[0] = a & ALL;
        found[1] = a >> 6 & ALL;
        found[2] = (a >> 12 & LOW) | (c >> 8 & HIGH);
        found[3] = b & ALL;
        found[4] = b >> 6 & ALL;
        found[5] = (b >> 12 & LOW) | (c >> 10 & HIGH);
        found[6] = c & ALL;
        found[7] = c >> 6 & ALL;
    }
    static DEVICE void pack(const Word (&words)[8], uint32& a, uint32& b, uint32& c) {
        constexpr uint32 LOW = 0x000f000fu, HIGH = 0x00300030u;
        a = words[0] + words[1] * 64 + (words[2] & LOW) * 4096;
        b = words[3] + words[4] * 64 + (words[5] & LOW) * 4096;
        c = (words[6] + words[7] * 64 + (words[2] & HIGH) * 256 + (words[5] & HIGH) * 1024)
            ^ FLIPPED;
    }
};
