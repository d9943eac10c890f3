// The arguments of one launch: n iterations on one level of the pyramid, over tiles with a halo.
#pragma once
#include "frame/refine.cuh"
#include "hierarchical/labels.cuh"

enum Start { FROM_ZERO, FROM_PARENTS, FROM_MESSAGES };
enum Finish { LAST_COLOUR, BOTH_COLOURS, LABELS, OWN_LABELS };

// The labels that a launch also selects. OWN: those of the colour updated last (select_labels
// finds the others). ALL_AND_MORE: all, with whatever Matches asks for beside labels.
enum class Labels { NONE, OWN, ALL, ALL_AND_MORE };

constexpr bool are_all(Labels labels) {
    return labels == Labels::ALL || labels == Labels::ALL_AND_MORE;
}

constexpr int MAX_HALO = 15;

// Messages in device memory are kept at their sender: [row][direction][unit][x / 2], one array for
// each colour.
struct Launch {
    const void* cost;
    uint32 cost_factor;          // of Nibbles; of multiples the pattern of a float
    int first_step;              // smoothness cost of one label, of a FirstStep
    const uint8* edges;          // [y][x], see ``find_edges``, of a FirstStep; null = none
    int edge_truncation;         // of messages that cross one
    const void* parents[2];      // messages of the next coarser level, by colour
    const void* source;          // messages of the colour that the first iteration reads
    void* target[2];             // messages by colour of the sender
    const void* zero;            // one unit of the zero message
    int width, height, columns;  // nodes; columns of one colour, padded
    int parent_width, parent_height, parent_columns;
    int first, iterations;
    int start, finish;
    int tile_width, tile_height;              // nodes that a block writes; both even
    int halo_tile_columns, halo_tile_height;  // columns of one colour, and rows, with the halo
    int halo_columns, halo_rows;              // of the halo on each side; columns even
    // Nodes of one colour of every tile: those of the tile itself, then those of its halo by their
    // distance from the tile. ``counts``: nodes that are at most so far away.
    const uint32* nodes[2];
    int counts[2][MAX_HALO + 1];
    int slope, truncation;  // of integer messages
    float float_slope, float_truncation;
    uint64* stamp;  // time at which the launch starts, ns; null = none
    Matches matches;
    int publishes;  // refinement is part of the launch
    Frame frame;
};

DEVICE bool is_border(int x, int y, int width, int height) {
    return x <= 0 || y <= 0 || x >= width - 1 || y >= height - 1;
}

// Place in device memory of the message that arrives at (x, y) from its neighbour in a direction.
// Border nodes send zero messages on every level, and their children inherit these.
template <typename Unit, int UNITS>
DEVICE Place<Unit> incoming(const Launch& p, int x, int y, int direction, bool is_valid) {
    const Place<Unit> zero = {static_cast<const Unit*>(p.zero), 0};
    x += column_step(direction);
    y += row_step(direction);
    if (!is_valid || p.start == FROM_ZERO || is_border(x, y, p.width, p.height)) return zero;
    const void* messages = p.source;
    int columns = p.columns;
    if (p.start == FROM_PARENTS) {
        x >>= 1;
        y >>= 1;
        if (is_border(x, y, p.parent_width, p.parent_height)) return zero;
        messages = (x + y) & 1 ? p.parents[1] : p.parents[0];
        columns = p.parent_columns;
    }
    return {static_cast<const Unit*>(messages) + size_t(4 * y + (direction ^ 1)) * UNITS * columns
                + (x >> 1),
            columns};
}
