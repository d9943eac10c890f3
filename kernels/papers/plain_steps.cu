// Belief propagation as in two papers, a kernel for each step and a thread for each node:
// Grauer-Gray & Cavazos, "Optimizing and Auto-tuning Belief Propagation on the GPU" (LCPC 2010),
// and Grauer-Gray, "Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs". The variants
// there are template arguments here: number type, layout, and the memory of a message.
#include "papers/plain_steps.cuh"

struct StorageCost {
    const void* left;  // H x W, uint8 or float32: the images that are matched
    const void* right;
    StorageLevel level;
    int min_disparity;
    double factor, truncation;  // int16: floor(factor * difference + 0.5)
    float float_factor, float_truncation;
    uint64* stamp;  // time at which the stage starts, ns
};

struct StorageLaunch {
    StorageLevel level;
    int colour;  // of the nodes that send
    int slope, truncation;
    float float_slope, float_truncation;
    uint64* stamp;  // null = another kernel of the stage came first
};

// Step 1: data cost of level 0. Thread = a pixel.
template <typename Kind, typename Image, int DISPARITIES, Layout LAYOUT>
__global__ void store_costs(const __grid_constant__ StorageCost p) {
    stamp_time(p.stamp);
    using Stored = typename Kind::Stored;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int width = p.level.width;
    if (x >= width || y >= p.level.height) return;
    const int other_x = x - p.min_disparity;
    const bool has_evidence = other_x < width && other_x - (DISPARITIES - 1) >= 0;
    const Image own = static_cast<const Image*>(p.left)[y * width + x];
    const Image* const others = static_cast<const Image*>(p.right) + y * width + other_x;
    Stored* const to = static_cast<Stored*>(p.level.cost[(x + y) & 1])
        + element<DISPARITIES, LAYOUT>(p.level, y, x >> 1);
    const int step = label_step<LAYOUT>(p.level);
    for (int label = 0; label < DISPARITIES; ++label) {
        Stored cost = 0;
        if (has_evidence) {
            if constexpr (sizeof(typename Kind::Sum) == 2) {
                const double kept = fmin(fabs(double(own) - double(others[-label])), p.truncation);
                cost = Stored(floor(__dadd_rn(__dmul_rn(p.factor, kept), 0.5)));
            } else {
                const float kept = fminf(fabsf(float(own) - float(others[-label])),
                                         p.float_truncation);
                cost = Kind::narrow(__fmul_rn(p.float_factor, kept));
            }
        }
        to[label * step] = cost;
    }
}

// Step 2: data cost of a level from the one below, ((c00 + c01) + c10) + c11 as [row][column].
// Thread = a parent.
template <typename Kind, typename Child, int DISPARITIES, Layout LAYOUT>
__global__ void store_parent_costs(const __grid_constant__ StorageLevel children,
                                   const __grid_constant__ StorageLevel parents) {
    using Sum = typename Kind::Sum;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= parents.width || y >= parents.height) return;
    const Child* from[4];
#pragma unroll
    for (int child = 0; child < 4; ++child) {
        const int child_x = 2 * x + child % 2, child_y = 2 * y + child / 2;
        from[child] = child_x >= children.width || child_y >= children.height
            ? nullptr
            : static_cast<const Child*>(children.cost[(child_x + child_y) & 1])
                + element<DISPARITIES, LAYOUT>(children, child_y, x);
    }
    Sum* const to = static_cast<Sum*>(parents.cost[(x + y) & 1])
        + element<DISPARITIES, LAYOUT>(parents, y, x >> 1);
    const int child_step = label_step<LAYOUT>(children), step = label_step<LAYOUT>(parents);
    for (int label = 0; label < DISPARITIES; ++label) {
        typename Kind::Total sum = Kind::widen(from[0][label * child_step]);
#pragma unroll
        for (int child = 1; child < 4; ++child)
            if (from[child] != nullptr) sum = sum + Kind::widen(from[child][label * child_step]);
        to[label * step] = Sum(sum);
    }
}

// Step 3a, which the papers call the dominant kernel: the four messages of the nodes of one
// colour, one after the other. Block = WIDTH x HEIGHT threads, BLOCKS of them at once on a
// multiprocessor at least; thread = a node, or two beside each other.
template <typename Kind, typename Cost, int DISPARITIES, Layout LAYOUT, int WIDTH, int HEIGHT,
          int BLOCKS, int REGISTERS, int SHARED>
