// Stage cost: data cost of level 0 and the pyramid over it.
#include "words.cuh"

// Pixels of a block, and the levels whose nodes over them depend on nothing else.
constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16, TILE_LEVELS = 5;

struct CostLevel {
    void* cost;                     // null = there is no such level
    int width, height, half;
};

struct CostPass {
    const void* left;               // H x W, uint8 or float32: the images that are matched
    const void* right;
    const void* table;              // uint16: cost of each difference of two bytes
    CostLevel levels[TILE_LEVELS];
    int min_disparity;
    double factor, truncation;      // costs of 16 bits: floor(factor * difference + 0.5)
    float float_factor, float_truncation;
    uint32 packed_factor;           // costs of bytes, four at a time
    uint32 packed_truncation;       // in every byte
    uint64* stamp;                  // time at which the stage starts, ns
};

__device__ __forceinline__ uint32 shuffle_down(uint32 word, int lanes) {
    return __shfl_down_sync(~0u, word, lanes);
}
__device__ __forceinline__ float2 shuffle_down(float2 word, int lanes) {
    return make_float2(__shfl_down_sync(~0u, word.x, lanes),
                       __shfl_down_sync(~0u, word.y, lanes));
}

// Warps of a block, 8 at most, which take turns with the chunks.
template <int CHUNKS>
struct Warps {
    static constexpr int ROUNDS = (CHUNKS + 7) / 8, COUNT = (CHUNKS + ROUNDS - 1) / ROUNDS;
};

// The images around a tile. A pixel u of a row of the tile meets with disparity
// min_disparity + d the element u + PADDED - 1 - d of the same row of ``right``.
template <typename Element, int PADDED>
struct ImageTile {
    static constexpr int COLUMNS = TILE_WIDTH + PADDED;
    // In units of 4 elements; a warp reads two rows, which lie two apart, from different banks.
    static constexpr int REST = COLUMNS / 4 % 16;
    static constexpr int PITCH = COLUMNS + 4 * (REST < 4 ? 4 - REST : REST > 12 ? 20 - REST : 0);

    alignas(16) Element left[TILE_HEIGHT][TILE_WIDTH];
    alignas(16) Element right[TILE_HEIGHT][PITCH];

    // Fills both by all threads of the block; 0 outside of the image.
    template <typename Image>
    __device__ __forceinline__ void load(const CostPass& p, int first_x, int first_y) {
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
            if (OWN % THREADS != 0 && i >= OWN) break;
            left[row][u] = x < width && y < height ? Element(own[y * width + x]) : Element(0);
        }
#pragma unroll 16
        for (int first = 0; first < OTHER; first += THREADS) {
            const int i = first + thread, row = i / COLUMNS, u = i % COLUMNS;
            const int x = first_other_x + u, y = first_y + row;
            if (OTHER % THREADS != 0 && i >= OTHER) break;
            right[row][u] = unsigned(x) < unsigned(width) && y < height
                ? Element(other[y * width + x]) : Element(0);
        }
    }
};

// Costs of two neighbouring pixels of a row, u and u + 1 with even u, for one chunk of the
// disparities. One of these for each way to compute them:

// four bytes at a time, where factor and truncation are whole numbers.
template <int DISPARITIES>
struct PackedCosts {
    using S = Shape<Bytes, DISPARITIES>;
    using Element = uint8;
    using Tile = ImageTile<Element, S::PADDED>;

    uint32 low[2], high[2];         // what meets the rising and the falling labels
    uint32 own, selector;
    int chunk;

    __device__ __forceinline__ PackedCosts(const CostPass&, const Tile& tile, int row, int u,
                                           int chunk) : chunk(chunk) {
        const uint32* const words = reinterpret_cast<const uint32*>(tile.right[row]) + (u >> 2);
        const uint32* const falling = words + chunk;
        const uint32* const rising = words + S::PADDED / 4 - 1 - chunk;
        own = *reinterpret_cast<const uint16*>(&tile.left[row][u]);
        for (int i = 0; i < 2; ++i) {
            low[i] = rising[i];
            high[i] = falling[i];
        }
        selector = u & 2 ? 0x5432 : 0x3210;
    }

