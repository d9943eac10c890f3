// Part of stage refine: planes for pixels that have no value, or one that is not trusted, through
// trusted pixels of like grey value around.
#include "frame/refine.cuh"

// Pixels of a cell, which has one plane, and between samples, of which REACH lie on each side.
constexpr int CELL = 8, STEP = 7, REACH = 8;
constexpr int SIDE = 2 * REACH + 1, SAMPLES = SIDE * SIDE, MIN_SAMPLES = 12;
constexpr int OF_LANE = (SAMPLES + 31) / 32;

// Largest residuals of the rounds of weighted least squares, sixteenths.
constexpr int ROUNDS = 4, RESIDUALS[ROUNDS] = {128, 64, 40, 32};
constexpr double RIDGE = 0.04;                                // steps squared
constexpr double MAX_SLOPE = 1 << 19, MAX_CONSTANT = 1 << 26;  // 4096ths of a sixteenth

// In place of a value: the pixel keeps its own; it has none to be compared with.
constexpr short KEPT = -2, NONE = -1;

// v = a i + b j + c in 4096ths of a sixteenth; i columns and j rows from the centre, in steps.
struct Plane {
    int a, b, c;
};

struct Sums {
    static constexpr int COUNT = 9;
    int n, i, j, ii, ij, jj, v, iv, jv;
};

DEVICE bool is_trusted(const Filling& filling, int at) {
    return filling.frame.filtered[at] >= 0
        && double(filling.confidence[at]) >= filling.frame.parameters->plane_threshold;
}

