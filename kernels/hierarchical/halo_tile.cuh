// The tile with its halo that a block keeps in shared memory for all iterations of a launch.
#pragma once
#include "hierarchical/launch.cuh"

// Units from the slots of one direction to those of the next. The last unit belongs to no node:
// threads without a node read it.
DEVICE int plane_units(const Launch& p) { return p.halo_tile_height * p.halo_tile_columns + 1; }

// The part of the image that one block works on.
struct HaloTile {
    int left, top;            // first node of the tile itself
    int halo_left, halo_top;  // first node of the halo

    DEVICE explicit HaloTile(const Launch& p)
        : left(blockIdx.x * p.tile_width), top(blockIdx.y * p.tile_height),
          halo_left(left - p.halo_columns), halo_top(top - p.halo_rows) {}

    // Fills all slots with zero messages where the halo reaches beyond the interior of the image,
    // whose nodes alone write theirs. Returns whether it did.
    template <typename Message>
    DEVICE bool clear(const Launch& p, typename Message::Unit* slots, int units) const {
        const bool is_inner = halo_left > 0 && halo_top > 0
            && halo_left + 2 * p.halo_tile_columns < p.width
            && halo_top + p.halo_tile_height < p.height;
        if (is_inner) return false;
        const auto zero = *static_cast<const typename Message::Unit*>(p.zero);
        for (int i = threadIdx.x; i < units; i += blockDim.x) slots[i] = zero;
        return true;
    }
};

// Offsets of a node's four slots, in units from its own first slot. Edges are kept at their end of
// colour 1, so a node of colour 0 uses the slots of its neighbours.
struct Slots {
    int offset[4];  // by direction
    int odd;        // added left and right where x is odd

    DEVICE Slots(const Launch& p, int colour) : odd(1 - colour) {
        const int plane = plane_units(p);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction)
            offset[direction] = colour
                ? direction * plane
                : ((direction ^ 1) * plane + row_step(direction) * p.halo_tile_columns
                   - (direction == LEFT));
    }
    DEVICE int of(int x, int direction) const {
        // A selection of constants: an array that is indexed at run time would lie in local
        // memory.
        const int vertical = direction & 1 ? offset[DOWN] : offset[UP];
        const int horizontal = direction & 1 ? offset[RIGHT] : offset[LEFT];
        return direction & 2 ? horizontal + (odd & x) : vertical;
    }
};

// Copies a unit from device memory to shared memory; complete when ``copied`` returns.
template <typename Unit>
DEVICE void copy_unit(Unit* to, const Unit* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :
                 : "r"(uint32(__cvta_generic_to_shared(to))), "l"(from), "n"(sizeof(Unit))
                 : "memory");
#else
    *to = __ldg(from);
#endif
}
DEVICE void copied() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The nodes of one colour in a tile and the inner part of its halo.
struct Nodes {
    const uint32* const list;
    const int count;

    DEVICE Nodes(const Launch& p, int colour, int halo)
        : list(colour ? p.nodes[1] : p.nodes[0]),
          count(colour ? p.counts[1][halo] : p.counts[0][halo]) {}
};

// A node of this list: its place in the image, and its first slot in units from the first of all.
struct Node {
    int x, y, slot;
    bool exists;  // inside the image and off its border

    DEVICE Node(const Launch& p, const HaloTile& tile, uint32 packed, bool is_there)
        : x(tile.left + int(packed & 255u) - MAX_HALO - 1),
          y(tile.top + int(packed >> 8 & 255u) - MAX_HALO - 1), slot(packed >> 16),
          exists(is_there && unsigned(x - 1) < unsigned(p.width - 2)
                 && unsigned(y - 1) < unsigned(p.height - 2)) {}
    // The neighbour of an existing node in this direction is on the border.
    DEVICE bool ends(const Launch& p, int direction) const {
        return direction & 2 ? x == (direction == LEFT ? 1 : p.width - 2)
                             : y == (direction == UP ? 1 : p.height - 2);
    }
};