    // The four costs of every byte of ``others``: factor * min(|own - others|, truncation).
    static __device__ __forceinline__ uint32 four(const CostPass& p, uint32 own, uint32 others,
                                                  uint32 factor) {
        const uint32 difference = __vabsdiffu4(own, others);
        // The top bit of a byte: is it the truncation, which has 7 bits, or more?
        const uint32 reaches = ((difference | 0x80808080u) - p.packed_truncation) | difference;
        uint32 mask;                // that bit in all bits of the byte
        asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"(reaches));
        return ((difference & ~mask) | (p.packed_truncation & mask)) * factor;
    }

    // Writes the costs of the pixel u + odd and gives them back as words; 0 without evidence.
    __device__ __forceinline__ void store(const CostPass& p, int odd, bool has_evidence,
                                          bool is_inside, Bytes::Unit* to, int,
                                          uint32 (&words)[4]) const {
        const uint32 factor = has_evidence ? p.packed_factor : 0;
        const uint32 pixel = __byte_perm(own, 0, odd ? 0x1111 : 0x0000);
        const uint32 bytes = selector + odd * 0x1111;
        const uint32 costs_low = four(p, pixel, __byte_perm(low[0], low[1], bytes), factor);
        uint32 costs_high = four(p, pixel, __byte_perm(high[0], high[1], bytes), factor);
        if constexpr (S::PADS > 0) {
            const int pads = S::PADS - 4 * chunk;
            if (pads > 0) costs_high = pads >= 4 ? 0 : costs_high >> 8 * pads << 8 * pads;
        }
        // Labels fall from byte to byte of ``costs_low``.
        const Bytes::Unit unit = make_uint2(__byte_perm(costs_low, costs_high, 0x5243),
                                            __byte_perm(costs_low, costs_high, 0x7061));
        if (is_inside) *to = unit;
        Int16Deltas::expand(unit, words);
    }
};

// one value at a time: what one pair of pixels costs, and the words of a type.
template <typename Word, typename Element> struct PixelCost;

template <> struct PixelCost<uint32, uint8> {
    static __device__ __forceinline__ uint32 of(const CostPass& p, uint8 own, uint8 other) {
        return static_cast<const uint16*>(p.table)[abs(int(own) - int(other))];
    }
    static __device__ __forceinline__ uint32 word(uint32 low, uint32 high) {
        return low | high << 16;
    }
};

template <> struct PixelCost<uint32, float> {
    // As the CPU engine: every step rounded in float64, nothing contracted.
    static __device__ __forceinline__ uint32 of(const CostPass& p, float own, float other) {
        const double difference = fabs(__dadd_rn(double(own), -double(other)));
        const double kept = difference < p.truncation ? difference : p.truncation;
        return uint32(__dadd_rn(__dmul_rn(p.factor, kept), 0.5));
    }
    static __device__ __forceinline__ uint32 word(uint32 low, uint32 high) {
        return low | high << 16;
    }
};

template <> struct PixelCost<float2, float> {
    static __device__ __forceinline__ float of(const CostPass& p, float own, float other) {
        return __fmul_rn(p.float_factor, fminf(fabsf(__fadd_rn(own, -other)),
                                               p.float_truncation));
    }
    static __device__ __forceinline__ float2 word(float low, float high) {
        return make_float2(low, high);
    }
};

template <typename Kind, typename Pixel, int DISPARITIES>
struct SingleCosts {
    using S = Shape<Kind, DISPARITIES>;
    using Word = typename Kind::Word;
    using Element = Pixel;
    using Tile = ImageTile<Element, S::PADDED>;
    using Cost = PixelCost<Word, Element>;

    Element low[5], high[5], own[2];
    int chunk;

    __device__ __forceinline__ SingleCosts(const CostPass&, const Tile& tile, int row, int u,
                                           int chunk) : chunk(chunk) {
        const Element* const falling = tile.right[row] + u + 4 * chunk;
        const Element* const rising = tile.right[row] + u + S::PADDED - 4 - 4 * chunk;
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            low[i] = rising[i];
            high[i] = falling[i];
        }
        own[0] = tile.left[row][u];
        own[1] = tile.left[row][u + 1];
    }

    __device__ __forceinline__ void store(const CostPass& p, int odd, bool has_evidence,
                                          bool is_inside, typename Kind::Unit* to, int half,
                                          Word (&words)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const auto cost_low = Cost::of(p, own[odd], low[3 - i + odd]);
            auto cost_high = Cost::of(p, own[odd], high[i + odd]);
            if (S::PADS > 0 && 4 * chunk + i < S::PADS) cost_high = 0;
            words[i] = has_evidence ? Kind::kept(Cost::word(cost_low, cost_high)) : Kind::zero();
        }
        if (!is_inside) return;
        if constexpr (sizeof(*to) == sizeof(uint2))
            *to = Int16Deltas::shrink(words);
        else
            Kind::store(to, half, words);
    }
};

