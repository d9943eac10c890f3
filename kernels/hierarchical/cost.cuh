// Data costs of level 0: the images around a tile, and every way to compute a chunk of labels.
#pragma once
#include "hierarchical/shape.cuh"

// Pixels of a block, and the levels whose nodes over them depend on these pixels alone.
constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16, TILE_LEVELS = 5;

struct CostLevel {
    void* cost;  // null = there is no such level
    int width, height, columns;
};

struct CostLaunch {
    // uint8 or float32: the images that are matched, from the first pixel of level 0 on.
    const void* left;
    const void* right;
    const void* table;  // uint16: cost of each difference of two bytes
    CostLevel levels[TILE_LEVELS];
    int image_width, first_x;  // of a row of the images; where level 0 begins in it
    int min_disparity;
    double factor, truncation;  // costs of 16 bits: floor(factor * difference + 0.5)
    float float_factor, float_truncation;
    uint32 packed_factor;      // costs of bytes, four at a time
    uint32 packed_truncation;  // in every byte
    uint64* stamp;             // time at which the stage starts, ns
};

// Warps of a block: up to 8, which take turns with the chunks; at least 4, all of which load.
template <int CHUNKS>
struct Warps {
    static constexpr int ROUNDS = (CHUNKS + 7) / 8, COMPUTING = (CHUNKS + ROUNDS - 1) / ROUNDS,
                         COUNT = COMPUTING < 4 ? 4 : COMPUTING;
};

// The images around a tile. Pixel u of a row of the tile meets, at disparity min_disparity + d,
// the element u + PADDED - 1 - d of the same row of ``right``.
template <typename Element, int PADDED>
struct ImageTile {
    static constexpr int COLUMNS = TILE_WIDTH + PADDED;
    // A warp reads rows that lie four apart; a pitch of 8 mod 16 puts them into different banks.
    static constexpr int OWN_PITCH = TILE_WIDTH + 8, PITCH = (COLUMNS + 7) / 16 * 16 + 8;

    alignas(16) Element left[TILE_HEIGHT][OWN_PITCH];
    alignas(16) Element right[TILE_HEIGHT][PITCH];

    // All threads of the block fill both; 0 outside the image.
    template <typename Image>
    DEVICE void load(const CostLaunch& p, int first_x, int first_y) {
        const Image* const own = static_cast<const Image*>(p.left);
        const Image* const other = static_cast<const Image*>(p.right);
        const int width = p.levels[0].width, height = p.levels[0].height;
        const int first_other_x = first_x - p.min_disparity - (PADDED - 1);
        constexpr int THREADS = 32 * Warps<PADDED / 8>::COUNT;
        const int thread = threadIdx.y * 32 + threadIdx.x;
        constexpr int OWN = TILE_HEIGHT * TILE_WIDTH, OTHER = TILE_HEIGHT * COLUMNS;
#pragma unroll 8
        for (int first = 0; first < OWN; first += THREADS) {
            const int i = first + thread, row = i / TILE_WIDTH, u = i % TILE_WIDTH;
            const int x = first_x + u, y = first_y + row;
            const bool is_inside = x < width && y < height && i < OWN;
            const Element value = is_inside ? Element(own[y * p.image_width + x]) : Element(0);
            if (OWN % THREADS == 0 || i < OWN) left[row][u] = value;
        }
#pragma unroll 16
        for (int first = 0; first < OTHER; first += THREADS) {
            const int i = first + thread, row = i / COLUMNS, u = i % COLUMNS;
            const int x = first_other_x + u, y = first_y + row;
            const bool is_inside = unsigned(p.first_x + x) < unsigned(p.image_width) && y < height
                && i < OTHER;
            const Element value = is_inside ? Element(other[y * p.image_width + x]) : Element(0);
            if (OTHER % THREADS == 0 || i < OTHER) right[row][u] = value;
        }
    }
};

// Four neighbouring pixels of a row of the tile, from u on, and the pixels that one chunk of their
// labels meets. Label 4 chunk + i of pixel j meets the element ``rising`` + 3 - i + j, its mirror
// image PADDED - 1 - 4 chunk - i the element ``falling`` + i + j.
template <typename Element, int PADDED>
struct Meeting {
    using Four = typename Conditional<sizeof(Element) == 1, uint32, float4>::Type;
    Four pixels, rising[2], falling[2];

