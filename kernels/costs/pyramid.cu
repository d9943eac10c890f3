// Stage cost: from volumes to the costs of level 0 as messages read them, and of coarser levels.
#include "costs/volume.cuh"
#include "hierarchical/shape.cuh"

// Pixels of a block of ``arrange_costs``, and its threads.
constexpr int ARRANGED = 32, ARRANGING = 256;

struct ArrangeLaunch {
    const uint8* volumes;  // one, or four whose sum is taken: [height][width][padded labels]
    uint2* cost;           // level 0: [row][colour][chunk][column]
    int width, height, columns;
};

// Costs of one lane's labels of a pixel. ``offset``: of the volume.
template <int DISPARITIES>
DEVICE const typename Volume<DISPARITIES>::Bytes* labels_at(const ArrangeLaunch& p, size_t offset,
                                                            int x, int y, int lane) {
    using V = Volume<DISPARITIES>;
    return reinterpret_cast<const typename V::Bytes*>(
        p.volumes + offset + (size_t(y) * p.width + x) * V::PADDED + lane * V::LANE_LABELS);
}

// A quarter of both values, rounded half up.
DEVICE uint32 quarter(uint32 word) { return (word + 0x00020002u) >> 2 & 0x3fff3fffu; }

// The costs of level 0 in bytes. With four volumes, a quarter of what their sum exceeds its least
// by. A block has pixels of one row: first their labels lie side by side, then their columns.
template <int DISPARITIES, int VOLUMES>
__global__ void __launch_bounds__(ARRANGING)
    arrange_costs(const __grid_constant__ ArrangeLaunch p) {
    using V = Volume<DISPARITIES>;
    using S = Shape<Bytes, DISPARITIES>;
    constexpr int PITCH = V::PADDED / 4 + 1;  // words of a pixel; odd, for different banks
    constexpr int AT_ONCE = ARRANGING / V::LANES;
    __shared__ uint32 words[ARRANGED][PITCH];
    const int tiles = 2 * p.columns / ARRANGED;  // of a row
    const int first_x = blockIdx.x % tiles * ARRANGED, y = blockIdx.x / tiles;
    const int lane = threadIdx.x % V::LANES;
    const size_t volume = size_t(p.width) * p.height * V::PADDED;
#pragma unroll
    for (int first = 0; first < ARRANGED; first += AT_ONCE) {
        // Of few labels there are more threads than pixels. They compute the last one, too, since
        // lanes take each other's values, and do not write it.
        const int given = first + int(threadIdx.x) / V::LANES;
        const int pixel = min(given, ARRANGED - 1);
        const int x = first_x + pixel;
        const bool is_inside = x < p.width && lane * V::LANE_LABELS < V::PADDED;
        typename V::Bytes bytes = {};
        if constexpr (VOLUMES == 1) {
            if (is_inside) bytes = *labels_at<DISPARITIES>(p, 0, x, y, lane);
        } else {
            Labels<V::WORDS> sum = {};
#pragma unroll
            for (int i = 0; i < VOLUMES; ++i) {
                typename V::Bytes one;
#pragma unroll
                for (int j = 0; j < V::WORDS; ++j) one.words[j] = ~0u;
                if (is_inside) one = *labels_at<DISPARITIES>(p, i * volume, x, y, lane);
                sum.add(one);
            }
            const uint32 least = sum.template least<V::LANES>();
#pragma unroll
            for (int i = 0; i < V::WORDS; ++i) {
                sum.even[i] = quarter(sum.even[i] - least);
                sum.odd[i] = quarter(sum.odd[i] - least);
            }
            sum.store(bytes);
        }
        if (lane * V::LANE_LABELS < V::PADDED && given == pixel) {
#pragma unroll
            for (int i = 0; i < V::WORDS; ++i) {
                const int labels = DISPARITIES - lane * V::LANE_LABELS - 4 * i;
                const uint32 mask = labels >= 4 ? ~0u : labels <= 0 ? 0 : (1u << 8 * labels) - 1;
                words[pixel][lane * V::WORDS + i] = x < p.width ? bytes.words[i] & mask : 0;
            }
        }
    }
    __syncthreads();
    const int pixel = threadIdx.x % 32, x = first_x + pixel;
    const size_t line = 2 * y + ((x + y) & 1);
#pragma unroll
    for (int chunk = threadIdx.x / 32; chunk < S::CHUNKS; chunk += ARRANGING / 32) {
        const uint32 low = words[pixel][chunk], high = words[pixel][S::PADDED / 4 - 1 - chunk];
        p.cost[(line * S::CHUNKS + chunk) * p.columns + (x >> 1)] = make_uint2(
            __byte_perm(low, high, 0x6170), __byte_perm(low, high, 0x4352));
    }
}

