// Search of a band: belief propagation, labels, and what refinement needs beside them; fractions.
#include "band/windows.cuh"
#include "frame/right_labels.cuh"
#include "frame/subpixel.cuh"
#include "hierarchical/vector.cuh"

// Pixels of a block, and how far away others are that theirs depend on.
constexpr int BAND_WIDTH = 16, BAND_HEIGHT = 16, REACH = 2;
constexpr int REGION_WIDTH = BAND_WIDTH + 2 * REACH, REGION_HEIGHT = BAND_HEIGHT + 2 * REACH;
constexpr int REGION = REGION_WIDTH * REGION_HEIGHT, HALF_TILE = BAND_WIDTH * BAND_HEIGHT / 2;
constexpr int MATCH_THREADS = 2 * HALF_TILE, MAX_LABELS = 512;
constexpr int FRACTION_THREADS = 128;

struct BandMatching {
    Windows windows;
    const uint8* paths;  // four times [height][width], windows of a pixel: costs along the paths
    const uint8* edges;  // H x W: bit d = the message in direction d crosses an edge; null = none
    int first_step, slope, truncation, edge_truncation;
    short* label;   // of the image, from the first pixel of the partition on
    int* best;      // the same, or null
    int* second;    // the same, or null
    uint64* right;  // belief and label of the pixels of its rows of the other image, or null
    int first_partner;  // of the other image, that the partition's first pixel meets with label 0
    int labels;         // that are searched
    int kept_left, kept_top, kept_right, kept_bottom;  // of the partition
};

// The pixels of a block are those of a chessboard. Of both iterations, the odd ones send in the
// first one, from their costs alone: one message for all neighbours. The even ones send in the
// second one. A message has no truncation yet.
template <int RADIUS>
struct BandTile {
    using Values = Window<RADIUS>;
    // Words of a message, and labels that it has on each side of the window.
    static constexpr int BESIDE = 3, WORDS = (Values::LABELS + 2 * BESIDE + 3) / 4;
    Centres centres[REGION];
    union {
        struct {
            uint32 costs[REGION][Values::PIXEL_WORDS];  // with the paths added up
            uint32 odd[REGION / 2][2 * WORDS];
            uint32 even[REGION / 2][4][2 * WORDS];  // by direction
        };
        uint32 offers[BAND_HEIGHT][BAND_WIDTH + MAX_LABELS];  // keys of pixels of the other image
    };
};

// A pixel of a block: column and row of the tile, which are below 0 in the part that belongs to
// others.
struct Cell {
    int x, y;
    DEVICE int place() const { return (y + REACH) * REGION_WIDTH + x + REACH; }
};

// The even pixels next to the tile: some above, some below, those on the left and on the right.
constexpr int EVEN_AROUND = BAND_WIDTH + BAND_HEIGHT;
static_assert(REGION % 16 == 0 && EVEN_AROUND % 16 == 0, "all threads of a warp do the same");
DEVICE Cell even_around(int i, int parity) {
    const int half = BAND_WIDTH / 2;
    if (i < half) return {2 * i + (1 + parity & 1), -1};
    if (i < 2 * half) return {2 * (i - half) + (BAND_HEIGHT + parity & 1), BAND_HEIGHT};
    const int row = i - BAND_WIDTH;
    return {(row + parity & 1) ? -1 : BAND_WIDTH, row};
}

// (S - min S + 2) / 4 of the sums of four paths, as bytes.
template <int RADIUS>
DEVICE void add_paths(const BandMatching& p, int x, int y, uint32* to) {
    using Values = Window<RADIUS>;
    const Windows& w = p.windows;
    const uint32* from = reinterpret_cast<const uint32*>(p.paths)
        + w.place(x, y) * Values::PIXEL_WORDS + own_window() * Values::WORDS;
    Values sums = Values::splat(0);
#pragma unroll
    for (int side = 0; side < 4; ++side) {
        sums.add(Values::from(from));
        from += w.place(0, w.height) * Values::PIXEL_WORDS;
    }
    const uint32 least = sums.least();
#pragma unroll
    for (int i = 0; i < Values::PAIRS; ++i)
        sums.pairs[i] = sums.pairs[i] - least + 0x00020002u >> 2 & 0x00ff00ffu;
    sums.leave_out();
    sums.to(to);
}