    DEVICE Meeting(const ImageTile<Element, PADDED>& tile, int row, int u, int chunk) {
        pixels = *reinterpret_cast<const Four*>(&tile.left[row][u]);
        const Four* const words = reinterpret_cast<const Four*>(&tile.right[row][u]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            rising[i] = words[PADDED / 4 - 1 - chunk + i];
            falling[i] = words[chunk + i];
        }
    }
    DEVICE auto pixel(int j) const { return one(pixels, j); }
    DEVICE auto low(int i, int j) const { return one(rising, 3 - i, j); }
    DEVICE auto high(int i, int j) const { return one(falling, i, j); }
    // The elements of pixel j's labels, the first one in the lowest byte.
    static DEVICE uint32 four(const uint32 (&words)[2], int j) {
        return __funnelshift_r(words[0], words[1], 8 * j);
    }

private:
    static DEVICE uint32 one(uint32 words, int i) { return words >> 8 * i & 0xff; }
    static DEVICE float one(const float4& words, int i) { return (&words.x)[i]; }
    static DEVICE uint32 one(const uint32 (&words)[2], int i, int j) {
        return one(four(words, j), i);
    }
    static DEVICE float one(const float4 (&words)[2], int i, int j) {
        return one(words[(i + j) / 4], (i + j) % 4);
    }
};

// Writes two units side by side where they lie inside; all lanes of a warp together. Memory
// reaches its full rate with whole lines alone. So the eight lanes of a row exchange units of 16
// bytes until each has its column of the first eight and of the last eight.
DEVICE void store_pair(uint32* to, uint32 first, uint32 second, bool is_inside) {
    if (is_inside) *reinterpret_cast<uint2*>(to) = make_uint2(first, second);
}
DEVICE void store_pair(uint2* to, uint2 first, uint2 second, bool is_inside) {
    if (is_inside)
        *reinterpret_cast<uint4*>(to) = make_uint4(first.x, first.y, second.x, second.y);
}
DEVICE void store_pair(uint4* to, uint4 first, uint4 second, bool is_inside) {
#pragma unroll
    for (int other = 1; other < 8; other *= 2) {
        const bool is_right = threadIdx.x & other;
        const uint4 given = is_right ? first : second;
        const uint4 taken = make_uint4(
            __shfl_xor_sync(~0u, given.x, other), __shfl_xor_sync(~0u, given.y, other),
            __shfl_xor_sync(~0u, given.z, other), __shfl_xor_sync(~0u, given.w, other));
        (is_right ? first : second) = taken;
    }
    if (!is_inside) return;
    to -= threadIdx.x & 7;
    to[0] = first;
    to[8] = second;
}

// Costs of four pixels and one chunk: a structure for each way to compute them. ``Total`` is the
// cost of a parent.

// Four bytes at a time, where factor and truncation are whole numbers. Kind: Bytes, Nibbles, or
// Multiples (whose factor is 1 here). Parent: of bytes where the cost of a parent fits a byte.
template <typename Kind, typename Parent, int DISPARITIES>
struct PackedCosts {
    using S = Shape<Kind, DISPARITIES>;
    using Unit = typename Kind::Unit;
    using Tile = ImageTile<uint8, S::PADDED>;
    using Row = Meeting<uint8, S::PADDED>;

    static constexpr bool HAS_BYTE_SUMS = sizeof(typename Parent::Unit) == sizeof(uint2);

    struct Total {
        uint32 sums[4] = {0, 0, 0, 0};  // of differences, then of whole costs
        uint2 bytes = {0, 0};           // the same where bytes suffice
        uint32 words[4];                // the cost, once it has been stored

        DEVICE void add(uint2 differences) {
            if constexpr (HAS_BYTE_SUMS) {
                bytes.x += differences.x;
                bytes.y += differences.y;
            } else {
                uint32 more[4];
                expand_bytes(differences, more);
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[i] += more[i];
            }
        }
        // After all differences have been added.
        DEVICE void store(const CostLaunch& p, typename Parent::Unit* to, int columns,
                          bool is_inside) {
            if constexpr (HAS_BYTE_SUMS) {
                pack(p, bytes, bytes);
                if (is_inside) *to = bytes;
                expand_bytes(bytes, sums);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[i] *= p.packed_factor;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = sums[i];
            if constexpr (!HAS_BYTE_SUMS) {
                if (is_inside) Parent::store(to, columns, words);
            }
        }
    };

