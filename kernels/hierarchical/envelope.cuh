// The lower envelope: from the sum h of all that a node knows to the message that it sends.
#pragma once
#include "hierarchical/vector.cuh"

// The message of the truncated linear smoothness cost (Felzenszwalb and Huttenlocher, Efficient
// belief propagation for early vision, section 3.1, doi:10.1007/s11263-006-7899-4), in place:
//
//     m(d) = min(min over e of (h(e) + slope |d - e|), min h + truncation) - min h
//
// The minimum is subtracted and the truncation applied before the two scans. That is the same, as
// the envelope of min(h, bound) is the envelope of h cut at the bound.
//
// With a first step of its own, at most the slope, a step over k labels costs
// first_step + slope (k - 1):
//
//     m(d) = min(h(d), min(forward(d - 1), backward(d + 1)) + first_step, min h + truncation)
//          - min h,  forward(d) = min over e <= d of (h(e) + slope (d - e)), backward alike.
template <typename Message, int DISPARITIES>
struct Envelope {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;

    // ``distance``: threads of the warp from one lane of a vector to the next. Returns the value
    // of the lower label in the middle, to lanes of one side that have the last part.
    static DEVICE Word compute(Word (&h)[S::WORDS], int lane, int distance,
                               Smoothness<Word> smooth) {
        normalise(h, lane, distance, smooth.bound);
        if constexpr (HAS_FIRST_STEP<Message>) {
            scan_with_first_step(h, lane, distance, smooth);
            return h[S::WORDS - 1];
        } else {
            return scan(h, lane, distance, smooth);
        }
    }

private:
    // h = min(h - min h, truncation); labels beyond the range are at the truncation.
    static DEVICE void normalise(Word (&h)[S::WORDS], int lane, int distance, Word truncation) {
        Word smallest = Message::masked();
        const auto kept = [&](int r) {
            return V::is_pad(lane, r) ? V::without_pad(h[r], lane) : h[r];
        };
        if constexpr (S::SIDES == 2) {
#pragma unroll
            for (int r = 0; r < S::WORDS; r += 2)
                if (!V::is_filler(lane, r))
                    smallest = Message::least(smallest, kept(r), kept(r + 1));
        } else {
#pragma unroll
            for (int r = 0; r < S::WORDS; ++r)
                if (!V::is_filler(lane, r)) smallest = Message::least(smallest, kept(r));
            smallest = Message::least(smallest, Message::swap(smallest));
        }
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2)
            smallest = Message::least(smallest, Message::shuffle_xor(smallest, i * distance));
        const Word offset = Message::offset(smallest);
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r) {
            h[r] = Message::normalise(h[r], offset, truncation);
            if (V::is_pad(lane, r)) h[r] = V::with_pad(h[r], truncation, lane);
            if (V::is_filler(lane, r)) h[r] = truncation;
        }
    }

    // The forward scan, towards the middle of the range, and the backward scan, away from it. A
    // scan that runs twice changes nothing, so parts of a vector wait for each other by repeating
    // theirs until the value of the farthest part has arrived.
    static DEVICE Word scan(Word (&h)[S::WORDS], int lane, int distance, Smoothness<Word> smooth) {
        const Word slope = smooth.slope, truncation = smooth.bound;
        const int self = threadIdx.x % 32, part = V::part_of(lane);
        Word carry = truncation;
#pragma unroll 1
        for (int turn = 0; turn < S::PARTS; ++turn) {
            h[0] = Message::least_step(carry, slope, h[0]);
#pragma unroll
            for (int r = 1; r < S::WORDS; ++r) h[r] = Message::least_step(h[r - 1], slope, h[r]);
            if (S::PARTS > 1) {
                carry = Message::shuffle(h[S::WORDS - 1], self - distance & 31);
                if (part == 0) carry = truncation;
            }
        }
        // In the middle each side gets the value of its neighbour in the other side.
        carry = truncation;
        Word lower = h[S::WORDS - 1];
        if constexpr (S::SIDES == 2) {
            const Word other = Message::shuffle_xor(lower, S::PARTS * distance);
            if (part == S::PARTS - 1) carry = other;
            if (V::side(lane)) lower = Message::least_step(lower, slope, other);
        } else {
            if (S::PARTS == 1 || part == S::PARTS - 1) carry = Message::swap(lower);
        }
        const Word middle = carry;
#pragma unroll 1
        for (int turn = 0; turn < S::PARTS; ++turn) {
            h[S::WORDS - 1] = Message::least_step(carry, slope, h[S::WORDS - 1]);
#pragma unroll
            for (int r = S::WORDS - 2; r >= 0; --r)
                h[r] = Message::least_step(h[r + 1], slope, h[r]);
            if (S::PARTS > 1) {
                carry = Message::shuffle(h[0], self + distance & 31);
                if (part == S::PARTS - 1) carry = middle;
            }
        }
        return V::side(lane) ? lower : h[S::WORDS - 1];
    }

    // The same with a first step of its own. The value that a scan goes on with is not the one
    // that it leaves, so it must not run twice over what it has left: parts of a vector wait by
    // repeating it without writing. What the second scan starts from has gone the other way
    // before; there and back costs more than the direct way, and changes nothing.
    static DEVICE void scan_with_first_step(Word (&h)[S::WORDS], int lane, int distance,
                                            Smoothness<Word> smooth) {
        static_assert(S::SIDES == 1, "both sides in one lane");
        const Word slope = smooth.slope, truncation = smooth.bound;
        const int self = threadIdx.x % 32, part = V::part_of(lane);
        Word carry = truncation;
#pragma unroll 1
        for (int turn = 1; turn < S::PARTS; ++turn) {
#pragma unroll
            for (int r = 0; r < S::WORDS; ++r) carry = Message::least_step(carry, slope, h[r]);
            carry = Message::shuffle(carry, self - distance & 31);
            if (part == 0) carry = truncation;
        }
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r) step(h[r], carry, smooth);
        carry = S::PARTS == 1 || part == S::PARTS - 1 ? Message::swap(carry) : truncation;
        const Word middle = carry;
#pragma unroll 1
        for (int turn = 1; turn < S::PARTS; ++turn) {
#pragma unroll
            for (int r = S::WORDS - 1; r >= 0; --r)
                carry = Message::least_step(carry, slope, h[r]);
            carry = Message::shuffle(carry, self + distance & 31);
            if (part == S::PARTS - 1) carry = middle;
        }
#pragma unroll
        for (int r = S::WORDS - 1; r >= 0; --r) step(h[r], carry, smooth);
    }

    // One word of a scan; ``carry``: the value that it goes on with.
    static DEVICE void step(Word& word, Word& carry, Smoothness<Word> smooth) {
        const Word before = carry;
        carry = Message::least_step(before, smooth.slope, word);
        word = Message::least_step(before, smooth.first_step, word);
    }
};
