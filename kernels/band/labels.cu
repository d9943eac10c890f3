// Search of a band: labels, what refinement needs beside them, and fractions.
#include "band/messages.cuh"
#include "frame/right_labels.cuh"
#include "frame/subpixel.cuh"

constexpr int BAND_PIXELS = BAND_THREADS / BAND_WORDS, MAX_LABELS = 512;
constexpr int FRACTION_THREADS = 128;

struct BandLabels {
    BandMessages messages;
    short* label;  // of the image, from the first pixel of the partition on
    int* best;     // the same, or null
    int* second;   // the same, or null
    uint64* right; // belief and label of the pixels of its rows of the other image, or null
    int first_partner;  // of the other image, that the partition's first pixel meets with label 0
    int labels;         // that are searched
    int kept_left, kept_top, kept_right, kept_bottom;  // of the partition
};

// Eight threads = a pixel.
__global__ void __launch_bounds__(BAND_THREADS)
    select_band(const __grid_constant__ BandLabels p) {
    __shared__ uint32 offers[BAND_PIXELS + MAX_LABELS];
    const Windows& w = p.messages.windows;
    const int first_x = max(1, p.kept_left) + blockIdx.x * BAND_PIXELS;
    const int y = max(1, p.kept_top) + blockIdx.y;
    const int given = first_x + threadIdx.x / BAND_WORDS;
    const bool exists = given < min(w.width - 1, p.kept_right);
    const int x = exists ? given : 1;
    if (p.right != nullptr) {
        for (int i = threadIdx.x; i < BAND_PIXELS + p.labels; i += BAND_THREADS) offers[i] = ~0u;
        __syncthreads();
    }
    const Centres own = centres_at(w, x, y);
    const Truncations truncations(p.messages, x, y);
    uint32 rest = 0;
#pragma unroll
    for (int direction = 0; direction < 4; ++direction)
        rest += arriving(p.messages, truncations, own, x, y, direction);
    const uint32 cost = cost_at(p.messages, x, y), unsearched = unsearched_bytes(w.radius);
    const int first = first_label(own, w.radius);
    uint32 keys[4], least = ~0u;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint32 belief = (cost >> 8 * k & 0xffu) + (rest >> 8 * k & 0xffu);
        keys[k] = unsearched >> 8 * k & 0xffu ? ~0u : belief << 16 | uint32(first + k);
        least = min(least, keys[k]);
    }
    least = least_of_pixel(least);
    const int label = least & 0xffffu;
    const size_t at = size_t(y) * w.image_width + x;
    const bool writes = exists && band_word() == 0;
    if (writes) p.label[at] = short(label);
    if (p.second != nullptr) {
        uint32 second = ~0u;
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (abs(first + k - label) > 1) second = min(second, keys[k]);
        second = least_of_pixel(second);
        if (writes) {
            p.best[at] = int(least >> 16);
            p.second[at] = second == ~0u ? NO_SECOND : int(second >> 16);
        }
    }
    if (p.right == nullptr) return;
    // The partner of a pixel with label 0, labels - 1 places after that with the last label.
    const int partner = x - first_x + p.labels - 1;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (exists && keys[k] != ~0u) atomicMin(offers + partner - first - k, keys[k]);
    __syncthreads();
    for (int i = threadIdx.x; i < BAND_PIXELS + p.labels - 1; i += BAND_THREADS) {
        const int other = p.first_partner + first_x + i - (p.labels - 1);
        const uint32 key = offers[i];
        if (key != ~0u && unsigned(other) < unsigned(w.image_width))
            atomicMin(p.right + size_t(y) * w.image_width + other,
                      uint64(key >> 16) << 32 | (key & 0xffffu));
    }
}

struct BandFractions {
    Windows windows;
    const uint8* cost;      // [height][width][32], before path sums
    const short* label;     // of the image, from the first pixel of the partition on
    signed char* fraction;  // the same
    int kept_left, kept_top, kept_width, kept_height;  // of the partition
};

// The byte of a label in the window that has those beside it, or -1.
DEVICE int byte_of(Centres centres, int label, int radius) {
    const int first = label - centres.first + radius, second = label - centres.second + radius;
    const unsigned inside = 2 * radius - 1;
    if (unsigned(first - 1) < inside) return BAND_FIRST + first;
    return unsigned(second - 1) < inside ? 16 + BAND_FIRST + second : -1;
}

// As costs/fractions.cu, over those of 3 x 3 pixels that have all three labels. Thread = a pixel.
__global__ void __launch_bounds__(FRACTION_THREADS)
    take_band_fractions(const __grid_constant__ BandFractions p) {
    const Windows& w = p.windows;
    const int column = blockIdx.x * FRACTION_THREADS + threadIdx.x;
    if (column >= p.kept_width) return;
    const int x = p.kept_left + column, y = p.kept_top + blockIdx.y;
    const size_t at = size_t(y) * w.image_width + x;
    const int label = p.label[at];
    int fraction = 0;
    if (label >= 0 && byte_of(centres_at(w, x, y), label, w.radius) >= 0) {
        int before = 0, least = 0, after = 0;
#pragma unroll
        for (int i = 0; i < 9; ++i) {
            const int other_x = min(max(x + i % 3 - 1, 0), w.width - 1);
            const int other_y = min(max(y + i / 3 - 1, 0), w.height - 1);
            const int byte = byte_of(centres_at(w, other_x, other_y), label, w.radius);
            if (byte < 0) continue;
            const uint8* const costs = p.cost + band_place(w, other_x, other_y) * 32 + byte;
            before += __ldg(costs - 1);
            least += __ldg(costs);
            after += __ldg(costs + 1);
        }
        if (least <= before && least <= after)
            fraction = whole_sixteenths(before, least, after);
    }
    p.fraction[at] = fraction;
}