    // min(|pixel - other|, truncation) of every byte.
    static DEVICE uint32 four(uint32 pixel, uint32 others, uint32 truncation) {
        const uint32 difference = __vabsdiffu4(pixel, others);
        // The top bit of a byte tells whether the difference reaches the truncation, which has 7
        // bits.
        const uint32 reaches = ((difference | 0x80808080u) - truncation) | difference;
        // That bit in all bits of the byte.
        const uint32 mask = permute_signed(reaches, 0, 0xba98);
        return (difference & ~mask) | (truncation & mask);
    }

    // Pixel j's differences from the labels of a chunk, in the order of a unit of Bytes.
    static DEVICE uint2 differences(const CostLaunch& p, const Row& row, int j, int chunk,
                                    bool has_evidence) {
        const uint32 truncation = has_evidence ? p.packed_truncation : 0;
        const uint32 pixel = __byte_perm(row.pixels, 0, 0x1111 * j);
        const uint32 low = four(pixel, row.four(row.rising, j), truncation);
        uint32 high = four(pixel, row.four(row.falling, j), truncation);
        if constexpr (S::PADS > 0) {
            const int pads = S::PADS - 4 * chunk;
            if (pads > 0) high = pads >= 4 ? 0 : high >> 8 * pads << 8 * pads;
        }
        // Labels fall from byte to byte of ``low``.
        return make_uint2(__byte_perm(low, high, 0x5243), __byte_perm(low, high, 0x7061));
    }

    static DEVICE void pack(const CostLaunch& p, uint2 differences, uint2& unit) {
        unit = make_uint2(differences.x * p.packed_factor, differences.y * p.packed_factor);
    }
    static DEVICE void pack(const CostLaunch&, uint2 differences, uint32& unit) {
        // Bytes 0 and 2 are low values: two of them, of words 0 and 1, in bits 0 to 7.
        const uint32 low = __byte_perm(differences.x, differences.y, 0x6420);
        const uint32 high = __byte_perm(differences.x, differences.y, 0x7531);
        unit = __byte_perm(low | low >> 4, high | high >> 4, 0x6420);
    }

    // Pixels 0 and 2 have one colour and lie side by side from ``even`` on, 1 and 3 from ``odd``.
    static DEVICE void store(const CostLaunch& p, const Row& row, int chunk,
                             const bool (&has_evidence)[4], bool is_inside, Unit* even, Unit* odd,
                             int, Total (&totals)[2]) {
        Unit units[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint2 found = differences(p, row, j, chunk, has_evidence[j]);
            totals[j / 2].add(found);
            pack(p, found, units[j]);
        }
        store_pair(even, units[0], units[2], is_inside);
        store_pair(odd, units[1], units[3], is_inside);
    }
};

// One value at a time: the cost of a pair of pixels, and the word of two costs. ``weight`` is that
// of a pixel, 0 where it lacks evidence. Costs of at most 16 bits are
// floor(factor * min(|own - other|, truncation) + 0.5):
struct TableCost {
    using Element = uint8;
    static DEVICE uint32 weight(const CostLaunch&, bool has_evidence) {
        return has_evidence ? 0xffff : 0;
    }
    static DEVICE uint32 of(const CostLaunch& p, uint32 weight, uint32 own, uint32 other) {
        return static_cast<const uint16*>(p.table)[abs(int(own) - int(other))] & weight;
    }
    static DEVICE uint32 word(uint32 low, uint32 high) { return low | high << 16; }
};

// As the CPU engine: every step is rounded in float64, none is contracted.
struct Float64Cost {
    using Element = float;
    static DEVICE double weight(const CostLaunch& p, bool has_evidence) {
        return has_evidence ? p.factor : 0.0;
    }
    static DEVICE uint32 of(const CostLaunch& p, double weight, float own, float other) {
        const double difference = fabs(__dadd_rn(double(own), -double(other)));
        const double kept = difference < p.truncation ? difference : p.truncation;
        return uint32(__dadd_rn(__dmul_rn(weight, kept), 0.5));
    }
    static DEVICE uint32 word(uint32 low, uint32 high) { return low | high << 16; }
};

// Costs of 32-bit floats.
struct FloatCost {
    using Element = float;
    static DEVICE float weight(const CostLaunch& p, bool has_evidence) {
        return has_evidence ? p.float_factor : 0.0f;
    }
    static DEVICE float of(const CostLaunch& p, float weight, float own, float other) {
        return __fmul_rn(weight, fminf(fabsf(__fadd_rn(own, -other)), p.float_truncation));
    }
    static DEVICE float2 word(float low, float high) { return make_float2(low, high); }
};

// The same whole numbers as Float64Cost; the caller has verified that float32 suffices.
struct Float32Cost : FloatCost {
    // The cost in the low bits of the pattern of 2^23 + cost.
    static DEVICE uint32 of(const CostLaunch& p, float weight, float own, float other) {
        const float cost = __fadd_rn(FloatCost::of(p, weight, own, other), 0.5f);
        return __float_as_uint(__fadd_rz(cost, 8388608.0f));
    }
    static DEVICE uint32 word(uint32 low, uint32 high) { return __byte_perm(low, high, 0x5410); }
};

template <typename Kind, typename Parent, typename Cost, int DISPARITIES>
struct SingleCosts {
    using S = Shape<Kind, DISPARITIES>;
    using Element = typename Cost::Element;
    using Sum = typename Kind::Sum;
    using Word = typename Kind::Word;
    using Unit = typename Kind::Unit;
    using Tile = ImageTile<Element, S::PADDED>;
    using Row = Meeting<Element, S::PADDED>;