// Writes the message of a sum of costs and of what arrives: of the labels of the window and of
// three on each side. A label 4 away costs the truncation.
template <int RADIUS>
DEVICE void send(const BandMatching& p, Window<RADIUS> sum, uint32* to, bool writes = true) {
    constexpr int WORDS = BandTile<RADIUS>::WORDS;
    sum.leave_out();
    const uint32 least = sum.least(), truncation = Int16::splat(p.truncation);
#pragma unroll
    for (int i = 0; i < sum.PAIRS; ++i)
        sum.pairs[i] = Int16::least_small(sum.pairs[i] - least, truncation);
    sum.leave_out();
    const uint32 one = Int16::splat(p.first_step), two = one + Int16::splat(p.slope),
                 three = two + Int16::splat(p.slope);
    uint32 words[2 * WORDS];
#pragma unroll
    for (int i = 0; i < 2 * WORDS; ++i) {
        uint32 word = sum.odd_pair(i - 1);
        word = Int16::least_step(Int16::least_small(sum.pair(i - 2), sum.pair(i - 1)), one, word);
        word = Int16::least_step(Int16::least_small(sum.odd_pair(i - 2), sum.odd_pair(i)), two,
                                 word);
        words[i] = Int16::least_step(Int16::least_small(sum.pair(i - 3), sum.pair(i)), three,
                                     word);
    }
    if (!writes) return;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) to[i] = __byte_perm(words[2 * i], words[2 * i + 1], 0x6420);
}

// The values of a message from a label of its window on that may be outside, where it is 255.
template <int RADIUS>
DEVICE Window<RADIUS> received(const uint32* message, int label) {
    using Values = Window<RADIUS>;
    constexpr int WORDS = BandTile<RADIUS>::WORDS;
    const int first = min(max(label + BandTile<RADIUS>::BESIDE, -4 * Values::WORDS), 4 * WORDS);
    uint32 words[Values::WORDS + 1], bytes[Values::WORDS];
#pragma unroll
    for (int i = 0; i <= Values::WORDS; ++i) {
        const unsigned at = (first >> 2) + i;
        words[i] = at < WORDS ? message[at] : ~0u;
    }
#pragma unroll
    for (int i = 0; i < Values::WORDS; ++i)
        bytes[i] = __funnelshift_r(words[i], words[i + 1], 8 * (first & 3));
    return Values::of(bytes);
}

// What arrives at a pixel from the neighbour in a direction. One that is on the border sends
// nothing.
template <bool FROM_ODD, int RADIUS>
DEVICE Window<RADIUS> arriving(const BandMatching& p, const BandTile<RADIUS>& tile, Cell cell,
                               int x, int y, int edges, int direction) {
    const Windows& w = p.windows;
    const int column = x + column_step(direction), row = y + row_step(direction);
    if (column == 0 || row == 0 || column == w.width - 1 || row == w.height - 1)
        return Window<RADIUS>::splat(0);
    const int place = cell.place() + row_step(direction) * REGION_WIDTH + column_step(direction);
    const uint32* const words
        = FROM_ODD ? tile.odd[place / 2] : tile.even[place / 2][direction ^ 1];
    const int window = own_window(), centre = tile.centres[cell.place()].of(window);
    const Centres others = tile.centres[place];
    Window<RADIUS> message
        = received<RADIUS>(words + window * tile.WORDS, centre - others.of(window));
    message.cut(received<RADIUS>(words + (1 - window) * tile.WORDS,
                                 centre - others.of(1 - window)));
    message.cut(Int16::splat(edges >> direction & 1 ? p.edge_truncation : p.truncation));
    return message;
}

// The belief of a pixel; SENDS: it is an even one, and sends.
template <bool SENDS, int RADIUS>
DEVICE Window<RADIUS> belief(const BandMatching& p, BandTile<RADIUS>& tile, Cell cell, int x,
                             int y) {
    using Values = Window<RADIUS>;
    const int edges = p.edges == nullptr ? 0 : __ldg(p.edges + size_t(y) * p.windows.width + x);
    const int place = cell.place();
    Values sum = Values::from(tile.costs[place] + own_window() * Values::WORDS), from[4];
#pragma unroll
    for (int direction = 0; direction < 4; ++direction) {
        from[direction] = arriving<SENDS>(p, tile, cell, x, y, edges, direction);
        sum.add(from[direction]);
    }
    if constexpr (SENDS) {
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            Values rest;
#pragma unroll
            for (int i = 0; i < Values::PAIRS; ++i)
                rest.pairs[i] = sum.pairs[i] - from[direction].pairs[i];
            send(p, rest, tile.even[place / 2][direction] + own_window() * tile.WORDS);
        }
    }
    return sum;
}

