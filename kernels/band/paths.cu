// Search of a band: costs along the paths from four sides.
#include "band/windows.cuh"

// Threads of a block, those of a path, its paths, and pixels that are loaded before they are
// needed.
constexpr int BAND_PATH_THREADS = 32, PATH_LANES = 4;
constexpr int BAND_PATHS = BAND_PATH_THREADS / PATH_LANES, BAND_AHEAD = 8;

// An even number above every difference of labels.
constexpr int ABOVE = 512;

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
    // Of a row; parts of a window, two rows apart, are read from other banks.
    static constexpr int COLUMNS = 24;
    uint32 words[BEFORE + SHOWN + BEFORE][COLUMNS];

    // ``column``: of the window, of which the thread has the first or the second part.
    DEVICE void show(const Part& part, uint32 step, int column, int second) {
        uint32* const to = words[BEFORE + 3 * second] + column;
        const bool is_first = second == 0;
        const uint32 pairs[] = {
            is_first ? NEVER : part.pairs[0], is_first ? part.pairs[0] : part.pairs[1],
            is_first ? part.pairs[1] : part.pairs[2], is_first ? part.pairs[2] : NEVER};
#pragma unroll
        for (int i = 0; i < Part::PAIRS; ++i)
            to[i * COLUMNS] = Int16::least_step(
                Int16::least_small(pairs[i], pairs[i + 1]), step,
                __byte_perm(pairs[i], pairs[i + 1], 0x5432));
    }
    // A part, from a row on and so many bits, 0 or 16, which are cut to five.
    DEVICE Part seen(int column, int row, uint32 bits) const {
        const uint32* const at = words[row] + column;
        uint32 found[Part::PAIRS + 1];
#pragma unroll
        for (int i = 0; i <= Part::PAIRS; ++i) found[i] = at[i * COLUMNS];
        Part part;
#pragma unroll
        for (int i = 0; i < Part::PAIRS; ++i)
            part.pairs[i] = __funnelshift_r(found[i], found[i + 1], bits);
        return part;
    }
};

// Four threads = a path, two have a window. Blocks as in costs/path_sums.cu.
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
    // The last block may have more threads than paths. They follow the last one, too.
    const int given = block * BAND_PATHS + int(threadIdx.x) / PATH_LANES;
    const int path = min(given, (is_row ? w.height : w.width) - 1);
    const int length = is_row ? w.width : w.height;
    const int column = threadIdx.x / 2, window = column % 2, second = threadIdx.x % 2;

    const int x = is_row ? is_backward ? w.width - 1 : 0 : path;
    const int y = is_row ? path : is_backward ? w.height - 1 : 0;
    const int sign = is_backward ? -1 : 1;
    const int stride = sign * (is_row ? 1 : w.width) * Costs::PIXEL_WORDS;
    const int centre_stride = sign * (is_row ? 1 : w.image_width);
    const size_t first_word = w.place(x, y) * Costs::PIXEL_WORDS + window * Costs::WORDS + second;
    const uint32* const from = reinterpret_cast<const uint32*>(p.cost) + first_word;
    const uint32* const centres = reinterpret_cast<const uint32*>(w.centres)
        + size_t(y) * w.image_width + x;
    uint32* const to = reinterpret_cast<uint32*>(p.paths) + first_word
        + ((is_row ? 0 : 2) + is_backward) * w.place(0, w.height) * Costs::PIXEL_WORDS;
    const bool has_first = second < Costs::WORDS, has_next = second + 1 < Costs::WORDS;

    struct Ahead {
        uint32 cost[2] = {~0u, ~0u};
        uint32 centres;  // of both windows
    } ahead[BAND_AHEAD];
    // Beyond the end it is the last pixel.
    const auto load = [&](Ahead& pixel, int given) {
        const int place = min(given, length - 1);
        const uint32* const words = from + (long long)place * stride;
        if (has_first) pixel.cost[0] = __ldg(words);
        if (has_next) pixel.cost[1] = __ldg(words + 1);
        pixel.centres = __ldg(centres + (long long)place * centre_stride);
    };
#pragma unroll
    for (int i = 0; i < BAND_AHEAD; ++i) load(ahead[i], i);

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
    for (int i = threadIdx.x; i < int(sizeof(shown)) / 4; i += BAND_PATH_THREADS)
        reinterpret_cast<uint32*>(shown)[i] = NEVER;
    __syncwarp();

    // Of two centres that of the thread's window, twice, and this one before the other one.
    const uint32 twice = window == 0 ? 0x1010 : 0x3232, own_first = window == 0 ? 0x3210 : 0x1032;
    uint32 last = __byte_perm(ahead[0].centres, 0, own_first);
    // From the begin of ``shown`` to the label of the thread's part that a centre like the other's
    // has first, and the first and last labels from which there is nothing but NEVER.
    using Exchange = Shown<RADIUS>;
    const uint32 label = Int16::splat(2 * Exchange::BEFORE + 1 + 4 * second + ABOVE);
    const uint32 least_label = Int16::splat(ABOVE);
    const uint32 greatest_label
        = Int16::splat(2 * (Exchange::BEFORE + Exchange::SHOWN) + ABOVE);
    for (int first = 0; first < length; first += BAND_AHEAD) {
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            // In turn, so that one is read while the other one is written.
            Exchange& exchange = shown[i % 2];
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
            const uint32 centres_here = ahead[i].centres;
            load(ahead[i], first + BAND_AHEAD + i);
            uint32 labels = __byte_perm(centres_here, 0, twice) + label - last;
            labels = Int16::least_small(Int16::greatest(labels, least_label), greatest_label);
            last = __byte_perm(centres_here, 0, own_first);
            const Part same = exchange.seen(
                column, int(labels >> 1 & 0x7fffu) - ABOVE / 2, labels << 4);
            const Part other = exchange.seen(
                column ^ 1, int(labels >> 17) - ABOVE / 2, labels >> 12);
            // min(C + min(reached - least, jump), 255).
#pragma unroll
            for (int k = 0; k < Part::PAIRS; ++k)
                before.pairs[k] = unsearched[k] | Int16::least_small(
                    cost[k] + Int16::least_small(same.pairs[k], other.pairs[k]) - least,
                    Int16::least_small(cost[k] + jump, 0x00ff00ffu));
            // Beyond the end nothing is written: there is no need to stop in between.
            const bool exists = first + i < length;
            uint32* const words = to + (long long)(first + i) * stride;
            const uint32 bytes[] = {__byte_perm(before.pairs[0], before.pairs[1], 0x6420),
                                    __byte_perm(before.pairs[2], ~0u, 0x6420)};
            if (exists && has_first) words[0] = bytes[0];
            if (exists && second != 0 && has_next) words[1] = bytes[1];
        }
    }
}