// clang-format off: it takes the product for a pointer
__global__ void __launch_bounds__(WIDTH * HEIGHT, BLOCKS)
    send_messages(const __grid_constant__ StorageLaunch p) {
    // clang-format on
    constexpr int LOCAL = DISPARITIES - REGISTERS - SHARED, THREADS = WIDTH * HEIGHT;
    using Value = typename Kind::Value;
    using Stored = typename Kind::Stored;
    extern __shared__ uint32 shared[];
    stamp_time(p.stamp);

    const StorageLevel& level = p.level;
    const int y = blockIdx.y * HEIGHT + threadIdx.y;
    if (y < 1 || y >= level.height - 1) return;
    const int odd = (y + p.colour) & 1;                        // x = 2 * column + odd
    const int first = 1 - odd, end = (level.width - odd) / 2;  // interior columns
    int column = (blockIdx.x * WIDTH + threadIdx.x) * Kind::PIXELS;
    const bool has_first = column >= first && column < end;
    const bool has_second = Kind::PIXELS == 2 && column + 1 >= first && column + 1 < end;
    if (!has_first && !has_second) return;
    if (!has_first) ++column;
    const int step = label_step<LAYOUT>(level);
    const int apart = !(has_first && has_second) ? 0 : LAYOUT == DISPARITY_MAJOR ? 1 : DISPARITIES;

    const auto vector = [&](void* messages, int row, int column) {
        return NodeVector<Kind, Stored>{
            static_cast<Stored*>(messages) + element<DISPARITIES, LAYOUT>(level, row, column),
            apart, step};
    };
    void* const* const others = level.sent[1 - p.colour];
    const auto below = vector(others[UP], y + 1, column);
    const auto above = vector(others[DOWN], y - 1, column);
    const auto beside_right = vector(others[LEFT], y, column + odd);
    const auto beside_left = vector(others[RIGHT], y, column + odd - 1);
    NodeCost<Kind, Cost> data;
    data.first = static_cast<const Cost*>(level.cost[p.colour])
        + element<DISPARITIES, LAYOUT>(level, y, column);
    data.apart = apart;
    data.step = step;
    data.template prepare<DISPARITIES>(p.float_truncation);

    Value in_registers[REGISTERS > 0 ? REGISTERS : 1];
    Value in_local[LOCAL > 0 ? LOCAL : 1];
    const MessageValues<Value, REGISTERS, SHARED, LOCAL, THREADS> message{
        in_registers, reinterpret_cast<Value*>(shared) + threadIdx.y * WIDTH + threadIdx.x,
        in_local};
    const Value slope = Kind::parameter(p.float_slope, p.slope);
    const Value truncation = Kind::parameter(p.float_truncation, p.truncation);
#pragma unroll 1
    for (int direction = 0; direction < 4; ++direction) {
        const bool is_vertical = direction < 2;
        const auto a = direction == DOWN ? above : below;
        const auto b = is_vertical ? beside_right : above;
        const auto c = is_vertical || direction == RIGHT ? beside_left : beside_right;
        Value least = Kind::largest();
        message.rising([&](int label, Value& value) {
            const Value h = Kind::add(
                Kind::add(Kind::add(a.load(label), b.load(label)), c.load(label)),
                data.cost(label));
            value = h;
            least = Kind::least(least, h);
        });
        Value before = Kind::largest();
        message.rising([&](int, Value& value) {
            before = value = Kind::least(value, Kind::add(before, slope));
        });
        before = Kind::largest();
        message.falling([&](int, Value& value) {
            before = value = Kind::least(value, Kind::add(before, slope));
        });
        const Value bound = Kind::add(least, truncation);
        Value total = 0;
        message.rising([&](int, Value& value) {
            value = Kind::least(value, bound);
            if constexpr (Kind::USES_MEAN) total = Kind::add(total, value);
        });
        Value taken_away = least;
        if constexpr (Kind::USES_MEAN) taken_away = __fdiv_rn(total, float(DISPARITIES));
        const auto to = vector(level.sent[p.colour][direction], y, column);
        message.rising(
            [&](int label, Value& value) { to.store(label, Kind::subtract(value, taken_away)); });
    }
}