// Writes the label of a pixel; ``offers``: null, or the one for its partner with label 0.
template <int RADIUS>
DEVICE void choose(const BandMatching& p, const BandTile<RADIUS>& tile, Cell cell, int x, int y,
                   const Window<RADIUS>& beliefs, bool exists, uint32* offers) {
    constexpr int LABELS = Window<RADIUS>::LABELS;
    const Windows& w = p.windows;
    const int first = tile.centres[cell.place()].of(own_window()) - RADIUS;
    uint32 keys[LABELS], least = ~0u;
#pragma unroll
    for (int r = 0; r < LABELS; ++r) {
        keys[r] = beliefs.label(r) << 16 | uint32(first + r);
        least = min(least, keys[r]);
    }
    least = min(least, __shfl_xor_sync(~0u, least, 1));
    const int label = least & 0xffffu;
    const size_t at = size_t(y) * w.image_width + x;
    const bool writes = exists && own_window() == 0;
    if (writes) p.label[at] = short(label);
    if (p.second != nullptr) {
        uint32 second = ~0u;
#pragma unroll
        for (int r = 0; r < LABELS; ++r)
            if (abs(first + r - label) > 1) second = min(second, keys[r]);
        second = min(second, __shfl_xor_sync(~0u, second, 1));
        if (writes) {
            p.best[at] = int(least >> 16);
            p.second[at] = second == ~0u ? NO_SECOND : int(second >> 16);
        }
    }
    if (offers == nullptr || !exists) return;
#pragma unroll
    for (int r = 0; r < LABELS; ++r) atomicMin(offers - first - r, keys[r]);
}

// Two iterations. Two threads = two pixels of the tile, first an even, then an odd one.
template <int RADIUS>
__global__ void __launch_bounds__(MATCH_THREADS)
    match_band(const __grid_constant__ BandMatching p) {
    using Values = Window<RADIUS>;
    __shared__ BandTile<RADIUS> tile;
    const Windows& w = p.windows;
    const int first_x = max(1, p.kept_left) + blockIdx.x * BAND_WIDTH;
    const int first_y = max(1, p.kept_top) + blockIdx.y * BAND_HEIGHT;
    const int end_x = min(w.width - 1, p.kept_right), end_y = min(w.height - 1, p.kept_bottom);
    const int window = own_window(), thread = threadIdx.x / 2;
    for (int place = thread; place < REGION; place += MATCH_THREADS / 2) {
        // Beyond the partition there is what nobody reads.
        const int x = min(max(first_x + place % REGION_WIDTH - REACH, 0), w.width - 1);
        const int y = min(max(first_y + place / REGION_WIDTH - REACH, 0), w.height - 1);
        add_paths<RADIUS>(p, x, y, tile.costs[place] + window * Values::WORDS);
        if (window == 0) tile.centres[place] = centres_at(w, x, y);
    }
    __syncthreads();

    // 0: the first pixel of the tile is an even one.
    const int parity = first_x + first_y & 1;
    for (int first = 0; first < REGION / 2; first += MATCH_THREADS / 2) {
        // All threads of a warp take each other's values.
        const int given = first + thread, i = min(given, REGION / 2 - 1);
        const int place = 2 * i + (i / (REGION_WIDTH / 2) + 1 + parity & 1);
        send(p, Values::from(tile.costs[place] + window * Values::WORDS),
             tile.odd[i] + window * tile.WORDS, given == i);
    }
    __syncthreads();

    const auto column = [&](Cell cell) { return min(first_x + cell.x, w.width - 1); };
    const auto line = [&](Cell cell) { return min(first_y + cell.y, w.height - 1); };
    const int row = thread / (BAND_WIDTH / 2), pair = 2 * (thread % (BAND_WIDTH / 2));
    const Cell even = {pair + (row + parity & 1), row}, odd = {pair + (row + parity + 1 & 1), row};
    const Values of_even = belief<true>(p, tile, even, column(even), line(even));
    if (threadIdx.x < 2 * EVEN_AROUND) {
        const Cell around = even_around(thread, parity);
        belief<true>(p, tile, around, column(around), line(around));
    }
    __syncthreads();
    const Values of_odd = belief<false>(p, tile, odd, column(odd), line(odd));

    const bool needs_right = p.right != nullptr;
    if (needs_right) {
        __syncthreads();
        for (int i = threadIdx.x; i < BAND_HEIGHT * (BAND_WIDTH + p.labels); i += MATCH_THREADS)
            tile.offers[i / (BAND_WIDTH + p.labels)][i % (BAND_WIDTH + p.labels)] = ~0u;
        __syncthreads();
    }
    const auto take = [&](Cell cell, const Values& beliefs) {
        const bool exists = first_x + cell.x < end_x && first_y + cell.y < end_y;
        // The partner of the pixel with label 0, labels - 1 places after that with the last label.
        uint32* const offers = needs_right ? tile.offers[row] + cell.x + p.labels - 1 : nullptr;
        choose(p, tile, cell, column(cell), line(cell), beliefs, exists, offers);
    };
    take(even, of_even);
    take(odd, of_odd);
    if (!needs_right) return;
    __syncthreads();
    for (int i = threadIdx.x; i < BAND_HEIGHT * (BAND_WIDTH + p.labels); i += MATCH_THREADS) {
        const int y = i / (BAND_WIDTH + p.labels), place = i % (BAND_WIDTH + p.labels);
        const int other = p.first_partner + first_x + place - (p.labels - 1);
        const uint32 key = tile.offers[y][place];
        if (key != ~0u && unsigned(other) < unsigned(w.image_width))
            atomicMin(p.right + size_t(first_y + y) * w.image_width + other,
                      uint64(key >> 16) << 32 | (key & 0xffffu));
    }
}

