// Search of a band: costs along the paths from four sides.
#include "band/windows.cuh"

// Threads of a block, its paths, and pixels that are loaded before they are needed.
constexpr int BAND_PATH_THREADS = 32, BAND_PATHS = BAND_PATH_THREADS / 2, BAND_AHEAD = 8;

struct BandPathLaunch {
    Windows windows;
    const uint8* cost;  // [height][width], windows of a pixel
    uint8* paths;       // the same four times: from the left, the right, above and below
    int step, jump;     // penalties
};

// What the threads of a block show each other: costs of the labels of their windows and of one on
// each side, and NEVER beyond.
template <int RADIUS>
struct Shown {
    using Costs = Window<RADIUS>;
    static constexpr int PAIRS = Costs::PAIRS, SHOWN = PAIRS + 1;
    uint32 words[PAIRS + SHOWN + SHOWN][BAND_PATH_THREADS];

    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < PAIRS + SHOWN + SHOWN; ++i) words[i][threadIdx.x] = NEVER;
    }
    // The costs of a pixel, or of a label beside each and ``step``: the lower ones.
    DEVICE void show(const Costs& costs, uint32 step) {
#pragma unroll
        for (int i = 0; i < SHOWN; ++i)
            words[PAIRS + i][threadIdx.x] = Int16::least_step(
                Int16::least_small(costs.pair(i - 1), costs.pair(i)), step, costs.odd_pair(i));
    }
    // What a thread shows, from a label of its window on that may be outside.
    DEVICE Costs seen(int thread, int label) const {
        const int first = min(max(label + 1, -2 * PAIRS), 2 * SHOWN);
        const uint32* const at = words[PAIRS + (first >> 1)] + thread;
        uint32 found[SHOWN];
#pragma unroll
        for (int i = 0; i < SHOWN; ++i) found[i] = at[i * BAND_PATH_THREADS];
        Costs costs;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i)
            costs.pairs[i] = __funnelshift_r(found[i], found[i + 1], 16 * (first & 1));
        return costs;
    }
};

// Two threads = a path. Blocks as in costs/path_sums.cu.
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
    const int given = block * BAND_PATHS + int(threadIdx.x) / 2;
    const int path = min(given, (is_row ? w.height : w.width) - 1);
    const int length = is_row ? w.width : w.height;
    const int window = own_window(), partner = int(threadIdx.x) ^ 1;

    const int x = is_row ? is_backward ? w.width - 1 : 0 : path;
    const int y = is_row ? path : is_backward ? w.height - 1 : 0;
    const int sign = is_backward ? -1 : 1;
    const long long stride = sign * (is_row ? 1 : w.width) * Costs::PIXEL_WORDS;
    const long long centre_stride = sign * (is_row ? 1 : w.image_width);
    const size_t first_word = w.place(x, y) * Costs::PIXEL_WORDS + window * Costs::WORDS;
    const uint32* from = reinterpret_cast<const uint32*>(p.cost) + first_word;
    const uint32* centres = reinterpret_cast<const uint32*>(w.centres) + size_t(y) * w.image_width
        + x;
    uint32* to = reinterpret_cast<uint32*>(p.paths) + first_word
        + ((is_row ? 0 : 2) + is_backward) * w.place(0, w.height) * Costs::PIXEL_WORDS;

    struct Ahead {
        uint32 cost[Costs::WORDS];
        Centres centres;
    } ahead[BAND_AHEAD] = {};
    const auto load = [&](Ahead& pixel, bool exists) {
        if (exists) {
#pragma unroll
            for (int k = 0; k < Costs::WORDS; ++k) pixel.cost[k] = __ldg(from + k);
            pixel.centres = {__ldg(centres)};
        }
        from += stride;
        centres += centre_stride;
    };
#pragma unroll
    for (int i = 0; i < BAND_AHEAD; ++i) load(ahead[i], i < length);

    const uint32 step = Int16::splat(p.step), jump = Int16::splat(p.jump);
    // Before the first pixel nothing costs anything.
    Costs before = Costs::splat(0);
    before.leave_out();
    Centres last = ahead[0].centres;
    shown[0].clear();
    shown[1].clear();
    for (int first = 0; first < length; first += BAND_AHEAD) {
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            // In turn, so that one is read while the other one is written.
            Shown<RADIUS>& exchange = shown[i % 2];
            exchange.show(before, step);
            __syncwarp();
            const uint32 least = before.least();
            const Costs cost = Costs::of(ahead[i].cost);
            const Centres own = ahead[i].centres;
            // Beyond the end nothing is written: there is no need to stop in between.
            load(ahead[i], first + BAND_AHEAD + i < length);
            Costs reached = exchange.seen(threadIdx.x, own.of(window) - last.of(window));
            reached.cut(exchange.seen(partner, own.of(window) - last.of(1 - window)));
            // min(C + min(reached - least, jump), 255).
#pragma unroll
            for (int k = 0; k < Costs::PAIRS; ++k)
                before.pairs[k] = Int16::least_small(
                    cost.pairs[k] + reached.pairs[k] - least,
                    Int16::least_small(cost.pairs[k] + jump, 0x00ff00ffu));
            before.leave_out();
            if (given == path && first + i < length) before.to(to);
            to += stride;
            last = own;
        }
    }
}
