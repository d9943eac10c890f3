// Search of a band: one iteration of belief propagation.
#include "band/messages.cuh"

struct BandUpdate {
    BandMessages messages;
    int colour;  // (x + y) mod 2 of the pixels that send
};

// From the sum of costs and of what arrives. A label 4 away costs the truncation.
DEVICE uint32 sent(const BandMessages& p, uint32 sum, uint32 truncation) {
    const uint32 own = __vsubus4(least_byte(sum) + truncation, sum);
    const Beside beside(own);
    uint32 cost = splat_bytes(p.first_step);
    uint32 word = __vmaxu4(own, moved<1>(own, beside, cost));
    cost = splat_bytes(p.first_step + p.slope);
    word = __vmaxu4(word, moved<2>(own, beside, cost));
    cost = splat_bytes(min(p.first_step + 2 * p.slope, 255));
    return __vmaxu4(word, moved<3>(own, beside, cost));
}

// IS_FIRST: nobody has sent anything. Eight threads = a pixel.
template <bool IS_FIRST>
__global__ void __launch_bounds__(BAND_THREADS)
    update_band(const __grid_constant__ BandUpdate update) {
    const BandMessages& p = update.messages;
    const int y = 1 + blockIdx.y, column = (blockIdx.x * BAND_THREADS + threadIdx.x) / BAND_WORDS;
    const int given = 2 * column + 1 + (y + 1 + update.colour & 1);
    // Threads beyond the row take each other's values, too.
    const bool exists = given < p.windows.width - 1;
    const int x = exists ? given : 1;
    const Truncations truncations(p, x, y);
    const uint32 cost = cost_at(p, x, y);
    uint32 across = cost, along = cost, from[4] = {};
    if constexpr (!IS_FIRST) {
        const Centres own = centres_at(p.windows, x, y);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction)
            from[direction] = arriving(p, truncations, own, x, y, direction);
        across = __vaddus4(cost, from[LEFT] + from[RIGHT]);
        along = __vaddus4(cost, from[UP] + from[DOWN]);
    }
#pragma unroll
    for (int direction = 0; direction < 4; ++direction) {
        const uint32 sum
            = __vaddus4(direction & 2 ? along : across, from[direction ^ 1]);
        const uint32 word = sent(p, sum, truncations.of(direction));
        if (exists) *message_at(p, x, y, direction) = word;
    }
}
