// How one vector over the disparities is spread over words, chunks and lanes.
#pragma once
#include "hierarchical/formats.cuh"

template <typename Message, int DISPARITIES>
struct Shape {
    static constexpr int PADDED = (DISPARITIES + 7) / 8 * 8;
    static constexpr int CHUNKS = PADDED / 8;  // of 4 words, 8 labels
    static constexpr int UNITS = Message::HAS_SIX_BITS ? CHUNKS * 3 / 8
                                                       : CHUNKS * Message::UNITS_PER_CHUNK;
    static_assert(!Message::HAS_SIX_BITS || CHUNKS % 8 == 0, "whole units of 16 bytes");
    static constexpr int PADS = PADDED - DISPARITIES;  // labels beyond the range, in high values
    // Lanes of a warp that share a vector, so that it stays in registers. A lane has one of the
    // sides or both, and of these one part.
    static constexpr int SIDES = Message::SIDES;
    static constexpr int CHUNK_LIMIT = 16 / Message::WORD_REGISTERS;
    static constexpr int PARTS = power_of_two_from((CHUNKS + CHUNK_LIMIT - 1) / CHUNK_LIMIT);
    static constexpr int LANES = SIDES * PARTS;
    static constexpr int LANE_CHUNKS = (CHUNKS + PARTS - 1) / PARTS;
    static constexpr int WORDS = 4 * LANE_CHUNKS;  // of one lane
    // The first parts begin with so many chunks that hold no label.
    static constexpr int FILLERS = PARTS * LANE_CHUNKS - CHUNKS;
};

// Adds so many words to others.
template <typename Format, int COUNT>
DEVICE void add_words(typename Format::Word (&sums)[COUNT],
                      const typename Format::Word (&words)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = Format::add(sums[i], words[i]);
}

// A parameter in both values of a word.
template <typename Message>
DEVICE typename Message::Word splat(int integer, float real) {
    // By way of float, which holds the integer exactly. From an integer the compiler would derive
    // further constants for every word anew.
    return Message::splat(Message::IS_WHOLE ? integer : real);
}