// How the costs of a type are computed from images of a type: IS_PACKED asks for bytes at a time.
template <typename Kind, typename Image, int DISPARITIES, bool IS_PACKED,
          bool IS_INTEGER = sizeof(typename Kind::Word) == sizeof(uint32)>
struct CostsOf {
    using Type = SingleCosts<Kind, float, DISPARITIES>;
};
template <typename Kind, int DISPARITIES>
struct CostsOf<Kind, uint8, DISPARITIES, false, true> {
    using Type = SingleCosts<Kind, uint8, DISPARITIES>;
};
template <int DISPARITIES>
struct CostsOf<Bytes, uint8, DISPARITIES, true, true> {
    using Type = PackedCosts<DISPARITIES>;
};

// Writes the cost of the node (x, y) of a level above 0, unless it lies outside.
template <typename Sum, int DISPARITIES>
__device__ __forceinline__ void store_node(const CostLevel& level, int x, int y, int chunk,
                                           const typename Sum::Word (&words)[4]) {
    if (level.cost == nullptr || x >= level.width || y >= level.height) return;
    const size_t line = 2 * y + ((x + y) & 1);
    Sum::store(static_cast<typename Sum::Unit*>(level.cost)
                   + (line * Shape<Sum, DISPARITIES>::UNITS + chunk * Sum::UNITS_PER_CHUNK)
                       * level.half + (x >> 1), level.half, words);
}

// Cost of a parent from its children in two rows, of which this lane has the left ones and the
// lane ``right`` further the others.
template <typename Sum>
__device__ __forceinline__ void add_children(const typename Sum::Word (&upper)[4],
                                             const typename Sum::Word (&lower)[4], int right,
                                             typename Sum::Word (&sum)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        sum[i] = Sum::add(Sum::add(Sum::add(upper[i], shuffle_down(upper[i], right)), lower[i]),
                          shuffle_down(lower[i], right));
}

// Block = a tile of pixels, and the nodes of four more levels above it. Warp = one chunk of their
// vectors at a time; lane = 16 columns x 2 rows of level 1, four times.
template <typename Kind, typename Image, int DISPARITIES, bool IS_PACKED>
__global__ void
__launch_bounds__(32 * Warps<Shape<Kind, DISPARITIES>::CHUNKS>::COUNT)
data_cost(const __grid_constant__ CostPass p) {
    using S = Shape<Kind, DISPARITIES>;
    using Sum = typename Kind::Sum;
    using Above = Shape<Sum, DISPARITIES>;
    using Word = typename Kind::Word;
    using Unit = typename Kind::Unit;
    using Costs = typename CostsOf<Kind, Image, DISPARITIES, IS_PACKED>::Type;
    __shared__ typename Costs::Tile tile;
    stamp_time(p.stamp);
    const int first_x = blockIdx.x * TILE_WIDTH, first_y = blockIdx.y * TILE_HEIGHT;
    tile.template load<Image>(p, first_x, first_y);
    __syncthreads();

    const int column = threadIdx.x & 15, lower = threadIdx.x >> 4;
    const CostLevel base = p.levels[0], above = p.levels[1];
    const int x = first_x + 2 * column, y = first_y + 2 * lower;
    // Rows below the image are black in both images: they cost nothing either.
    bool has_evidence[2];
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
        const int other_x = x + odd - p.min_disparity;
        has_evidence[odd] = x + odd < base.width && other_x < base.width
            && other_x - (DISPARITIES - 1) >= 0;
    }
    // Bytes from one line, a colour of a row, to the next.
    const size_t line = S::UNITS * size_t(base.half) * sizeof(Unit);
    const size_t line_above = Above::UNITS * size_t(above.half) * sizeof(typename Sum::Unit);