// Step 3b: the messages of each node become those of its up to four children. Thread = a parent.
template <typename Kind, int DISPARITIES, Layout LAYOUT>
__global__ void copy_messages(const __grid_constant__ StorageLevel parents,
                              const __grid_constant__ StorageLevel children, uint64* stamp) {
    stamp_time(stamp);
    using Stored = typename Kind::Stored;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= parents.width || y >= parents.height) return;
    const int parent_step = label_step<LAYOUT>(parents), step = label_step<LAYOUT>(children);
    const size_t source = element<DISPARITIES, LAYOUT>(parents, y, x >> 1);
    const bool has_right = 2 * x + 1 < children.width, has_lower = 2 * y + 1 < children.height;
    const size_t upper = element<DISPARITIES, LAYOUT>(children, 2 * y, x);
    const size_t lower = element<DISPARITIES, LAYOUT>(children, 2 * y + 1, x);
    for (int direction = 0; direction < 4; ++direction) {
        const Stored* const from = static_cast<const Stored*>(parents.sent[(x + y) & 1][direction])
            + source;
        Stored* const first = static_cast<Stored*>(children.sent[0][direction]);
        Stored* const second = static_cast<Stored*>(children.sent[1][direction]);
        for (int label = 0; label < DISPARITIES; ++label) {
            const Stored value = from[label * parent_step];
            first[upper + label * step] = value;
            if (has_right) second[upper + label * step] = value;
            if (has_lower) second[lower + label * step] = value;
            if (has_right && has_lower) first[lower + label * step] = value;
        }
    }
}

// Step 4: the label of least belief. Thread = a pixel.
template <typename Kind, int DISPARITIES, Layout LAYOUT>
__global__ void choose_labels(const __grid_constant__ StorageLevel level,
                              const __grid_constant__ Matches out, uint64* stamp) {
    stamp_time(stamp);
    using Stored = typename Kind::Stored;
    using Total = typename Kind::Total;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || x >= level.width - 1 || y < 1 || y >= level.height - 1) return;
    const int colour = (x + y) & 1, step = label_step<LAYOUT>(level);
    void* const* const others = level.sent[1 - colour];
    const auto vector = [&](const void* array, int row, int column) {
        return static_cast<const Stored*>(array)
            + element<DISPARITIES, LAYOUT>(level, row, column);
    };
    const Stored* const sources[5] = {
        vector(others[UP], y + 1, x >> 1), vector(others[DOWN], y - 1, x >> 1),
        vector(others[LEFT], y, (x + 1) >> 1), vector(others[RIGHT], y, (x - 1) >> 1),
        vector(level.cost[colour], y, x >> 1)};
    const auto belief = [&](int label) {
        Total sum = Kind::widen(sources[0][label * step]);
#pragma unroll
        for (int i = 1; i < 5; ++i) sum = sum + Kind::widen(sources[i][label * step]);
        return sum;
    };

    const int at = y * level.width + x;
    const bool offers = out.right != nullptr && x >= out.first_x && x < out.end_x;
    uint64* const row = out.right + at + out.first_partner;
    Total best = Total(NO_SECOND), before = 0, after = 0, last = 0;
    int found = -2;
    for (int label = 0; label < DISPARITIES; ++label) {
        const Total value = belief(label);
        if (label == found + 1) after = value;
        if (value < best) {
            best = value;
            found = label;
            before = last;
        }
        last = value;
        if (offers) offer(row - label, Kind::ordered_bits(value), label);
    }
    out.label[at] = short(found);
    if (out.fraction != nullptr)
        out.fraction[at] = found > 0 && found < DISPARITIES - 1 ? sixteenths(before, best, after)
                                                                : 0;
    if (out.second == nullptr) return;
    Total second = Total(NO_SECOND);
    for (int label = 0; label < DISPARITIES; ++label) {
        const Total value = belief(label);
        if (abs(label - found) > 1 && value < second) second = value;
    }
    static_cast<Total*>(out.best)[at] = best;
    static_cast<Total*>(out.second)[at] = second;
}
