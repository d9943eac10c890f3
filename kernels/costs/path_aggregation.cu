// Stage cost: costs along the paths from four sides, as semi-global matching has them.
#include "costs/volume.cuh"

constexpr int PATH_THREADS = 128;

struct PathLaunch {
    const uint8* cost;  // [height][width][padded labels]
    uint8* paths;       // the same four times: from the left, the right, above and below
    int width, height;
    int step, jump;  // penalties
};

// The costs of a path at the pixel before, and how the next pixel changes them.
template <int DISPARITIES>
struct Path {
    using V = Volume<DISPARITIES>;
    static constexpr int WORDS = V::WORDS;

    Labels<WORDS> before = {};  // 0: a path begins with the data cost
    int lane;

    // L = min(C + min(L(d), L(d - 1) + step, L(d + 1) + step) - min L, C + jump, 255). What waits
    // for the least of all lanes is a subtraction and a minimum.
    DEVICE typename V::Bytes follow(const typename V::Bytes& cost, uint32 step, uint32 jump) {
        const uint32 least = before.template least<V::LANES>();
        uint32 left = __shfl_up_sync(~0u, before.odd[WORDS - 1], 1, V::LANES);
        uint32 right = __shfl_down_sync(~0u, before.even[0], 1, V::LANES);
        // Beyond the range lies what no path takes.
        if (lane == 0) left = 0x00ff00ffu;
        if (lane == V::LANES - 1) right = 0x00ff00ffu;
        Labels<WORDS> next = {}, reached;
        next.add(cost);
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            const uint32 even = before.even[i], odd = before.odd[i];
            // Labels -1 and 1, and labels 2 and 4.
            const uint32 below = __byte_perm(i == 0 ? left : before.odd[i - 1], odd, 0x5432);
            const uint32 above = __byte_perm(even, i == WORDS - 1 ? right : before.even[i + 1],
                                             0x5432);
            reached.even[i] = Int16::least_step(Int16::least_small(below, odd), step, even);
            reached.odd[i] = Int16::least_step(Int16::least_small(even, above), step, odd);
        }
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            before.even[i] = cut(reached.even[i] + next.even[i], least, next.even[i] + jump);
            before.odd[i] = cut(reached.odd[i] + next.odd[i], least, next.odd[i] + jump);
        }
        typename V::Bytes bytes;
        before.store(bytes);
        return bytes;
    }
    static DEVICE uint32 cut(uint32 sum, uint32 least, uint32 jumped) {
        return Int16::least_small(sum - least, Int16::least_small(jumped, 0x00ff00ffu));
    }
};

// A path in LANES neighbouring threads. Blocks: rows from the left, from the right, columns from
// above, from below; rows first, since they take longest.
template <int DISPARITIES>
__global__ void __launch_bounds__(PATH_THREADS)
    follow_paths(const __grid_constant__ PathLaunch p) {
    using V = Volume<DISPARITIES>;
    using Bytes = typename V::Bytes;
    constexpr int PATHS = PATH_THREADS / V::LANES;
    constexpr int AHEAD = V::WORDS == 4 ? 4 : 8;  // pixels that are loaded before they are needed
    const int row_blocks = (p.height + PATHS - 1) / PATHS;
    const int column_blocks = (p.width + PATHS - 1) / PATHS;
    const bool is_row = blockIdx.x < 2 * row_blocks;
    int block = is_row ? blockIdx.x : blockIdx.x - 2 * row_blocks;
    const int blocks = is_row ? row_blocks : column_blocks;
    const bool is_backward = block >= blocks;
    if (is_backward) block -= blocks;
    // The last block may have more threads than paths. They follow the last one, too, since lanes
    // take each other's values, and do not write it.
    const int given = block * PATHS + int(threadIdx.x) / V::LANES;
    const int path = min(given, (is_row ? p.height : p.width) - 1);
    const int length = is_row ? p.width : p.height;
    const int lane = threadIdx.x % V::LANES;

    const size_t pixels = size_t(p.width) * p.height;
    const size_t start = is_row ? size_t(path) * p.width + (is_backward ? p.width - 1 : 0)
                                : path + (is_backward ? pixels - p.width : 0);
    const long long stride = (is_row ? 1 : p.width) * (is_backward ? -V::PADDED : V::PADDED);
    const bool has_labels = lane * V::LANE_LABELS < V::PADDED;
    const bool writes = has_labels && given == path;
    const uint8* from = p.cost + start * V::PADDED + lane * V::LANE_LABELS;
    uint8* to = p.paths + ((is_row ? 0 : 2) + is_backward) * pixels * V::PADDED + (from - p.cost);
    const auto load = [&](int pixel) {
        Bytes bytes;
#pragma unroll
        for (int i = 0; i < V::WORDS; ++i) bytes.words[i] = ~0u;
        if (has_labels && pixel < length) bytes = *reinterpret_cast<const Bytes*>(from);
        from += stride;
        return bytes;
    };

    const uint32 step = Int16::splat(p.step), jump = Int16::splat(p.jump);
    Path<DISPARITIES> state;
    state.lane = lane;
    Bytes now[AHEAD], next[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) now[i] = load(i);
    for (int first = 0; first < length; first += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) next[i] = load(first + AHEAD + i);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            // Beyond the end nothing is written: there is no need to stop in between.
            const Bytes bytes = state.follow(now[i], step, jump);
            if (writes && first + i < length) *reinterpret_cast<Bytes*>(to) = bytes;
            to += stride;
            now[i] = next[i];
        }
    }
}