#pragma unroll 1
    for (int round = 0; round < Warps<S::CHUNKS>::ROUNDS; ++round) {
        // Two warps may have the last chunk and write the same there.
        const int chunk = min(int(threadIdx.y) + round * Warps<S::CHUNKS>::COUNT, S::CHUNKS - 1);
        char* costs = static_cast<char*>(base.cost) + 2 * y * line
            + (chunk * Kind::UNITS_PER_CHUNK * base.half + (x >> 1)) * sizeof(Unit);
        char* sums = static_cast<char*>(above.cost) + (y + ((column + lower) & 1)) * line_above
            + (chunk * Sum::UNITS_PER_CHUNK * above.half + (x >> 2)) * sizeof(typename Sum::Unit);
        Word upper_3[4];
#pragma unroll 1
        for (int step = 0; step < TILE_HEIGHT / 4; step += 2) {
            Word level_2[2][4], level_3[4];
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int first_row = 4 * (step + part);
                Word sum[4] = {Sum::zero(), Sum::zero(), Sum::zero(), Sum::zero()};
#pragma unroll
                for (int below = 0; below < 2; ++below) {
                    const int row = first_row + below;
                    const Costs pair(p, tile, row + 2 * lower, 2 * column, chunk);
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd) {
                        Word words[4];
                        pair.store(p, odd, has_evidence[odd],
                                   x + odd < base.width && y + row < base.height,
                                   reinterpret_cast<Unit*>(
                                       costs + (2 * below + (odd ^ below)) * line),
                                   base.half, words);
#pragma unroll
                        for (int i = 0; i < 4; ++i) sum[i] = Sum::add(sum[i], words[i]);
                    }
                }
                if (above.cost != nullptr && x < base.width && y + first_row < base.height)
                    Sum::store(reinterpret_cast<typename Sum::Unit*>(sums), above.half, sum);
                costs += 8 * line;
                sums += 4 * line_above;
                Word lower_sum[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) lower_sum[i] = shuffle_down(sum[i], 16);
                add_children<Sum>(sum, lower_sum, 1, level_2[part]);
                if (lower == 0 && column % 2 == 0)
                    store_node<Sum, DISPARITIES>(p.levels[2], x >> 2, (y >> 2) + step + part,
                                                 chunk, level_2[part]);
            }
            add_children<Sum>(level_2[0], level_2[1], 2, level_3);
            if (lower == 0 && column % 4 == 0)
                store_node<Sum, DISPARITIES>(p.levels[3], x >> 3, (y >> 3) + step / 2, chunk,
                                             level_3);
            if (step > 0) {
                Word level_4[4];
                add_children<Sum>(upper_3, level_3, 4, level_4);
                if (lower == 0 && column % 8 == 0)
                    store_node<Sum, DISPARITIES>(p.levels[4], x >> 4, y >> 4, chunk, level_4);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) upper_3[i] = level_3[i];
        }
    }
}

// Cost of the nodes of one level: the sum of their up to four children's. Thread = a node and
// every blockDim.y-th chunk; blockIdx.y = row.
template <typename Message, int DISPARITIES>
__global__ void parent_cost(const __grid_constant__ CostLevel children,
                            const __grid_constant__ CostLevel parents) {
    using S = Shape<Message, DISPARITIES>;
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= parents.width) return;
    for (int chunk = threadIdx.y; chunk < S::CHUNKS; chunk += blockDim.y) {
        typename Message::Word sum[4] = {Message::zero(), Message::zero(), Message::zero(),
                                         Message::zero()};
#pragma unroll
        for (int child = 0; child < 4; ++child) {
            const int x = 2 * column + child % 2, y = 2 * row + child / 2;
            if (x >= children.width || y >= children.height) continue;
            const size_t line = 2 * y + ((x + y) & 1);
            typename Message::Word word[4];
            Message::load(static_cast<const typename Message::Unit*>(children.cost)
                              + (line * S::UNITS + chunk * Message::UNITS_PER_CHUNK)
                                  * children.half + column, children.half, word);
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] = Message::add(sum[i], word[i]);
        }
        store_node<Message, DISPARITIES>(parents, column, row, chunk, sum);
    }
}
