// Stage sad: labels by block matching, with box sums on the tensor cores.
//
// Along x, the sum over a window is a product with a band of ones: 16 windows of one label are a
// 16 x K matrix times the K absolute differences that they cover. Matrix units compute it in
// 8-bit integers with 32-bit sums, so that no window overflows and a step costs the same for all
// windows up to 17. Down the rows the sums slide: one product adds the row that enters, one with
// the negative band takes away the row that leaves.
//
// The band holds KEY_SCALE in place of ones and the sums start from the label: each is a key,
// the SAD above the label, and the least key is the least SAD with the lowest label.
#include "sad.cuh"

constexpr int KEY_BITS = 6, KEY_SCALE = 1 << KEY_BITS;  // labels of one warp, at most 64
constexpr int BEYOND = 1 << 30;     // key of a label beyond the range; SADs are below 2^20
constexpr int STRIP = 32;           // windows in x of one warp: two tiles of 16
constexpr int STRIP_TILES = STRIP / 16;

// Four neighbouring pixels of an image of ``count`` from pixel ``at`` on, the first in the lowest
// byte. What lies outside the image is anything that may be read: no window with a label asks for
// it. Without branches, so that many of these loads are under way at once.
__device__ __forceinline__ uint32 four_pixels(const uint8* image, int at, int count, int) {
    const uint32* const words = reinterpret_cast<const uint32*>(image);
    const int last = (count - 1) >> 2, word = at >> 2;
    return __funnelshift_r(words[min(max(word, 0), last)], words[min(max(word + 1, 0), last)],
                           8 * (at & 3));
}

__device__ __forceinline__ uint32 four_pixels(const float* image, int at, int count, int offset) {
    uint32 word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        word |= rounded(image[min(max(at + i, 0), count - 1)], offset) << 8 * i;
    return word;
}

// Bands of the matrix product: for 16 windows and TILES times 16 pixels from the first one's
// first pixel on, KEY_SCALE where the pixel is in the window. Lane 4 g + t holds four pixels from
// 4 t on of the windows g and g + 8.
template <int TILES> struct Band {
    uint32 words[TILES][2];

    __device__ __forceinline__ Band(int window, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                words[tile][half] = 0;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int from_first = 16 * tile + 4 * (lane & 3) + i - (lane >> 2) - 8 * half;
                    if (from_first >= 0 && from_first < window)
                        words[tile][half] |= KEY_SCALE << 8 * i;
                }
            }
    }

    // The band that takes away: each byte times -1, 64 -> -64.
    __device__ __forceinline__ void negate() {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half) words[tile][half] *= 3;
    }

    // Hide from the compiler where the words come from: it would compute them in every row.
    __device__ __forceinline__ void hold() {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half) asm volatile("" : "+r"(words[tile][half]));
    }
};

// sums += band x differences, for one tile or two of 16 pixels; 16 windows and 8 labels.
__device__ __forceinline__ void multiply(int (&sums)[4], const uint32 (&band)[2], uint32 difference) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(band[0]), "r"(band[1]), "r"(difference));
#else
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+r"(sums[2 * half]), "+r"(sums[2 * half + 1])
            : "r"(band[half]), "r"(difference));
#endif
}

__device__ __forceinline__ void multiply(int (&sums)[4], const uint32 (&band)[2],
                                         const uint32 (&band_after)[2], uint32 difference,
                                         uint32 difference_after) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(band[0]), "r"(band[1]), "r"(band_after[0]), "r"(band_after[1]), "r"(difference),
          "r"(difference_after));
#else
    multiply(sums, band, difference);
    multiply(sums, band_after, difference_after);
#endif
}

