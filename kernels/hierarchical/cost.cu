// Stage cost: the data cost of level 0, and the pyramid over it.
#include "hierarchical/cost.cuh"

DEVICE uint32 shuffle_down(uint32 word, int lanes) { return __shfl_down_sync(~0u, word, lanes); }
DEVICE float2 shuffle_down(float2 word, int lanes) {
    return make_float2(__shfl_down_sync(~0u, word.x, lanes), __shfl_down_sync(~0u, word.y, lanes));
}

// Writes the cost of the node (x, y) of a level above 0 if it lies inside. Kind is its format
// there.
template <typename Kind, int DISPARITIES, typename Word>
DEVICE void store_node(const CostLevel& level, int x, int y, int chunk, const Word (&words)[4]) {
    if (level.cost == nullptr || x >= level.width || y >= level.height) return;
    const size_t line = 2 * y + ((x + y) & 1);
    auto* const to = static_cast<typename Kind::Unit*>(level.cost)
        + (line * Shape<Kind, DISPARITIES>::UNITS + chunk * Kind::UNITS_PER_CHUNK) * level.columns
        + (x >> 1);
    if constexpr (sizeof(typename Kind::Unit) == sizeof(uint2)) *to = pack_bytes(words);
    else Kind::store(to, level.columns, words);
}

// Cost of a parent from its children: this lane has the upper left one, the lane ``right`` further
// the one beside it, and the lane ``down`` further the one below.
template <typename Sum>
DEVICE void add_children(const typename Sum::Word (&child)[4], int right, int down,
                         typename Sum::Word (&sum)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const typename Sum::Word below = shuffle_down(child[i], down);
        sum[i] = Sum::add(Sum::add(Sum::add(child[i], shuffle_down(child[i], right)), below),
                          shuffle_down(below, right));
    }
}

// Warps of a multiprocessor at once: four bytes at a time take 64 registers a thread, float64 more
// than 128.
__host__ __device__ constexpr int resident_warps(int way) {
    return way >= FOUR_AT_ONCE ? 32 : way == IN_FLOAT64 ? 8 : 16;
}

// Block = a tile of pixels, and the nodes of four more levels above it. Warp = one chunk of their
// vectors at a time. Lane = 4 x 4 pixels; a warp has 8 x 4 such. The columns of every level are
// padded to whole tiles, and the padding is written, too. Parent and Second are the formats of
// levels 1 and 2.
template <typename Kind, typename Parent, typename Second, typename Image, int DISPARITIES,
          int WAY>
__global__ void __launch_bounds__(32 * Warps<Shape<Kind, DISPARITIES>::CHUNKS>::COUNT,
                                  resident_warps(WAY)
                                      / Warps<Shape<Kind, DISPARITIES>::CHUNKS>::COUNT)
    data_cost(const __grid_constant__ CostLaunch p) {
    using S = Shape<Kind, DISPARITIES>;
    using Sum = typename Kind::Sum;
    using Above = Shape<Parent, DISPARITIES>;
    using Word = typename Kind::Word;
    using Unit = typename Kind::Unit;
    using Costs = typename CostsOf<Kind, Parent, DISPARITIES, WAY>::Type;
    __shared__ typename Costs::Tile tile;
    stamp_time(p.stamp);
    const int first_x = blockIdx.x * TILE_WIDTH, first_y = blockIdx.y * TILE_HEIGHT;
    tile.template load<Image>(p, first_x, first_y);
    __syncthreads();
    using Turns = Warps<S::CHUNKS>;
    if (threadIdx.y >= Turns::COMPUTING) return;

    const int column = threadIdx.x & 7, group = threadIdx.x >> 3;
    const CostLevel base = p.levels[0], above = p.levels[1];
    const int x = first_x + 4 * column, y = first_y + 4 * group;
    // Rows below the image are black in both images: they cost 0 as well.
    bool has_evidence[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int other_x = p.first_x + x + j - p.min_disparity;
        has_evidence[j] = x + j < base.width && other_x < p.image_width
            && other_x - (DISPARITIES - 1) >= 0;
    }
    // Units from one line, a colour of a row, to the next.
    const size_t line = S::UNITS * size_t(base.columns);
    const size_t line_above = Above::UNITS * size_t(above.columns);
#pragma unroll 1
    for (int round = 0; round < Turns::ROUNDS; ++round) {
        // Two warps may have the last chunk; both write the same there.
        const int chunk = min(int(threadIdx.y) + round * Turns::COMPUTING, S::CHUNKS - 1);
        Unit* costs = static_cast<Unit*>(base.cost) + 2 * y * line
            + chunk * Kind::UNITS_PER_CHUNK * base.columns + (x >> 1);
        auto* sums = static_cast<typename Parent::Unit*>(above.cost) + y * line_above
            + chunk * Parent::UNITS_PER_CHUNK * above.columns + (x >> 2);
        Word level_2[4] = {Sum::zero(), Sum::zero(), Sum::zero(), Sum::zero()};
#pragma unroll
        for (int parent = 0; parent < 2; ++parent) {  // rows of level 1
            typename Costs::Total totals[2];
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const int row = 2 * parent + below;
                // The colour of the first pixel is that of its row.
                Costs::store(p, typename Costs::Row(tile, 4 * group + row, 4 * column, chunk),
                             chunk, has_evidence, y + row < base.height, costs + below * line,
                             costs + (1 - below) * line, base.columns, totals);
                costs += 2 * line;
            }
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                totals[side].store(p, sums + (side ^ parent) * line_above, above.columns,
                                   above.cost != nullptr && y + 2 * parent < base.height);
                add_words<Sum>(level_2, totals[side].words);
            }
            sums += 2 * line_above;
        }
        store_node<Second, DISPARITIES>(p.levels[2], x >> 2, y >> 2, chunk, level_2);
        if (p.levels[3].cost == nullptr) continue;
        Word level_3[4], level_4[4];
        add_children<Sum>(level_2, 1, 8, level_3);
        if (column % 2 == 0 && group % 2 == 0)
            store_node<Sum, DISPARITIES>(p.levels[3], x >> 3, y >> 3, chunk, level_3);
        add_children<Sum>(level_3, 2, 16, level_4);
        if (column % 4 == 0 && group == 0)
            store_node<Sum, DISPARITIES>(p.levels[4], x >> 4, y >> 4, chunk, level_4);
    }
}

// Cost of the nodes of one level: the sum of up to four children. Thread = a node and every
// blockDim.y-th chunk; blockIdx.y = row.
template <typename Message, int DISPARITIES>
__global__ void parent_cost(const __grid_constant__ CostLevel children,
                            const __grid_constant__ CostLevel parents) {
    using S = Shape<Message, DISPARITIES>;
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= parents.width) return;
    for (int chunk = threadIdx.y; chunk < S::CHUNKS; chunk += blockDim.y) {
        typename Message::Word sum[4] = {Message::zero(), Message::zero(), Message::zero(),
                                         Message::zero()};
#pragma unroll
        for (int child = 0; child < 4; ++child) {
            const int x = 2 * column + child % 2, y = 2 * row + child / 2;
            if (x >= children.width || y >= children.height) continue;
            const size_t line = 2 * y + ((x + y) & 1);
            typename Message::Word word[4];
            Message::load(
                static_cast<const typename Message::Unit*>(children.cost)
                    + (line * S::UNITS + chunk * Message::UNITS_PER_CHUNK) * children.columns
                    + column,
                children.columns, word);
            add_words<Message>(sum, word);
        }
        store_node<Message, DISPARITIES>(parents, column, row, chunk, sum);
    }
}