struct BandFractions {
    Windows windows;
    const uint8* cost;      // [height][width], windows of a pixel, before path aggregation
    const short* label;     // of the image, from the first pixel of the partition on
    signed char* fraction;  // the same
    int kept_left, kept_top, kept_width, kept_height;  // of the partition
};

// The byte of a label in the window that has those beside it, or -1.
template <int RADIUS>
DEVICE int byte_of(Centres centres, int label) {
    const int first = label - centres.of(0) + RADIUS, second = label - centres.of(1) + RADIUS;
    const unsigned inside = 2 * RADIUS - 1;
    if (unsigned(first - 1) < inside) return first;
    return unsigned(second - 1) < inside ? 4 * Window<RADIUS>::WORDS + second : -1;
}

// As costs/fractions.cu, over those of 3 x 3 pixels that have all three labels. Thread = a pixel.
template <int RADIUS>
__global__ void __launch_bounds__(FRACTION_THREADS)
    take_band_fractions(const __grid_constant__ BandFractions p) {
    const Windows& w = p.windows;
    const int column = blockIdx.x * FRACTION_THREADS + threadIdx.x;
    if (column >= p.kept_width) return;
    const int x = p.kept_left + column, y = p.kept_top + blockIdx.y;
    const size_t at = size_t(y) * w.image_width + x;
    const int label = p.label[at];
    int fraction = 0;
    if (label >= 0 && byte_of<RADIUS>(centres_at(w, x, y), label) >= 0) {
        int before = 0, least = 0, after = 0;
#pragma unroll
        for (int i = 0; i < 9; ++i) {
            const int other_x = min(max(x + i % 3 - 1, 0), w.width - 1);
            const int other_y = min(max(y + i / 3 - 1, 0), w.height - 1);
            const int byte = byte_of<RADIUS>(centres_at(w, other_x, other_y), label);
            if (byte < 0) continue;
            const uint8* const costs
                = p.cost + w.place(other_x, other_y) * 4 * Window<RADIUS>::PIXEL_WORDS + byte;
            before += __ldg(costs - 1);
            least += __ldg(costs);
            after += __ldg(costs + 1);
        }
        if (least <= before && least <= after)
            fraction = whole_sixteenths(before, least, after);
    }
    p.fraction[at] = fraction;
}