// The rows of both images that one block needs, in shared memory. Byte 0 of a row of the left one
// is the first pixel of the first window; in the right one that pixel is compared with byte
// LABELS - 1 for label 0, with byte 0 for the last label. COPIES = 4 keeps the right row four
// times, copy s from byte s on, so that any four neighbours are one aligned word.
template <int TILES, int LABELS, int STRIPS, int COPIES> struct Rows {
    static constexpr int LEFT_WORDS = 8 * STRIPS + 4 * (TILES - 1);
    static constexpr int RIGHT_WORDS = LEFT_WORDS + LABELS / 4;
    // Copies begin 8 or 24 banks apart: the four that a warp reads at once never meet.
    static constexpr int PITCH = (RIGHT_WORDS + 7) / 16 * 16 + 8;
    static constexpr int ROW_WORDS = LEFT_WORDS + COPIES * PITCH;

    // Fill ``count`` rows from (x, y) on, which may lie outside the image.
    template <typename Image>
    static __device__ void load(uint32* rows, const Windows& p, int x, int y, int count) {
        const int right_x = x - p.min_disparity - (LABELS - 1);
        for (int first = 0; first < LEFT_WORDS; first += 32)
            load_columns<Image, 0, LEFT_WORDS>(rows, p, p.left, x, y, count, first);
        for (int first = 0; first < RIGHT_WORDS; first += 31)
            load_columns<Image, COPIES, RIGHT_WORDS>(rows + LEFT_WORDS, p, p.right, right_x, y,
                                                     count, first);
    }

    // Rows of up to 32 words, one in each lane. For SHIFTED copies the last lane has only the word
    // after the one of the lane before it.
    template <typename Image, int SHIFTED, int WORDS>
    static __device__ __forceinline__ void load_columns(uint32* to, const Windows& p,
                                                        const void* image, int x, int y,
                                                        int count, int first) {
        constexpr int TOGETHER = 8;
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
        const int column = first + lane;
        for (int begin = warp; begin < count; begin += TOGETHER * warps) {
            uint32 words[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i)
                words[i] = four_pixels(static_cast<const Image*>(image),
                                       (y + begin + i * warps) * p.width + x + 4 * column,
                                       p.width * p.height, p.offset);
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const int row = begin + i * warps;
                if (row >= count) break;
                uint32* const place = to + row * ROW_WORDS + column;
                if constexpr (SHIFTED == 0) {
                    if (column < WORDS) *place = words[i];
                } else {
                    const uint32 after = __shfl_down_sync(~0u, words[i], 1);
                    if (lane == 31 || column >= WORDS) continue;
#pragma unroll
                    for (int copy = 0; copy < SHIFTED; ++copy)
                        place[copy * PITCH] =
                            copy ? __funnelshift_r(words[i], after, 8 * copy) : words[i];
                }
            }
        }
    }
};

// Where the lanes of a warp leave keys for the lane that asks for the labels beside the best.
template <int LABEL_TILES> struct Room {
    static constexpr int VECTORS = (LABEL_TILES + 3) / 4;
    int4 keys[4][VECTORS][32];      // window j, label tile q / 4, lane

    // The SAD of a label, counted from the first of the warp, of window 8 j + g.
    __device__ __forceinline__ int sad(int j, int g, uint32 label) const {
        const uint32 q = label >> 3, lane = 4 * g + (label >> 1 & 3);
        return reinterpret_cast<const int*>(&keys[j][0][0])[128 * (q >> 2) + 4 * lane + (q & 3)]
            >> KEY_BITS;
    }
};

