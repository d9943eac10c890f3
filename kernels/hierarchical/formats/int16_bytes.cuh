// int16 messages in 8 bits, where the truncation, their largest value, fits a byte.
#pragma once
#include "hierarchical/formats/int16.cuh"

// The 8 bytes of a chunk are in the order of its words: low and high value of word 0, of word 1
// ...
DEVICE void expand_bytes(uint2 unit, uint32 (&words)[4]) {
    words[0] = __byte_perm(unit.x, 0, 0x4140);
    words[1] = __byte_perm(unit.x, 0, 0x4342);
    words[2] = __byte_perm(unit.y, 0, 0x4140);
    words[3] = __byte_perm(unit.y, 0, 0x4342);
}
DEVICE uint2 pack_bytes(const uint32 (&words)[4]) {
    return make_uint2(__byte_perm(words[0], words[1], 0x6420),
                      __byte_perm(words[2], words[3], 0x6420));
}

struct Int16Bytes : Int16 {
    using Unit = uint2;

    static DEVICE void load(const Unit* at, int, Word (&words)[4]) { expand_bytes(*at, words); }
    static DEVICE void store(Unit* at, int, const Word (&words)[4]) { *at = pack_bytes(words); }
};
