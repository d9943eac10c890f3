// Search of a band: costs along the paths from four sides.
#include "band/windows.cuh"

// Threads of a block, those of a path, its paths, and pixels that are loaded before they are
// needed.
constexpr int BAND_PATH_THREADS = 32, PATH_LANES = 4;
constexpr int BAND_PATHS = BAND_PATH_THREADS / PATH_LANES, BAND_AHEAD = 8;

struct BandPathLaunch {
    Windows windows;
    const uint8* cost;  // [height][width], windows of a pixel
    uint8* paths;       // the same four times: from the left, the right, above and below
    int step, jump;     // penalties
};

// A part of a window: a thread has the pairs from 0, or from 2 on, which may be more than there
// are. Both have pair 2.
struct Part {
    static constexpr int PAIRS = 3;
    uint32 pairs[PAIRS];
};

// What the threads of a block show each other: costs of the labels of their windows and of one on
// each side, and NEVER beyond.
template <int RADIUS>
struct Shown {
    static constexpr int BEFORE = Part::PAIRS + 1, SHOWN = 6;
    static_assert(RADIUS + 2 <= SHOWN, "a thread has three pairs");
    // Of a row; parts of a window, two rows apart, are in other banks.
    static constexpr int COLUMNS = 24;
    uint32 words[BEFORE + SHOWN + BEFORE][COLUMNS];

    // ``column``: of the window, of which the thread has the first or the second part.
    DEVICE void show(const Part& part, uint32 step, int column, int second) {
        uint32* const to = words[BEFORE + 2 * second] + column;
        const auto beside = [&](uint32 below, uint32 above) {
            return Int16::least_step(Int16::least_small(below, above), step,
                                     __byte_perm(below, above, 0x5432));
        };
        if (second == 0) to[0] = beside(NEVER, part.pairs[0]);
        to[COLUMNS] = beside(part.pairs[0], part.pairs[1]);
        to[2 * COLUMNS] = beside(part.pairs[1], part.pairs[2]);
        if (second != 0) to[3 * COLUMNS] = beside(part.pairs[2], NEVER);
    }
    // A part, whose window begins with a label of what is shown that may be outside.
    DEVICE Part seen(int column, int label, int second) const {
        const int first = min(max(label + 1 + 4 * second, -2 * BEFORE), 2 * SHOWN);
        const uint32* const at = words[BEFORE + (first >> 1)] + column;
        uint32 found[Part::PAIRS + 1];
#pragma unroll
        for (int i = 0; i <= Part::PAIRS; ++i) found[i] = at[i * COLUMNS];
        Part part;
#pragma unroll
        for (int i = 0; i < Part::PAIRS; ++i)
            part.pairs[i] = __funnelshift_r(found[i], found[i + 1], 16 * (first & 1));
        return part;
    }
};

