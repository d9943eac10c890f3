// Stage cost: data cost of level 0, and its pyramid.
#include "vectors.cuh"

struct CostPass {
    const void* left;               // H x W, uint8 or float32: the images that are matched
    const void* right;
    const void* table;              // cost of each difference of two bytes: uint16 or float32
    void* cost;                     // level 0
    uint4* parents;                 // level 1; null = there is none
    int width, height, half;
    int parent_half;
    int min_disparity;
    double factor, truncation;      // integer costs: floor(factor * difference + 0.5)
    float float_weight, float_truncation;
    uint64* stamp;                  // time at which the stage starts, ns
};

// What one pair of pixels costs, for the words of a type.
template <typename Word, typename Image> struct PixelCost;

template <typename Image> struct PixelCost<uint32, Image> {
    using Value = uint32;
    static __device__ __forceinline__ Value of(const CostPass& p, Image left, Image right) {
        if constexpr (sizeof(Image) == 1)
            return static_cast<const uint16*>(p.table)[abs(int(left) - int(right))];
        // As the tables of the engines: every step rounded in float64, nothing contracted.
        const double difference = fabs(__dadd_rn(double(left), -double(right)));
        const double kept = difference < p.truncation ? difference : p.truncation;
        return uint32(__dadd_rn(__dmul_rn(p.factor, kept), 0.5));
    }
    static __device__ __forceinline__ uint32 word(Value low, Value high) {
        return low | high << 16;
    }
};

template <typename Image> struct PixelCost<float2, Image> {
    using Value = float;
    static __device__ __forceinline__ Value of(const CostPass& p, Image left, Image right) {
        if constexpr (sizeof(Image) == 1)
            return static_cast<const float*>(p.table)[abs(int(left) - int(right))];
        return __fmul_rn(p.float_weight,
                         fminf(fabsf(float(left) - float(right)), p.float_truncation));
    }
    static __device__ __forceinline__ float2 word(Value low, Value high) {
        return make_float2(low, high);
    }
};

// Thread = the four nodes of level 0 of one node of level 1 and every blockDim.y-th chunk of their
// vectors; blockIdx.y = row of level 1. Kind is the type of the costs of level 0, Image uint8 or
// float.
template <typename Kind, typename Image, int DISPARITIES>
__global__ void data_cost(const __grid_constant__ CostPass p) {
    using S = Shape<Kind, DISPARITIES>;
    using Sum = typename Kind::Sum;
    using Above = Shape<Sum, DISPARITIES>;
    using Word = typename Kind::Word;
    using C = PixelCost<Word, Image>;
    using Unit = typename Kind::Unit;
    stamp_time(p.stamp);
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= (p.width + 1) / 2) return;
    const Image* const left = static_cast<const Image*>(p.left);
    const Image* const right = static_cast<const Image*>(p.right);
    const int last = p.min_disparity + DISPARITIES - 1;
    for (int chunk = threadIdx.y; chunk < S::CHUNKS; chunk += blockDim.y) {
        Word sum[4] = {Sum::zero(), Sum::zero(), Sum::zero(), Sum::zero()};
#pragma unroll
        for (int child = 0; child < 4; ++child) {
            const int x = 2 * column + child % 2, y = 2 * row + child / 2;
            if (x >= p.width || y >= p.height) continue;
            const bool has_evidence = x - last >= 0 && x - p.min_disparity <= p.width - 1;
            const Image own = left[y * p.width + x];
            const Image* const other = right + y * p.width + x - p.min_disparity;
            Word word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int low = 4 * chunk + i, high = S::PADDED - 1 - low;
                typename C::Value cost_low = 0, cost_high = 0;
                if (has_evidence) {
                    cost_low = C::of(p, own, other[-low]);
                    if (S::PADS == 0 || high < DISPARITIES)
                        cost_high = C::of(p, own, other[-high]);
                }
                word[i] = Kind::kept(C::word(cost_low, cost_high));
                sum[i] = Sum::add(sum[i], word[i]);
            }
            const size_t line = 2 * y + ((x + y) & 1);
            Unit* const to = static_cast<Unit*>(p.cost)
                + (line * S::UNITS + chunk * Kind::UNITS_PER_CHUNK) * p.half + column;
            if constexpr (sizeof(Unit) == 8)
                *to = make_uint2(__byte_perm(word[0], word[1], 0x6420),
                                 __byte_perm(word[2], word[3], 0x6420));
            else
                Kind::store(to, p.half, word);
        }
        if (p.parents != nullptr) {
            const size_t line = 2 * row + ((column + row) & 1);
            Sum::store(p.parents + (line * Above::UNITS + chunk * Sum::UNITS_PER_CHUNK)
                           * p.parent_half + (column >> 1), p.parent_half, sum);
        }
    }
}

// Cost of the nodes of one level: the sum of their up to four children's. Thread = a node and
// every blockDim.y-th chunk; blockIdx.y = row.
template <typename Message, int DISPARITIES>
__global__ void parent_cost(const uint4* children, int child_width, int child_height,
                            int child_half, uint4* parents, int half) {
    using S = Shape<Message, DISPARITIES>;
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= (child_width + 1) / 2) return;
    for (int chunk = threadIdx.y; chunk < S::CHUNKS; chunk += blockDim.y) {
        typename Message::Word sum[4] = {Message::zero(), Message::zero(), Message::zero(),
                                         Message::zero()};
#pragma unroll
        for (int child = 0; child < 4; ++child) {
            const int x = 2 * column + child % 2, y = 2 * row + child / 2;
            if (x >= child_width || y >= child_height) continue;
            const size_t line = 2 * y + ((x + y) & 1);
            typename Message::Word word[4];
            Message::load(children + (line * S::UNITS + chunk * Message::UNITS_PER_CHUNK)
                              * child_half + column, child_half, word);
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] = Message::add(sum[i], word[i]);
        }
        const size_t line = 2 * row + ((column + row) & 1);
        Message::store(parents + (line * S::UNITS + chunk * Message::UNITS_PER_CHUNK) * half
                           + (column >> 1), half, sum);
    }
}