// Sums of 32 windows for 8 LABEL_TILES labels in one warp. Lane 4 g + t holds the windows
// 8 j + g, j = 0 to 3, and of them the labels 8 q + 2 t + e, e = 0 and 1.
template <int TILES, int LABEL_TILES> struct Sums {
    static constexpr int ROOM = 4 * Room<LABEL_TILES>::VECTORS;
    int keys[STRIP_TILES][LABEL_TILES][4];

    __device__ __forceinline__ int& key(int j, int q, int e) {
        return keys[j >> 1][q][(j & 1) * 2 + e];
    }

    // Labels from ``beyond`` on, counted from the first of this warp, never win.
    __device__ __forceinline__ void clear(int t, int beyond) {
#pragma unroll
        for (int q = 0; q < LABEL_TILES; ++q)
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int label = 8 * q + 2 * t + e;
                    key(j, q, e) = label < beyond ? label : label + BEYOND;
                }
    }

    // Add the products of one row with a band. ``left`` and ``right`` point at this lane's first
    // word; with one copy the words of the right row are ``shift`` bits further on.
    template <int COPIES>
    __device__ __forceinline__ void slide(const Band<TILES>& band, const uint32* left,
                                          const uint32* right, int shift) {
        constexpr int PIXEL_TILES = STRIP_TILES + TILES - 1;
        // A tile of pixels and 16 labels further is the same place in the right row.
        constexpr int PLACES = LABEL_TILES + 2 * (PIXEL_TILES - 1);
        uint32 own[PIXEL_TILES], other[PLACES];
#pragma unroll
        for (int i = 0; i < PIXEL_TILES; ++i) own[i] = left[4 * i];
#pragma unroll
        for (int i = 0; i < PLACES; ++i)
            other[i] = COPIES == 4 ? right[2 * i]
                                   : __funnelshift_r(right[2 * i], right[2 * i + 1], shift);
#pragma unroll
        for (int q = 0; q < LABEL_TILES; ++q) {
            uint32 difference[PIXEL_TILES];
#pragma unroll
            for (int i = 0; i < PIXEL_TILES; ++i)
                difference[i] = __vabsdiffu4(own[i], other[LABEL_TILES - 1 - q + 2 * i]);
#pragma unroll
            for (int tile = 0; tile < STRIP_TILES; ++tile) {
#pragma unroll
                for (int i = 0; i + 1 < TILES; i += 2)
                    multiply(keys[tile][q], band.words[i], band.words[i + 1],
                             difference[tile + i], difference[tile + i + 1]);
                if (TILES % 2)
                    multiply(keys[tile][q], band.words[TILES - 1], difference[tile + TILES - 1]);
            }
        }
    }

    // The least key of each window, known to all lanes that hold it.
    __device__ __forceinline__ void least(int (&found)[4]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            found[j] = min(key(j, 0, 0), key(j, 0, 1));
#pragma unroll
            for (int q = 1; q < LABEL_TILES; ++q)
                found[j] = __vimin3_s32(found[j], key(j, q, 0), key(j, q, 1));
        }
        share_least(found);
    }

    // The least key of each window among the labels further than 1 from ``label``, as above.
    __device__ __forceinline__ void second(const int (&label)[4], int t, int (&found)[4]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint32 nearest = label[j] - 1 - 2 * t;
            found[j] = BEYOND;
#pragma unroll
            for (int q = 0; q < LABEL_TILES; ++q)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * q + e - nearest > 2u) found[j] = min(found[j], key(j, q, e));
        }
        share_least(found);
    }

    static __device__ __forceinline__ void share_least(int (&found)[4]) {
#pragma unroll
        for (int step = 1; step < 4; step *= 2)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                found[j] = min(found[j], __shfl_xor_sync(~0u, found[j], step));
    }

    // The keys of window j with this e, one for each label tile.
    __device__ __forceinline__ void choose(int j, bool e, int (&chosen)[ROOM]) {
#pragma unroll
        for (int q = 0; q < ROOM; ++q) {
            const int at = q < LABEL_TILES ? q : 0;
            chosen[q] = e ? key(j, at, 1) : key(j, at, 0);
        }
    }
};

// Waits for the CHUNKS warps of one strip.
template <int CHUNKS> __device__ __forceinline__ void wait_for_strip(int strip) {
    if constexpr (CHUNKS == 1)
        __syncwarp();
    else
        asm volatile("barrier.sync %0, %1;" ::"r"(strip + 1), "n"(32 * CHUNKS) : "memory");
}

// What the warps of one strip tell each other about its windows.
template <int CHUNKS> struct Exchange {
    uint32 best[CHUNKS][STRIP];         // SAD << 9 | label of the best of each chunk
    int second[CHUNKS][STRIP];
};

// What a kernel can fill; the last fills what is not null.
enum Outputs { LABELS_ALONE, LABELS_AND_FRACTIONS, EVERYTHING };

// Block = STRIPS strips of 32 windows and CHUNKS chunks of 8 LABEL_TILES labels, a warp for each,
// sliding down ``rows`` rows of windows. TILES = tiles of 16 pixels that 16 windows cover.
template <typename Image, int TILES, int LABEL_TILES, int CHUNKS, int STRIPS, int COPIES,
          Outputs OUTPUTS>
