// Distances of features, of four neighbouring pixels from all that four labels let them meet.
//
// A distance has the types
//     Value           a feature in device memory
//     Row<OWN, OTHER> features of a row of a tile, and of what its pixels can meet, in shared
//                     memory
//     Four            the distances of four pixels, from ``u`` on, and four labels: label k of
//                     pixel j meets the element ``first`` + 3 - k + j of the other row. Both
//                     ``u`` and ``first`` are multiples of 4.
// and between two features the function
//     between
#pragma once
#include "device.cuh"

// The number of bits that differ.
struct Hamming {
    using Value = uint64;

    static DEVICE int between(Value a, Value b) {
        return __popc(uint32(a ^ b)) + __popc(uint32((a ^ b) >> 32));
    }

    template <int OWN, int OTHER>
    struct Row {
        alignas(16) uint32 own[2][OWN];  // lower and upper half
        alignas(16) uint32 other[2][OTHER];

        DEVICE void set_own(int at, Value value) {
            own[0][at] = uint32(value);
            own[1][at] = uint32(value >> 32);
        }
        DEVICE void set_other(int at, Value value) {
            other[0][at] = uint32(value);
            other[1][at] = uint32(value >> 32);
        }
    };

    struct Four {
        uint32 own[2][4], other[2][8];

        template <typename Row>
        DEVICE Four(const Row& row, int u, int first) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                take(own[half], &row.own[half][u]);
                take(other[half], &row.other[half][first]);
                take(other[half] + 4, &row.other[half][first + 4]);
            }
        }
        static DEVICE void take(uint32* to, const uint32* from) {
            const uint4 four = *reinterpret_cast<const uint4*>(from);
            to[0] = four.x;
            to[1] = four.y;
            to[2] = four.z;
            to[3] = four.w;
        }
        DEVICE int operator()(int j, int k) const {
            return __popc(own[0][j] ^ other[0][3 - k + j])
                + __popc(own[1][j] ^ other[1][3 - k + j]);
        }
    };
};

// The absolute difference of two bytes.
struct AbsoluteDifference {
    using Value = uint8;

    static DEVICE int between(Value a, Value b) { return abs(int(a) - int(b)); }

    template <int OWN, int OTHER>
    struct Row {
        alignas(16) Value own[OWN];
        alignas(16) Value other[OTHER];

        DEVICE void set_own(int at, Value value) { own[at] = value; }
        DEVICE void set_other(int at, Value value) { other[at] = value; }
    };

    struct Four {
        uint32 differences[4];  // of each pixel, label 3 in the lowest byte

        template <typename Row>
        DEVICE Four(const Row& row, int u, int first) {
            const uint32 own = *reinterpret_cast<const uint32*>(&row.own[u]);
            const uint2 others = make_uint2(
                *reinterpret_cast<const uint32*>(&row.other[first]),
                *reinterpret_cast<const uint32*>(&row.other[first + 4]));
#pragma unroll
            for (int j = 0; j < 4; ++j)
                differences[j] = __vabsdiffu4(__byte_perm(own, 0, 0x1111 * j),
                                              __funnelshift_r(others.x, others.y, 8 * j));
        }
        DEVICE int operator()(int j, int k) const { return differences[j] >> 8 * (3 - k) & 0xff; }
    };
};
