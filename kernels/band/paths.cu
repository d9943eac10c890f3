// Search of a band: costs along the paths from four sides.
#include "band/windows.cuh"

// Threads of a block, its paths, and pixels that are loaded before they are needed.
constexpr int BAND_PATH_THREADS = 32, BAND_PATHS = BAND_PATH_THREADS / 2, BAND_AHEAD = 8;

struct BandPathLaunch {
    Windows windows;
    const uint8* cost;  // [height][width][24]
    uint8* paths;       // the same four times: from the left, the right, above and below
    int step, jump;     // penalties
};

// What the threads of a block show each other: costs of the labels of their windows and of one on
// each side, and NEVER beyond.
struct Shown {
    static constexpr int COSTS = PAIRS + 1, BEFORE = PAIRS, WORDS = BEFORE + COSTS + PAIRS + 1;
    uint32 words[WORDS][BAND_PATH_THREADS];

    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i][threadIdx.x] = NEVER;
    }
    // The costs of a pixel, or of a label beside each and ``step``: the lower ones.
    DEVICE void show(const Pairs& costs, uint32 step) {
#pragma unroll
        for (int i = 0; i < COSTS; ++i)
            words[BEFORE + i][threadIdx.x] = Int16::least_step(
                Int16::least_small(costs.at(i - 1), costs.at(i)), step, costs.before(i));
    }
    // What a thread shows, from a label of its window on that may be outside.
    DEVICE Pairs seen(int thread, int label) const {
        const int first = min(max(label + 1, -2 * BEFORE), 2 * COSTS);
        const uint32* const at = words[BEFORE + (first >> 1)] + thread;
        uint32 found[PAIRS + 1];
#pragma unroll
        for (int i = 0; i <= PAIRS; ++i) found[i] = at[i * BAND_PATH_THREADS];
        Pairs pairs;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i)
            pairs.words[i] = __funnelshift_r(found[i], found[i + 1], 16 * (first & 1));
        return pairs;
    }
};

// Two threads = a path. Blocks as in costs/path_sums.cu.
__global__ void __launch_bounds__(BAND_PATH_THREADS)
    follow_band(const __grid_constant__ BandPathLaunch p) {
    __shared__ Shown shown[2];
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
    const uint32* const from = reinterpret_cast<const uint32*>(p.cost);
    uint32* const to = reinterpret_cast<uint32*>(p.paths)
        + ((is_row ? 0 : 2) + is_backward) * size_t(w.width) * w.height * PIXEL_WORDS;
    // Pixels beyond the end are the last one again.
    const auto column = [&](int i) {
        const int at = min(i, length - 1);
        return is_row ? is_backward ? length - 1 - at : at : path;
    };
    const auto line = [&](int i) {
        const int at = min(i, length - 1);
        return is_row ? path : is_backward ? length - 1 - at : at;
    };

    struct Ahead {
        uint32 cost[WINDOW_WORDS];
        Centres centres;
    };
    const auto load = [&](int i) {
        Ahead ahead;
        const uint32* const at = from + first_word(w, column(i), line(i), window);
#pragma unroll
        for (int k = 0; k < WINDOW_WORDS; ++k) ahead.cost[k] = __ldg(at + k);
        ahead.centres = centres_at(w, column(i), line(i));
        return ahead;
    };
    Ahead now[BAND_AHEAD], next[BAND_AHEAD];
#pragma unroll
    for (int i = 0; i < BAND_AHEAD; ++i) now[i] = load(i);

    const uint32 step = Int16::splat(p.step), jump = Int16::splat(p.jump);
    // Before the first pixel nothing costs anything.
    Pairs before = Pairs::splat(0);
    before.leave_out(w.radius);
    Centres last = now[0].centres;
    shown[0].clear();
    shown[1].clear();
    for (int first = 0; first < length; first += BAND_AHEAD) {
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) next[i] = load(first + BAND_AHEAD + i);
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            // In turn, so that one is read while the other one is written.
            Shown& exchange = shown[i % 2];
            exchange.show(before, step);
            __syncwarp();
            const uint32 least = before.least();
            const int centre = now[i].centres.of(window);
            Pairs reached = exchange.seen(threadIdx.x, centre - last.of(window));
            reached.cut(exchange.seen(partner, centre - last.of(1 - window)));
            const Pairs cost = Pairs::of(now[i].cost);
            // min(C + min(reached - least, jump), 255).
#pragma unroll
            for (int k = 0; k < PAIRS; ++k)
                before.words[k] = Int16::least_small(
                    cost.words[k] + reached.words[k] - least,
                    Int16::least_small(cost.words[k] + jump, 0x00ff00ffu));
            if (given == path && first + i < length)
                before.to(to + first_word(w, column(first + i), line(first + i), window));
            before.leave_out(w.radius);
            last = now[i].centres;
            now[i] = next[i];
        }
    }
}
