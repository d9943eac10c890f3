// Part of stage refine: the band that the other image does not see, left of the first valid pixel
// of a row, gets a plane through the valid pixels beside it.
#include "frame/refine.cuh"

// Widest band, and the window of a plane: rows above and below, columns.
constexpr int BAND = 159, ROWS = 10, COLUMNS = 128;
constexpr int WARPS = COLUMNS / 32;

// Largest residuals of the rounds of least squares, sixteenths.
constexpr int ROUNDS = 4, RESIDUALS[ROUNDS] = {96, 48, 24, 24}, MIN_INLIERS = 60;

// In 4096ths of a sixteenth: v = a u + b t + c, u columns and t rows from the first valid pixel.
constexpr int MIN_A = -32768, MAX_A = 6554, MAX_B = 1 << 18, MAX_C = 1 << 26;
struct Plane {
    int a, b, c;
};

// Sums over pixels of a window.
struct Sums {
    static constexpr int COUNT = 9;
    int n, u, t, uu, ut, tt, v, uv, tv;
};

DEVICE int quotient(long long part, long long whole, int least, int most) {
    const double found = floor(__dadd_rn(__dmul_rn(4096.0, __ddiv_rn(double(part), double(whole))),
                                         0.5));
    return int(fmin(fmax(found, double(least)), double(most)));
}

// Least squares by Cramer's rule; false = there is no plane. No determinant reaches 2^61.
DEVICE bool solve(const Sums& s, Plane& plane) {
    const long long n = s.n, u = s.u, t = s.t, uu = s.uu, ut = s.ut, tt = s.tt, v = s.v,
                    uv = s.uv, tv = s.tv;
    const long long minor = tt * n - t * t, with_v = tv * n - t * v;
    const long long whole = uu * minor - ut * (ut * n - t * u) + u * (ut * t - tt * u);
    if (n < MIN_INLIERS || whole <= 0) return false;
    plane.a = quotient(uv * minor - ut * with_v + u * (tv * t - tt * v), whole, MIN_A, MAX_A);
    plane.b = quotient(uu * with_v - uv * (ut * n - t * u) + u * (ut * v - tv * u), whole,
                       -MAX_B, MAX_B);
    plane.c = quotient(uu * (tt * v - tv * t) - ut * (ut * v - tv * u) + uv * (ut * t - tt * u),
                       whole, -MAX_C, MAX_C);
    return true;
}

// The lower median of the block's values that are not below 0, by bisection.
DEVICE int lower_median(int value) {
    const int count = __syncthreads_count(value >= 0);
    int least = 0, most = (1 << 15) - 1;
    while (least < most) {
        const int middle = (least + most) / 2;
        if (2 * __syncthreads_count(value >= 0 && value <= middle) >= count) most = middle;
        else least = middle + 1;
    }
    return least;
}

// A block for each row, a thread for each column of the window.
__global__ void __launch_bounds__(COLUMNS) fill_bands(const __grid_constant__ Filling filling) {
    __shared__ int first;
    __shared__ bool is_found;
    __shared__ Plane found;
    __shared__ int parts[WARPS][Sums::COUNT];
    const Frame& f = filling.frame;
    const int y = blockIdx.x, u = threadIdx.x;
    if (y < f.y_begin || y >= f.y_end) return;
    if (u == 0) first = f.x_end;
    __syncthreads();
    for (int x = f.x_begin + u; x < min(f.x_end, f.x_begin + BAND + 1); x += COLUMNS)
        if (f.filtered[y * f.width + x] >= 0) atomicMin(&first, x);
    __syncthreads();
    if (first == f.x_begin || first == f.x_end) return;

    short values[2 * ROWS + 1];
    int points = 0;
#pragma unroll
    for (int i = 0; i <= 2 * ROWS; ++i) {
        const int row = y + i - ROWS;
        const bool exists = row >= f.y_begin && row < f.y_end && first + u < f.x_end;
        values[i] = exists ? f.filtered[row * f.width + first + u] : INVALID;
        points += values[i] >= 0;
    }
    Plane plane = {0, 0, lower_median(values[ROWS]) << 12};
    int inliers = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        int n = 0, t_sum = 0, tt = 0, v = 0, tv = 0;
#pragma unroll
        for (int i = 0; i <= 2 * ROWS; ++i) {
            const int t = i - ROWS, value = values[i];
            const int error = value * 4096 - (plane.a * u + plane.b * t + plane.c);
            if (value < 0 || abs(error) >= RESIDUALS[round] << 12) continue;
            n += 1;
            t_sum += t;
            tt += t * t;
            v += value;
            tv += t * value;
        }
        inliers = n;
        const int sums[Sums::COUNT] = {n, u * n, t_sum, u * u * n, u * t_sum, tt, v, u * v, tv};
#pragma unroll
        for (int j = 0; j < Sums::COUNT; ++j) {
            int sum = sums[j];
            for (int distance = 16; distance > 0; distance /= 2)
                sum += __shfl_xor_sync(~0u, sum, distance);
            if (u % 32 == 0) parts[u / 32][j] = sum;
        }
        __syncthreads();
        if (u == 0) {
            for (int warp = 1; warp < WARPS; ++warp)
                for (int j = 0; j < Sums::COUNT; ++j) parts[0][j] += parts[warp][j];
            const int* const s = parts[0];
            is_found = solve({s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]}, found);
        }
        __syncthreads();
        if (!is_found) return;
        plane = found;
    }
    // At least half of the pixels; a block has at most 2688.
    int excess = 2 * inliers - points;
    for (int distance = 16; distance > 0; distance /= 2)
        excess += __shfl_xor_sync(~0u, excess, distance);
    if (u % 32 == 0) parts[u / 32][0] = excess;
    __syncthreads();
    excess = 0;
    for (int warp = 0; warp < WARPS; ++warp) excess += parts[warp][0];
    if (excess < 0) return;
    for (int x = f.x_begin + u; x < first; x += COLUMNS) {
        const int value = (plane.a * (x - first) + plane.c + 2048) >> 12;
        filling.filled[y * f.width + x] = short(min(max(value, 0), filling.most));
    }
}
