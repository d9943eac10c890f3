// Search of a band: messages as they lie in memory, and what arrives at a pixel.
//
// A message, [y][x][direction][32], is kept at its sender. It is its truncation less its value: 0
// beyond its labels, and where nobody has sent it.
#pragma once
#include "band/windows.cuh"
#include "hierarchical/vector.cuh"

struct BandMessages {
    Windows windows;
    const uint8* cost;   // [height][width][32], with the paths added up
    const uint8* edges;  // H x W: bit d = the message in direction d crosses an edge; null = none
    uint8* messages;
    int first_step, slope, truncation, edge_truncation;
};

DEVICE size_t band_place(const Windows& w, int x, int y) { return size_t(y) * w.width + x; }

DEVICE uint32 cost_at(const BandMessages& p, int x, int y) {
    return __ldg(reinterpret_cast<const uint32*>(p.cost)
                 + band_place(p.windows, x, y) * BAND_WORDS + band_word());
}
DEVICE uint32* message_at(const BandMessages& p, int x, int y, int direction) {
    return reinterpret_cast<uint32*>(p.messages)
        + (band_place(p.windows, x, y) * 4 + direction) * BAND_WORDS + band_word();
}

// The truncations of a pixel's messages, which are those of its neighbours' to it, too.
struct Truncations {
    int edges, usual, at_edges;
    DEVICE Truncations(const BandMessages& p, int x, int y)
        : edges(p.edges == nullptr ? 0 : __ldg(p.edges + band_place(p.windows, x, y))),
          usual(p.truncation), at_edges(p.edge_truncation) {}
    DEVICE uint32 of(int direction) const {
        return splat_bytes(edges >> direction & 1 ? at_edges : usual);
    }
};

// The value of the message that comes from the neighbour in a direction. One that is on the border
// sends none.
DEVICE uint32 arriving(const BandMessages& p, const Truncations& truncations, Centres own, int x,
                       int y, int direction) {
    const Windows& w = p.windows;
    const int column = x + column_step(direction), row = y + row_step(direction);
    const uint32 word = from_neighbour(*message_at(p, column, row, direction ^ 1), own,
                                       centres_at(w, column, row));
    const bool is_border
        = column == 0 || row == 0 || column == w.width - 1 || row == w.height - 1;
    return is_border ? 0 : truncations.of(direction) - word;
}
