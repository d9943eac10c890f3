// Volumes of costs: [y][x][label], uint8, with the labels of a pixel padded and side by side.
#pragma once
#include "hierarchical/formats/int16.cuh"

// How the labels of a pixel are spread over lanes of a warp: 4 WORDS neighbouring ones each.
template <int DISPARITIES>
struct Volume {
    static constexpr int WORDS = DISPARITIES <= 128 ? 1 : DISPARITIES <= 256 ? 2 : 4;
    static constexpr int LANE_LABELS = 4 * WORDS;
    static constexpr int MULTIPLE = LANE_LABELS < 8 ? 8 : LANE_LABELS;
    // Padded labels cost 255: no path takes them.
    static constexpr int PADDED = (DISPARITIES + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    static constexpr int LANES = power_of_two_from(PADDED / LANE_LABELS);
    static_assert(LANES * LANE_LABELS >= PADDED, "a warp has all labels");

    struct alignas(LANE_LABELS) Bytes { uint32 words[WORDS]; };  // of one lane
};

#if __CUDA_ARCH__ >= 800
DEVICE uint32 reduce_least(uint32 value) { return __reduce_min_sync(~0u, value); }
#else
__device__ uint32 reduce_least(uint32 value);  // there is no such instruction
#endif

// The labels of one lane in 16 bits: two words of every four labels, 0 and 2, and 1 and 3.
template <int WORDS>
struct Labels {
    uint32 even[WORDS], odd[WORDS];

    template <typename Bytes>
    DEVICE void add(const Bytes& bytes) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            even[i] += bytes.words[i] & 0x00ff00ffu;
            odd[i] += bytes.words[i] >> 8 & 0x00ff00ffu;
        }
    }
    // Of values up to 255.
    template <typename Bytes>
    DEVICE void store(Bytes& bytes) const {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) bytes.words[i] = even[i] | odd[i] << 8;
    }
    // The least label of all lanes of a pixel, in both values of a word.
    template <int LANES>
    DEVICE uint32 least() const {
        uint32 both = Int16::least(even[0], odd[0]);
#pragma unroll
        for (int i = 1; i < WORDS; ++i) both = Int16::least(both, Int16::least(even[i], odd[i]));
        uint32 least = min(Int16::low(both), Int16::high(both));
#if __CUDA_ARCH__ >= 800
        constexpr bool HAS_REDUCTION = true;
#else
        constexpr bool HAS_REDUCTION = false;
#endif
        if constexpr (HAS_REDUCTION && LANES == 32) {
            least = reduce_least(least);
        } else if constexpr (HAS_REDUCTION && LANES == 16) {
            // Both pixels of the warp: shuffles would wait for each other.
            const bool is_second = threadIdx.x & 16;
            const uint32 first = reduce_least(is_second ? ~0u : least);
            const uint32 second = reduce_least(is_second ? least : ~0u);
            least = is_second ? second : first;
        } else {
#pragma unroll
            for (int i = 1; i < LANES; i *= 2) least = min(least, __shfl_xor_sync(~0u, least, i));
        }
        return Int16::splat(least);
    }
};