// Four threads = a path, two have a window. Blocks as in costs/path_aggregation.cu.
template <int RADIUS>
__global__ void __launch_bounds__(BAND_PATH_THREADS)
    follow_band(const __grid_constant__ BandPathLaunch p) {
    using Costs = Window<RADIUS>;
    __shared__ Shown<RADIUS> shown[2];
    const Windows& w = p.windows;
    const int row_blocks = (w.height + BAND_PATHS - 1) / BAND_PATHS;
    const int column_blocks = (w.width + BAND_PATHS - 1) / BAND_PATHS;
    const bool is_row = blockIdx.x < 2 * row_blocks;
    int block = is_row ? blockIdx.x : blockIdx.x - 2 * row_blocks;
    const int blocks = is_row ? row_blocks : column_blocks;
    const bool is_backward = block >= blocks;
    if (is_backward) block -= blocks;
    // The last block may have more threads than paths. They follow the last one, too, since
    // threads take each other's values, and do not write it.
    const int given = block * BAND_PATHS + int(threadIdx.x) / PATH_LANES;
    const int path = min(given, (is_row ? w.height : w.width) - 1);
    const int length = is_row ? w.width : w.height;
    const int column = threadIdx.x / 2, window = column % 2, second = threadIdx.x % 2;

    const int x = is_row ? is_backward ? w.width - 1 : 0 : path;
    const int y = is_row ? path : is_backward ? w.height - 1 : 0;
    const int sign = is_backward ? -1 : 1;
    const long long stride = sign * (is_row ? 1 : w.width) * Costs::PIXEL_WORDS;
    const long long centre_stride = sign * (is_row ? 1 : w.image_width);
    const size_t first_word = w.place(x, y) * Costs::PIXEL_WORDS + window * Costs::WORDS + second;
    const uint32* from = reinterpret_cast<const uint32*>(p.cost) + first_word;
    const uint32* centres = reinterpret_cast<const uint32*>(w.centres) + size_t(y) * w.image_width
        + x;
    uint32* to = reinterpret_cast<uint32*>(p.paths) + first_word
        + ((is_row ? 0 : 2) + is_backward) * w.place(0, w.height) * Costs::PIXEL_WORDS;
    const bool has_first = second < Costs::WORDS, has_next = second + 1 < Costs::WORDS;

    struct Ahead {
        uint32 cost[2] = {~0u, ~0u};
        Centres centres;
    } ahead[BAND_AHEAD];
    const auto load = [&](Ahead& pixel, bool exists) {
        if (exists) {
            if (has_first) pixel.cost[0] = __ldg(from);
            if (has_next) pixel.cost[1] = __ldg(from + 1);
            pixel.centres = {__ldg(centres)};
        }
        from += stride;
        centres += centre_stride;
    };
#pragma unroll
    for (int i = 0; i < BAND_AHEAD; ++i) load(ahead[i], i < length);

    const uint32 step = Int16::splat(p.step), jump = Int16::splat(p.jump);
    // NEVER where the part has no label.
    uint32 unsearched[Part::PAIRS];
#pragma unroll
    for (int k = 0; k < Part::PAIRS; ++k) {
        const int label = 2 * (k + 2 * second);
        unsearched[k] = (label < Costs::LABELS ? 0 : NEVER & 0xffffu)
            | (label + 1 < Costs::LABELS ? 0 : NEVER & 0xffff0000u);
    }
    // Before the first pixel nothing costs anything.
    Part before;
#pragma unroll
    for (int k = 0; k < Part::PAIRS; ++k) before.pairs[k] = unsearched[k];
    Centres last = ahead[0].centres;
    for (int i = threadIdx.x; i < int(sizeof(shown)) / 4; i += BAND_PATH_THREADS)
        reinterpret_cast<uint32*>(shown)[i] = NEVER;
    __syncwarp();
    for (int first = 0; first < length; first += BAND_AHEAD) {
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            // In turn, so that one is read while the other one is written.
            Shown<RADIUS>& exchange = shown[i % 2];
            exchange.show(before, step, column, second);
            uint32 least = Int16::least(before.pairs[0], before.pairs[1], before.pairs[2]);
            least = Int16::least(least, __shfl_xor_sync(~0u, least, 1),
                                 Int16::least_small(__shfl_xor_sync(~0u, least, 2),
                                                    __shfl_xor_sync(~0u, least, 3)));
            least = Int16::least_small(least, Int16::swap(least));
            __syncwarp();
            const uint32 cost[] = {__byte_perm(ahead[i].cost[0], 0, 0x4140),
                                   __byte_perm(ahead[i].cost[0], 0, 0x4342),
                                   __byte_perm(ahead[i].cost[1], 0, 0x4140)};
            const Centres own = ahead[i].centres;
            // Beyond the end nothing is written: there is no need to stop in between.
            load(ahead[i], first + BAND_AHEAD + i < length);
            const int centre = own.of(window);
            const Part same = exchange.seen(column, centre - last.of(window), second);
            const Part other = exchange.seen(column ^ 1, centre - last.of(1 - window), second);
            // min(C + min(reached - least, jump), 255).
#pragma unroll
            for (int k = 0; k < Part::PAIRS; ++k)
                before.pairs[k] = unsearched[k] | Int16::least_small(
                    cost[k] + Int16::least_small(same.pairs[k], other.pairs[k]) - least,
                    Int16::least_small(cost[k] + jump, 0x00ff00ffu));
            if (given == path && first + i < length) {
                const uint32 word = __byte_perm(before.pairs[0], before.pairs[1], 0x6420);
                if (has_first) to[0] = word;
                if (second != 0 && has_next)
                    to[1] = __byte_perm(before.pairs[2], ~0u, 0x6420);
            }
            to += stride;
            last = own;
        }
    }
}
