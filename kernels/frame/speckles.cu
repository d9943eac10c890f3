// Part of stage refine: speckles as in cv2.filterSpeckles. A region consists of valid pixels whose
// neighbours to the four sides differ by at most a range.
//
// Connected components by union-find: first runs of pixels within a tile, in shared memory, then
// the regions of tiles across their edges. A pixel links to one of its region with a smaller
// number, until the smallest is reached. Sizes are added up once a run in a tile, and once a tile.
// Runs: Hennequin, Lacassagne, Cabaret, Meunier, "A new direct connected component labeling and
// analysis algorithms for GPUs", DASIP 2018. Shortened paths: Jaiganesh, Burtscher, "A
// high-performance connected components implementation for GPUs", HPDC 2018.
#include "frame/refine.cuh"

constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 32,
              TILE_PIXELS = TILE_WIDTH * TILE_HEIGHT;  // a warp for each row of a tile

DEVICE bool are_joined(int a, int b, int range) {
    return a != INVALID && b != INVALID && abs(a - b) <= range;
}

DEVICE int root_of(const int* links, int at) {
    for (int next = links[at]; next != at; next = links[at]) at = next;
    return at;
}

// The regions of a tile, and their pixels in it: at the first pixel of the region, 0 elsewhere.
__global__ void __launch_bounds__(TILE_PIXELS) label_tiles(const __grid_constant__ Frame f) {
    __shared__ int links[TILE_PIXELS], sizes[TILE_PIXELS];
    const int lane = threadIdx.x, slot = threadIdx.y * TILE_WIDTH + lane;
    const int left = blockIdx.x * TILE_WIDTH, top = blockIdx.y * TILE_HEIGHT;
    const int x = left + lane, y = top + threadIdx.y, at = y * f.width + x;
    const bool exists = x < f.width && y < f.height;
    const int range = f.parameters->speckle_range;
    const int value = exists ? f.filtered[at] : INVALID;
    const int above = exists && threadIdx.y > 0 ? f.filtered[at - f.width] : INVALID;

    const int before = __shfl_up_sync(~0u, value, 1);
    const bool continues = lane > 0 && are_joined(before, value, range);
    const uint32 starts = __ballot_sync(~0u, !continues);
    const int run = slot - lane + 31 - __clz(starts & (~0u >> (31 - lane)));
    links[slot] = run;
    sizes[slot] = 0;
    __syncthreads();

    // Two runs that touch are joined once, at their first pair of neighbours.
    const int other = are_joined(above, value, range) ? links[slot - TILE_WIDTH] : -1;
    const int other_before = __shfl_up_sync(~0u, other, 1);
    bool is_open = other >= 0 && !(continues && other_before == other);
    // All threads look for roots, then all link. A thread that finds another link in its place
    // tries again.
    while (__syncthreads_or(is_open)) {
        const int a = root_of(links, run), b = is_open ? root_of(links, other) : a;
        __syncthreads();
        is_open = a != b && atomicCAS(&links[max(a, b)], max(a, b), min(a, b)) != max(a, b);
        // Links are made at roots alone, so one thread writes here.
        if (a != run && a != slot) links[slot] = a;
    }

    const int root = root_of(links, run);
    if (!continues && value != INVALID) {
        const uint32 following = starts >> lane >> 1;
        atomicAdd(&sizes[root], following ? __ffs(following) : TILE_WIDTH - lane);
    }
    __syncthreads();
    if (!exists) return;
    f.regions[at] = (top + root / TILE_WIDTH) * f.width + left + root % TILE_WIDTH;
    f.region_sizes[at] = sizes[slot];
}

// The root of a pixel while other threads link; halves the path for those that follow.
__device__ int find_root(int* regions, int at) {
    volatile int* const links = regions;
    for (;;) {
        const int next = links[at];
        if (next == at) return at;
        const int further = links[next];
        if (further == next) return next;
        links[at] = further;
        at = further;
    }
}

__device__ void join(int* regions, int a, int b) {
    for (;;) {
        a = find_root(regions, a);
        b = find_root(regions, b);
        if (a == b) return;
        // Fails if another thread has linked the greater root meanwhile.
        if (atomicCAS(&regions[max(a, b)], max(a, b), min(a, b)) == max(a, b)) return;
    }
}

// Joins regions across the edges of tiles: a thread for each pixel right below or right of an
// edge.
__global__ void join_tiles(const __grid_constant__ Frame f) {
    const int below = (f.height - 1) / TILE_HEIGHT * f.width;
    const int beside = (f.width - 1) / TILE_WIDTH * f.height;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= below + beside) return;
    const bool is_below = i < below;
    const int x = is_below ? i % f.width : ((i - below) / f.height + 1) * TILE_WIDTH;
    const int y = is_below ? (i / f.width + 1) * TILE_HEIGHT : (i - below) % f.height;
    const int at = y * f.width + x, range = f.parameters->speckle_range;
    const int other = at - (is_below ? f.width : 1);
    if (!are_joined(f.filtered[at], f.filtered[other], range)) return;
    // The previous pair of neighbours joins the same two regions.
    if (is_below ? x % TILE_WIDTH != 0 : y % TILE_HEIGHT != 0) {
        const int back = is_below ? 1 : f.width;
        if (are_joined(f.filtered[at], f.filtered[at - back], range)
            && are_joined(f.filtered[other], f.filtered[other - back], range)
            && are_joined(f.filtered[at - back], f.filtered[other - back], range))
            return;
    }
    join(f.regions, at, other);
}

// Adds the pixels of a region in each tile at the region's root.
__global__ void add_regions(const __grid_constant__ Frame f) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= f.width * f.height) return;
    const int size = f.region_sizes[at];
    if (size == 0 || f.regions[at] == at) return;
    const int root = find_root(f.regions, at);
    f.regions[at] = root;
    atomicAdd(&f.region_sizes[root], size);
}