struct CoarserLaunch {
    const void* children;
    uint4* cost;  // Int16: [row][colour][chunk][column]
    int child_width, child_height, child_columns;
    int width, height, columns;
    int largest;  // costs are cut at this
};

// Nodes of a block of ``add_children``, a lane each, and the warps that share their chunks.
constexpr int NODES = 32;
template <int CHUNKS>
struct Sharing {
    static constexpr int WARPS = CHUNKS < 8 ? CHUNKS : 8, ROUNDS = (CHUNKS + WARPS - 1) / WARPS;
};

// The costs of a coarser level: sums of up to four children, less their least. Kind: of the
// children. Padded labels are the high ones of words below PADS, and low ones from DISPARITIES on.
template <typename Kind, int DISPARITIES>
__global__ void __launch_bounds__(NODES * Sharing<Shape<Kind, DISPARITIES>::CHUNKS>::WARPS)
    add_children(const __grid_constant__ CoarserLaunch p) {
    using S = Shape<Kind, DISPARITIES>;
    using Unit = typename Kind::Unit;
    constexpr int WARPS = Sharing<S::CHUNKS>::WARPS, ROUNDS = Sharing<S::CHUNKS>::ROUNDS;
    __shared__ uint32 leasts[WARPS][NODES];
    const int node = threadIdx.x % NODES, warp = threadIdx.x / NODES;
    const int x = blockIdx.x * NODES + node, y = blockIdx.y;
    uint32 sums[ROUNDS][4] = {}, least = Int16::masked();
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int chunk = warp + round * WARPS;
        if (chunk >= S::CHUNKS) break;
#pragma unroll
        for (int child = 0; child < 4; ++child) {
            const int child_x = 2 * x + child % 2, child_y = 2 * y + child / 2;
            if (child_x >= p.child_width || child_y >= p.child_height) continue;
            const size_t line = 2 * child_y + ((child_x + child_y) & 1);
            const Unit unit = static_cast<const Unit*>(
                p.children)[(line * S::CHUNKS + chunk) * p.child_columns + x];
            uint32 part[4];
            if constexpr (sizeof(Unit) == sizeof(uint2)) expand_bytes(unit, part);
            else Kind::load(&unit, 0, part);
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[round][i] += part[i];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            uint32 word = sums[round][i];
            if (4 * chunk + i < S::PADS) word = Int16::mask_high(word);
            if (4 * chunk + i < DISPARITIES) least = Int16::least(least, word);
        }
    }
    leasts[warp][node] = min(Int16::low(least), Int16::high(least));
    __syncthreads();
    uint32 smallest = leasts[0][node];
#pragma unroll
    for (int i = 1; i < WARPS; ++i) smallest = min(smallest, leasts[i][node]);
    smallest = Int16::splat(smallest);
    const uint32 largest = Int16::splat(p.largest);
    if (x >= p.width) return;
    const size_t line = 2 * y + ((x + y) & 1);
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int chunk = warp + round * WARPS;
        if (chunk >= S::CHUNKS) break;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[round][i] = Int16::least(sums[round][i] - smallest, largest);
            if (4 * chunk + i < S::PADS) sums[round][i] &= 0xffffu;
            if (4 * chunk + i >= DISPARITIES) sums[round][i] = 0;
        }
        Int16::store(p.cost + (line * S::CHUNKS + chunk) * p.columns + (x >> 1), p.columns,
                     sums[round]);
    }
}