__global__ void __launch_bounds__(32 * CHUNKS * STRIPS,
                                  (TILES < 4 && OUTPUTS != EVERYTHING ? 512 : 384)
                                      / (32 * CHUNKS * STRIPS))
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
    if (p.rows == 0) return;        // the image is smaller than window or range

    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int strip = (threadIdx.x >> 5) / CHUNKS, chunk = (threadIdx.x >> 5) % CHUNKS;
    const int first = 8 * LABEL_TILES * chunk, x_block = p.x_begin + STRIP * STRIPS * blockIdx.x;
    const int x_strip = x_block + STRIP * strip, y_first = p.y_begin + p.rows * blockIdx.y;
    const int rows = min(p.rows, p.y_end - y_first), half = p.window / 2;
    Exchange<CHUNKS>& exchange = exchanges[strip];
    auto* const rooms = reinterpret_cast<Room<LABEL_TILES>*>(shared) + CHUNKS * strip;
    uint32* const staged = reinterpret_cast<uint32*>(
        reinterpret_cast<Room<LABEL_TILES>*>(shared) + (WITH_FRACTION ? CHUNKS * STRIPS : 0));

    R::template load<Image>(staged, p, x_block - half, y_first - half, rows + p.window - 1);
    __syncthreads();

    // Of the last label tile, this lane's byte in the right row for its first pixel.
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
    // Lane 4 g + t answers for window 8 t + g. What it publishes of a row it does among the
    // products of the next one, which do not wait for it.
    const int own = 8 * t + g, x = x_strip + own;
    uint32 published = 0;
    const auto sad_beside = [&](uint32 wanted) {
        constexpr uint32 MINE = 8 * LABEL_TILES;
        if constexpr (CHUNKS == 1) return rooms[0].sad(t, g, wanted);
        return rooms[wanted / MINE].sad(t, g, wanted % MINE);
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
            p.fraction[pixel] = is_inside ? sixteenths(before, sad, after) : 0;
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
    const auto enter = [&](int row) {
        const int at = row * R::ROW_WORDS;
        sums.template slide<COPIES>(entering, left + at, right + at, shift);
    };
    const auto leave = [&](int row) {
        const int at = row * R::ROW_WORDS;
        sums.template slide<COPIES>(leaving, left + at, right + at, shift);
    };
#pragma unroll 2
    for (int row = 0; row < p.window; ++row) enter(row);
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        if (row > 0) {
            leave(row - 1);
            enter(row + p.window - 1);
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
            __syncwarp();           // the row before has been read
        }

        int label[4];               // counted from the first of this warp
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            label[j] = int(best[j] & LABEL_MASK) - first;
            // Labels before and after the best are never in the same lane.
            if constexpr (WITH_FRACTION) {
                // Both of the labels beside the best have the other e.
                int chosen[S::ROOM];
                sums.choose(j, !(label[j] & 1), chosen);
#pragma unroll
                for (int i = 0; i < S::ROOM / 4; ++i)
                    rooms[chunk].keys[j][i][lane] = make_int4(
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
            // Windows and labels 8 further lie at the same pixel of the other image.
            uint32* const line = p.right_keys + (y_first + row) * p.width + x_strip + g - p.min_disparity
                - first - 2 * t;
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int difference = 1 - LABEL_TILES; difference < 4; ++difference) {
                    int key = BEYOND;
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        const int q = j - difference;
                        if (q >= 0 && q < LABEL_TILES && x_strip + 8 * j + g < p.x_end)
                            key = min(key, sums.key(j, q, e));
                    }
                    if (key < BEYOND)
                        atomicMin(line + 8 * difference - e,
                                  uint32(key >> KEY_BITS) << LABEL_BITS
                                      | uint32(first + (key & (KEY_SCALE - 1))));
                }
        }
    }
    publish(rows - 1);
}

// The label of each pixel of the other image from the keys offered to it, which are made ready
// for the next frame. -1 = none.
__global__ void take_right_labels(uint32* keys, short* labels, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const uint32 key = keys[at];
    labels[at] = key == NO_KEY ? short(-1) : short(key & LABEL_MASK);
    keys[at] = NO_KEY;
}