    struct Total {
        Word words[4] = {Sum::zero(), Sum::zero(), Sum::zero(), Sum::zero()};

        DEVICE void store(const CostLaunch&, typename Parent::Unit* to, int columns,
                          bool is_inside) {
            if (!is_inside) return;
            if constexpr (sizeof(typename Parent::Unit) == sizeof(uint2)) *to = pack_bytes(words);
            else Parent::store(to, columns, words);
        }
    };

    // Pixels 0 and 2 have one colour and lie side by side from ``even`` on, 1 and 3 from ``odd``.
    static DEVICE void store(const CostLaunch& p, const Row& row, int chunk,
                             const bool (&has_evidence)[4], bool is_inside, Unit* even, Unit* odd,
                             int columns, Total (&totals)[2]) {
#pragma unroll
        for (int colour = 0; colour < 2; ++colour) {
            Unit units[2][Kind::UNITS_PER_CHUNK];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                Word words[4];
                compute(p, row, 2 * i + colour, chunk, has_evidence[2 * i + colour], words);
                if constexpr (sizeof(Unit) == sizeof(uint2)) units[i][0] = pack_bytes(words);
                else Kind::store(units[i], 1, words);
                add_words<Sum>(totals[i].words, words);
            }
#pragma unroll
            for (int i = 0; i < Kind::UNITS_PER_CHUNK; ++i)
                store_pair((colour ? odd : even) + i * columns, units[0][i], units[1][i],
                           is_inside);
        }
    }

    static DEVICE void compute(const CostLaunch& p, const Row& row, int j, int chunk,
                               bool has_evidence, Word (&words)[4]) {
        const auto weight = Cost::weight(p, has_evidence);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const auto low = Cost::of(p, weight, row.pixel(j), row.low(i, j));
            auto high = Cost::of(p, weight, row.pixel(j), row.high(i, j));
            if (S::PADS > 0 && 4 * chunk + i < S::PADS) high = 0;
            words[i] = Cost::word(low, high);
        }
    }
};

// The way in which costs of a format are computed from images of a type, and the costs of one
// value at a time.
enum Way { REAL, FROM_TABLE, IN_FLOAT64, IN_FLOAT32, FOUR_AT_ONCE };

template <int WAY> struct SingleCost;
template <> struct SingleCost<REAL> { using Type = FloatCost; };
template <> struct SingleCost<FROM_TABLE> { using Type = TableCost; };
template <> struct SingleCost<IN_FLOAT64> { using Type = Float64Cost; };
template <> struct SingleCost<IN_FLOAT32> { using Type = Float32Cost; };

template <typename Kind, typename Parent, int DISPARITIES, int WAY>
struct CostsOf {
    using Type = SingleCosts<Kind, Parent, typename SingleCost<WAY>::Type, DISPARITIES>;
};
template <typename Kind, typename Parent, int DISPARITIES>
struct CostsOf<Kind, Parent, DISPARITIES, FOUR_AT_ONCE> {
    using Type = PackedCosts<Kind, Parent, DISPARITIES>;
};
