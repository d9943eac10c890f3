// Stage sad: labels by block matching. A block slides the sums of its windows down the rows.
#include "sad/rows.cuh"
#include "sad/sums.cuh"

// Waits for the CHUNKS warps of one strip.
template <int CHUNKS> DEVICE void wait_for_strip(int strip) {
    if constexpr (CHUNKS == 1) __syncwarp();
    else asm volatile("barrier.sync %0, %1;" : : "r"(strip + 1), "n"(32 * CHUNKS) : "memory");
}

// Values that the warps of one strip exchange about its windows.
template <int CHUNKS> struct Exchange {
    uint32 best[CHUNKS][STRIP];  // SAD << 9 | label of the best of each chunk
    int second[CHUNKS][STRIP];
};

// Outputs of a kernel; EVERYTHING fills those that are not null.
enum Outputs { LABELS_ALONE, LABELS_AND_FRACTIONS, EVERYTHING };

// Threads of a multiprocessor at once: wide windows and all outputs take more registers.
__host__ __device__ constexpr int resident_threads(int tiles, Outputs outputs) {
    return tiles < 4 && outputs != EVERYTHING ? 512 : 384;
}

// Block = STRIPS strips of 32 windows and CHUNKS chunks of 8 LABEL_TILES labels, a warp for each,
// sliding down ``rows`` rows of windows. TILES = tiles of 16 pixels that 16 windows cover.
template <typename Image, int TILES, int LABEL_TILES, int CHUNKS, int STRIPS, int COPIES,
          Outputs OUTPUTS>