DEVICE int sum_of_warp(int value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

// What lies between the nearest trusted values of a row, where a pixel is not trusted: the smaller
// one where they are far apart. A block for each row; ``trusted`` has a bit for each pixel.
__global__ void interpolate_rows(const __grid_constant__ Filling filling) {
    extern __shared__ uint32 trusted[];
    const Frame& f = filling.frame;
    const int y = blockIdx.x;
    const short* const row = f.filtered + y * f.width;
    for (int x = threadIdx.x; x < (f.width + 31) / 32 * 32; x += blockDim.x) {
        const bool is_one = x < f.width && !is_outside(f, x, y)
            && is_trusted(filling, y * f.width + x);
        const uint32 bits = __ballot_sync(~0u, is_one);
        if (x % 32 == 0) trusted[x / 32] = bits;
    }
    __syncthreads();
    for (int x = threadIdx.x; x < f.width; x += blockDim.x) {
        int value = KEPT;
        if (!is_outside(f, x, y) && (trusted[x / 32] >> x % 32 & 1) == 0) {
            const int before = valid_before(trusted, x), after = valid_after(trusted, x, f.width);
            const int left = before >= 0 ? row[before] : NONE;
            const int right = after < f.width ? row[after] : NONE;
            const int n = after - before, k = x - before;
            value = left < 0 || right < 0          ? max(left, right)
                : abs(left - right) <= 32 + 2 * n ? (left * (n - k) + right * k + n / 2) / n
                                                  : min(left, right);
        }
        filling.smoothed[y * f.width + x] = short(value);
    }
}

// The samples of a lane: number r is number lane + 32 r of all, row by row.
struct Samples {
    int values[OF_LANE], weights[OF_LANE];  // no weight: there is none

    DEVICE static int column(int r) { return (threadIdx.x + 32 * r) % SIDE - REACH; }
    DEVICE static int row(int r) { return int(threadIdx.x + 32 * r) / SIDE - REACH; }
};

DEVICE int grey_at(const Filling& filling, int at) {
    return filling.has_float_grey ? int(static_cast<const float*>(filling.grey)[at] + 0.5f)
                                  : static_cast<const uint8*>(filling.grey)[at];
}

// The mean of the 5 x 5 pixels around one, borders replicated, rounded.
DEVICE int mean_grey(const Filling& filling, int x, int y) {
    const Frame& f = filling.frame;
    int own = 0;
    if (threadIdx.x < 25) {
        const int column = min(max(x + int(threadIdx.x) % 5 - 2, 0), f.width - 1);
        const int row = min(max(y + int(threadIdx.x) / 5 - 2, 0), f.height - 1);
        own = grey_at(filling, row * f.width + column);
    }
    return (2 * sum_of_warp(own) + 25) / 50;
}

// Fills the samples around a pixel; returns how many there are.
DEVICE int take_samples(const Filling& filling, int x, int y, Samples& samples) {
    const Frame& f = filling.frame;
    const double threshold = f.parameters->plane_threshold;
    const int own = mean_grey(filling, x, y);
    int count = 0;
#pragma unroll
    for (int r = 0; r < OF_LANE; ++r) {
        const int column = x + STEP * Samples::column(r), row = y + STEP * Samples::row(r);
        const int at = row * f.width + column;
        samples.values[r] = samples.weights[r] = 0;
        if (int(threadIdx.x) + 32 * r >= SAMPLES || column < 0 || column >= f.width || row < 0
            || row >= f.height || !is_trusted(filling, at))
            continue;
        const int k = min(abs(own - grey_at(filling, at)), 255), fall = 144 + k * k;
        const int likeness = (2 * 64 * 144 + fall) / (2 * fall);  // 64 / (1 + (k / 12)^2)
        int quality = 255;
        if (threshold > 0.0) {
            const double ratio = __ddiv_rn(double(filling.confidence[at]), threshold);
            quality = int(fmin(fmax(__dadd_rn(__dmul_rn(24.0, ratio), -12.0), 1.0), 255.0));
        }
        samples.values[r] = f.filtered[at];
        samples.weights[r] = likeness * quality >> 8;
        ++count;
    }
    return sum_of_warp(count);
}

// The weighted lower median of the samples, by bisection; ``total``: of all weights.
DEVICE int lower_median(const Samples& samples, int total, int most) {
    int least = 0;
    while (least < most) {
        const int middle = (least + most) / 2;
        int below = 0;
#pragma unroll
        for (int r = 0; r < OF_LANE; ++r)
            below += samples.values[r] <= middle ? samples.weights[r] : 0;
        if (2 * sum_of_warp(below) >= total) most = middle;
        else least = middle + 1;
    }
    return least;
}

DEVICE int rounded(double value, double most) {
    return int(fmin(fmax(floor(__dadd_rn(value, 0.5)), -most), most));
}

// A product of whole numbers less another one; both are exact in float64.
DEVICE double less(long long a, long long b, long long c, long long d) {
    return double(a * b - c * d);
}

// Weighted least squares with a ridge.
DEVICE Plane solve(const Sums& s) {
    const double ridge = __dmul_rn(RIDGE, double(s.n) * s.n);
    const double ii = __dadd_rn(less(s.n, s.ii, s.i, s.i), ridge);
    const double jj = __dadd_rn(less(s.n, s.jj, s.j, s.j), ridge);
    const double ij = less(s.n, s.ij, s.i, s.j), iv = less(s.n, s.iv, s.i, s.v),
                 jv = less(s.n, s.jv, s.j, s.v);
    const auto determinant = [](double a, double b, double c, double d) {
        return __dadd_rn(__dmul_rn(a, b), -__dmul_rn(c, d));
    };
    const double whole = determinant(ii, jj, ij, ij);
    const auto slope = [&](double part) {
        return rounded(__dmul_rn(4096.0, __ddiv_rn(part, whole)), MAX_SLOPE);
    };
    Plane plane;
    plane.a = slope(determinant(iv, jj, jv, ij));
    plane.b = slope(determinant(jv, ii, iv, ij));
    const long long a = plane.a, b = plane.b, rest = 4096ll * s.v - a * s.i - b * s.j;
    plane.c = rounded(__ddiv_rn(double(rest), double(s.n)), MAX_CONSTANT);
    return plane;
}

// A warp for each cell, of which a block has blockDim.y, one beside the other.
__global__ void fill_planes(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int left = CELL * (blockIdx.x * blockDim.y + threadIdx.y), top = CELL * blockIdx.y;
    // Two pixels of a lane, one below the other.
    const int x = left + threadIdx.x % CELL, y = top + threadIdx.x / CELL;
    int between[2];
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        const int row = y + lower * CELL / 2;
        const bool exists = x < f.width && row < f.height;
        between[lower] = exists ? filling.smoothed[row * f.width + x] : KEPT;
    }
    if (__ballot_sync(~0u, between[0] != KEPT || between[1] != KEPT) == 0) return;
    Samples samples;
    if (take_samples(filling, left + CELL / 2, top + CELL / 2, samples) < MIN_SAMPLES) return;
    int own = 0;
#pragma unroll
    for (int r = 0; r < OF_LANE; ++r) own += samples.weights[r];
    const int total = sum_of_warp(own);
    Plane plane = {0, 0, lower_median(samples, total, filling.most) << 12};
    int inliers = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        int sums[Sums::COUNT] = {};
#pragma unroll
        for (int r = 0; r < OF_LANE; ++r) {
            const int i = Samples::column(r), j = Samples::row(r), v = samples.values[r];
            const int error = v * 4096 - (plane.a * i + plane.b * j + plane.c);
            const int w = abs(error) < RESIDUALS[round] << 12 ? samples.weights[r] : 0;
            const int terms[Sums::COUNT]
                = {w, w * i, w * j, w * i * i, w * i * j, w * j * j, w * v, w * v * i, w * v * j};
#pragma unroll
            for (int k = 0; k < Sums::COUNT; ++k) sums[k] += terms[k];
        }
#pragma unroll
        for (int k = 0; k < Sums::COUNT; ++k) sums[k] = sum_of_warp(sums[k]);
        inliers = sums[0];
        if (inliers == 0) return;
        plane = solve({sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7],
                       sums[8]});
    }
    if (2 * inliers < total) return;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        if (between[lower] == KEPT) continue;
        const int row = y + lower * CELL / 2;
        const int slant = plane.a * (x - left - CELL / 2) + plane.b * (row - top - CELL / 2);
        const int of_step = slant >= 0 ? slant / STEP : -((STEP - 1 - slant) / STEP);
        const int value = min(max((of_step + plane.c + 2048) >> 12, 0), filling.most);
        if (10 * inliers >= 8 * total
            || (between[lower] >= 0 && abs(between[lower] - value) <= 32))
            filling.filled[row * f.width + x] = short(value);
    }
}
