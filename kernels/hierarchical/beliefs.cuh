// The beliefs of one node, chunk by chunk: its data cost plus the four messages that arrive.
#pragma once
#include "hierarchical/cost_vector.cuh"

// One lane's share, from the last chunk on: differences are added up from the middle of the range
// outwards.
template <typename Message, int DISPARITIES, typename Kind, bool READ_ONLY>
struct NodeBelief {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    using Value = typename Message::Value;
    Cost<Kind, DISPARITIES> cost;
    int lane;
    typename V::From from[4];
    Word bound;
    typename Message::Running next[4];  // last value of each message

    DEVICE void restart() {
        if constexpr (Message::IS_DELTAS) {
#pragma unroll
            for (int direction = 0; direction < 4; ++direction)
                next[direction] = Message::begin(bound);
        }
    }
    DEVICE void message(int direction, int chunk, Word (&part)[4]) {
        const typename V::From place = from[direction];
        if constexpr (Message::HAS_SIX_BITS) {
            uint32 packed[3];
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const int at = chunk / 2 * 3 + i;
                packed[i] = reinterpret_cast<const uint32*>(
                    place.first + unsigned(at / 4 * place.stride))[at % 4];
            }
            Word found[8];
            Message::expand(packed[0], packed[1], packed[2], found);
#pragma unroll
            for (int i = 3; i >= 0; --i)
                part[i] = next[direction] += (chunk % 2 ? found[4 + i] : found[i]) - Message::BIAS;
        } else if constexpr (Message::IS_DELTAS) {
            Message::follow(V::template differences<READ_ONLY>(place, chunk, lane),
                            next[direction], part);
        } else {
            V::template load<READ_ONLY>(V::unit(place, chunk), place.stride, lane, part);
        }
    }
    DEVICE void costs(int chunk, Word (&words)[4]) const {
        if (S::FILLERS != 0 && chunk < 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = Message::zero();
            return;
        }
        if constexpr (S::SIDES == 2) cost.load(chunk, V::side(lane), words);
        else cost.load(chunk, words);
    }
    DEVICE void belief(int chunk, Word (&words)[4]) {
        costs(chunk, words);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            Word part[4];
            message(direction, chunk, part);
            add_words<Message>(words, part);
        }
    }
    // Adds the messages to the costs of a lane's chunk j, in the order of 4 / DIRECTIONS threads
    // that send DIRECTIONS messages each: they take turns with the costs and begin with their own
    // messages.
    template <int DIRECTIONS>
    DEVICE void add_in_turn(int chunk, int j, Word (&sums)[4]) {
        constexpr int SENDERS = 4 / DIRECTIONS;
        if (S::FILLERS != 0 && chunk < 0) return;
        Word parts[SENDERS][4];
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            const int sender = direction / DIRECTIONS;
            Word arrived[4];
            message(direction, chunk, arrived);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Word& part = parts[sender][i];
                if (direction % DIRECTIONS > 0) part = Message::add(part, arrived[i]);
                else if (j % SENDERS == sender) part = Message::add(sums[i], arrived[i]);
                else part = arrived[i];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Word sum = parts[0][i];
            if constexpr (SENDERS > 1) sum = Message::add(sum, parts[1][i]);
            if constexpr (SENDERS == 4)
                sum = Message::add(sum, Message::add(parts[2][i], parts[3][i]));
            sums[i] = sum;
        }
    }
    // Constant offset of the beliefs. Delta-coded messages are known up to a constant; this
    // returns the sum of their minima (0 for formats that store values). All lanes of a vector
    // call it; ``distance``: threads of the warp from one of them to the next.
    DEVICE Value constant_offset(int distance) {
        if constexpr (!Message::IS_DELTAS) {
            return 0;
        } else {
            restart();
            Word least[4] = {Message::masked(), Message::masked(), Message::masked(),
                             Message::masked()};
#pragma unroll 1
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
#pragma unroll
                for (int direction = 0; direction < 4; ++direction) {
                    Word part[4];
                    message(direction, c, part);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const bool is_pad = S::PADS != 0 && 4 * c + i < S::PADS;
                        least[direction] = Message::least(
                            least[direction], is_pad ? V::without_pad(part[i], lane) : part[i]);
                    }
                }
            }
            Value sum = 0;
#pragma unroll
            for (int direction = 0; direction < 4; ++direction) {
                Word one = least[direction];
                if constexpr (S::SIDES == 2) {
                    sum += Message::least(one, Message::shuffle_xor(one, distance));
                } else {
                    sum += Message::low(Message::least(one, Message::swap(one)));
                }
            }
            return sum;
        }
    }
};
