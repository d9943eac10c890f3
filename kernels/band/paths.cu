// Search of a band: costs along the paths from four sides, and a quarter of their sums.
#include "band/windows.cuh"
#include "hierarchical/formats/int16.cuh"

// Threads of a block, its paths, and pixels that are loaded before they are needed.
constexpr int BAND_PATH_THREADS = 128, BAND_PATHS = BAND_PATH_THREADS / 8, BAND_AHEAD = 8;

struct BandPathLaunch {
    Windows windows;
    const uint8* cost;  // [height][width][32]
    uint8* paths;       // the same four times: from the left, the right, above and below
    uint8* sums;        // the same once
    int step, jump;     // penalties
};

// Eight threads = a path. Blocks as in costs/path_sums.cu.
__global__ void __launch_bounds__(BAND_PATH_THREADS)
    follow_band(const __grid_constant__ BandPathLaunch p) {
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
    const int given = block * BAND_PATHS + int(threadIdx.x) / BAND_WORDS;
    const int path = min(given, (is_row ? w.height : w.width) - 1);
    const int length = is_row ? w.width : w.height;
    const size_t pixels = size_t(w.width) * w.height;
    const uint32* const from = reinterpret_cast<const uint32*>(p.cost) + band_word();
    uint32* const to = reinterpret_cast<uint32*>(p.paths) + band_word()
        + ((is_row ? 0 : 2) + is_backward) * pixels * BAND_WORDS;
    // Pixels beyond the end are the last one again.
    const auto column = [&](int i) {
        const int at = min(i, length - 1);
        return is_row ? is_backward ? length - 1 - at : at : path;
    };
    const auto line = [&](int i) {
        const int at = min(i, length - 1);
        return is_row ? path : is_backward ? length - 1 - at : at;
    };
    const auto place = [&](int i) {
        return (size_t(line(i)) * w.width + column(i)) * BAND_WORDS;
    };

    const uint32 unsearched = unsearched_bytes(w.radius);
    const uint32 step = splat_bytes(p.step), jump = splat_bytes(p.jump);
    uint32 now[BAND_AHEAD], next[BAND_AHEAD], before = 0;
    Centres centres[BAND_AHEAD], next_centres[BAND_AHEAD], last = {0, 0};
#pragma unroll
    for (int i = 0; i < BAND_AHEAD; ++i) {
        now[i] = __ldg(from + place(i));
        centres[i] = centres_at(w, column(i), line(i));
    }
    for (int first = 0; first < length; first += BAND_AHEAD) {
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            const int later = first + BAND_AHEAD + i;
            next[i] = __ldg(from + place(later));
            next_centres[i] = centres_at(w, column(later), line(later));
        }
#pragma unroll
        for (int i = 0; i < BAND_AHEAD; ++i) {
            // How much less than a jump each label of the pixel before costs. No byte is below
            // the least, so nothing is borrowed.
            const uint32 gain = __vsubus4(jump, before - least_byte(before) | unsearched);
            const Beside beside(gain);
            const uint32 reached = from_neighbour(
                __vmaxu4(gain, moved<1>(gain, beside, step)), centres[i], last);
            before = first + i == 0 ? now[i] : __vaddus4(now[i], jump - reached);
            if (given == path && first + i < length) to[place(first + i)] = before;
            last = centres[i];
            now[i] = next[i];
            centres[i] = next_centres[i];
        }
    }
}

// (S - min S + 2) / 4. Thread = four labels.
__global__ void __launch_bounds__(BAND_PATH_THREADS)
    add_paths(const __grid_constant__ BandPathLaunch p) {
    const size_t words = size_t(p.windows.width) * p.windows.height * BAND_WORDS;
    const size_t at = size_t(blockIdx.x) * BAND_PATH_THREADS + threadIdx.x;
    const uint32* const from = reinterpret_cast<const uint32*>(p.paths) + min(at, words - 1);
    uint32 even = 0, odd = 0;
#pragma unroll
    for (int side = 0; side < 4; ++side) {
        const uint32 word = __ldg(from + side * words);
        even += word & 0x00ff00ffu;
        odd += word >> 8 & 0x00ff00ffu;
    }
    const uint32 both = Int16::least_small(even, odd);
    const uint32 rest = Int16::splat(least_of_pixel(min(Int16::low(both), Int16::high(both))));
    even = (even - rest + 0x00020002u) >> 2 & 0x00ff00ffu;
    odd = (odd - rest + 0x00020002u) >> 2 & 0x00ff00ffu;
    if (at < words)
        reinterpret_cast<uint32*>(p.sums)[at]
            = even | odd << 8 | unsearched_bytes(p.windows.radius);
}