__global__ void __launch_bounds__(32 * CHUNKS * STRIPS,
                                  resident_threads(TILES, OUTPUTS) / (32 * CHUNKS * STRIPS))
    match_windows(const __grid_constant__ Windows p) {
    constexpr bool WITH_FRACTION = OUTPUTS != LABELS_ALONE;
    const bool with_costs = OUTPUTS == EVERYTHING && p.second != nullptr;
    const bool with_right = OUTPUTS == EVERYTHING && p.right_keys != nullptr;
    constexpr int LABELS = 8 * LABEL_TILES * CHUNKS;
    using R = Rows<TILES, LABELS, STRIPS, COPIES>;
    using S = Sums<TILES, LABEL_TILES>;
    extern __shared__ uint4 shared[];
    __shared__ Exchange<CHUNKS> exchanges[STRIPS];
    stamp_time(p.stamp);
    if (p.rows == 0) return;  // the image is smaller than window or range

    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int strip = (threadIdx.x >> 5) / CHUNKS, chunk = (threadIdx.x >> 5) % CHUNKS;
    const int first = 8 * LABEL_TILES * chunk, x_block = p.x_begin + STRIP * STRIPS * blockIdx.x;
    const int x_strip = x_block + STRIP * strip, y_first = p.y_begin + p.rows * blockIdx.y;
    const int rows = min(p.rows, p.y_end - y_first), radius = p.window / 2;
    Exchange<CHUNKS>& exchange = exchanges[strip];
    auto* const best_keys = reinterpret_cast<BestKeys<LABEL_TILES>*>(shared) + CHUNKS * strip;
    uint32* const staged = reinterpret_cast<uint32*>(
        reinterpret_cast<BestKeys<LABEL_TILES>*>(shared) + (WITH_FRACTION ? CHUNKS * STRIPS : 0));

    R::template load<Image>(staged, p, x_block - radius, y_first - radius, rows + p.window - 1);
    __syncthreads();

    // This lane's byte of the last label tile in the right row, for its first pixel.
    const int byte = STRIP * strip + 4 * t + LABELS - 1 - first - 8 * (LABEL_TILES - 1) - g;
    const uint32* const left = staged + 8 * strip + t;
    const uint32* const right = staged + R::LEFT_WORDS + (byte >> 2)
        + (COPIES == 4 ? (byte & 3) * R::PITCH : 0);
    const int shift = 8 * (byte & 3);

    Band<TILES> entering(p.window, lane), leaving = entering;
    leaving.negate();
    entering.hold();
    leaving.hold();
    S sums;
    sums.clear(t, p.disparities - first);
    // Lane 4 g + t publishes window 8 t + g. It publishes a row among the products of the next
    // one, which are independent of it.
    const int own = 8 * t + g, x = x_strip + own;
    uint32 published = 0;
    const auto sad_beside = [&](uint32 wanted) {
        constexpr uint32 MINE = 8 * LABEL_TILES;
        if constexpr (CHUNKS == 1) return best_keys[0].sad(t, g, wanted);
        return best_keys[wanted / MINE].sad(t, g, wanted % MINE);
    };
    const auto publish = [&](int row) {
        if (chunk != 0 || x >= p.x_end) return;
        const int found = published & LABEL_MASK, sad = published >> LABEL_BITS;
        const int pixel = (y_first + row) * p.width + x;
        p.label[pixel] = short(found);
        if (OUTPUTS == LABELS_AND_FRACTIONS || (WITH_FRACTION && p.fraction != nullptr)) {
            const bool is_inside = found > 0 && found < p.disparities - 1;
            const int before = sad_beside(is_inside ? found - 1 : 0);
            const int after = sad_beside(is_inside ? found + 1 : 0);
            p.fraction[pixel] = is_inside ? whole_sixteenths(before, sad, after) : 0;
        }
        if (with_costs) {
            int second = exchange.second[0][own];
#pragma unroll
            for (int other = 1; other < CHUNKS; ++other)
                second = min(second, exchange.second[other][own]);
            p.best[pixel] = sad;
            p.second[pixel] = second >= BEYOND ? NO_SECOND : second >> KEY_BITS;
        }
    };
    const auto slide = [&](const Band<TILES>& band, int row) {
        const int at = row * R::ROW_WORDS;
        sums.template slide<COPIES>(band, left + at, right + at, shift);
    };
#pragma unroll 2
    for (int row = 0; row < p.window; ++row) slide(entering, row);
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        if (row > 0) {
            slide(leaving, row - 1);
            slide(entering, row + p.window - 1);
            publish(row - 1);
        }
        int least[4];
        sums.least(least);
        uint32 best[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            best[j] = uint32(least[j] >> KEY_BITS) << LABEL_BITS
                | uint32(first + (least[j] & (KEY_SCALE - 1)));
        if constexpr (CHUNKS > 1) {
            exchange.best[chunk][own] = t < 2 ? (t == 0 ? best[0] : best[1])
                                              : (t == 2 ? best[2] : best[3]);
            wait_for_strip<CHUNKS>(strip);
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int other = 0; other < CHUNKS; ++other)
                    best[j] = min(best[j], exchange.best[other][8 * j + g]);
        } else {
            __syncwarp();  // the row before has been read
        }

        int label[4];  // counted from the first of this warp
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            label[j] = int(best[j] & LABEL_MASK) - first;
            // Labels before and after the best lie in another lane.
            if constexpr (WITH_FRACTION) {
                // Both of the labels beside the best have the other e.
                int chosen[S::KEYS];
                sums.choose(j, !(label[j] & 1), chosen);
#pragma unroll
                for (int i = 0; i < S::KEYS / 4; ++i)
                    best_keys[chunk].keys[j][i][lane] = make_int4(
                        chosen[4 * i], chosen[4 * i + 1], chosen[4 * i + 2], chosen[4 * i + 3]);
            }
        }
        if (with_costs) {
            int second[4];
            sums.second(label, t, second);
            exchange.second[chunk][own] = t < 2 ? (t == 0 ? second[0] : second[1])
                                                : (t == 2 ? second[2] : second[3]);
        }
        wait_for_strip<CHUNKS>(strip);
        published = t < 2 ? (t == 0 ? best[0] : best[1]) : (t == 2 ? best[2] : best[3]);

        if (with_right) {
            int offers[S::OFFERS];
            sums.offer(p.x_end - x_strip, g, t, offers);
            uint32* const line = p.right_keys + (y_first + row) * p.width + x_strip + g
                - p.min_disparity - first;
#pragma unroll
            for (int i = 0; i < S::OFFERS; ++i)
                if (offers[i] < BEYOND)
                    atomicMin(line + 8 * (t * S::OFFERS + i - LABEL_TILES),
                              uint32(offers[i] >> KEY_BITS) << LABEL_BITS
                                  | uint32(first + (offers[i] & (KEY_SCALE - 1))));
        }
    }
    publish(rows - 1);
}
